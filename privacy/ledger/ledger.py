"""The ledger: accounts, caps, charges, grants and the journal, in one database.

A charge is reserved whole, from every account of its people, and opened (`open_charge`) before a grant can measure.
Only a charge that was never opened is returned. Amounts are integers in 10⁻¹² units, rounded against the spender.
Each reservation is one transaction that holds the write lock, so sums never pass the cap.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_bytes, token_hex
from typing import TYPE_CHECKING, Any

from contracts.periods.time_blocks import TimeBlock
from privacy.ledger.accounts import charges as charging
from privacy.ledger.accounts import opening
from privacy.ledger.accounts import version_entries as publishing
from privacy.ledger.accounts.admission import exceeded
from privacy.ledger.accounts.charges import OpenCharge, Security
from privacy.ledger.accounts.table_rows import check_accounts
from privacy.ledger.books import Books
from privacy.ledger.draw_files import DrawFiles
from privacy.ledger.entries import Entry, LedgerCorrupt, is_behind
from privacy.ledger.journal.signing import Signer
from privacy.ledger.ledger_reading import LedgerReading
from privacy.ledger.replay.guards import Dates
from privacy.ledger.store import schema
from privacy.ledger.store.database import TIMEOUT_SECONDS, Store
from privacy.ledger.store.journal import Clock, Journal
from privacy.ledger.store.ledger_rows import existing_account, set_account
from privacy.ledger.terms import AccountState, AccountTerms, Charge, ChargeRequest, VersionEntry

if TYPE_CHECKING:  # a key is rarely changed, and every plan opens a ledger
    from privacy.ledger.accounts.version_entries import SignChange
    from privacy.ledger.journal.key_changes import SignedChange


def utc_now() -> str:
    """Return the time as ISO 8601 in UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Ledger(LedgerReading):
    """One ledger: what is read of it stands in `LedgerReading`, what is written here.

    Args:
        url: SQLAlchemy URL of the database, `sqlite:///…` or `postgresql://…`.
        draws: private folder for the noisy values.
        signer: signs statements of all balances, at which the next charge begins to add up; see `books`.
        public_key: key whose statements are believed, where there is no signer.
        clock: gives the time written into entries (order comes from the sequence alone).
        timeout: how long one answer of PostgreSQL is waited for [s].
        create: make a new ledger; without it, a database that holds none is refused.
    Raises:
        LedgerUnavailable: the database does not answer or cannot be opened.
        SchemaUnknown: it has another schema.
    """

    def __init__(
        self,
        url: str,
        *,
        draws: Path,
        clock: Clock = utc_now,
        signer: Signer | None = None,
        public_key: str | None = None,
        timeout: float = TIMEOUT_SECONDS,
        create: bool = True,
    ) -> None:
        store, journal = Store(url, timeout=timeout, create=create), Journal(clock)
        identity = _identity(store, journal)
        known = public_key if signer is None else signer.public_key
        super().__init__(store, journal, Books(store, identity, folder=draws, signer=signer, public_key=known))
        self._clock, self._draws = clock, DrawFiles(draws, identity)

    def close(self) -> None:
        """Close the database."""
        self._store.close()

    # --- accounts and sources -------------------------------------------------------------------------------

    def open_account(
        self, terms: AccountTerms, *, reopen: bool = False, sources: Sequence[str] = (), by: str | None = None
    ) -> AccountState:
        """Open an account and bind sources to its people, or do nothing; the same terms again change nothing.

        What was charged before on overlapping time blocks of its people is taken from it as well. With `reopen`, one
        of that name is opened again under these terms if nothing was ever reserved on it.

        Args:
            sources: canonical names; `by` is the column of each whose day says on whose account a row is.
        Raises:
            LedgerRefusal: an account of that name has other terms; the people have one of this very block, or of
                another unit or relation for some of its days; the cap is below what they lost; a source is others'.
        """
        with self._books.writing() as (transaction, reckoning):
            self._journal.check_clock(transaction)
            opening.open_account(transaction, self._journal, terms, reckoning, reopen=reopen)
            for source in sources:
                opening.bind_source(transaction, self._journal, source, terms.population, terms.days, by)
        return self.account(terms.name)

    def close_account(self, name: str) -> AccountState:
        """Close an account for new charges; what it lost stays written."""
        with self._books.writing() as (transaction, reckoning):
            account = existing_account(transaction.connection, name)
            check_accounts((account,), (name,), reckoning.balances)
            if account.status == "open":
                set_account(transaction.connection, name, status="closed")
                body = {"name": name, "spent": account.spent}
                self._journal.append(transaction, "account_closed", body, subject=name)
        return self.account(name)

    def bind_source(self, source: str, population: str, block: TimeBlock, *, by: str | None = None) -> None:
        """Bind a source (its canonical name) to the people and all days that its rows are of, for good.

        Args:
            by: the column whose day says on whose account a row is, for releases of some of the days.
        Raises:
            LedgerRefusal: the source is bound to others, or its rows are told apart by another column.
        """
        with self._store.writing() as transaction:
            opening.bind_source(transaction, self._journal, source, population, block, by)

    # --- charges and grants ---------------------------------------------------------------------------------

    def reserve(self, request: ChargeRequest) -> Charge:
        """Reserve the whole cost of a release, durably, on every account that its people have.

        Returns:
            Charge: new, or the one that this run key already has; the same run key never pays twice.
        Raises:
            BudgetExceeded: it does not fit under a cap; the ledger is unchanged.
            LedgerCorrupt: what the tables say of its accounts, source or run is not what the journal's entries say.
            LedgerRefusal: unknown or closed account, unbound source, other people, days without an account, another
                adjacency or unit, or the run key belongs to another release.
            ClockBehind: the clock is more than a day behind the journal's last entry.
        Privacy: nothing is drawn; the loss is counted from here on.
        """
        with self._books.writing() as (transaction, reckoning):
            self._journal.check_clock(transaction)
            reserved = charging.reserve(transaction, self._journal, request, reckoning)
        if isinstance(reserved, Charge):
            return reserved
        with self._store.reading() as connection:  # nobody is kept waiting while the refusal is put in words
            raise exceeded(connection, reserved, request)

    def return_charge(self, run_key: str) -> None:
        """Give back a charge whose grant was never opened.

        Raises:
            LedgerRefusal: the grant was opened, so its loss stays.
        """
        with self._books.writing() as (transaction, reckoning):
            charging.give_back(transaction, self._journal, run_key, reckoning)

    def record_gate_failure(self, request: ChargeRequest, gates: Sequence[str]) -> Entry:
        """Write down that declared gates stopped a release: an exact answer about the data that no charge covers.

        Args:
            request: what the release would have been charged.
            gates: names of the gates.
        """
        body = {
            "release": request.release,
            "account": request.account,
            "spec_digest": request.spec_digest,
            "contract_digest": request.contract_digest,
            "gates": list(gates),
        }
        with self._store.writing() as transaction:
            return self._journal.append(transaction, "gate_failed", body, subject=request.account)

    def record_engine_failure(self, request: ChargeRequest) -> Entry:
        """Write down that the engine which holds the rows did not count them for a charged run.

        Whether it does can depend on the rows, and is outside of the charge; so it leaves a trace, always the same
        words: neither what the engine said nor how far it came.

        Args:
            request: what the release was charged.
        """
        names = ("run_key", "release", "account", "spec_digest", "contract_digest")
        with self._store.writing() as transaction:
            body = {name: getattr(request, name) for name in names}
            return self._journal.append(transaction, "engine_failed", body, subject=request.account)

    def open_charge(self, run_key: str, *, security: Security) -> OpenCharge:
        """Open (or open again) a reserved charge; `opened` is committed before this returns. A grant draws from it.

        Args:
            run_key: the charge's key.
            security: what its noise will come from.
        Raises:
            LedgerRefusal: no such charge, or it was returned, or its noise came from another kind of source, or its
                draws are in another folder.
        Privacy: from here on the charge is spent, whatever happens.
        """
        with self._store.writing() as transaction:
            charge, calculi = charging.open_charge(transaction, self._journal, run_key, security, self._draws)
        return OpenCharge(self._store, self._draws, self._journal, charge, calculi)

    # --- versions ---------------------------------------------------------------------------------------------

    def allocate_version(self, run_key: str) -> VersionEntry:
        """Return the version that a run publishes as; the same run always gets the same number."""
        with self._store.writing() as transaction:
            return publishing.allocate(transaction.connection, run_key)

    def publish(self, run_key: str, manifest: str, signer: Signer) -> dict[str, Any]:
        """Enter that a version is published, and prove it, in one transaction, before readers can see it.

        Older versions of the release are superseded by it (or it by a newer one); they and their charges stay.

        Args:
            run_key: the run.
            manifest: SHA-256 of its manifest; the same one twice has one entry.
            signer: signs the checkpoint.
        Raises:
            LedgerRefusal: the noise was seeded, or the grant was never opened, or another manifest is entered.
        """
        with self._books.writing() as (transaction, reckoning):
            publishing.publish(transaction, self._journal, run_key, manifest)
            self._books.state(transaction, reckoning, signer)
            return publishing.prove(transaction, self._journal, run_key, signer)

    def rehearse(self, run_key: str, manifest: str, name: str) -> tuple[dict[str, Any], str]:
        """Return the proof that a publication would get, and the key of this moment that signed it; enter nothing.

        That key vouches for nothing and is gone: no checkpoint of a journal that was never written is ever signed.

        Args:
            run_key: the run.
            manifest: SHA-256 of its manifest.
            name: of the journal.
        """
        signer = Signer(token_bytes(32), name)
        with self._store.writing() as transaction:
            publishing.publish(transaction, self._journal, run_key, manifest)
            proof = publishing.prove(transaction, self._journal, run_key, signer)
            transaction.connection.rollback()
        return proof, signer.public_key

    def prove(self, run_key: str, signer: Signer) -> dict[str, Any]:
        """Return the proof that a run, and the accounts that it was charged to, are in the journal.

        The checkpoint is signed here and now, and shown to follow the one before and that of the version before.
        """
        with self._books.writing() as (transaction, reckoning):
            self._books.state(transaction, reckoning, signer)
            return publishing.prove(transaction, self._journal, run_key, signer)

    def withdraw(self, release: str, number: int, *, reason: str) -> VersionEntry:
        """Write into the journal that a version is withdrawn, and why, which is published; its charge stays.

        Raises:
            LedgerRefusal: there is no such version, or it is withdrawn already or was never published.
        """
        with self._store.writing() as transaction:
            return publishing.withdraw(transaction, self._journal, release, number, reason)

    # --- the clock --------------------------------------------------------------------------------------------

    def times(self) -> tuple[str, str]:
        """Return the clock's time, and that of the journal's last entry; `ClockBehind` as for `reserve`."""
        with self._store.writing() as transaction:
            self._journal.check_clock(transaction)
            return self._clock(), transaction.at or self._clock()

    def correct_clock(self) -> Entry | None:
        """Enter that the clock is right now, whatever times the journal has; None where they need no correction.

        Entries before are compared with each other no more, and those that follow with this one.
        """
        with self._store.writing() as transaction:
            dates = Dates()
            for entry in self._journal.entries(transaction.connection):
                dates.entry(entry)
            if not dates.findings and not is_behind(self._clock(), dates.latest):
                return None
            return self._journal.append(transaction, "clock_corrected", {"latest": dates.latest}, subject="")

    def change_key(self, kind: str, key: str, successor: str, sign: SignChange) -> SignedChange:
        """Enter that another key signs from now on; see `version_entries`."""
        from privacy.ledger.accounts.version_entries import change_key

        with self._store.writing() as transaction:
            return change_key(
                transaction, self._journal, self._clock, kind=kind, key=key, successor=successor, sign=sign
            )


def _identity(store: Store, journal: Journal) -> str:
    """Return the hash of the first entry, which names a ledger; a new ledger gets one."""
    first = _first_hash(store, journal)
    if first is None:
        with store.writing() as transaction:
            if transaction.size == 0:
                created = {"schema_version": schema.VERSION, "id": token_hex(16)}
                journal.append(transaction, "ledger_created", created, subject="")
        first = _first_hash(store, journal)
    if first is None:
        raise LedgerCorrupt("journal entry 0 is missing: restore the ledger from a copy")
    return first


def _first_hash(store: Store, journal: Journal) -> str | None:
    with store.reading() as connection:
        return journal.first_hash(connection)
