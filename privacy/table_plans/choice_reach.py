"""How many deviations a 95 % interval reaches when the noise that is in the estimate also chose the level.

An estimate at a level is off by s (r U + R). U is the noise of the total in its deviations, which chose the level. R
is what the noise of the counts adds, independent of U. The level follows from U alone, so that the chance of a miss
is at most E max over the levels of P(|r U + R| > z given U). `uniform_reach` finds the z at which this is 5 %.

Gaussian noise: R is normal. Laplace noise: R is a sum of Laplace noises of different scales. Its law is computed on a
lattice, where the transform of each has a closed form, so that their product is that of the sum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Final

import numpy as np

from privacy.arrays import Floats
from privacy.table_plans.split import NoiseKind

LEAST: Final[dict[NoiseKind, float]] = {"gaussian": 2.0, "laplace": 5**0.5}
"""No interval reaches less. Of Laplace noise: P(|X| >= 1) <= E X^2 for whole noise X, so that an interval which
leaves out a noise of 1, with half a row added, misses in at most 5 % whatever the scale is."""
_NODES: Final = 4096
_STEPS: Final = 40
_GRID: Final = 1024
_LONGEST: Final = 6.0
"""Deviations; longer than any reach at 95 %: two levels can at most add up their misses."""
_CELL: Final = 1 / 256
_POINTS: Final = 1 << 14
"""Of the lattice: plus or minus 32 deviations, beyond which lies less than 1e-19 of a Laplace noise."""


@dataclass(frozen=True)
class LevelError:
    """What an estimate at a level is off by, in its deviations; all squares together are 1.

    Args:
        part: r, the weight of the noise of the total.
        rest: weights of the noise of counts, and how many counts have each.
    """

    part: float
    rest: tuple[tuple[float, int], ...]


@lru_cache(maxsize=64)
def uniform_reach(errors: tuple[LevelError, ...], confidence: float, noise: NoiseKind) -> float:
    """Return a z with E max over the levels of P(|r U + R| > z given U) at most 1 - confidence.

    Args:
        errors: of each level.
        confidence: in (0, 1).
        noise: its kind.
    Returns:
        float: in deviations, rounded up to 1/1,024.
    Privacy: computed from the declared noise; reads no data.
    """
    nodes = _quantiles((np.arange(_NODES) + 0.5) / _NODES, noise)
    levels = [(error.part * nodes, survival(error, noise)) for error in errors]
    low, high = 0.0, _LONGEST
    for _ in range(_STEPS):
        z, most = (low + high) / 2, np.zeros(_NODES)
        for moved, above in levels:
            most = np.maximum(most, above(z + moved) + above(z - moved))
        low, high = (z, high) if most.mean() > 1 - confidence else (low, z)
    return float(np.ceil(high * _GRID) / _GRID)


def _quantiles(shares: Floats, noise: NoiseKind) -> Floats:
    """Return quantiles of noise of variance 1."""
    if noise == "gaussian":
        from scipy.special import ndtri  # here, so that a plan does not load it

        return np.asarray(ndtri(shares))
    return np.asarray(-np.sign(shares - 0.5) * np.log1p(-2 * np.abs(shares - 0.5)) / 2**0.5)


def survival(error: LevelError, noise: NoiseKind) -> Callable[[Floats], Floats]:
    """Return x -> P(R > x), of what the noise of counts adds [deviations]."""
    if noise == "laplace":
        return partial(_above, _lattice_tails(error.rest))
    from scipy.special import ndtr  # as above

    deviation = max(1 - error.part**2, 1e-12) ** 0.5
    return lambda x: np.asarray(ndtr(-x / deviation))


def _above(tails: Floats, x: Floats) -> Floats:
    return np.interp(x, (np.arange(_POINTS) - _POINTS // 2) * _CELL, tails)


def _lattice_tails(rest: tuple[tuple[float, int], ...]) -> Floats:
    """Return P(R > x) at the points of the lattice, R a sum of Laplace noises.

    The transform of the law p_k ~ r^|k| is (1 - r)^2 / (1 - 2 r cos t + r^2). r gives it the variance of the weight:
    2 r / (1 - r)^2 = q in cells of the lattice, so r = q / (1 + q + sqrt(1 + 2 q)).
    """
    angles = 2 * np.pi * np.arange(_POINTS // 2 + 1) / _POINTS
    logarithm = np.zeros(angles.size)
    for weight, number in rest:
        q = (weight / _CELL) ** 2
        r = q / (1 + q + (1 + 2 * q) ** 0.5)
        logarithm += number * (2 * np.log1p(-r) - np.log(1 - 2 * r * np.cos(angles) + r * r))
    masses = np.fft.fftshift(np.maximum(np.fft.irfft(np.exp(logarithm), _POINTS), 0))
    # Half of a point's mass lies above it: the law is spread over its cell.
    return np.asarray(1 - np.cumsum(masses) + masses / 2)
