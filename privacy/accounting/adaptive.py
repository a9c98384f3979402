"""A budget for draws that are chosen on the way: each takes an exact share of it, and the shares never exceed it.

A charge may plan one budget event beside its draws. `ZeroConcentrated(rho)` admits any draws whose zCDP losses add up
to at most rho, `Pure(epsilon)` any draws whose pure losses add up to at most epsilon, whatever each draw's choice
depends on: both are filters (Feldman, Zrnic 2021, theorem 1, whose Rényi loss of order a is at most a rho for every
order at once; docs/derivations.md). What the account is charged is the budget, whole, whether it is used up or not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction

from privacy.accounting.curves import pure_loss
from privacy.accounting.event import UnsupportedEvent
from privacy.accounting.events import (
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialMechanism,
    Gaussian,
    PrivacyEvent,
    Pure,
    ZeroConcentrated,
)
from privacy.accounting.key_selection import failure_of

Budget = ZeroConcentrated | Pure


def budget_of(planned: Iterable[PrivacyEvent]) -> Budget | None:
    """Return the budget among planned events, if there is one.

    Raises:
        UnsupportedEvent: more than one.
    """
    budgets = [event for event in planned if isinstance(event, ZeroConcentrated | Pure)]
    if len(budgets) > 1:
        raise UnsupportedEvent(f"{len(budgets)} budgets in one plan; allowed: one")
    return budgets[0] if budgets else None


def limit(budget: Budget) -> Fraction:
    """Return rho or epsilon."""
    return budget.rho if isinstance(budget, ZeroConcentrated) else budget.epsilon


def share(budget: Budget, event: PrivacyEvent) -> Fraction:
    """Return what an event takes from a budget, exactly.

    Raises:
        UnsupportedEvent: its loss is infinite in the budget's terms, or not known as one number.
    Source: pure to zCDP: Bun, Steinke 2016, proposition 1.4; bounded range to zCDP: Cesar, Rogers 2021, lemma 8.
    """
    return concentrated_loss(event) if isinstance(budget, ZeroConcentrated) else _pure(event)


def concentrated_loss(event: PrivacyEvent) -> Fraction:
    """Return the rho of an event.

    Raises:
        UnsupportedEvent: a sampled Gaussian, whose curve no single rho describes well.
    """
    match event:
        case DiscreteGaussian():
            return Fraction(sum(move * move for move in event.moves)) / (2 * event.sigma_squared)
        case Gaussian():
            return 1 / (2 * event.noise_multiplier**2)
        case ZeroConcentrated():
            return event.rho
        case ExponentialMechanism():
            return event.epsilon**2 / 8
        case DiscreteLaplace() | Pure():
            return _pure(event) ** 2 / 2
    raise UnsupportedEvent(f"{event.kind} takes no share of a zCDP budget; allowed: noise with one rho")


def _pure(event: PrivacyEvent) -> Fraction:
    # What may fail is planned by itself: a budget is a loss, and has no part of delta.
    loss = None if failure_of(event) else pure_loss(event)
    if loss is None:
        raise UnsupportedEvent(f"{event.kind} takes no share of a pure budget; allowed: noise of finite pure loss")
    return loss


def unplanned(planned: Sequence[PrivacyEvent], drawn: Iterable[PrivacyEvent]) -> list[PrivacyEvent]:
    """Return the drawn events that were not planned one by one, in order: those that take from the budget."""
    # A planned event pays for one draw of its kind; whatever is drawn beyond takes from the budget.
    left = Counter(planned)
    rest = []
    for event in drawn:
        if left[event] > 0 and not isinstance(event, ZeroConcentrated | Pure):
            left[event] -= 1
        else:
            rest.append(event)
    return rest
