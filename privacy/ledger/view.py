"""A ledger that is only read: what there is to show of versions, accounts and checkpoints, a page at a time.

No answer grows with the ledger: lists come in pages, each found by an index, so that a reader of a journal of a
million entries waits as long as the reader of a new one. Nothing here writes, and nothing waits for those who do.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from sqlalchemy import JSON, BigInteger, ColumnElement, Connection, Row, and_, cast, func, select

from privacy.accounting.events import KeySelection, entered_failures
from privacy.ledger.accounts.version_entries import VISIBLE
from privacy.ledger.store import schema
from privacy.ledger.store.database import Store
from privacy.ledger.store.ledger_rows import find_account, state_of
from privacy.ledger.terms import AccountState, VersionEntry

_V: Final = schema.versions.c


@dataclass(frozen=True)
class ReleaseLine:
    """A release in a list.

    Args:
        release: name of the product.
        versions: how many versions were published.
        newest: the newest of them.
    """

    release: str
    versions: int
    newest: VersionEntry


@dataclass(frozen=True)
class ChargeLine:
    """A charge in a list.

    Args:
        number: its place among all charges.
        run_key: the run.
        release: name of the product.
        status: reserved, opened, published or returned.
        amount: what it took from the account that was asked about [10⁻¹² units of its calculus].
        epsilon: what the release claims [10⁻¹²].
        delta: at this δ [10⁻¹⁸].
        version: the version that the run was published as; None without one.
    """

    number: int
    run_key: str
    release: str
    status: str
    amount: int
    epsilon: int
    delta: int
    version: int | None


@dataclass(frozen=True, order=True)
class Claimed:
    """What runs of a release claim, each by itself.

    Args:
        release: name of the product.
        epsilon: of each run [10⁻¹²].
        delta: of each run [10⁻¹⁸].
        runs: how many runs claim this.
    """

    release: str
    epsilon: int
    delta: int
    runs: int


@dataclass(frozen=True, order=True)
class Spent:
    """What a run took from an account.

    Args:
        entry: sequence number of the entry that reserved it.
        release: name of the product.
        run_key: the run.
        amount: what it took [10⁻¹² units of the account's calculus].
    """

    entry: int
    release: str
    run_key: str
    amount: int


@dataclass(frozen=True)
class CheckpointLine:
    """A signed checkpoint, as the ledger keeps it.

    Args:
        size: number of entries that it covers.
        root: their Merkle root.
        at: when it was signed (ISO 8601, UTC).
        key_id: short name of the key that signed it.
        run_key: the run that it was made for.
        note: the signed note.
    """

    size: int
    root: str
    at: str
    key_id: str
    run_key: str
    note: str


class LedgerView:
    """A ledger that is only read.

    Args:
        url: SQLAlchemy URL of the database.
    Raises:
        LedgerUnavailable: there is no ledger there, or it does not answer.
        SchemaUnknown: it has another schema.
    """

    def __init__(self, url: str) -> None:
        self._store = Store(url, create=False)

    def close(self) -> None:
        """Close the database."""
        self._store.close()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Open a transaction that reads one committed state."""
        with self._store.reading() as connection:
            yield connection

    def size(self) -> int:
        """Return the number of the journal's entries."""
        with self.reading() as connection:
            return int(connection.execute(select(schema.head.c.size)).scalar() or 0)

    def first_hash(self) -> str:
        """Return the hash of the first entry, which names the ledger."""
        with self.reading() as connection:
            found = connection.execute(select(schema.journal.c.hash).where(schema.journal.c.sequence == 0)).scalar()
            return str(found or "")

    # --- versions -------------------------------------------------------------------------------------------

    def releases(
        self, *, containing: str = "", status: str | None = None, after: str = "", limit: int
    ) -> tuple[ReleaseLine, ...]:
        """Return releases by name, after a name; only those whose name contains a text, and that have a status."""
        seen = _V.status.in_(VISIBLE)
        query = select(_V.release, func.count().label("versions"), func.max(_V.number).label("newest"))
        query = query.where(seen, _V.release > after).group_by(_V.release).order_by(_V.release).limit(limit)
        if containing:
            query = query.where(_V.release.contains(containing, autoescape=True))
        if status is not None:
            query = query.where(_V.release.in_(select(_V.release).where(_V.status == status)))
        found = query.subquery()
        newest = and_(_V.release == found.c.release, _V.number == found.c.newest)
        joined = select(schema.versions, found.c.versions).join(found, newest).order_by(_V.release)
        with self.reading() as connection:
            rows = connection.execute(joined).all()
        return tuple(ReleaseLine(row.release, row.versions, _version(row)) for row in rows)

    def versions(self, release: str, *, before: int | None = None, limit: int) -> tuple[VersionEntry, ...]:
        """Return published versions of a release, the newest first."""
        query = schema.versions.select().where(_V.release == release, _V.status.in_(VISIBLE))
        if before is not None:
            query = query.where(_V.number < before)
        with self.reading() as connection:
            rows = connection.execute(query.order_by(_V.number.desc()).limit(limit)).all()
        return tuple(_version(row) for row in rows)

    def version(self, release: str, number: int) -> VersionEntry | None:
        """Return a published version, or None."""
        query = schema.versions.select().where(_V.release == release, _V.number == number, _V.status.in_(VISIBLE))
        with self.reading() as connection:
            row = connection.execute(query).first()
        return None if row is None else _version(row)

    def versions_of_runs(self, run_keys: Sequence[str]) -> dict[str, VersionEntry]:
        """Return the published versions that some runs made."""
        query = schema.versions.select().where(_V.run_key.in_(run_keys), _V.status.in_(VISIBLE))
        with self.reading() as connection:
            return {row.run_key: _version(row) for row in connection.execute(query)}

    def counts(self) -> dict[str, int]:
        """Return how many versions have each status."""
        query = select(_V.status, func.count()).where(_V.status.in_(VISIBLE)).group_by(_V.status)
        with self.reading() as connection:
            return dict(connection.execute(query).tuples().all())

    # --- accounts -------------------------------------------------------------------------------------------

    def accounts(self, *, after: str = "", limit: int) -> tuple[AccountState, ...]:
        """Return accounts by name, after a name."""
        table = schema.accounts
        query = table.select().where(table.c.name > after).order_by(table.c.name).limit(limit)
        with self.reading() as connection:
            return tuple(_with_failures(connection, state_of(row)) for row in connection.execute(query))

    def account(self, name: str) -> AccountState | None:
        """Return an account, or None."""
        with self.reading() as connection:
            found = find_account(connection, name)
            return None if found is None else _with_failures(connection, found)

    def charges(self, account: str, *, before: int | None = None, limit: int) -> tuple[ChargeLine, ...]:
        """Return what was charged to an account, the newest first."""
        charges, parts = schema.charges.c, schema.parts.c
        # From the newest charge backwards until enough are found; there is no other way to avoid sorting all of them.
        part = (parts.run_key == charges.run_key) & (parts.account == account)
        amount = select(parts.amount).where(part).scalar_subquery()
        asked = charges.number, charges.run_key, charges.release, charges.status, amount, charges.request, _V.number
        query = select(*asked)
        query = query.outerjoin(schema.versions, and_(_V.run_key == charges.run_key, _V.status.in_(VISIBLE)))
        query = query.where(select(parts.run_key).where(part).exists()).order_by(charges.number.desc()).limit(limit)
        if before is not None:
            query = query.where(charges.number < before)
        with self.reading() as connection:
            rows = connection.execute(query).all()
        return tuple(_charge_line(row) for row in rows)

    def charged(self, run_key: str) -> dict[str, ChargeLine]:
        """Return what a run took from each account, by name; empty where there is no such run."""
        charges, parts = schema.charges.c, schema.parts.c
        asked = charges.number, charges.run_key, charges.release, charges.status, parts.amount, charges.request
        query = select(parts.account, *asked).join_from(
            schema.parts, schema.charges, charges.run_key == parts.run_key
        )
        with self.reading() as connection:
            rows = connection.execute(query.where(parts.run_key == run_key)).all()
        return {row[0]: _charge_line((*row[1:], None)) for row in rows}

    def claimed(self, account: str) -> tuple[Claimed, ...]:
        """Return what the releases that stand charged to an account claim, by name."""
        parts, charges = schema.parts.c, schema.charges.c
        with self.reading() as connection:
            what = [charges.release, *(_requested(connection, name) for name in ("epsilon", "delta"))]
            query = select(*what, func.count()).join_from(
                schema.parts, schema.charges, charges.run_key == parts.run_key
            )
            query = query.where(parts.account == account, charges.status != "returned").group_by(*what)
            return tuple(sorted(Claimed(*row) for row in connection.execute(query)))

    def spent(self, account: str) -> tuple[Spent, ...]:
        """Return all that stands charged to an account, in the order in which it was first reserved."""
        journal, parts, charges = schema.journal.c, schema.parts.c, schema.charges.c
        # The first entry about a run is its charge; an index alone finds it.
        first = select(func.min(journal.sequence)).where(journal.subject == parts.run_key).scalar_subquery()
        query = select(first.label("entry"), charges.release, parts.run_key, parts.amount)
        query = query.join_from(schema.parts, schema.charges, charges.run_key == parts.run_key)
        query = query.where(parts.account == account)
        given_back = select(journal.subject).where(journal.kind == "charge_returned").subquery()
        standing = select(charges.run_key).where(charges.run_key.in_(select(given_back.c.subject)))
        with self.reading() as connection:
            returned = set(connection.execute(standing.where(charges.status == "returned")).scalars())
            rows = connection.execute(query).all()
        return tuple(sorted(Spent(*row) for row in rows if row.run_key not in returned))

    def times(self, sequences: Sequence[int]) -> dict[int, str]:
        """Return when some entries were written (ISO 8601, UTC)."""
        journal = schema.journal.c
        query = select(journal.sequence, journal.at).where(journal.sequence.in_(sequences))
        with self.reading() as connection:
            return dict(connection.execute(query).tuples().all())

    # --- checkpoints ----------------------------------------------------------------------------------------

    def checkpoints(self, *, before: int | None = None, limit: int) -> tuple[CheckpointLine, ...]:
        """Return the signed checkpoints, the largest first."""
        table = schema.checkpoints
        query = table.select().order_by(table.c.size.desc(), table.c.run_key, table.c.key_id).limit(limit)
        if before is not None:
            query = query.where(table.c.size < before)
        with self.reading() as connection:
            return tuple(_checkpoint(row) for row in connection.execute(query))


def _with_failures(connection: Connection, state: AccountState) -> AccountState:
    """Return an account with what its selections of keys may fail with, where it sets a part of δ aside for them."""
    if not state.terms.calculus.selection_delta:
        return state
    return replace(state, failure=_charged_failures(connection, state.terms.name))


def _charged_failures(connection: Connection, account: str) -> int:
    """Return what the selections of keys that stand charged to an account may fail with, by the tables [10⁻¹⁸]."""
    charges, parts = schema.charges.c, schema.parts.c
    query = select(charges.request).join_from(schema.parts, schema.charges, charges.run_key == parts.run_key)
    standing = query.where(parts.account == account, charges.status != "returned")
    selecting = standing.where(charges.request.contains(f'"{KeySelection.kind}"', autoescape=True))
    requests = connection.execute(selecting).scalars()
    return sum(entered_failures(json.loads(request)["events"]) for request in requests)


def published_at(connection: Connection, runs: Sequence[str]) -> dict[str, tuple[int, str]]:
    """Return sequence and time of the entries by which some runs were published."""
    journal = schema.journal.c
    # Found by its subject, from the end, where a run's publication is; no index serves this comparison of its kind.
    published = (journal.subject == _V.run_key) & (journal.kind.concat("") == "version_published")
    last = select(journal.sequence).where(published).order_by(journal.sequence.desc()).limit(1).scalar_subquery()
    found = select(_V.run_key, last.label("entry")).where(_V.run_key.in_(runs)).subquery()
    query = select(found.c.run_key, journal.sequence, journal.at).join(
        schema.journal, journal.sequence == found.c.entry
    )
    return {row.run_key: (row.sequence, row.at) for row in connection.execute(query)}


def _requested(connection: Connection, name: str) -> ColumnElement[int]:
    """Return a whole number of a charge's request; the text is JSON, for which each database has its own words."""
    text = schema.charges.c.request
    if connection.dialect.name == "sqlite":
        return func.json_extract(text, f"$.{name}")
    return cast(cast(text, JSON)[name].as_string(), BigInteger)


def _charge_line(row: Sequence[Any]) -> ChargeLine:
    number, run_key, release, status, amount, request, version = row
    claim = json.loads(request)
    return ChargeLine(number, run_key, release, status, amount, claim["epsilon"], claim["delta"], version)


def _version(row: Row[Any]) -> VersionEntry:
    return VersionEntry(row.release, row.number, row.run_key, row.status, row.manifest)


def _checkpoint(row: Row[Any]) -> CheckpointLine:
    return CheckpointLine(row.size, row.root, row.at, row.key_id, row.run_key, row.note)
