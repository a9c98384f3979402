"""One interval from the same analysis of several copies of synthetic rows.

Where q_0 is the analysis of the rows, q_1 ... q_m that of the copies, u_i its own variance as if the rows were a
sample, and q̄, ū, B mean, mean variance and variance of the copies:

    estimate        2 q_0 - q̄                              fitting does to a copy what it has done to q_0 before
    table           T = (1 + 1/m) B + 3 ū + (q_0 - q̄)²     against the analysis of the table that is protected
    population      T + ū · rows of a copy / rows          against that of the population that its rows come from

3 ū is what the sampling of the rows adds, 0 where q comes of models. The square stands for what the correction may
miss: the bias of a model that is fitted to a smooth model is less than that of the first. Intervals are of Student's
t with m - 1 degrees of freedom (docs/derivations.md, "Copies").

Rubin's rules (q̄ and ū + (1 + 1/m) B) are for draws from a posterior: the copies here lie around the first model, and
their mean has its bias twice.

Source: Efron and Tibshirani 1993, chapter 10, for the correction; Raghunathan, Reiter, Rubin 2003 for (1 + 1/m) B.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Final

import numpy as np
from scipy.special import stdtrit

from contracts.errors import Finding, Refused

TABLE: Final = "table"
POPULATION: Final = "population"


@dataclass(frozen=True)
class Combined:
    """The result of an analysis of all copies, with its interval.

    Args:
        estimate: the result, corrected for what fitting does to it.
        standard_error: against the target.
        degrees_of_freedom: of Student's t, by which the interval is made.
        lower, upper: its ends.
    """

    estimate: float
    standard_error: float
    degrees_of_freedom: int
    lower: float
    upper: float


def combined(
    first: float,
    copies: Sequence[float],
    within: Sequence[float] | None,
    *,
    target: str,
    level: float,
    rows_ratio: float,
) -> Combined:
    """Combine the results of one analysis.

    Args:
        first: of the rows.
        copies: of each copy, at least two.
        within: variances of these results, each as if the rows of its copy were a sample; None where results are no
            functions of sampled rows, but of models.
        target: `table` or `population`.
        level: of the interval, in (0, 1).
        rows_ratio: rows of a copy over rows of the table.
    Raises:
        Refused: another target or level, no variances for a population, or results that are not finite.
    Privacy: post-processing.
    """
    sampled = 0.0 if within is None else float(np.mean(within))
    _check(np.array([first, *copies, sampled]), within, target=target, level=level)
    number, between = len(copies), float(np.var(copies, ddof=1))
    # The rows' own sampling is in B once, and twice, so four times its variance, in 2 q_0.
    shift = float(np.mean(copies)) - first
    total = (1 + 1 / number) * between + 3 * sampled + shift**2
    if target == POPULATION:
        total += sampled * rows_ratio
    estimate, error = first - shift, sqrt(total)
    width = float(stdtrit(number - 1, 0.5 + level / 2)) * error
    return Combined(estimate, error, number - 1, estimate - width, estimate + width)


def check_terms(target: str, level: float) -> None:
    """Refuse a target that there is not, and a level that is no probability.

    Raises:
        Refused: one of the two.
    """
    if target not in (TABLE, POPULATION):
        raise Refused([Finding("the call", "target", repr(target), f"{TABLE} or {POPULATION}")])
    if not 0 < level < 1:
        raise Refused([Finding("the call", "level", f"{level}", "a number above 0 and below 1, such as 0.95")])


def _check(numbers: np.ndarray, within: Sequence[float] | None, *, target: str, level: float) -> None:
    check_terms(target, level)
    if not np.isfinite(numbers).all() or (within is not None and min(within) < 0):
        remedy = "return numbers that every copy has, and variances that are not negative"
        raise Refused([Finding("the call", "analysis", "a result that is no finite number", "numbers", remedy)])
    if target == POPULATION and within is None:
        remedy = "return (estimate, variance) from the analysis"
        raise Refused([Finding("the call", "target", "population, without variances", "both", remedy)])
