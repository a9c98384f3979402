"""What may be read of a ledger: accounts, charges, versions and the journal, each as one state of the database."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from contracts.errors import Finding
from contracts.periods.time_blocks import TimeBlock
from privacy.ledger.accounts.admission import Admission, admit, price
from privacy.ledger.accounts.fold import with_failures
from privacy.ledger.accounts.table_rows import check_accounts
from privacy.ledger.books import Books
from privacy.ledger.entries import Entry
from privacy.ledger.replay.fold import SignedCheckpoint, check_ledger
from privacy.ledger.store import schema
from privacy.ledger.store.database import DAMAGED, Store
from privacy.ledger.store.journal import Journal, JournalLog
from privacy.ledger.store.ledger_rows import (
    charges_of_account,
    charges_of_spec,
    existing_account,
    find_charge,
    state_of,
    versions_of,
)
from privacy.ledger.terms import AccountState, Charge, ChargeRequest, VersionEntry

if TYPE_CHECKING:  # a key is rarely changed, and every plan opens a ledger
    from privacy.ledger.journal.key_changes import SignedChange


class LedgerReading:
    """Reads a ledger and writes nothing.

    Args:
        store: the database.
        journal: its journal.
        books: what its accounts add up to.
    """

    def __init__(self, store: Store, journal: Journal, books: Books) -> None:
        self._store, self._journal, self._books = store, journal, books

    def account(self, name: str) -> AccountState:
        """Return an account as it stands.

        Raises:
            LedgerRefusal: there is none of that name.
            LedgerCorrupt: the table does not say what the journal's entries add up to.
        """
        with self._books.reading() as (connection, reckoning):
            account = existing_account(connection, name)
            check_accounts((account,), (name,), reckoning.balances)
            return with_failures((account,), reckoning.balances)[0]

    def accounts(self) -> tuple[AccountState, ...]:
        """Return all accounts, by name; `LedgerCorrupt` as for `account`."""
        with self._books.reading() as (connection, reckoning):
            rows = connection.execute(schema.accounts.select().order_by(schema.accounts.c.name))
            accounts = tuple(state_of(row) for row in rows)
            check_accounts(accounts, reckoning.balances, reckoning.balances)
            return tuple(with_failures(accounts, reckoning.balances))

    def sources(self) -> dict[str, tuple[str, TimeBlock]]:
        """Return the people (population and time block) of each bound source."""
        with self._store.reading() as connection:
            rows = connection.execute(schema.sources.select())
            return {row.source: (row.population, TimeBlock(row.block, row.begins, row.ends)) for row in rows}

    def foresee(self, request: ChargeRequest) -> Admission:
        """Return what `reserve` would charge for a request; writes nothing, and refuses what `reserve` would refuse.

        Raises:
            BudgetExceeded, LedgerRefusal: as `reserve`.
        """
        with self._books.reading() as (connection, reckoning):
            return admit(connection, request, reckoning)

    def price(self, request: ChargeRequest) -> Admission:
        """Return what `reserve` would charge for a request if it fitted; writes nothing.

        Raises:
            LedgerRefusal: as `reserve`, except for a cap that is passed.
        """
        with self._books.reading() as (connection, reckoning):
            return price(connection, request, reckoning)

    def charge(self, run_key: str) -> Charge | None:
        """Return the charge of a run, or None."""
        with self._store.reading() as connection:
            return find_charge(connection, run_key)

    def charges(self, *, account: str | None = None, spec_digest: str | None = None) -> tuple[Charge, ...]:
        """Return the charges that took from an account, or those of a release spec, oldest first."""
        with self._store.reading() as connection:
            if account is not None:
                return charges_of_account(connection, account)
            return charges_of_spec(connection, spec_digest or "")

    def charges_before(self, account: str, *, sequence: int) -> tuple[Charge, ...]:
        """Return the charges that an account held before an entry of the journal: they add up to what it had lost."""
        with self._store.reading() as connection:
            past = [*self._journal.entries(connection, kind="charge_reserved")]
            past += self._journal.entries(connection, kind="charge_returned")
            known = sorted((entry for entry in past if entry.sequence < sequence), key=lambda each: each.sequence)
            last = {entry.body["run_key"]: entry.kind for entry in known}
            charges = charges_of_account(connection, account)
        return tuple(each for each in charges if last.get(each.request.run_key) == "charge_reserved")

    def versions(self, release: str | None = None) -> tuple[VersionEntry, ...]:
        """Return the versions of one release or of all, oldest first."""
        with self._store.reading() as connection:
            return versions_of(connection, release)

    def key_changes(self) -> tuple[SignedChange, ...]:
        """Return the changes of the signing key, in their order."""
        from privacy.ledger.accounts.version_entries import key_changes

        with self._store.reading() as connection:
            return key_changes(self._journal, connection)

    def signed_size(self) -> int:
        """Return how many entries the newest signed checkpoint is over; 0 where none was signed."""
        newest = schema.checkpoints.select().order_by(schema.checkpoints.c.size.desc()).limit(1)
        with self._store.reading() as connection:
            row = connection.execute(newest).first()
        return 0 if row is None else int(row.size)

    def has_checkpoint(self, size: int, root: str) -> bool:
        """Say whether the ledger signed a checkpoint over so many entries with this Merkle root."""
        table = schema.checkpoints
        query = table.select().where(table.c.size == size, table.c.root == root)
        with self._store.reading() as connection:
            return connection.execute(query).first() is not None

    def journal(self) -> tuple[Entry, ...]:
        """Return the journal's entries in order; `LedgerCorrupt` when one does not hash to its hash."""
        with self._store.reading() as connection:
            return tuple(self._journal.entries(connection))

    @contextmanager
    def log(self) -> Iterator[JournalLog]:
        """Read one state of the journal as what may be published of it."""
        with self._store.reading() as connection:
            yield JournalLog(connection)

    def entries_of(self, run_key: str) -> tuple[Entry, ...]:
        """Return the journal's entries about one run, in order."""
        with self._store.reading() as connection:
            return tuple(self._journal.entries(connection, subject=run_key))

    def unchecked_indexes(self) -> str:
        """Return why the database's indexes cannot be checked here; empty where they can."""
        return self._store.integrity()[1]

    def verify(self, published: Iterable[SignedCheckpoint] = (), *, public_key: str | None = None) -> list[Finding]:
        """Check the whole ledger: its pages, the chain, every cap, that the accounts are the fold of the journal.

        Nothing is read through an index that is damaged.

        Args:
            published: checkpoints of published versions, whose signatures were checked; the journal must begin with
                what each of them held.
            public_key: key that the ledger's own checkpoints must be signed with; None to leave signatures out.
        """
        damage, _ = self._store.integrity()
        if damage:
            allowed = "a database that holds what was written"
            return [Finding("the ledger's database", "integrity", told, allowed, DAMAGED) for told in damage]
        mark = self._books.marked()
        with self._store.reading() as connection:
            findings = check_ledger(connection, published, public_key=public_key)
            return findings + self._books.unseen(connection, mark)
