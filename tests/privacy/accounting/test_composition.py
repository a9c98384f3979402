"""Compositions: the curves of their parts, and dp_accounting's accountants agree where it has the events."""

from __future__ import annotations

from fractions import Fraction

import pytest
from dp_accounting import dp_event
from dp_accounting.dp_event import DpEvent
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant

from privacy.accounting.amounts import AmountRefused
from privacy.accounting.claim import pld_epsilon
from privacy.accounting.events import (
    ComposableEvent,
    Composed,
    DiscreteLaplace,
    DiscreteLaplaceVector,
    Gaussian,
    PoissonSampled,
    PoissonSampledGaussian,
    Pure,
    SelfComposed,
    ZeroConcentrated,
    composition,
)
from privacy.accounting.renyi import renyi

TENTH, TWO = Fraction(1, 10), Fraction(2)
ORDERS = [2.0, 5.0, 12.0, 40.0]
STEP = PoissonSampled(TENTH, Gaussian(TWO))


def to_dp_event(event: ComposableEvent) -> DpEvent:
    match event:
        case SelfComposed(repeated, count):
            return dp_event.SelfComposedDpEvent(to_dp_event(repeated), count)
        case Composed(events):
            return dp_event.ComposedDpEvent([to_dp_event(each) for each in events])
        case PoissonSampled(sampling_probability, sampled):
            return dp_event.PoissonSampledDpEvent(float(sampling_probability), to_dp_event(sampled))
        case Gaussian(noise_multiplier):
            return dp_event.GaussianDpEvent(float(noise_multiplier))
        case ZeroConcentrated(rho):
            return dp_event.ZCDpEvent(float(rho))
        case Pure(epsilon):  # randomized response is the worst of them: Kairouz, Oh, Viswanath 2015
            return dp_event.DiscreteLaplaceDpEvent(float(epsilon), 1)
        case DiscreteLaplace(inverse_scale, moves):
            # The noises of the cells are independent: each move is a mechanism of its own.
            each = [dp_event.DiscreteLaplaceDpEvent(float(inverse_scale), abs(move)) for move in moves]
            return each[0] if len(each) == 1 else dp_event.ComposedDpEvent(each)
        case PoissonSampledGaussian() | DiscreteLaplaceVector():
            return to_dp_event(composition(event))
    raise AssertionError(f"dp_accounting has no event of {event.kind}")


@pytest.mark.parametrize(
    "event",
    [
        Gaussian(TWO),
        ZeroConcentrated(TENTH),
        STEP,
        SelfComposed(STEP, 50),
        PoissonSampledGaussian(TWO, TENTH, 50),
        Composed((SelfComposed(STEP, 7), Gaussian(Fraction(3)), Composed((ZeroConcentrated(TENTH), STEP)))),
        SelfComposed(Composed((Gaussian(TWO), STEP)), 3),
    ],
)
def test_the_library_s_renyi_accountant_agrees_at_whole_orders(event: ComposableEvent) -> None:
    """Within 1e-9; of one step fewer it would not be."""
    accountant = RdpAccountant(ORDERS)
    accountant.compose(to_dp_event(event))
    for order, theirs in zip(ORDERS, accountant._rdp, strict=True):
        assert renyi(event, order) == pytest.approx(theirs, rel=1e-9)
        assert renyi(Composed((event, STEP)), order) > theirs * (1 + 1e-6)


@pytest.mark.parametrize(
    "event", [Pure(TENTH), DiscreteLaplace(TENTH, (1, 1)), PoissonSampledGaussian(TWO, TENTH, 20), Gaussian(TWO)]
)
def test_the_library_s_loss_distributions_agree_with_ours_of_it(event: ComposableEvent) -> None:
    """Its own accountant of the event, against our second accountant of the books' event: within 1 %."""
    accountant = PLDAccountant()
    accountant.compose(to_dp_event(SelfComposed(event, 5)))
    assert pld_epsilon([event] * 5, 1e-6) == pytest.approx(accountant.get_epsilon(1e-6), rel=1e-2)  # type: ignore[list-item]


def test_an_event_of_the_books_costs_what_its_composition_does() -> None:
    for event in (PoissonSampledGaussian(TWO, TENTH, 50), DiscreteLaplaceVector(Fraction(1, 7), 3, 40)):
        made = composition(event)
        assert isinstance(made, SelfComposed)
        for order in (1.5, *ORDERS):
            assert renyi(event, order) == pytest.approx(renyi(made, order), rel=1e-12)
            assert renyi(event, order) < renyi(SelfComposed(made.event, made.count + 1), order)
    assert composition(Pure(TENTH)) == Pure(TENTH)


def test_compositions_that_are_none_are_refused() -> None:
    for count in (0, True, 1.5):
        with pytest.raises(AmountRefused):
            SelfComposed(STEP, count)  # type: ignore[arg-type]
    for probability in (Fraction(0), Fraction(3, 2)):
        with pytest.raises(AmountRefused):
            PoissonSampled(probability, Gaussian(TWO))
