"""federation.html: the account of a federation for people; one self-contained page without script.

All that it says comes from federation.json, which is signed and holds the page's checksum. The check renders it
again where the very code that rendered it runs. In any case it compares the page's main numbers (`<data>`), as values
and as they are shown; of a page that other code made nothing else is compared, and the check says so.
"""

from __future__ import annotations

import hashlib
import html
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any, Final

from markupsafe import Markup

from contracts.canonical import canonical_json
from privacy.accounting.amounts import atto_to_text
from privacy.accounting.posterior import exceptions
from tasks.federation.federation_words import UNPROTECTED
from tasks.records.page import words
from tasks.records.page.page import FOLDER, environment
from tasks.records.page.style import style
from tasks.records.software import software

PAGE: Final = "federation.html"
TEMPLATE: Final = "federation.html.j2"
_NUMBERS: Final = re.compile(r'<data value="([^"<>]{1,80})">([^<>]{1,80})</data>')
_NUMBER: Final = re.compile(r"<\s*/?\s*data\b", re.IGNORECASE)
FederationStatement = Mapping[str, Any]


@dataclass(frozen=True)
class PagePart:
    """What a site had of the rounds.

    Args:
        name: of the site.
        rows_about: as it is declared.
        taken: in how many rounds it is.
        missing: the rounds without it, in words; empty where there are none.
        strip: a picture of them.
        fingerprint: of its key; empty where sites have none.
    """

    name: str
    rows_about: int
    taken: int
    missing: str
    strip: Markup
    fingerprint: str


def render_federation(account: FederationStatement) -> bytes:
    """Render the account as a page; the same account gives the same bytes.

    Args:
        account: as federation.json holds it; what it says of the page itself is not looked at.
    Returns:
        bytes: HTML; every text is escaped.
    """
    account = json.loads(canonical_json(account))
    trust, guarantee = account["trust"], account["guarantee"]
    unprotected = [said.removeprefix(UNPROTECTED) for said in trust if said.startswith(UNPROTECTED)]
    page: str = (
        environment()
        .get_template(TEMPLATE)
        .render(
            account=account,
            guarantee=guarantee,
            beliefs=words.beliefs(guarantee["epsilon_person"], guarantee["delta"]),
            exceptions=_exceptions(guarantee),
            parts=_parts(account),
            trusted=[said for said in trust if not said.startswith(UNPROTECTED)],
            unprotected=unprotected,
            numbers=_numbers(account),
            at_most=words.at_most,
            lost=partial(words.brief, up=True),
            product=_product(account["spec"]["says"]),
            events=charged(account),
            sums=[name for name in account["files"] if name.endswith(".npy")],
            style=style(FOLDER / "record.css", FOLDER / "federation.css"),
        )
    )
    return page.encode()


def page_statement(account: FederationStatement) -> dict[str, str]:
    """Return what federation.json says of its page."""
    return {"sha256": hashlib.sha256(render_federation(account)).hexdigest(), "code": software().code}


def page_errors(account: FederationStatement, held: bytes) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with a page: found, and allowed."""
    stated = account["page"]
    if hashlib.sha256(held).hexdigest() != stated["sha256"]:
        yield "other bytes", "those that federation.json names"
    elif _numbers_of(held) != list(zip(_numbers(account), _shown(account), strict=True)):
        yield "other numbers", "those of federation.json, as values and as shown"
    elif stated["code"] == software().code and held != render_federation(account):
        yield "other bytes", "byte for byte what this code makes of federation.json"


def page_outcome(account: FederationStatement, held: bytes) -> str:
    """Say how far a page without errors was compared."""
    if held == render_federation(account):
        return "page: byte for byte what this code makes of federation.json"
    return "page: made by other code, main numbers compared, words not"


def charged(account: FederationStatement) -> list[dict[str, Any]]:
    """Return the events that were charged, each with how often."""
    cost = account["cost"]
    return list(cost["events"]) if "events" in cost else [cost]


def _numbers(account: FederationStatement) -> list[str]:
    """Return the main numbers, in the order of the page."""
    guarantee = account["guarantee"]
    loss = [guarantee["epsilon_person"], guarantee["delta"], guarantee["epsilon_record"]]
    return [*map(str, loss), str(len(account["rounds"])), str(account["cost"]["lost_attempts"])]


def _shown(account: FederationStatement) -> list[str]:
    """Return the main numbers as the page shows them: losses rounded up, the rest as it is."""
    person, delta, record, *counts = _numbers(account)
    return [words.at_most(person), delta, words.at_most(record), *counts]


def _numbers_of(held: bytes) -> list[tuple[str, str]] | None:
    """Return the main numbers of a page, each as a value and as shown; None where one is written otherwise."""
    page = held.decode("utf-8", "replace")
    found = [(html.unescape(value), html.unescape(shown)) for value, shown in _NUMBERS.findall(page)]
    return found if len(_NUMBER.findall(page)) == 2 * len(found) else None


def _exceptions(guarantee: FederationStatement) -> str:
    """Return the probability of the releases after which beliefs may move further."""
    epsilon = int(Decimal(guarantee["epsilon_person"]).scaleb(12))
    return atto_to_text(exceptions(epsilon, int(Decimal(guarantee["delta"]).scaleb(18))))


def _product(says: Mapping[str, Any]) -> str:
    """Say in a few words what was made across the sites."""
    if says.get("tables"):
        number = len(says["tables"]["cliques"])
        return "a table of counts" if number == 1 else f"{number} tables of counts"
    if says.get("generator"):
        return f"synthetic rows by {says['generator']['name']}"
    return f"a classifier of {says['learner']['label']}"


def _parts(account: FederationStatement) -> list[PagePart]:
    present = [each["present"] for each in account["rounds"]]
    return [
        PagePart(
            member["name"],
            member["rows_about"],
            sum(here[place] for here in present),
            _ranges([number for number, here in enumerate(present, 1) if not here[place]]),
            _strip([here[place] for here in present]),
            _fingerprint(member.get("key")),
        )
        for place, member in enumerate(account["spec"]["says"]["sites"])
    ]


def _runs(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Return first and last of each run of whole numbers."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs


def _ranges(numbers: Sequence[int]) -> str:
    """Write whole numbers as ranges: 2, 5–9."""
    return ", ".join(str(first) if first == last else f"{first}–{last}" for first, last in _runs(numbers))


def _strip(present: Sequence[bool]) -> Markup:
    """Draw the rounds from left to right: filled where the site is in the sum."""
    drawn = "".join(
        f'<rect x="{first - 1}" y="0" width="{last - first + 1}" height="1"/>'
        for first, last in _runs([number for number, here in enumerate(present, 1) if here])
    )
    shape = f'viewBox="0 0 {max(1, len(present))} 1" preserveAspectRatio="none" aria-hidden="true"'
    return Markup(f'<svg class="rounds" {shape}>{drawn}</svg>')


def _fingerprint(key: str | None) -> str:
    """Return the first 16 hex digits of the SHA-256 of a key's text."""
    return "" if key is None else hashlib.sha256(key.encode()).hexdigest()[:16]
