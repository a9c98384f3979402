"""What a charge must satisfy before it is admitted, in this order, and the refusals in words.

0. the accounts that the tables give for the source, and its people, are what the journal's entries say (`reckoning`)
1. the account that the spec names is known, and the source is bound to people; where its rows are told apart by their
   days, the asked-for days are among those that it is bound to, and take the place of its block in what follows
2. the account is one of those that these people have: their population, a time block that shares a day with theirs
3. every account that they have is open, and for the same unit and neighbour relation; all of them are charged
4. their blocks cover every day of the source's, and a unit that lives on has an account for its lifetime
5. the events have a loss in each account's calculus, under this neighbour relation
6. each account's cap holds with the charge added
7. where the charge selects keys, what its selections and those before may fail with stays within the part of δ that
   each account has set aside for them when it was opened
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Final

from sqlalchemy import Connection

from contracts.errors import Finding
from contracts.periods.time_blocks import LIFETIME, TimeBlock, division_of, gap, is_divided, time_block
from privacy.accounting.amounts import ATTO, atto_to_text, pico_to_text
from privacy.accounting.calculus import Calculus, RenyiCalculus
from privacy.accounting.events import DiscreteGaussian, PrivacyEvent, UnsupportedEvent, ZeroConcentrated
from privacy.accounting.renyi import budget_of, pure_loss
from privacy.accounting.scale import largest_epsilon
from privacy.ledger.accounts.fold import Reckoning, accounts_of_people, is_unused, with_failures
from privacy.ledger.accounts.table_rows import check_accounts, check_source
from privacy.ledger.entries import BudgetExceeded, LedgerRefusal, refusal
from privacy.ledger.store.ledger_rows import existing_account, people_and_accounts, spent_by_release
from privacy.ledger.terms import AccountState, AccountTerms, Charge, ChargePart, ChargeRequest

# --- The refusals, in words, of selections of keys.


def nothing_set_aside(terms: AccountTerms, request: ChargeRequest, *, unused: bool) -> LedgerRefusal:
    """Return the refusal of a selection of keys on an account that sets no part of its δ aside for any.

    Args:
        terms: the account's.
        request: the charge, with a selection.
        unused: nothing was ever charged to the account, so that it may be opened again.
    """
    found = f"{request.release} with a selection of keys that may fail with {atto_to_text(request.failure)}"
    allowed = "an account that sets a part of its δ aside for selections when it is opened: this one sets none"
    remedy = "release it for people or days whose account does: sudare budget open --help, --selection-delta"
    if unused:
        # Losses need a part of δ too, except pure ones.
        pure = terms.calculus.kind == "pure"
        delta = max(terms.delta, request.failure if pure else 2 * request.failure)
        remedy = (
            "nothing was ever charged to it, so it can be opened again: sudare budget open "
            f"{shlex.quote(terms.name)} --reopen --population {shlex.quote(terms.population)} --block {terms.block} "
            f"--unit {shlex.quote(terms.unit)} --adjacency {terms.adjacency} --calculus {terms.calculus.kind} "
            f"--epsilon {pico_to_text(terms.epsilon)} --delta {atto_to_text(delta)} "
            f"--selection-delta {atto_to_text(request.failure)}"
        )
    return refusal(f"account {terms.name}", "selection_delta", found, allowed, remedy)


def failures_exceeded(accounts: Sequence[AccountState], failure: int) -> BudgetExceeded:
    """Return the refusal of selections of keys that may fail with more than what is left for them.

    Args:
        accounts: those whose δ for selections does not hold it; at least one.
        failure: what the charge's selections may fail with [10⁻¹⁸].
    """
    findings = [
        Finding(
            f"account {state.terms.name}",
            "selection_delta",
            f"selections of keys that may fail with {atto_to_text(failure)}",
            f"at most {atto_to_text(state.selections_left)}: {atto_to_text(state.failure)} of "
            f"{atto_to_text(state.terms.calculus.selection_delta)}, which is set aside for them, is spent",
            "ask for a smaller δ of the selection; nothing was charged",
        )
        for state in accounts
    ]
    return BudgetExceeded(accounts[0].terms.name, failure, accounts[0].selections_left, findings)


_SHOWN_RELEASES = 4
_USUAL_DELTA = ATTO // 10**9


@dataclass(frozen=True)
class Admission:
    """What a charge takes from whom.

    Args:
        people: population and time block of the source.
        accounts: the accounts that are charged, as they stood, by name.
        parts: what is taken from each, in the same order.
        failure: what its selections of keys may fail with, taken from each beside that [10⁻¹⁸].
    """

    people: tuple[str, TimeBlock]
    accounts: tuple[AccountState, ...]
    parts: tuple[ChargePart, ...]
    failure: int = 0

    @property
    def unselectable(self) -> tuple[AccountState, ...]:
        """The accounts whose δ for selections of keys does not hold it."""
        return tuple(state for state in self.accounts if self.failure > max(0, state.selections_left))

    @property
    def over(self) -> tuple[AccountState, ...]:
        """The accounts whose cap does not hold it."""
        pairs = zip(self.accounts, self.parts, strict=True)
        return tuple(state for state, part in pairs if part.amount > state.remaining)

    @property
    def fits(self) -> bool:
        """Whether every cap holds with it added, and every δ for selections of keys."""
        return not self.over and not self.unselectable


def admit(connection: Connection, request: ChargeRequest, reckoning: Reckoning) -> Admission:
    """Return what a charge that fits takes from whom; refuse every other charge."""
    priced = price(connection, request, reckoning)
    if not priced.fits:
        raise exceeded(connection, priced, request)
    return priced


def price(connection: Connection, request: ChargeRequest, reckoning: Reckoning) -> Admission:
    """Return what a charge would take from whom, whether it fits or not; refuse what could never be charged."""
    if not request.events or request.epsilon < 0 or request.delta < 0:
        wrong = "a negative epsilon or delta" if request.events else "no events"
        raise refusal(f"run {request.run_key}", "charge", wrong, "at least one event, and no negative amount")
    found = people_and_accounts(connection, request.source)
    if found is None:
        raise _unbound(existing_account(connection, request.account).terms, request)
    people, accounts = found
    check_source(connection, request.source, *people)
    check_accounts(accounts, accounts_of_people(reckoning.balances, *people), reckoning.balances)
    accounts = with_failures(accounts, reckoning.balances)
    if request.days is not None or is_divided(request.source):
        people = _on_days(request, people)
        accounts = [state for state in accounts if state.terms.days.overlaps(people[1])]
    if request.account not in {state.terms.name for state in accounts}:
        raise _of_others(existing_account(connection, request.account).terms, accounts, request, people)
    for state in accounts:
        _check_terms(state, request)
    _check_cover(accounts, request, people)
    parts = []
    for state in accounts:
        try:
            parts.append(ChargePart(state.terms.name, cost_of(state.terms, request)))
        except UnsupportedEvent as error:
            raise _no_loss(connection, state.terms, request, reckoning, error) from error
    return Admission(people, tuple(accounts), tuple(parts), request.failure)


def _on_days(request: ChargeRequest, people: tuple[str, TimeBlock]) -> tuple[str, TimeBlock]:
    """Return whom the rows of some days are about; refuse days that the source is not bound to."""
    population, block = people
    where = f"source {request.source}"
    if request.days is None or not is_divided(request.source):
        found = "a release of some days" if request.days is not None else "a release of all rows"
        allowed = "days of a source that was bound with the column that tells them: sudare budget bind --by"
        raise refusal(where, "days", found, allowed)
    days = time_block(request.days)
    if not (block.begins <= days.begins and days.ends <= block.ends):
        remedy = "a source never changes its days: bind what holds these days as a source of its own"
        raise refusal(where, "days", request.days, f"days within {block}, to which it is bound", remedy)
    return population, days


def same_release(charge: Charge, request: ChargeRequest) -> Charge:
    """Return the known charge of a run key if it is for the same release; refuse another one under that key.

    Rows are not in the key of a due date. Where its charge was given back, nothing was drawn. It may be reserved
    again for whatever the rows are by now: a refusal would tell whether they changed.
    """
    known = charge.request
    if request.due is not None and charge.status == "returned":
        known = replace(known, snapshot_hash=request.snapshot_hash)
    if known != request:
        raise refusal(
            f"run {request.run_key}",
            "run key",
            "a charge of another spec, contract, snapshot or plan under this key",
            "the same release again, or another key",
        )
    return charge


def _unbound(terms: AccountTerms, request: ChargeRequest) -> LedgerRefusal:
    """Return the refusal of a source that is bound to nobody."""
    return refusal(
        f"account {terms.name}",
        "source",
        f"{request.source}, bound to nobody",
        f"a source that is bound to {terms.population}, block {terms.block}",
        _how_to_bind(request, terms),
    )


def _how_to_bind(request: ChargeRequest, terms: AccountTerms) -> str:
    """Return the command that binds a source to the people of an account."""
    source, block = request.source, repr(terms.block)
    division = division_of(source)
    if division is not None:
        source, block = f"{division[0]} --by {shlex.quote(division[1])}", "ALL-ITS-DAYS"
    return f"bind it: sudare budget bind {source} --population {terms.population!r} --block {block}"


def _of_others(
    named: AccountTerms, accounts: Sequence[AccountState], request: ChargeRequest, people: tuple[str, TimeBlock]
) -> LedgerRefusal:
    """Return the refusal of a named account that is not one of those that the source's people have."""
    population, block = people
    field, found, allowed = (
        ("population", population, named.population)
        if population != named.population
        else ("block", block.text, f"{named.block}, or days that overlap it")
    )
    theirs = ", ".join(state.terms.name for state in accounts)
    remedy = (
        f"these people have: {theirs}" if theirs else "open an account for these people: sudare budget open --help"
    )
    return refusal(f"account {named.name}", field, f"{found}, of {request.source}", allowed, remedy)


def _check_terms(state: AccountState, request: ChargeRequest) -> None:
    """Refuse a closed account, another unit or neighbour relation; name both sides."""
    terms = state.terms
    if state.status != "open":
        allowed = "open: every account that these people have is charged"
        raise refusal(f"account {terms.name}", "status", state.status, allowed, "its people take no more loss")
    for field, found, allowed in (
        ("adjacency", request.adjacency, terms.adjacency),
        ("unit", request.unit, terms.unit),
    ):
        if found != allowed:
            found, allowed = f"{found}, of the contract", f"{allowed}, of the account"
            raise refusal(
                f"account {terms.name}", field, found, allowed, "one relation and unit for all that they lose"
            )


def _check_cover(accounts: Sequence[AccountState], request: ChargeRequest, people: tuple[str, TimeBlock]) -> None:
    """Refuse days of the source that no account answers for, and lifetimes that none does."""
    population, block = people
    days = [state.terms.days for state in accounts]
    open_days = gap(block, days)
    if open_days is not None:
        found = f"days {open_days[0]} to before {open_days[1]} of {request.source} without an account"
        remedy = f"open one for {population} and these days: sudare budget open --help"
        raise refusal(f"account {request.account}", "block", found, f"accounts for all days of {block}", remedy)
    if request.scope == LIFETIME and not any(each.is_lifetime for each in days):
        remedy = f"open one: sudare budget open {population}/lifetime --population {population!r} --block lifetime"
        allowed = f"an account of {population} with block lifetime, which bounds what a unit loses over all blocks"
        raise refusal(f"account {request.account}", "scope", "lifetime, without such an account", allowed, remedy)


def cost_of(terms: AccountTerms, request: ChargeRequest) -> int:
    """Return what the planned events cost an account; `UnsupportedEvent` where its calculus has no loss for one."""
    try:
        budget_of(request.events)
    except UnsupportedEvent as error:
        raise refusal(f"account {terms.name}", "plan", str(error), "one budget beside the planned draws") from error
    for event in request.events:
        if request.adjacency not in event.adjacencies:
            allowed = " or ".join(sorted(event.adjacencies))
            found = f"{event.kind} under {request.adjacency}"
            raise refusal(f"account {terms.name}", "adjacency", found, allowed, "its loss is known under no other")
    return _cost(terms.calculus, request.events)


_NOISES: Final = {
    "zero_concentrated": "Gaussian noise on tables that are chosen as it goes (zCDP)",
    "discrete_gaussian": "Gaussian noise on tables or sums",
    "gaussian": "Gaussian noise",
    "poisson_sampled_gaussian": "the Gaussian noise of a training by DP-SGD",
}


def _no_loss(
    connection: Connection, terms: AccountTerms, request: ChargeRequest, reckoning: Reckoning, error: UnsupportedEvent
) -> LedgerRefusal:
    """Return the refusal of noise that has no finite loss in the account's calculus, with what would work."""
    event = next((each for each in request.events if pure_loss(each) is None), None)
    noise = str(error).partition("; allowed")[0]
    if request.failure and not terms.calculus.selection_delta:
        return nothing_set_aside(terms, request, unused=is_unused(connection, terms.name, reckoning))
    if event is not None:
        noise = f"{_NOISES.get(event.kind, event.kind)}, which has no finite loss in the pure calculus"
    found, allowed = f"{request.release} with {noise}", "noise whose loss in it is finite: Laplace noise, δ = 0"
    if is_unused(connection, terms.name, reckoning):
        delta = atto_to_text(request.delta or _USUAL_DELTA)
        remedy = (
            "nothing was ever charged to it, so it can be opened again for all products: sudare budget open "
            f"{shlex.quote(terms.name)} --reopen --population {shlex.quote(terms.population)} --block {terms.block} "
            f"--unit {shlex.quote(terms.unit)} --adjacency {terms.adjacency} --calculus renyi "
            f"--epsilon {pico_to_text(terms.epsilon)} --delta {delta}"
        )
    elif all(_may_be_laplace(event, request.rows_per_unit) for event in request.events):
        remedy = "ask for `delta: 0` in `charge`; of tables with `mechanism: laplace`"
    elif all(isinstance(event, DiscreteGaussian) or pure_loss(event) is not None for event in request.events):
        remedy = (
            "of statistics: write `mechanism: laplace` and `delta: 0`; rows of a generator that sums, such as "
            "gaussian_copula, need people or days whose account is renyi (sudare budget open --help)"
        )
    else:
        remedy = (
            "this product has no Laplace form: release it for people or days whose account is renyi, one "
            "that is opened with --calculus renyi and a δ (sudare budget open --help)"
        )
    return refusal(f"account {terms.name}", "calculus", found, allowed, remedy)


def _may_be_laplace(event: PrivacyEvent, rows_per_unit: int) -> bool:
    """Say whether the noise is on counts, or a budget for them, which a spec with delta 0 gets Laplace noise for."""
    match event:
        case DiscreteGaussian(_, moves):
            return max(map(abs, moves)) <= rows_per_unit
        case ZeroConcentrated():
            return True
    return pure_loss(event) is not None


@lru_cache(maxsize=64)
def _cost(calculus: Calculus, events: tuple[PrivacyEvent, ...]) -> int:
    return calculus.cost(events)


def loss_name(calculus: Calculus) -> str:
    """Return what an account's losses are called."""
    return f"Rényi loss of order {float(calculus.order):g}" if isinstance(calculus, RenyiCalculus) else "ε"


def exceeded(connection: Connection, priced: Admission, request: ChargeRequest) -> BudgetExceeded:
    """Return the refusal of a charge that does not fit: what is spent, by which releases, and what would fit."""
    if not priced.over:
        return failures_exceeded(priced.unselectable, priced.failure)
    over, amounts = priced.over, {part.account: part.amount for part in priced.parts}
    fitting = [fitting_epsilon(state, request) for state in over]
    least = None if None in fitting else min(epsilon for epsilon in fitting if epsilon is not None)
    remedy = (
        "wait for the next time block: nothing more fits; nothing was charged"
        if least is None
        else f"ask for epsilon {float(least):g} or less: the largest that still fits; nothing was charged"
    )
    findings = [
        Finding(
            f"account {state.terms.name}",
            "cap",
            f"ε = {pico_to_text(request.epsilon)} at δ = {atto_to_text(request.delta)}, a charge of "
            f"{pico_to_text(amounts[state.terms.name])} ({loss_name(state.terms.calculus)})",
            f"at most {pico_to_text(state.remaining)}: {pico_to_text(state.spent)} of {pico_to_text(state.cap)} is "
            f"spent{_spent_by(connection, state.terms.name)}",
            remedy,
        )
        for state in over
    ]
    first = over[0]
    return BudgetExceeded(first.terms.name, amounts[first.terms.name], first.remaining, findings)


def fitting_epsilon(state: AccountState, request: ChargeRequest) -> Fraction | None:
    """Return the largest epsilon, at the request's delta, that a release of the same kind may still ask for."""
    return largest_epsilon(request.events, Fraction(request.delta, ATTO), state.terms.calculus, state.remaining)


def _spent_by(connection: Connection, account: str) -> str:
    """Say which releases spent it, those that spent most first."""
    ranked = spent_by_release(connection, account)
    told = [f"{release} {pico_to_text(amount)}" for release, amount in ranked[:_SHOWN_RELEASES]]
    told += [f"{len(ranked) - _SHOWN_RELEASES} more releases"] if len(ranked) > _SHOWN_RELEASES else []
    return f", by {', '.join(told)}" if told else ""
