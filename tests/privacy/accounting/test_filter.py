"""Why an account has one order: the filter at one order holds, and the rule "any order that still fits" does not.

The game: the cap is (1, 1e-5). The first charge is a two-outcome step whose rarer outcome tells much. Who sees its
outcome chooses the second charge: the worst two-outcome step that still fits. At one fixed order the true delta of
the whole stays below 1e-5 whatever is chosen; when the second charge may fit at order 12.6 or at order 27, as the
outcome makes attractive, it does not.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import brentq

from privacy.accounting.renyi import offset

EPSILON, DELTA = 1.0, 1e-5
ORDERS = (12.6, 27.0)
# The first charge: probabilities of its telling outcome on the two neighbours.
FIRST = (5e-4, 5e-4 * math.exp(-0.43))

Steps = NDArray[np.float64]


def divergence(p: float, q: float, order: float) -> float:
    """Give the larger Rényi divergence of a two-outcome step, of both directions."""
    moments = [
        np.logaddexp(
            order * math.log(one) + (1 - order) * math.log(other),
            order * math.log1p(-one) + (1 - order) * math.log1p(-other),
        )
        for one, other in ((p, q), (q, p))
    ]
    return float(max(moments)) / (order - 1)


@cache
def worst_steps(order: float) -> Steps:
    """List two-outcome steps (p, q) that use up what the first charge has left at one order."""
    left = EPSILON - offset(order, DELTA) - divergence(*FIRST, order)
    assert left > 0
    steps = []
    for p in np.logspace(-7, math.log10(0.5), 200):

        def over(log_q: float, p: float = float(p)) -> float:
            return divergence(p, math.exp(log_q), order) - left

        lowest, highest = math.log(p) - 20, math.log(p)
        log_q = lowest if over(lowest) <= 0 else float(brentq(over, lowest, highest))
        steps.append((p, math.exp(log_q + 1e-9)))
    return np.array(steps)


def delta_after(order: float, left: float) -> float:
    """Give the largest hockey-stick divergence of the second charge where so much epsilon is left."""
    price, steps = math.exp(left), worst_steps(order)
    rare = steps[:, 0] - price * steps[:, 1]
    common = (1 - steps[:, 0]) - price * (1 - steps[:, 1])
    return float(max(0.0, 1 - price, (np.maximum(rare, 0) + np.maximum(common, 0)).max()))


def delta_of_the_whole(orders: tuple[float, ...]) -> float:
    """Compute the true delta where the second charge may fit at any of these orders, chosen by the first outcome."""
    p, q = FIRST
    outcomes = [(p, math.log(p / q)), (1 - p, math.log((1 - p) / (1 - q)))]
    return sum(chance * max(delta_after(order, EPSILON - loss) for order in orders) for chance, loss in outcomes)


@pytest.mark.parametrize("order", ORDERS)
def test_one_fixed_order_holds_the_cap_against_an_adaptive_choice(order: float) -> None:
    """At either order alone the true delta stays below the cap's, though not far below: the attack is strong."""
    assert 0.9 * DELTA <= delta_of_the_whole((order,)) <= DELTA


def test_any_order_that_still_fits_breaks_the_cap() -> None:
    """Choosing the order by the outcome reaches a true delta of 1.87e-5 under a cap of 1e-5."""
    assert 1.87 * DELTA <= delta_of_the_whole(ORDERS) <= 1.88 * DELTA
