"""Complete forgeries of a grown ledger: entries that it never writes, well chained, with tables that fit them.

Each takes the ledger of `tampering.grow` (run-1 and run-3 published, run-2 returned, run-4 reserved), and returns
where it must be found.
"""

import json
from typing import Any, Final

from privacy.accounting.amounts import PICO
from privacy.grant.grant import open_grant
from privacy.ledger.entries import OPEN
from privacy.ledger.ledger import Ledger
from tests.privacy.ledger.ledgers import Place, bind, terms
from tests.privacy.ledger.tampering import chained, journal_rows, rewrite, says, with_entry

Body = dict[str, Any]
EIGHTH, QUARTER = PICO // 8, PICO // 4
SPENT: Final = 3 * PICO // 2


def body_of(place: Place, number: int, **changed: object) -> Body:
    return {**json.loads(journal_rows(place)[number]["body"]), **changed}


def append(place: Place, kind: str, subject: str, body: Body, *also: str) -> str:
    """Append a well-chained entry behind the ledger's back, and fit the tables; return where it stands."""
    body = body if kind in OPEN else {"salt": "0" * 64, **body}
    more = {"kind": kind, "subject": subject, "body": json.dumps(body, sort_keys=True)}
    rows = rewrite(place, lambda rows: chained([*rows, {**rows[-1], **more}]), *also)
    return f"journal entry {len(rows) - 1}"


def part_of(amount: int, **changed: int) -> Body:
    told = {"amount": amount, "before": SPENT, "after": SPENT + amount, "returnable": QUARTER}
    return {"account": "people-2024", **told, **changed}


def charge_again(place: Place, run_key: str, amount: int, **changed: object) -> str:
    """Append a charge like run-4's, of another amount, from people-2024."""
    number = len(journal_rows(place))
    kept = "release, spec_digest, population, begins, ends"
    asked = f"replace(request, 'run-4', '{run_key}')"
    return append(
        place,
        "charge_reserved",
        run_key,
        body_of(place, 12, run_key=run_key, parts=[part_of(amount)], **changed),
        f"INSERT INTO charges (run_key, number, {kept}, request, status) "
        f"SELECT '{run_key}', {number}, {kept}, {asked}, 'reserved' FROM charges WHERE run_key = 'run-4'",
        f"INSERT INTO charge_parts VALUES ('{run_key}', 'people-2024', {amount})",
        f"UPDATE accounts SET spent = spent + {amount} WHERE name = 'people-2024'",
    )


def draw(place: Place, run_key: str, event: Body, costs: dict[str, int], number: int = 0) -> str:
    body = {"run_key": run_key, "key": f"k{number}", "number": number, "sha256": "0" * 64, "event": event}
    values = f"'{run_key}', 'k{number}', {number}, '{json.dumps(event, sort_keys=True)}', '{'0' * 64}'"
    row = f"INSERT INTO draws (run_key, key, number, event, sha256) VALUES ({values})"
    return append(place, "noise_drawn", run_key, {**body, "costs": costs}, row)


def laplace_event(scale: str) -> Body:
    return {"kind": "discrete_laplace", "inverse_scale": scale, "moves": [1]}


def opened_again(place: Place, ledger: Ledger) -> str:
    """A second opening of the name, with three times the cap; nothing is spent any more."""
    body = body_of(place, 1, cap=9 * PICO, epsilon=9 * PICO)
    mended = f"UPDATE accounts SET spent = 0, cap = {9 * PICO}, terms = replace(terms, '{3 * PICO}', '{9 * PICO}')"
    return append(place, "account_opened", "people-2024", body, mended)


def opened_beside(place: Place, ledger: Ledger) -> str:
    """A second account of the same people on the same days."""
    return open_account(place, "second", "2024")


def opened_wide(place: Place, ledger: Ledger) -> str:
    """An account whose cap is above its epsilon."""
    return open_account(place, "next", "2025", cap=4 * PICO)


def opened_for_others(place: Place, ledger: Ledger) -> str:
    open_account(place, "people-2024-Q4", "2024-Q4", unit="person_id", spent=SPENT)
    parts = inherited(run_1=PICO, run_3=QUARTER, run_4=QUARTER)
    take_over(place, "people-2024-Q4", parts)
    return "journal entry 13"


def opened_anew(place: Place, ledger: Ledger) -> str:
    """An account that does not know what its people lost."""
    return open_account(place, "people-lifetime", "lifetime")


def opened_without_its_past(place: Place, ledger: Ledger) -> str:
    """An account that says what was lost, and the entry that tells it is missing, so nothing is spent."""
    open_account(place, "people-lifetime", "lifetime", spent=SPENT)
    return "the journal"


def inherits_less(place: Place, ledger: Ledger) -> str:
    open_account(place, "people-lifetime", "lifetime", spent=SPENT - PICO)
    return take_over(place, "people-lifetime", inherited(run_3=QUARTER, run_4=QUARTER))


def inherits_cheaply(place: Place, ledger: Ledger) -> str:
    open_account(place, "people-lifetime", "lifetime", spent=3 * QUARTER)
    return take_over(place, "people-lifetime", inherited(run_1=QUARTER, run_3=QUARTER, run_4=QUARTER))


def inherited(**amounts: int) -> list[Body]:
    return [{"run_key": name.replace("_", "-"), "amount": amount} for name, amount in amounts.items()]


def take_over(place: Place, account: str, parts: list[Body]) -> str:
    rows = ", ".join(f"('{part['run_key']}', '{account}', {part['amount']})" for part in parts)
    total = sum(int(str(part["amount"])) for part in parts)
    return append(
        place,
        "charges_inherited",
        account,
        {"account": account, "parts": parts},
        f"INSERT INTO charge_parts VALUES {rows}",
        f"UPDATE accounts SET spent = {total} WHERE name = '{account}'",
    )


def open_account(
    place: Place, name: str, block: str, *, cap: int = 3 * PICO, spent: int = 0, unit: str = "row"
) -> str:
    made = terms(block=block, name=name, unit=unit)
    text = json.dumps(made.to_json(), sort_keys=True, separators=(",", ":"))
    values = f"'{name}', 'people', {made.days.begins}, {made.days.ends}, '{text}', {cap}, 0, 'open'"
    columns = "name, population, begins, ends, terms, cap, spent, status"
    return append(
        place,
        "account_opened",
        name,
        {**made.to_json(), "cap": cap, "spent": spent},
        f"INSERT INTO accounts ({columns}) VALUES ({values})",
    )


def returned_late(place: Place, ledger: Ledger) -> str:
    """The charge of a run that was opened and published is given back."""
    body: Body = {"run_key": "run-1", "parts": [{"account": "people-2024", "amount": PICO}]}
    mended = (
        "UPDATE charges SET status = 'returned' WHERE run_key = 'run-1'",
        f"UPDATE accounts SET spent = {PICO // 2}",
    )
    return append(place, "charge_returned", "run-1", body, *mended)


def negative(place: Place, ledger: Ledger) -> str:
    return charge_again(place, "run-5", -PICO)


def another_release(place: Place, ledger: Ledger) -> str:
    """The key of a returned charge stands for another release."""
    asked = "replace(request, 'people-tables', 'other')"
    return append(
        place,
        "charge_reserved",
        "run-2",
        body_of(place, 7, release="other", parts=[part_of(QUARTER)]),
        f"UPDATE charges SET status = 'reserved', release = 'other', request = {asked} WHERE run_key = 'run-2'",
        f"UPDATE accounts SET spent = spent + {QUARTER}",
    )


def told_of_run_5(place: Place, **changed: int) -> str:
    where, parts = charge_again(place, "run-5", QUARTER), [part_of(QUARTER, **changed)]
    rewrite(place, lambda rows: chained(with_entry(13, lambda row: says(row, parts=parts))(rows)))
    return where


def told_otherwise(place: Place, ledger: Ledger) -> str:
    """A charge that says that less was spent before it."""
    return told_of_run_5(place, before=0, after=QUARTER)


def account_twice(place: Place, ledger: Ledger) -> str:
    """A charge that gives back before it takes: each part fits what was spent, and the last one looks proper."""
    where = charge_again(place, "run-5", QUARTER)
    parts = [part_of(-PICO), part_of(QUARTER, before=SPENT - PICO, after=SPENT - PICO + QUARTER)]
    less = f"UPDATE accounts SET spent = spent - {PICO}"
    rewrite(place, lambda rows: chained(with_entry(13, lambda row: says(row, parts=parts))(rows)), less)
    return where


def inherited_twice(place: Place, ledger: Ledger) -> str:
    open_account(place, "people-lifetime", "lifetime", spent=SPENT)
    parts = [*inherited(run_1=QUARTER), *inherited(run_1=PICO, run_3=QUARTER, run_4=QUARTER)]
    body = {"account": "people-lifetime", "parts": parts}
    return append(place, "charges_inherited", "people-lifetime", body)


def charged_to_nobody(place: Place, ledger: Ledger) -> str:
    where = charge_again(place, "run-5", QUARTER)
    parts = [part_of(QUARTER), {**part_of(0, before=0, after=0, returnable=0), "account": "nobody"}]
    rewrite(place, lambda rows: chained(with_entry(13, lambda row: says(row, parts=parts))(rows)))
    return where


def closed_of_nobody(place: Place, ledger: Ledger) -> str:
    return append(place, "account_closed", "nobody", {"name": "nobody", "spent": 0})


def inherited_by_nobody(place: Place, ledger: Ledger) -> str:
    return append(place, "charges_inherited", "nobody", {"account": "nobody", "parts": []})


def kept_under_another_name(place: Place, ledger: Ledger) -> str:
    """The return of run-2 is kept as another run's, so that run-2 looks reserved."""
    rewrite(place, with_entry(8, lambda row: {**row, "subject": "run-77"}))
    return "journal entry 8"


def returned_after_publication(place: Place, ledger: Ledger) -> str:
    """The charge of run-4, which was published though its grant was never opened, is given back."""
    published_unopened(place, ledger)
    body: Body = {"run_key": "run-4", "parts": [{"account": "people-2024", "amount": QUARTER}]}
    return append(place, "charge_returned", "run-4", body)


def nothing_returnable(place: Place, ledger: Ledger) -> str:
    """A charge that says that nothing before it could be given back: run-4's could."""
    return told_of_run_5(place, returnable=0)


def never_planned(place: Place, ledger: Ledger) -> str:
    open_grant(ledger, "run-4")
    return draw(place, "run-4", laplace_event("1/8"), {"people-2024": EIGHTH})


def too_dear(place: Place, ledger: Ledger) -> str:
    open_grant(ledger, "run-4")
    return draw(place, "run-4", laplace_event("1/2"), {"people-2024": PICO // 2})


def too_often(place: Place, ledger: Ledger) -> str:
    open_grant(ledger, "run-4")
    draw(place, "run-4", laplace_event("1/4"), {"people-2024": QUARTER})
    return draw(place, "run-4", laplace_event("1/4"), {"people-2024": QUARTER}, 1)


def too_cheap(place: Place, ledger: Ledger) -> str:
    open_grant(ledger, "run-4")
    return draw(place, "run-4", laplace_event("1/4"), {"people-2024": 1})


def out_of_order(place: Place, ledger: Ledger) -> str:
    open_grant(ledger, "run-4")
    return draw(place, "run-4", laplace_event("1/4"), {"people-2024": QUARTER}, 1)


def never_opened(place: Place, ledger: Ledger) -> str:
    return draw(place, "run-4", laplace_event("1/4"), {"people-2024": QUARTER})


def bound_again(place: Place, ledger: Ledger) -> str:
    """The source is now about other people, who have a budget of their own."""
    bind(ledger, "2024", source="file:more.parquet")
    body: Body = {"source": "file:more.parquet", "population": "firms", "block": "2024", "salt": "0" * 64}
    moved = "UPDATE sources SET population = 'firms' WHERE source = 'file:more.parquet'"
    return append(place, "source_bound", "file:more.parquet", body, moved)


def charged_after_closing(place: Place, ledger: Ledger) -> str:
    ledger.close_account("people-2024")
    return charge_again(place, "run-5", QUARTER)


def closed_twice(place: Place, ledger: Ledger) -> str:
    ledger.close_account("people-2024")
    return append(place, "account_closed", "people-2024", {"name": "people-2024", "spent": SPENT})


def one_account_left_out(place: Place, ledger: Ledger) -> str:
    ledger.open_account(terms(block="lifetime"))
    return charge_again(place, "run-5", QUARTER)


def opened_twice(place: Place, ledger: Ledger) -> str:
    open_grant(ledger, "run-4")
    return append(
        place, "grant_opened", "run-4", {"run_key": "run-4", "security": "csprng", "draws_folder": "0" * 32}
    )


def published_with_seeded_noise(place: Place, ledger: Ledger) -> str:
    append(place, "grant_opened", "run-4", {"run_key": "run-4", "security": "seeded", "draws_folder": "0" * 32})
    return publish(place, 2, "UPDATE versions SET status = 'superseded' WHERE run_key = 'run-1'")


def published_unopened(place: Place, ledger: Ledger) -> str:
    where = publish(place, 2, "UPDATE versions SET status = 'superseded' WHERE run_key = 'run-1'")
    place.execute("UPDATE charges SET security = NULL WHERE run_key = 'run-4'")
    return where


def published_over(place: Place, ledger: Ledger) -> str:
    """Another run takes the number of a published version."""
    open_grant(ledger, "run-4")
    where = publish(place, 1, "UPDATE charges SET security = 'csprng' WHERE run_key = 'run-4'")
    place.execute("UPDATE versions SET status = 'superseded' WHERE run_key = 'run-4'")
    return where


def publish(place: Place, number: int, *also: str) -> str:
    body: Body = {"run_key": "run-4", "release": "people-tables", "number": number, "manifest": "f" * 64}
    row = f"'people-tables', {number}, 'run-4', 'published', '{'f' * 64}'"
    return append(
        place,
        "version_published",
        "run-4",
        {**body, "supersedes": 1, "earlier": []},
        "UPDATE charges SET status = 'published', security = 'seeded' WHERE run_key = 'run-4'",
        f"DELETE FROM versions WHERE release = 'people-tables' AND number = {number}",
        f"INSERT INTO versions (release, number, run_key, status, manifest) VALUES ({row})",
        *also,
    )


def withdrawn_unpublished(place: Place, ledger: Ledger) -> str:
    body: Body = {"run_key": "run-4", "release": "people-tables", "number": 2, "reason": "none"}
    row = "INSERT INTO versions (release, number, run_key, status) VALUES ('people-tables', 2, 'run-4', 'withdrawn')"
    return append(place, "version_withdrawn", "run-4", body, row)


def created_again(place: Place, ledger: Ledger) -> str:
    return append(place, "ledger_created", "", {"schema_version": "1", "id": "0" * 32})
