"""The journal, a page at a time: the entries of one kind, release or account, and the proof that one is in it.

What is about an account or a release is found run by run. The newest entries of many runs lie among those of the
runs whose newest entries are newest: so one look-up a run finds which runs matter for a page, however many entries
the others have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Select, func, select, union

from privacy.ledger.entries import Entry
from privacy.ledger.journal.merkle import inclusion_proof
from privacy.ledger.store import schema
from privacy.ledger.store.journal import checked_entry, tree_nodes

_J: Final = schema.journal.c
_FEW_RUNS: Final = 500
_FREQUENT: Final = "noise_drawn"


@dataclass(frozen=True)
class EntryFilter:
    """Which entries are asked for; None asks for all.

    Args:
        kind: what happened.
        release: entries about runs of this release.
        account: entries about this account, and about runs that were charged to it.
        run: entries about this run (or account, or source): their subject.
        without: kinds that are never shown.
    """

    kind: str | None = None
    release: str | None = None
    account: str | None = None
    run: str | None = None
    without: tuple[str, ...] = ()


@dataclass(frozen=True)
class Inclusion:
    """The proof that an entry is in the journal, under the last checkpoint that covers it.

    Args:
        size, root, at, key_id, note: the checkpoint.
        path: the audit path, from the leaf upwards.
    """

    size: int
    root: str
    at: str
    key_id: str
    note: str
    path: tuple[str, ...]


def entries(connection: Connection, search: EntryFilter, *, before: int | None, limit: int) -> tuple[Entry, ...]:
    """Return the newest entries before a sequence number that are asked for, the newest first.

    Raises:
        LedgerCorrupt: an entry's stored hash is not the hash of what it says.
    """
    subjects = _subjects(search)
    if subjects is None:
        query = schema.journal.select().where(*_conditions(search, before, by_subject=search.run is not None))
    elif _scanned(connection, search, subjects):
        query = schema.journal.select().where(*_conditions(search, before), _J.subject.in_(subjects))
    else:
        newest = _newest(connection, search, subjects, before=before, limit=limit)
        conditions = _conditions(search, before, by_subject=True)
        query = schema.journal.select().where(*conditions, _J.subject.in_(newest))
    rows = connection.execute(query.order_by(_J.sequence.desc()).limit(limit))
    return tuple(checked_entry(row) for row in rows)


def entry_at(connection: Connection, sequence: int) -> Entry | None:
    """Return one entry, or None."""
    row = connection.execute(schema.journal.select().where(_J.sequence == sequence)).first()
    return None if row is None else checked_entry(row)


def prove(connection: Connection, sequence: int) -> Inclusion | None:
    """Return the proof that an entry is under the last checkpoint; None while no checkpoint covers it."""
    table = schema.checkpoints
    row = connection.execute(table.select().order_by(table.c.size.desc()).limit(1)).first()
    if row is None or row.size <= sequence:
        return None
    path = inclusion_proof(tree_nodes(connection), sequence, row.size)
    return Inclusion(row.size, row.root, row.at, row.key_id, row.note, path)


def _conditions(search: EntryFilter, before: int | None, *, by_subject: bool = False) -> list[ColumnElement[bool]]:
    """Return what an entry must be; found by its subject, its kind is compared in a way that no index serves."""
    made: list[ColumnElement[bool]] = []
    if before is not None:
        made.append(_J.sequence < before)
    if search.kind is not None:
        made.append((_J.kind.concat("") if by_subject else _J.kind) == search.kind)
    if search.run is not None:
        made.append(_J.subject == search.run)
    if search.without:
        made.append(_J.kind.not_in(search.without))
    return made


def _subjects(search: EntryFilter) -> Select[Any] | None:
    """Return the query for the subjects that are asked about; None for all."""
    charges, parts, accounts = schema.charges.c, schema.parts.c, schema.accounts.c
    asked: list[Select[Any]] = []
    if search.release is not None:
        asked.append(select(charges.run_key.label("subject")).where(charges.release == search.release))
    if search.account is not None:
        runs = select(parts.run_key.label("subject")).where(parts.account == search.account)
        itself = select(accounts.name.label("subject")).where(accounts.name == search.account)
        found = union(runs, itself).subquery()
        asked.append(select(found.c.subject))
    if not asked:
        return None
    first, *others = asked
    inner = first.subquery()
    query = select(inner.c.subject)
    for other in others:
        query = query.where(inner.c.subject.in_(other))
    return query


def _scanned(connection: Connection, search: EntryFilter, subjects: Select[Any]) -> bool:
    """Say whether it is less work to go through all entries of a kind than to look at each subject.

    Of most kinds a run has one entry, among many of the frequent kind: for many subjects the kind's index is shorter.
    """
    if search.kind in (None, _FREQUENT):
        return False
    some = subjects.limit(_FEW_RUNS).subquery()
    return int(connection.execute(select(func.count()).select_from(some)).scalar() or 0) >= _FEW_RUNS


def _newest(
    connection: Connection, search: EntryFilter, subjects: Select[Any], *, before: int | None, limit: int
) -> Sequence[str]:
    """Return the subjects with the newest entries: all that can have one among the newest `limit`."""
    found = subjects.subquery()
    last = select(func.max(_J.sequence)).where(_J.subject == found.c.subject)
    newest = last.where(*_conditions(search, before, by_subject=True)).scalar_subquery().label("newest")
    ranked = select(found.c.subject, newest).order_by(newest.desc().nulls_last()).limit(limit)
    return [row.subject for row in connection.execute(ranked) if row.newest is not None]
