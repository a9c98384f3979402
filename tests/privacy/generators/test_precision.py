"""Budget for what is measured already: where it goes is optimal, and its price is the slope of the error."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from privacy.accounting.amounts import PICO
from privacy.generators.generator import Spending
from privacy.generators.staged import Precision, cells_that_count, noise_error
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


def test_parts_of_a_pure_budget_are_whole_units_of_the_ledger() -> None:
    """The ledger rounds each draw's loss up by itself: parts of a unit would add up to more than the charge."""
    precision, spending = measured(Fraction(0))
    left = spending.total * Fraction(9, 10)
    shares = precision.allocate(KNOWN, APART, left).shares.values()
    assert len(shares) > 1
    assert {(share * PICO).denominator for share in shares} == {1}
    assert sum(shares) == left


@pytest.mark.parametrize(("delta", "power"), [(Fraction(1, 10**9), 0.5), (Fraction(0), 1.0)])
def test_no_small_move_of_the_budget_is_better_and_the_price_is_the_slope(delta: Fraction, power: float) -> None:
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


def test_a_cell_is_off_by_no_more_than_it_is_expected_to_hold() -> None:
    known = np.array([100.0, 3.0, 0.0, -1e-12])
    assert noise_error(known, 10.0) == 13.0
    assert cells_that_count(known, 10.0) == 1.3
    assert cells_that_count(np.zeros(4), 10.0) == 1.0


def test_what_is_exact_enough_gets_nothing() -> None:
    spending = Spending(asked(), None)
    precision = Precision({("a",): Fraction(1), ("b",): Fraction(1)}, spending)
    precision.add(("a",), spending.total / 2)
    precision.add(("b",), spending.total / 1000)
    known = {("a",): np.full(4, 1000.0), ("b",): np.full(4, 1000.0)}
    assert set(precision.allocate(known, {}, spending.total / 4).shares) == {("b",)}
