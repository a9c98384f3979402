"""Edits of a ledger's database behind its back, and who sees each."""

from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import Connection, text

from privacy.ledger import books
from privacy.ledger.journal.notes import TreeHead
from privacy.ledger.journal.signing import key_id
from privacy.ledger.store import schema
from tests.privacy.ledger.forged_entries import charge_again
from tests.privacy.ledger.ledgers import SIGNER, Place
from tests.privacy.ledger.tampering import (
    FIRST,
    GATE_FAILED,
    KEY,
    SECOND,
    SIZE,
    chained,
    journal_rows,
    rewrite,
    root_at,
    says,
    unguard,
    unguarded,
    with_entry,
)

RUN, HISTORY, VERIFY = "run", "history", "verify"
Act = Callable[[Place], None]


@dataclass(frozen=True)
class Edit:
    """An edit of the database.

    Args:
        name: what is done, as the manual says it.
        act: does it.
        seen: who sees it: `run`, `history`, `verify`; empty where only a witness can.
        tried: the run that is tried afterwards; a new one without it.
        store: whether the release store still has the versions that were published.
    """

    name: str
    act: Act
    seen: frozenset[str]
    tried: str = "run-5"
    store: bool = True


def sql(*statements: str) -> Act:
    """Run statements by hand, past the triggers, which are put back."""

    def act(place: Place) -> None:
        with unguarded(place) as connection:
            for statement in statements:
                connection.exec_driver_sql(statement)

    return act


def edit(name: str, act: Act | str, seen: str = "run history", **more: object) -> Edit:
    return Edit(name, sql(act) if isinstance(act, str) else act, frozenset(seen.split()), **more)  # type: ignore[arg-type]


def of(run: str, change: str, table: str = "charges") -> str:
    return f"UPDATE {table} SET {change} WHERE run_key = '{run}'"


def forget_workspace(place: Place) -> None:
    """Bring the private folder back to what it was: it has seen nothing of the journal."""
    books.forget_marks(place.folder / "draws")


def closed_and_opened(place: Place) -> None:
    place.open().close_account("people-2024")
    place.execute("UPDATE accounts SET status = 'open'")


def free_charge(place: Place) -> None:
    """A charge that no entry reserves, under the key of the run that comes next."""
    kept = "release, spec_digest, population, begins, ends"
    asked = "replace(request, 'run-4', 'run-5')"
    sql(
        f"INSERT INTO charges (run_key, number, {kept}, request, status) "
        f"SELECT 'run-5', 99, {kept}, {asked}, 'reserved' FROM charges WHERE run_key = 'run-4'",
        "INSERT INTO charge_parts VALUES ('run-5', 'people-2024', 250000000000)",
    )(place)


def body_of(number: int, **changed: object) -> Act:
    def act(place: Place) -> None:
        body = says(journal_rows(place)[number], **changed)["body"]
        with unguarded(place) as connection:
            connection.execute(schema.journal.update().where(schema.journal.c.sequence == number).values(body=body))

    return act


RAISED = "UPDATE accounts SET cap = {0}, terms = replace(terms, '3000000000000', '{0}')".format(9 * 10**12)
UNCHARGED = (
    "DELETE FROM charge_parts WHERE run_key = 'run-4'",
    "DELETE FROM charges WHERE run_key = 'run-4'",
    "UPDATE accounts SET spent = spent - 250000000000",
)


def tail_cut(place: Place) -> None:
    """The last charge was never made."""
    rewrite(place, lambda rows: rows[: SIZE - 1], *UNCHARGED)


def tail_replaced(place: Place) -> None:
    """Another entry stands in the last charge's place, well chained."""
    gate = {"kind": "gate_failed", "subject": "people-2024", "body": GATE_FAILED}
    rewrite(place, lambda rows: chained([*rows[: SIZE - 1], {**rows[-1], **gate}]), *UNCHARGED)


def past_rewritten(place: Place) -> None:
    """Another cap was opened, and all that needs no key is fitted to it; checkpoints name another key."""
    change = with_entry(1, lambda row: says(row, cap=9 * 10**12, epsilon=9 * 10**12))
    rows = rewrite(place, lambda rows: chained(change(rows)), RAISED)
    with unguarded(place) as connection:
        for size in (FIRST, SECOND):
            made = f"root = '{root_at(rows, size)}', key_id = 'another'"
            connection.execute(text(f"UPDATE checkpoints SET {made} WHERE size = {size}"))


def past_signed(place: Place) -> None:
    """The past is rewritten by somebody who holds the key and the workspace: all is signed anew."""
    past_rewritten(place)
    forget_workspace(place)
    rows = journal_rows(place)
    with unguarded(place) as connection:
        for row in connection.execute(schema.checkpoints.select()).all():
            head = TreeHead(SIGNER.verifier.name, row.size, root_at(rows, row.size))
            signed = {"note": SIGNER.note(head.text).to_bytes().decode(), "key_id": KEY_ID}
            connection.execute(
                schema.checkpoints.update().where(schema.checkpoints.c.size == row.size).values(**signed)
            )


def removed(number: int) -> Act:
    return lambda place: (rewrite(place, lambda rows: chained([*rows[:number], *rows[number + 1 :]])), None)[1]


def last_charge_rolled_back(place: Place) -> None:
    """An older copy of the database, from before the last charge: nothing was published since."""
    older(place, SIZE - 1, UNCHARGED)


def publication_rolled_back(place: Place) -> None:
    """An older copy of the database, from before the last publication."""
    older(
        place,
        SECOND - 3,
        (
            *UNCHARGED,
            "DELETE FROM checkpoints WHERE size = 12",
            "DELETE FROM versions WHERE run_key = 'run-3'",
            "DELETE FROM charge_parts WHERE run_key = 'run-3'",
            "DELETE FROM charges WHERE run_key = 'run-3'",
            "UPDATE accounts SET spent = spent - 250000000000",
        ),
    )


def older(place: Place, size: int, statements: tuple[str, ...]) -> None:
    rewrite(place, lambda rows: rows[:size], *statements)


def with_workspace(act: Act) -> Act:
    def both(place: Place) -> None:
        act(place)
        forget_workspace(place)

    return both


def another_ledger(place: Place) -> None:
    """Another identity: the whole journal chained anew on another beginning."""
    rewrite(place, lambda rows: chained(with_entry(0, lambda row: says(row, id="0" * 32))(rows)))
    with unguarded(place) as connection:
        connection.execute(schema.checkpoints.delete())


def triggers_dropped(place: Place) -> None:
    with place.by_hand() as connection:
        unguard(connection)


def trigger_hollowed(place: Place) -> None:
    with place.by_hand() as connection:
        if place.kind == "sqlite":
            connection.execute(text("DROP TRIGGER journal_refuses_DELETE"))
            connection.execute(
                text("CREATE TRIGGER journal_refuses_DELETE BEFORE DELETE ON journal BEGIN SELECT 1; END")
            )
        else:
            connection.execute(text("ALTER TABLE journal DISABLE TRIGGER journal_refuses_DELETE"))


def unique_dropped(place: Place) -> None:
    with place.by_hand() as connection:
        if place.kind == "postgresql":
            connection.execute(text("ALTER TABLE journal DROP CONSTRAINT journal_previous_key"))
        else:
            rebuilt_without(connection, "journal", ", \n\tUNIQUE (previous)")


def rebuilt_without(connection: Connection, table: str, constraint: str) -> None:
    """SQLite drops no constraint, but who writes its schema table does."""
    made = str(connection.execute(text(f"SELECT sql FROM sqlite_master WHERE name = '{table}'")).scalar())
    assert constraint in made
    connection.execute(text("PRAGMA writable_schema = ON"))
    connection.execute(
        text("UPDATE sqlite_master SET sql = :sql WHERE name = :name AND type = 'table'"),
        {"sql": made.replace(constraint, ""), "name": table},
    )
    connection.execute(
        text("DELETE FROM sqlite_master WHERE type = 'index' AND name LIKE 'sqlite_autoindex_journal%'")
    )
    connection.execute(text("PRAGMA writable_schema = OFF"))


def dated(at: str) -> Act:
    """The last entry is dated otherwise, and chained anew: no checkpoint has seen it."""

    def act(place: Place) -> None:
        rewrite(place, lambda rows: chained([*rows[:-1], {**rows[-1], "at": at}]))
        forget_workspace(place)

    return act


KEY_ID = key_id(KEY)
EDITS = (
    # balances and terms
    edit("an account's spent set to 0", "UPDATE accounts SET spent = 0"),
    edit("an account's cap raised", "UPDATE accounts SET cap = cap * 2"),
    edit("its cap raised, in its terms too", RAISED),
    edit("its relation changed", "UPDATE accounts SET terms = replace(terms, 'add_remove', 'replace_one')"),
    edit("its calculus changed", 'UPDATE accounts SET terms = replace(terms, \'"pure"\', \'"renyi","order":"9"\')'),
    edit("its days moved", "UPDATE accounts SET begins = begins + 400, ends = ends + 400"),
    edit("its population renamed", "UPDATE accounts SET population = 'firms'"),
    edit("an open account closed", "UPDATE accounts SET status = 'closed'"),
    edit("a closed account opened", closed_and_opened),
    edit(
        "a second account put beside it",
        "INSERT INTO accounts SELECT 'new', population, begins, ends, terms, cap, 0, status FROM accounts",
    ),
    # sources and populations
    edit("a source bound to another population", "UPDATE sources SET population = 'firms'"),
    edit("a source's days moved", "UPDATE sources SET begins = begins + 1, ends = ends + 1"),
    edit(
        "a source bound by hand",
        "INSERT INTO sources SELECT 'copy', population, block, begins, ends FROM sources",
        tried="copy",
    ),
    edit("an old charge's population changed", of("run-1", "population = 'firms'"), tried="open"),
    # charges and parts
    edit("an opened charge called reserved, to return it", of("run-1", "status = 'reserved'"), tried="return run-1"),
    edit("a returned charge called reserved", of("run-2", "status = 'reserved'"), tried="run-2"),
    edit("a reserved charge called returned", of("run-4", "status = 'returned'"), tried="run-4"),
    edit("a charge put in by hand", free_charge),
    edit("a charge's request changed", of("run-1", "request = replace(request, '1/2', '1/9')"), tried="run-1"),
    edit("a charge's noise called seeded", of("run-1", "security = 'seeded'"), tried="run-1"),
    edit("a charge's part lowered", of("run-4", "amount = 1", "charge_parts"), tried="run-4"),
    edit("a charge's part raised", of("run-1", "amount = amount * 2", "charge_parts"), tried="run-1"),
    edit("a charge's part deleted", "DELETE FROM charge_parts WHERE run_key = 'run-1'", tried="run-1"),
    # draws and versions
    edit("a draw deleted, to draw again", "DELETE FROM draws", tried="run-1"),
    edit("a draw's digest changed", of("run-1", f"sha256 = '{'0' * 64}'", "draws"), tried="run-1"),
    edit("a draw's event changed", of("run-1", "event = replace(event, '1/2', '1/9')", "draws"), tried="run-1"),
    edit("a version's status changed", of("run-1", "status = 'withdrawn'", "versions"), "history"),
    edit("a version's manifest changed", of("run-1", f"manifest = '{'0' * 64}'", "versions"), "history"),
    # the journal
    edit("an entry's text changed", body_of(SIZE - 1, epsilon=1)),
    edit("an older entry's text changed", body_of(4, epsilon=1), "history"),
    edit("an entry removed, all chained anew", removed(4)),
    edit("the tail cut off", tail_cut),
    edit("the tail replaced by another", tail_replaced),
    edit("a lawless charge appended", lambda place: (charge_again(place, "run-9", 1), None)[1], "history"),
    edit("an entry dated years back", dated("2019-01-01T00:00:00Z"), "history"),
    edit("the journal's head changed", "UPDATE journal_head SET size = size - 1"),
    edit("the head's frontier changed", "UPDATE journal_head SET frontier = '[]'"),
    edit("a Merkle subtree changed", f"UPDATE journal SET subtrees = '{'0' * 64}' WHERE sequence = 3"),
    edit("the past rewritten", past_rewritten),
    # checkpoints and statements
    edit("the last checkpoint deleted", "DELETE FROM checkpoints WHERE size = 12", "history"),
    edit("all checkpoints deleted", "DELETE FROM checkpoints", "history verify"),
    edit("a checkpoint's root changed", f"UPDATE checkpoints SET root = '{'0' * 64}'"),
    edit("a stated balance changed", "UPDATE statements SET balances = replace(balances, ',1250000000000,', ',1,')"),
    edit("the statement of balances deleted (harmless)", "DELETE FROM statements", ""),
    # the database's own rules
    edit("the triggers dropped", triggers_dropped, "history"),
    edit("a trigger that does nothing", trigger_hollowed, "history"),
    edit("a unique constraint dropped", unique_dropped, "history"),
    edit("an index dropped", "DROP INDEX ix_journal_kind", "history"),
    # whole copies
    edit("the database rolled back, nothing published since", last_charge_rolled_back),
    edit("the database rolled back past a publication", publication_rolled_back),
    edit("database and workspace rolled back past a publication", with_workspace(publication_rolled_back), "history"),
    edit("database and workspace rolled back, nothing published since", with_workspace(last_charge_rolled_back), ""),
    edit("another ledger in its place", another_ledger, "history verify"),
    edit("the past rewritten, by who holds key and workspace", past_signed, "history verify"),
    edit("key, workspace and release store: all of it rewritten", past_signed, "", store=False),
)
