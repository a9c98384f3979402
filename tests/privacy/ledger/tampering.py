"""What somebody may do to a ledger who owns its database, but not its signing key."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from sqlalchemy import Connection, text

from contracts.errors import Finding
from privacy.grant.grant import open_grant
from privacy.grant.queries.marginal import MarginalQuery
from privacy.ledger.entries import GENESIS, Entry
from privacy.ledger.entry_bodies import BODY_KEYS
from privacy.ledger.journal.merkle import appended, root
from privacy.ledger.ledger import Ledger
from privacy.ledger.replay.fold import SignedCheckpoint
from privacy.ledger.store import schema
from tests.privacy.ledger.ledgers import (
    HALF,
    SIGNER,
    Counted,
    Place,
    laplace,
    ledger_with_account,
    published,
    record_publication,
    request,
)

Row = dict[str, Any]
KEY = SIGNER.public_key
SMALL = laplace(0.25)
FIRST, SECOND, SIZE = 7, 12, 13
GATE_FAILED = json.dumps(dict.fromkeys(sorted(BODY_KEYS["gate_failed"]), "people-2024"))
MONEY = (3 * 10**12, 9 * 10**12)


def unguard(connection: Connection) -> None:
    kind = connection.dialect.name
    for table in schema.APPEND_ONLY:
        for action in schema.REFUSED_ACTIONS[kind]:
            where = "" if kind == "sqlite" else f" ON {table}"
            connection.execute(text(f"DROP TRIGGER IF EXISTS {table}_refuses_{action}{where}"))


@contextmanager
def unguarded(place: Place) -> Iterator[Connection]:
    """A transaction without the triggers, of somebody who puts them back afterwards."""
    with place.by_hand() as connection:
        unguard(connection)
        yield connection
        schema.refuse_changes(connection)


def chained(rows: Sequence[Row]) -> list[Row]:
    """Return rows as a whole chain with its Merkle subtrees, as if they had been appended one after the other."""
    frontier: tuple[str, ...] = ()
    previous, made = GENESIS, []
    for sequence, row in enumerate(rows):
        entry = Entry(sequence, previous, row["kind"], row["at"], json.loads(row["body"]))
        frontier, subtrees = appended(frontier, sequence, entry.hash)
        chain = {"sequence": sequence, "previous": previous, "hash": entry.hash, "subtrees": " ".join(subtrees)}
        made.append({**row, **chain})
        previous = entry.hash
    return made


def head_of(rows: Sequence[Row]) -> tuple[int, str, tuple[str, ...]]:
    frontier: tuple[str, ...] = ()
    for size, row in enumerate(rows):
        frontier, _ = appended(frontier, size, row["hash"])
    return len(rows), rows[-1]["hash"], frontier


def root_at(rows: Sequence[Row], size: int) -> str:
    return root(head_of(rows[:size])[2])


def journal_rows(place: Place) -> list[Row]:
    with place.by_hand() as connection:
        query = schema.journal.select().order_by(schema.journal.c.sequence)
        return [dict(row) for row in connection.execute(query).mappings()]


def rewrite(place: Place, change: Callable[[list[Row]], list[Row]], *also: str) -> list[Row]:
    """Put other rows in the journal's place, with a head that fits them; then run other statements. Without the
    signing key, what was stated of balances cannot be fitted; so it is dropped."""
    rows = change(journal_rows(place))
    with unguarded(place) as connection:
        connection.execute(schema.statements.delete())
        connection.execute(schema.journal.delete())
        connection.execute(schema.journal.insert(), rows)
        size, last, frontier = head_of(rows)
        connection.execute(schema.head.update().values(size=size, last=last, frontier=json.dumps(frontier)))
        for statement in also:
            connection.exec_driver_sql(statement)
    return rows


def with_entry(number: int, change: Callable[[Row], Row]) -> Callable[[list[Row]], list[Row]]:
    return lambda rows: [*rows[:number], change(rows[number]), *rows[number + 1 :]]


def inserted(rows: list[Row]) -> list[Row]:
    """A gate's failure before entry 4, as the ledger writes it, well chained itself; those after it only move up."""
    more = {**rows[4], "kind": "gate_failed", "subject": "people-2024", "body": GATE_FAILED}
    made = chained([*rows[:4], more])
    moved = [{**row, "sequence": row["sequence"] + 1} for row in rows[4:]]
    return [*made, {**moved[0], "previous": made[-1]["hash"]}, *moved[1:]]


def told(findings: list[Finding]) -> set[tuple[str, str]]:
    return {(finding.where, finding.field) for finding in findings}


def seen_by(rows: list[Row], size: int, where: str = "people-tables v1") -> SignedCheckpoint:
    """What a version that was published at `size` entries shows."""
    return SignedCheckpoint(where, SIGNER.verifier.name, size, root_at(rows, size))


def says(row: Row, **changed: object) -> Row:
    return {**row, "body": json.dumps({**json.loads(row["body"]), **changed}, sort_keys=True)}


def grow(place: Place) -> Ledger:
    """A ledger with two published versions, a returned charge, a reserved one, and two checkpoints of its own."""
    ledger = ledger_with_account(place)
    ledger.reserve(request("run-1"))
    open_grant(ledger, "run-1").draw(MarginalQuery(Counted(np.zeros(3, np.int64)).handle, HALF), key="a")
    ledger.allocate_version("run-1")
    record_publication(ledger, "run-1", "e" * 64)
    ledger.prove("run-1", SIGNER)
    ledger.reserve(request("run-2", noise=SMALL))
    ledger.return_charge("run-2")
    published(ledger, "run-3", noise=SMALL, release="other")
    ledger.prove("run-3", SIGNER)
    ledger.reserve(request("run-4", noise=SMALL))
    return ledger
