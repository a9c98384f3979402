"""The plan of DP-SGD: one value that sampling, clipping, noise and event come from, and its calibration."""

from __future__ import annotations

import math
from dataclasses import FrozenInstanceError, replace
from fractions import Fraction
from typing import Any

import pytest

from privacy.accounting.amounts import AmountRefused
from privacy.accounting.claim import pld_epsilon
from privacy.accounting.events import Gaussian, PoissonSampledGaussian, PrivacyEvent, Pure, ZeroConcentrated
from privacy.accounting.renyi import best_epsilon
from privacy.learning import plan as calibration
from privacy.learning.network import CannotTrain
from privacy.learning.plan import Schedule, TrainingPlan, calibrated_multiplier, checked_useful, signal_to_noise

MNIST = Schedule(60_000, 300, Fraction(10), checkpoints=10, reserve=1)
DELTA = Fraction(1, 10**5)
SMALL = TrainingPlan(Fraction(1, 20), Fraction(10), 40, Fraction(1), Fraction(3, 2), 10, 2)


def test_a_plan_is_charged_for_every_interval_and_its_reserve() -> None:
    assert SMALL.events == (PoissonSampledGaussian(Fraction(3, 2), Fraction(1, 20), 10),) * 6
    assert (SMALL.checkpoints, SMALL.standard_deviation) == (4, Fraction(3, 2))
    with pytest.raises(FrozenInstanceError):
        SMALL.steps = 50  # type: ignore[misc]


def test_a_schedule_takes_its_probability_from_the_declared_rows() -> None:
    assert (MNIST.sampling_probability, MNIST.steps, MNIST.checkpoint_every) == (Fraction(1, 200), 2000, 200)
    uneven = Schedule(1_000, 30, Fraction(3), checkpoints=7, reserve=0)
    assert uneven.steps % uneven.checkpoint_every == 0
    assert uneven.steps >= 100
    plan = MNIST.plan(noise_multiplier=Fraction(2), clipping_norm=Fraction(1, 2))
    assert (plan.expected_batch_size, plan.standard_deviation) == (300, 1)


@pytest.mark.parametrize(
    "wrong",
    [
        {"sampling_probability": 0.05},
        {"sampling_probability": Fraction(3, 2)},
        {"sampling_probability": Fraction(0)},
        {"expected_batch_size": Fraction(0)},
        {"expected_batch_size": Fraction(8193)},
        {"steps": 0},
        {"steps": 41},
        {"steps": True},
        {"clipping_norm": Fraction(0)},
        {"noise_multiplier": Fraction(1, 100)},
        {"noise_multiplier": 1.5},
        {"checkpoint_every": 50},
        {"reserve": -1},
    ],
)
def test_a_plan_that_says_nothing_exact_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises((CannotTrain, AmountRefused)):
        replace(SMALL, **wrong)


def test_a_batch_larger_than_the_declared_rows_is_refused_with_what_to_do() -> None:
    with pytest.raises(CannotTrain, match=r"batch is 301; allowed: at most the declared number of rows, 300; do: "):
        Schedule(300, 301, Fraction(1), checkpoints=1, reserve=0)


@pytest.mark.long
@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(1), Fraction(8)])
def test_the_calibrated_multiplier_is_the_least_that_fits(epsilon: Fraction) -> None:
    """Its events cost at most epsilon at their best order, one step of the grid less costs more, and PLD less."""
    multiplier = calibrated_multiplier(MNIST, epsilon=epsilon, delta=DELTA)
    plan = MNIST.plan(noise_multiplier=multiplier, clipping_norm=Fraction(1))
    spent, _ = best_epsilon(plan.events, DELTA)
    assert 0.998 * float(epsilon) < spent <= epsilon
    less = MNIST.plan(noise_multiplier=multiplier - Fraction(2, 10_000), clipping_norm=Fraction(1))
    assert best_epsilon(less.events, DELTA)[0] > float(epsilon) * (1 - 1e-4)
    composed = pld_epsilon(plan.events, DELTA)
    assert composed is not None
    assert composed < spent


def test_what_stands_beside_the_training_is_paid_for() -> None:
    beside = (ZeroConcentrated(Fraction(1, 200)),)
    alone = calibrated_multiplier(MNIST, epsilon=1, delta=DELTA)
    together = calibrated_multiplier(MNIST, epsilon=1, delta=DELTA, beside=beside)
    plan = MNIST.plan(noise_multiplier=together, clipping_norm=Fraction(1))
    assert together > alone
    assert best_epsilon([*plan.events, *beside], DELTA)[0] <= 1


def test_an_epsilon_that_no_noise_reaches_is_refused_with_one_that_would_do() -> None:
    with pytest.raises(CannotTrain, match="do: an epsilon of at least"):
        calibrated_multiplier(MNIST, epsilon=Fraction(1, 10**6), delta=DELTA)


def test_noise_that_drowns_everything_is_refused_with_what_would_do() -> None:
    plan = replace(SMALL, noise_multiplier=Fraction(20))
    assert signal_to_noise(plan, 10_000) == pytest.approx(math.sqrt(40) * 10 / (20 * 100))
    with pytest.raises(CannotTrain, match=r"an epsilon of about 9\.5, a batch of about 95 rows"):
        checked_useful(plan, 10_000, epsilon=1)
    assert checked_useful(plan, 100, epsilon=1) is plan


def test_no_batch_of_more_than_the_declared_rows_is_advised() -> None:
    """It would be refused in turn: a plan of 3 rows named a batch of 148."""
    plan = replace(SMALL, noise_multiplier=Fraction(20), sampling_probability=Fraction(1, 4))
    with pytest.raises(CannotTrain, match=r"an epsilon of about 9\.5, many more rows, or a smaller network"):
        checked_useful(plan, 10_000, epsilon=1)


@pytest.mark.parametrize("multiplier", [Fraction(1, 2), Fraction(2), Fraction(60)])
@pytest.mark.parametrize("beside", [(), (Gaussian(Fraction(9)), Pure(Fraction(1, 10)))])
def test_the_orders_that_are_passed_over_cost_more(multiplier: Fraction, beside: tuple[PrivacyEvent, ...]) -> None:
    """The best order and whether any fits are what a search of all of them finds."""
    costs = calibration._Costs(
        (PoissonSampledGaussian(multiplier, Fraction(1, 50), 300), *beside), Fraction(1, 10**9)
    )
    every = [costs.at(order) for order in calibration._ORDERS]
    assert costs.best() == (every.index(min(every)), min(every))
    assert costs.fit(min(every))
    assert not costs.fit(min(every) * (1 - 1e-12))
