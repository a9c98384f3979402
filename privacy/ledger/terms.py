"""What the ledger is told and what it answers, as frozen data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from contracts.contract.terms import Adjacency, Scope
from contracts.periods.time_blocks import TimeBlock, time_block
from privacy.accounting.calculus import Calculus, calculus_from_json
from privacy.accounting.events import PrivacyEvent, event_from_json, failures

ChargeStatus = Literal["reserved", "opened", "published", "returned"]


@dataclass(frozen=True)
class AccountTerms:
    """Whose loss is bounded, by how much, and in which calculus.

    Args:
        name: name of the account ("adult-1994").
        population: the people ("us-adults"); sources are bound to them and to a time block.
        block: the time block whose people's loss is bounded ("1994", "2026-Q4", "lifetime").
        unit: the privacy unit ("row", or the name of an id column).
        adjacency: the neighbour relation that every charge must use.
        calculus: how losses add up.
        epsilon: cap on ε [10⁻¹²].
        delta: δ at which the cap is stated [10⁻¹⁸]; 0 for the pure calculus.
    """

    name: str
    population: str
    block: str
    unit: str
    adjacency: Adjacency
    calculus: Calculus
    epsilon: int
    delta: int

    @property
    def days(self) -> TimeBlock:
        """The days of the time block."""
        return time_block(self.block)

    def to_json(self) -> dict[str, Any]:
        """Return the terms as a JSON object."""
        return {
            "name": self.name,
            "population": self.population,
            "block": self.block,
            "unit": self.unit,
            "adjacency": self.adjacency,
            "calculus": self.calculus.to_json(),
            "epsilon": self.epsilon,
            "delta": self.delta,
        }


TERMS = tuple(term.name for term in fields(AccountTerms))


def terms_from_json(value: Mapping[str, Any]) -> AccountTerms:
    """Read terms back."""
    return AccountTerms(**{**value, "calculus": calculus_from_json(value["calculus"])})


@dataclass(frozen=True)
class ChargeRequest:
    """What a release may cost, and all that ties the charge to that release.

    Args:
        run_key: idempotency key; the same key never pays twice.
        account: the account that the spec names; every other one that these people have is charged as well.
        source: canonical name of the source, as bound to its people.
        release: name of the product.
        spec_digest: digest of the release spec.
        contract_digest: digest of the contract.
        snapshot_hash: public mark of the encoded snapshot (`snapshot_mark`).
        adjacency: neighbour relation of the contract.
        unit: privacy unit of the contract.
        scope: whether a unit's loss is bounded within one time block or over a lifetime.
        rows_per_unit: bound k on the rows of one unit.
        events: the planned events; their composed cost is reserved.
        epsilon: ε that the release claims [10⁻¹²].
        delta: δ that the release claims [10⁻¹⁸].
        public_total: the number of rows, where the contract declares it public.
        days: the time block that the measured rows are of, where the source's rows are told apart by their days.
        due: the date that the run is due on, where each due date is a run of its own.
        noise_epsilon: ε that the noise was planned for, where that is not the spec's: the run that resumes plans the
            same noise [10⁻¹²].
    """

    run_key: str
    account: str
    source: str
    release: str
    spec_digest: str
    contract_digest: str
    snapshot_hash: str
    adjacency: Adjacency
    unit: str
    scope: Scope
    rows_per_unit: int
    events: tuple[PrivacyEvent, ...]
    epsilon: int
    delta: int
    public_total: int | None = None
    days: str | None = None
    due: str | None = None
    noise_epsilon: int | None = None

    @property
    def failure(self) -> int:
        """What its selections of keys may fail with, beside their loss [10⁻¹⁸]."""
        return failures(self.events)

    def to_json(self) -> dict[str, Any]:
        """Return the request as a JSON object."""
        return {**vars(self), "events": [event.to_json() for event in self.events]}

    def public_json(self) -> dict[str, Any]:
        """Return the request as the journal tells it: without the source, whose name may say where it is."""
        return {key: value for key, value in self.to_json().items() if key != "source"}


def request_from_json(value: Mapping[str, Any]) -> ChargeRequest:
    """Read a request back."""
    events = tuple(event_from_json(event) for event in value["events"])
    return ChargeRequest(**{**value, "events": events})


@dataclass(frozen=True)
class ChargePart:
    """What a charge takes from one account.

    Args:
        account: name of the account.
        amount: what is reserved [10⁻¹² units of the account's calculus].
    """

    account: str
    amount: int


@dataclass(frozen=True)
class Charge:
    """A durable charge.

    Args:
        request: what was asked for.
        parts: what it takes from each account of these people, by name.
        status: reserved, opened (spent for good), published, or returned (never opened).
        security: "csprng" or "seeded", once opened: what the noise was drawn from.
    """

    request: ChargeRequest
    parts: tuple[ChargePart, ...]
    status: ChargeStatus
    security: str | None

    @property
    def amount(self) -> int:
        """What it takes from the account that the spec names [10⁻¹² units of its calculus]."""
        return self.amount_of(self.request.account)

    def amount_of(self, account: str) -> int:
        """Return what it takes from one account; 0 if it is not one of those charged."""
        return sum(part.amount for part in self.parts if part.account == account)


@dataclass(frozen=True)
class AccountState:
    """An account as it stands.

    Args:
        terms: what it was opened with.
        cap: the most it may lose [10⁻¹² units of its calculus].
        spent: what is reserved or spent [same units].
        status: open or closed.
        failure: what selections of keys that are reserved or made may fail with, of the part of δ that is set aside
            for them; the journal's entries say it [10⁻¹⁸].
    """

    terms: AccountTerms
    cap: int
    spent: int
    status: str
    failure: int = 0

    @property
    def remaining(self) -> int:
        """What is left [10⁻¹² units of the account's calculus]."""
        return self.cap - self.spent

    @property
    def selections_left(self) -> int:
        """What further selections of keys may fail with [10⁻¹⁸]."""
        return self.terms.calculus.selection_delta - self.failure

    @property
    def claim(self) -> int:
        """ε that the account has lost so far at its δ [10⁻¹²], rounded up."""
        return self.terms.calculus.claim(self.spent, self.terms.delta)


@dataclass(frozen=True)
class VersionEntry:
    """One version of a release, as the journal knows it.

    Args:
        release: name of the product.
        number: 1, 2, …
        run_key: the run that made it.
        status: allocated, published, superseded (a later version is published) or withdrawn.
        manifest: SHA-256 of its manifest, once published.
    """

    release: str
    number: int
    run_key: str
    status: str
    manifest: str | None
