"""Pages out of templates, in the reader's language. Every text is escaped; there is no script to run.

`t` looks up a text of the site, `say` writes what a record says: sentences of ours in the reader's language, words of
the publisher as they are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import ROUND_CEILING, Context, Decimal
from functools import cache
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from privacy.ledger.entries import KINDS
from privacy.ledger.journal.signing import key_id
from sudare_web.site.asking import Page, Site
from tasks.records.page.first_screen import at_most
from tasks.records.page.language import language, languages

_NAV: Final = (("releases", "/"), ("accounts", "/accounts"), ("journal", "/journal"), ("checkpoints", "/checkpoints"))
_PRODUCTS: Final = ("tables", "statistics", "synthetic", "classifier", "spine")
_STUDIO: Final = ("studio", "/studio")
_SECTIONS: Final = {"accounts": "accounts", "account": "accounts", "journal": "journal", "entry": "journal"} | {
    "checkpoints": "checkpoints",
    **dict.fromkeys(
        ("releases", "release", "version", "record", "tables", "files", "verify", "compare", "place_sums"), "releases"
    ),
}


def render(site: Site, lang: str, page: Page, *, path: str, query: Mapping[str, str], root: str = "") -> str:
    """Render a page.

    Args:
        site: the site.
        lang: the reader's language.
        page: what to tell.
        path, query: the address, for the links to the other language.
        root: the path that the site stands below, without a slash at its end.
    """
    words = language(lang)
    drawn: str = (
        _environment()
        .get_template(f"{page.template}.html.j2")
        .render(
            p=page.payload,
            drawn=page.drawn,
            page=page,
            t=words.text,
            tn=words.texts,
            say=words.say,
            lang=lang,
            languages=[(code, language(code).name) for code in languages()],
            root=root,
            link=lambda path, **query: link(f"{root}{path}", **query),
            in_language=lambda code: link(path, **{**query, "lang": code}),
            nav=(*_NAV, _STUDIO) if site.in_studio else _NAV,
            section=_SECTIONS.get(page.template),
            key_id=key_id(site.public_key),
            ledger_id=site.ledger_id,
        )
    )
    return drawn


def link(path: str, **query: object) -> str:
    """Return an address; what is empty is left out."""
    told = {key: value for key, value in query.items() if value not in (None, "")}
    return f"{path}?{urlencode(told)}" if told else path


def template_environment(folder: Path) -> Environment:
    """Return what draws a folder's templates: every text is escaped, and a name that is not there is an error."""
    return Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


@cache
def _environment() -> Environment:
    environment = template_environment(Path(__file__).parent / "templates")
    environment.filters |= {
        "thousands": _thousands,
        "signed": lambda value: "–" if value is None else f"{value:+,}".replace("-", "−"),
        "size": _size,
        "day": lambda at: str(at).replace("T", " ").removesuffix("Z")[:16],
        "clock": lambda at: f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M} UTC",
        "amount": _amount,
        "amount_up": _amount_up,
        "at_most": _at_most,
        "json": lambda value: json.dumps(value, ensure_ascii=False),
    }
    environment.globals |= {"known_kind": lambda kind: kind in KINDS, "known_product": lambda kind: kind in _PRODUCTS}
    return environment


def _thousands(value: float | None) -> str:
    return "–" if value is None else f"{value:,}".replace("-", "−")


def _size(size: int) -> str:
    """Write a number of bytes briefly."""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size} B"


def _amount_up(text: str) -> str:
    """Write a loss in four digits, rounded up; the API has all of them."""
    return format(Context(prec=4, rounding=ROUND_CEILING).plus(Decimal(text)).normalize(), "f")


def _at_most(text: str) -> str:
    """Write a loss as the record does, "= 1" or "≤ 1"; a forged record's may be no number."""
    try:
        return at_most(text)
    except ArithmeticError:
        return text


def _amount(text: str) -> str:
    """Cut an exact decimal text to six places behind the point, downwards; the API has all of it."""
    whole, point, places = text.partition(".")
    return f"{whole}{point}{places[:6]}".rstrip("0").rstrip(".") if point else text
