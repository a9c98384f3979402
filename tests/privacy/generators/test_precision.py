"""What a budget buys next (`staged`), and margins that stand when bins are measured again."""

from fractions import Fraction

import numpy as np
import pytest

from privacy.accounting.amounts import PICO
from privacy.generators.bin_weights import _factors, standing, standing_margins
from privacy.generators.generator import Spending
from privacy.generators.staged import Precision, cells_that_count, noise_error
from privacy.marginals.graph import CellDomain
from privacy.marginals.inference import GraphicalModel
from privacy.marginals.model import PublishedModel, times
from tests.privacy.generators.small_table import asked

WORKLOAD = {("a", "b"): Fraction(1), ("b", "c"): Fraction(2), ("a", "c"): Fraction(1)}
KNOWN = {("a",): np.full(6, 900.0), ("b",): np.full(30, 180.0), ("c",): np.array([5000.0, 400.0]),
         ("a", "b"): np.full((6, 30), 30.0)}  # fmt: skip
APART = {("b", "c"): 700.0, ("a", "c"): 300.0}


def measured(delta: Fraction = Fraction(1, 10**9)) -> tuple[Precision, Spending]:
    spending = Spending(asked(delta=delta), None)
    precision = Precision(WORKLOAD, spending)
    for number, clique in enumerate(KNOWN):
        precision.add(clique, spending.total * Fraction(number + 1, 100))
    return precision, spending


def error(shares: dict[tuple[str, ...], float], spending: Spending, power: float) -> float:
    small = spending.total / 1024
    unit = Precision(WORKLOAD, spending).size(small) * float(small) ** power
    errors = {clique: noise_error(KNOWN[clique], unit * share**-power) for clique, share in shares.items()}
    whole = 0.0
    for pair, weight in WORKLOAD.items():
        inside = [errors[part] ** 2 for part in ((pair[0],), (pair[1],), pair) if part in errors]
        whole += float(weight) * (sum(inside) + (0 if pair in errors else APART[pair] ** 2)) ** 0.5
    return whole


def test_parts_of_a_pure_budget_are_whole_units_of_the_ledger():
    """The ledger rounds each draw's loss up by itself: parts of a unit would add up to more than the charge."""
    precision, spending = measured(Fraction(0))
    left = spending.total * Fraction(9, 10)
    shares = precision.allocate(KNOWN, APART, left).shares.values()
    assert len(shares) > 1
    assert {(share * PICO).denominator for share in shares} == {1}
    assert sum(shares) == left


@pytest.mark.parametrize(("delta", "power"), [(Fraction(1, 10**9), 0.5), (Fraction(0), 1.0)])
def test_no_small_move_of_the_budget_is_better_and_the_price_is_the_slope(delta: Fraction, power: float):
    """Noise is below every cell here, so that the error is smooth: moving a hundredth of what is left changes it by
    less than a thousandth of the price, and what 1 % more budget takes off is the price of it within 3 %."""
    precision, spending = measured(delta)
    left = spending.total * Fraction(9, 10)
    found = precision.allocate(KNOWN, APART, left)
    assert sum(found.shares.values()) == left
    before = {clique: float(spending.total) * (number + 1) / 100 for number, clique in enumerate(KNOWN)}
    shares = {clique: before[clique] + float(found.shares.get(clique, 0)) for clique in KNOWN}
    step = float(left) / 100
    best = error(shares, spending, power)
    for giver in found.shares:
        for taker in KNOWN:
            moved = {**shares, giver: shares[giver] - step}
            moved[taker] += step
            assert error(moved, spending, power) > best - 1e-3 * found.price * step
    more = precision.allocate(KNOWN, APART, left + left / 100)
    lifted = {clique: before[clique] + float(more.shares.get(clique, 0)) for clique in KNOWN}
    assert best - error(lifted, spending, power) == pytest.approx(found.price * step, rel=0.03)


def test_a_cell_is_off_by_no_more_than_it_is_expected_to_hold():
    known = np.array([100.0, 3.0, 0.0, -1e-12])
    assert noise_error(known, 10.0) == 13.0
    assert cells_that_count(known, 10.0) == 1.3
    assert cells_that_count(np.zeros(4), 10.0) == 1.0


def test_what_is_exact_enough_gets_nothing():
    spending = Spending(asked(), None)
    precision = Precision({("a",): Fraction(1), ("b",): Fraction(1)}, spending)
    precision.add(("a",), spending.total / 2)
    precision.add(("b",), spending.total / 1000)
    known = {("a",): np.full(4, 1000.0), ("b",): np.full(4, 1000.0)}
    assert set(precision.allocate(known, {}, spending.total / 4).shares) == {("b",)}


DOMAIN = CellDomain(("pay", "job", "home"), (4, 3, 2))


def model() -> PublishedModel:
    """Return a model of a chain, pay - job - home, with an impossible cell; pay has three bins and missing values."""
    rng = np.random.default_rng(1)
    first, second = rng.normal(size=(4, 3)), rng.normal(size=(3, 2))
    first[2, 2] = -np.inf
    return PublishedModel.of(GraphicalModel(DOMAIN, (("pay", "job"), ("job", "home")), (first, second), 1000.0), 1000)


def test_a_bin_that_does_not_stand_is_left_and_all_else_stays_as_it_was():
    """It keeps a millionth; bins that stand take the rest, and missing values keep their share."""
    before = model().graphical
    margin = before.marginal(("pay",))
    after = times(before, "pay", _factors(margin, np.array([True, False, True])))
    new = after.marginal(("pay",))
    assert new[1] / new.sum() < 2e-6
    kept = [0, 2]
    assert new[3] / new.sum() == pytest.approx(margin[3] / margin.sum(), abs=1e-6)
    assert np.abs(new[kept] / new[kept].sum() - margin[kept] / margin[kept].sum()).max() < 1e-6
    pairs = before.marginal(("pay", "home")), after.marginal(("pay", "home"))
    given = [pair / pair.sum(axis=1, keepdims=True) for pair in pairs]
    assert np.abs(given[0] - given[1]).max() < 1e-6
    assert after.marginal(("pay", "job"))[2, 2] == 0


def test_bins_of_noise_do_not_stand():
    """Of 60 empty bins with noise of deviation 10 at most a few stand: P(above 2 deviations) is 0.023 each."""
    noise = np.random.default_rng(2).normal(0, 10, 60)
    estimates = np.concatenate([[4000.0, 3000.0, 900.0], noise])
    stands = standing(estimates, np.full(63, 100.0))
    assert stands is not None
    assert stands[:3].all()
    # Ten or more of 60 at 0.023: probability below 1e-6.
    assert stands[3:].sum() < 10


def test_many_small_bins_stay_as_they_are():
    """1,000 bins of 15 rows and noise of 10: to drop those below 20 would lose most rows."""
    estimates = 15 + np.random.default_rng(3).normal(0, 10, 1000)
    assert standing(estimates, np.full(1000, 100.0)) is None
    assert standing(np.full(5, -3.0), np.full(5, 1.0)) is None


def test_without_trees_a_model_is_itself():
    before = model()
    assert standing_margins(before, [], []) is before
