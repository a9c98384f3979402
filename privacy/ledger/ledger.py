"""The ledger: accounts, caps, charges, grants and the journal, in one database.

A charge is reserved whole before anything private reaches a mechanism; `open_grant` commits `opened` before the
grant can measure; only a charge that was never opened is returned. Amounts are integers in 10⁻¹² units of the
account's calculus, rounded against the spender; sums never pass the cap, because each reservation is decided and
written in one transaction that holds the write lock.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from typing import Any

from sqlalchemy import Connection

from contracts.errors import Finding
from privacy.ledger import store
from privacy.ledger.admission import admit, refuse_second_account, same_release
from privacy.ledger.draws import DrawFiles
from privacy.ledger.entries import Entry
from privacy.ledger.errors import refusal
from privacy.ledger.fold import check_journal
from privacy.ledger.grant import Grant
from privacy.ledger.journal import Clock, Journal, read_entry
from privacy.ledger.rows import (
    account_row,
    accounts_of,
    find_charge,
    find_version,
    known_account,
    known_charge,
    people_of,
    set_charge,
    set_spent,
    state_of,
    to_text,
    write_charge,
)
from privacy.ledger.signing import Signer
from privacy.ledger.terms import (
    AccountState,
    AccountTerms,
    Charge,
    ChargeRequest,
    VersionEntry,
)
from privacy.noise.random_bytes import SecureBytes, SeededBytes


def utc_now() -> str:
    """Return the time as ISO 8601 in UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Ledger:
    """One ledger.

    Args:
        url: SQLAlchemy URL of the database.
        draws: private folder for the noisy values.
        clock: gives the time written into entries (order comes from the sequence alone).
    Raises:
        LedgerUnavailable: the database cannot be opened or is of another schema.
    """

    def __init__(self, url: str, *, draws: Path, clock: Clock = utc_now) -> None:
        self._store = store.Store(url)
        self._journal = Journal(clock)
        with self._store.transaction() as connection:
            if self._journal.head(connection) is None:
                created = {"schema_version": store.SCHEMA_VERSION, "id": token_hex(16)}
                self._journal.append(connection, "ledger_created", created)
            first = next(self._journal.entries(connection, "ledger_created"))
        self._draws = DrawFiles(draws, first.hash)

    def close(self) -> None:
        """Close the database."""
        self._store.close()

    # --- accounts and sources -------------------------------------------------------------------------------

    def open_account(self, terms: AccountTerms) -> AccountState:
        """Open an account; asking again with the same terms changes nothing.

        Raises:
            LedgerRefusal: an account of that name has other terms, or the cap leaves no room for any loss.
        """
        cap = terms.calculus.cap(terms.epsilon, terms.delta)
        with self._store.transaction() as connection:
            row = account_row(connection, terms.name)
            if row is None:
                refuse_second_account(terms, accounts_of(connection))
                values = {"name": terms.name, "terms": to_text(terms.to_json()), "cap": cap, "spent": 0}
                connection.execute(store.accounts.insert().values(**values, status="open"))
                self._journal.append(connection, "account_opened", {**terms.to_json(), "cap": cap})
            elif row.terms != to_text(terms.to_json()):
                raise refusal(
                    f"account {terms.name}",
                    "terms",
                    "an account of this name with other terms",
                    "the terms that it was opened with; a cap never changes",
                    "open an account under another name, for other people or another time block",
                )
        return self.account(terms.name)

    def close_account(self, name: str) -> AccountState:
        """Close an account for new charges; what it lost stays written."""
        with self._store.transaction() as connection:
            row = known_account(connection, name)
            if row.status == "open":
                where = store.accounts.c.name == name
                connection.execute(store.accounts.update().where(where).values(status="closed"))
                self._journal.append(connection, "account_closed", {"name": name, "spent": row.spent})
        return self.account(name)

    def bind_source(self, source: str, population: str, block: str) -> None:
        """Bind a source to the people and the time block it is about; a bound source never changes them.

        Raises:
            LedgerRefusal: the source is bound to others.
        """
        people = (population, block)
        with self._store.transaction() as connection:
            bound = people_of(connection, source)
            if bound is None:
                values = {"source": source, "population": population, "block": block}
                connection.execute(store.sources.insert().values(**values))
                self._journal.append(connection, "source_bound", values)
            elif bound != people:
                found, allowed = (f"{people[0]}, block {people[1]}", f"{bound[0]}, block {bound[1]}")
                raise refusal(f"source {source}", "people", found, allowed, "a source never changes its people")

    def account(self, name: str) -> AccountState:
        """Return an account as it stands; `LedgerRefusal` when there is none of that name."""
        with self._store.transaction() as connection:
            return state_of(connection, known_account(connection, name))

    def accounts(self) -> tuple[AccountState, ...]:
        """Return all accounts, by name."""
        with self._store.transaction() as connection:
            rows = connection.execute(store.accounts.select().order_by(store.accounts.c.name)).all()
            return tuple(state_of(connection, row) for row in rows)

    def sources(self) -> dict[str, tuple[str, str]]:
        """Return the people (population and time block) of each bound source."""
        with self._store.transaction() as connection:
            rows = connection.execute(store.sources.select())
            return {row.source: (row.population, row.block) for row in rows}

    # --- charges and grants ---------------------------------------------------------------------------------

    def reserve(self, request: ChargeRequest) -> Charge:
        """Reserve the whole cost of a release, durably; the same run key never pays twice.

        Returns:
            Charge: new, or the one that this run key already has.
        Raises:
            BudgetExceeded: it does not fit under the cap; the ledger is unchanged.
            LedgerRefusal: unknown or closed account, unbound source, other people, another adjacency or unit,
                or the run key belongs to another release.
        Privacy: nothing is drawn; the loss is counted from here on.
        """
        with self._store.transaction() as connection:
            known = find_charge(connection, request.run_key)
            if known is not None and known.status != "returned":
                return same_release(known, request)
            row, amount = admit(connection, request)
            write_charge(connection, request, amount, again=known is not None)
            set_spent(connection, request.account, row.spent + amount)
            body = {**request.public_json(), "amount": amount, "before": row.spent, "after": row.spent + amount}
            self._journal.append(connection, "charge_reserved", body)
        return Charge(request, amount, "reserved", None)

    def foresee(self, request: ChargeRequest) -> int:
        """Return what `reserve` would charge for a request; writes nothing, and refuses what `reserve` would refuse.

        Returns:
            int: the amount [10⁻¹² units of the account's calculus].
        Raises:
            BudgetExceeded, LedgerRefusal: as `reserve`.
        """
        with self._store.transaction() as connection:
            return admit(connection, request)[1]

    def return_charge(self, run_key: str) -> None:
        """Give back a charge whose grant was never opened.

        Raises:
            LedgerRefusal: the grant was opened, so its loss stays.
        """
        with self._store.transaction() as connection:
            charge = known_charge(connection, run_key)
            if charge.status == "returned":
                return
            if charge.status != "reserved":
                raise refusal(f"run {run_key}", "charge", charge.status, "reserved, never opened")
            row = known_account(connection, charge.request.account)
            set_charge(connection, run_key, status="returned")
            set_spent(connection, charge.request.account, row.spent - charge.amount)
            body = {"run_key": run_key, "account": charge.request.account, "amount": charge.amount}
            self._journal.append(connection, "charge_returned", body)

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
        with self._store.transaction() as connection:
            return self._journal.append(connection, "gate_failed", body)

    def gate_failures(self, account: str, *, before: int) -> int:
        """Return how many releases of an account were stopped by a gate before a journal entry's sequence."""
        with self._store.transaction() as connection:
            failed = self._journal.entries(connection, "gate_failed")
            return sum(entry.body["account"] == account and entry.sequence < before for entry in failed)

    def open_grant(self, run_key: str, *, seeded: SeededBytes | None = None) -> Grant:
        """Open (or open again) the grant of a reserved charge; `opened` is committed before this returns.

        Args:
            run_key: the charge's key.
            seeded: for tests: draw from these instead of from the CSPRNG; such a run is never published.
        Raises:
            LedgerRefusal: no such charge, or it was returned, or its noise came from another kind of source.
        Privacy: from here on the charge is spent, whatever happens.
        """
        security = "csprng" if seeded is None else "seeded"
        with self._store.transaction() as connection:
            charge = known_charge(connection, run_key)
            if charge.status == "returned":
                raise refusal(f"run {run_key}", "charge", "returned", "a reserved charge", "reserve it again")
            if charge.security not in (None, security):
                raise refusal(f"run {run_key}", "randomness", security, str(charge.security))
            if charge.status == "reserved":
                set_charge(connection, run_key, status="opened", security=security)
                self._journal.append(connection, "grant_opened", {"run_key": run_key, "security": security})
            terms = state_of(connection, known_account(connection, charge.request.account)).terms
            charge = known_charge(connection, run_key)
        source = SecureBytes() if seeded is None else seeded
        return Grant(self._store, self._draws, self._journal, charge, terms.calculus, source)

    def charge(self, run_key: str) -> Charge | None:
        """Return the charge of a run, or None."""
        with self._store.transaction() as connection:
            return find_charge(connection, run_key)

    # --- versions ---------------------------------------------------------------------------------------------

    def allocate_version(self, run_key: str) -> VersionEntry:
        """Return the version that a run publishes as; the same run always gets the same number."""
        with self._store.transaction() as connection:
            known = find_version(connection, run_key)
            if known is not None:
                return known
            release = known_charge(connection, run_key).request.release
            numbers = connection.execute(store.versions.select().where(store.versions.c.release == release))
            number = 1 + max((row.number for row in numbers), default=0)
            values = {"release": release, "number": number, "run_key": run_key, "status": "allocated"}
            connection.execute(store.versions.insert().values(**values))
        return VersionEntry(release, number, run_key, "allocated", None)

    def record_publication(self, run_key: str, manifest: str) -> Entry:
        """Write into the journal that a version with this manifest is published, before readers can see it.

        Args:
            run_key: the run.
            manifest: SHA-256 of MANIFEST.json.
        Returns:
            Entry: the journal's entry; the same manifest twice gives the same entry.
        Raises:
            LedgerRefusal: the noise was seeded, or the grant was never opened.
        """
        with self._store.transaction() as connection:
            charge = known_charge(connection, run_key)
            if charge.security != "csprng":
                raise refusal(
                    f"run {run_key}",
                    "randomness",
                    charge.security or "none drawn",
                    "csprng",
                    "seeded noise is for tests only and is never published",
                )
            version = find_version(connection, run_key)
            if version is None:
                raise refusal(f"run {run_key}", "version", "none", "an allocated version")
            known = next(self._publications(connection, run_key), None)
            if known is not None and known.body["manifest"] == manifest:
                return known
            if known is not None:
                raise refusal(
                    f"{version.release} v{version.number}",
                    "MANIFEST.json",
                    "other files than those that were published under this number",
                    "the published ones: a version never changes",
                    "restore the version's folder from a copy, or publish anew under another spec",
                )
            where = store.versions.c.run_key == run_key
            connection.execute(store.versions.update().where(where).values(status="published", manifest=manifest))
            set_charge(connection, run_key, status="published")
            body = {"run_key": run_key, "release": version.release, "number": version.number}
            return self._journal.append(connection, "version_published", {**body, "manifest": manifest})

    def versions(self, release: str | None = None) -> tuple[VersionEntry, ...]:
        """Return the versions of one release or of all, oldest first."""
        query = store.versions.select().order_by(store.versions.c.release, store.versions.c.number)
        if release is not None:
            query = query.where(store.versions.c.release == release)
        with self._store.transaction() as connection:
            return tuple(VersionEntry(**row._mapping) for row in connection.execute(query))

    # --- journal ----------------------------------------------------------------------------------------------

    def journal(self) -> tuple[Entry, ...]:
        """Return the journal's entries in order; `LedgerCorrupt` when one does not hash to its hash."""
        with self._store.transaction() as connection:
            return tuple(self._journal.entries(connection))

    def entries_of(self, run_key: str) -> tuple[Entry, ...]:
        """Return the journal's entries about one run, in order."""
        return tuple(entry for entry in self.journal() if entry.body.get("run_key") == run_key)

    def prove(self, entries: Sequence[Entry], signer: Signer) -> dict[str, Any]:
        """Return the proof that `entries` are in the journal, under a checkpoint signed here and now."""
        with self._store.transaction() as connection:
            return self._journal.prove(connection, entries, signer)

    def verify(self) -> list[Finding]:
        """Check the whole ledger: the chain, every cap, and that the accounts are the fold of the journal."""
        with self._store.transaction() as connection:
            rows = connection.execute(store.journal.select().order_by(store.journal.c.sequence)).all()
            accounts = {row.name: (row.cap, row.spent) for row in connection.execute(store.accounts.select())}
        return check_journal([read_entry(row) for row in rows], [row.hash for row in rows], accounts)

    def _publications(self, connection: Connection, run_key: str) -> Iterator[Entry]:
        entries = self._journal.entries(connection, "version_published")
        return (entry for entry in entries if entry.body["run_key"] == run_key)
