"""What is compared: the paper's four methods as it ran them, and ours on exact noise.

An estimator of ours is a function (noisy counts, shape of the mesh; total; event) → whole-number table of that shape.
Another one is added to `OURS`, and every table has its rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from benchmarks._baselines import clip_and_rescale, nonnegative_lasso, rescale_to_total
from benchmarks._estimators import ESTIMATORS
from privacy.accounting.events import DiscreteLaplace
from privacy.refine.lambda_choice import choose_lambda_auto
from privacy.refine.negative_l2 import negative_l2
from privacy.refine.simplex import project_simplex, round_to_total

Counts: TypeAlias = NDArray[np.int64]
Tuned: TypeAlias = Callable[[NDArray[np.int64] | NDArray[np.float64], int, float], Counts]
"""(noisy, total, parameter) → table; the parameter is λ, or nothing."""
Estimator: TypeAlias = Callable[[Counts, int, DiscreteLaplace], Counts]

LAMBDA_GRID: Final = tuple(
    c / 10_000
    for c in (5, 7, 9, 10, 11, 12, 13, 14, 15, 17, 20, 25, 30, 35, 40, 44, 46, 48, 50, 52, 55, 60, 65, 70, 80, 100)
)
"""λ·ε: the oracle's grid, for every ε."""
PENALTY_GRID: Final = tuple(float(c) for c in np.linspace(3.6, 6.4, 15))
PAPER_PENALTY: Final = {0.1: 38.4, 1.0: 3.9, 10.0: 0.44}
"""λ of eq. 5 under which the paper's RMSE and nonzero share of NNL both appear: fitted to its result, so it proves
nothing, and no row holds by it. The best λ is another one."""


def proposed(noisy: NDArray[np.int64] | NDArray[np.float64], total: int, lambda_: float) -> Counts:
    """Negative ℓ2 with a given λ, rounded."""
    return round_to_total(negative_l2(noisy, total, lambda_=lambda_), total)


def simplex(noisy: NDArray[np.int64] | NDArray[np.float64], total: int, _: float = 0.0) -> Counts:
    """Projection, rounded."""
    return round_to_total(project_simplex(noisy, total), total)


def nnl(noisy: NDArray[np.int64] | NDArray[np.float64], total: int, penalty: float) -> Counts:
    """Nonnegative Lasso, rescaled and rounded."""
    return round_to_total(rescale_to_total(nonnegative_lasso(noisy, penalty=penalty), total), total)


def lm(noisy: NDArray[np.int64] | NDArray[np.float64], total: int, _: float = 0.0) -> Counts:
    """Clipped, rescaled and rounded."""
    return round_to_total(clip_and_rescale(noisy, total), total)


def ours_auto(noisy: Counts, total: int, event: DiscreteLaplace) -> Counts:
    """Negative ℓ2 with λ from the noisy values."""
    return proposed(noisy, total, choose_lambda_auto(noisy, total, event=event, integers=True).lambda_)


def ours_simplex(noisy: Counts, total: int, event: DiscreteLaplace) -> Counts:
    """Projection on exact noise."""
    return simplex(noisy, total)


def _ordered(estimator: Callable[..., NDArray[np.int64]]) -> Estimator:
    """Take the arguments in the order of this module."""
    return lambda noisy, total, event: estimator(noisy, event, total)


OURS: Final[dict[str, Estimator]] = {
    "simplex": ours_simplex,
    "negative l2, lambda auto": ours_auto,
    **{name: _ordered(estimator) for name, estimator in ESTIMATORS},
}
