"""Effective sample sizes per cell, from the sums of weights and of their squares: post-processing of one draw.

Kish's effective size of n rows with weights w is (sum w)^2 / sum w^2: n where all weights are alike, less where they
differ. The draw adds the weight up as a column that is weighted by itself. With M the largest weight, in steps, a
cell has

    a = sum w w      b = sum w (M - w)      (a + b) / M = sum w      size = (a + b)^2 / (M^2 a)

An interval is the range of the size over all (a, b) that the two noises allow: each within its quantile at half the
misses, so both in as many releases as stated. The size rises with b. In a it falls up to a = b, and rises from there.
What is known of true numbers cuts the range: neither is below 0, and a weight of w whole steps has w <= w^2, so
sum w <= a, or b <= (M - 1) a.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from privacy.accounting.events import CountNoise
from privacy.arrays import Floats
from privacy.statistics.estimates import Estimates
from privacy.statistics.noise_quantiles import quantile, six_digits_up

_ROUNDING: Final = 2.0**-44


def estimate_effective_sizes(
    squares: NDArray[np.int64], rest: NDArray[np.int64], *, width: int, event: CountNoise, confidence: float
) -> Estimates:
    """Estimate the effective sample size of each cell.

    Args:
        squares, rest: the noisy a and b, one shape, int64 [squared steps of the weight].
        width: M, >= 1 [steps of the weight].
        event: the noise of each [squared steps].
        confidence: how often an interval covers the true size, in (0, 1).
    Returns:
        Estimates: values from 0 on, not unbiased, and intervals that hold them [rows].
    Raises:
        ValueError: arrays that are not int64 of one shape, width below 1, confidence outside (0, 1).
    Privacy: post-processing.
    Source: Kish 1965, Survey Sampling, section 8.2 (the size); the interval is a Bonferroni box of two noises.
    """
    if squares.dtype != np.int64 or rest.dtype != np.int64 or squares.shape != rest.shape or width < 1:
        raise ValueError(f"sums must be int64 of one shape, and width at least 1, not {width}")
    a, b = (np.maximum(each.astype(np.float64), 0.0) for each in (squares, rest))
    half = (1 + confidence) / 2
    margin = six_digits_up(quantile(event, [1.0], half)) * (1 + _ROUNDING) + _ROUNDING * (a + b)
    least_a, most_a = np.maximum(a - margin, 0.0), a + margin
    least_b, most_b = np.maximum(b - margin, 0.0), b + margin
    # The size is largest at the most of b that goes with an a: at the largest a, or where b is bounded by a.
    bounded = np.clip(most_b / max(width - 1, 1), least_a, most_a)
    upper = np.maximum(*(_size(each, np.minimum(most_b, (width - 1) * each), width) for each in (bounded, most_a)))
    lower = _size(np.clip(least_b, least_a, most_a), least_b, width)
    upper = np.maximum(lower, upper)  # where no pair within the noise is possible
    possible = np.maximum(a, (a + b) / width)
    values = np.clip((a + b) ** 2 / np.where(possible > 0, possible, 1.0) / width**2, lower, upper)
    return Estimates(values, lower * (1 - _ROUNDING), upper * (1 + _ROUNDING))


def _size(squares: Floats, rest: Floats, width: int) -> Floats:
    """Return (a + b)^2 / (M^2 a), and 0 where a is 0."""
    whole = (squares + rest) / width
    return np.where(squares > 0, whole * (whole / np.where(squares > 0, squares, 1.0)), 0.0)
