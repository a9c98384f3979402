"""How large a weighted sum of many noises gets: one-sided quantiles of w1 S1 + w2 S2 + w3 S3 from the declared noise.

S1, S2 and S3 are sums of n1, n2 and n3 independent noises of one event. `noise_quantiles` is for few noises; this is
for many of few weights, as in the rank that a tree of counts gives.

    Laplace    The law of a sum of equal noises is a power of their characteristic function. The three sums, each
               rounded up to a lattice, are added by the product of their functions; a fast Fourier transform takes
               it back. Noises of a large scale are rounded up to multiples of g before, 1/128 of the scale. Weights
               are above 0, so what is rounded up can only raise a bound: by about 1 %.
    Gaussian   Small ones as Laplace. Large ones lie within 1 of normal ones (`noise_quantiles`), so a sum exceeds
               z sigma sqrt(sum n w^2) + sum n w at most as often as a normal variable exceeds z.

What is left out counts as exceeding: a sum of n Laplace noises leaves [-R, R] with probability at most
2 M(u)^n exp(-u R), M(u) = (1 - r)^2 / ((1 - r e^u)(1 - r e^-u)), r = exp(-inverse_scale), for every u in
(0, inverse_scale) (Chernoff); one of n Gaussian noises with at most 2 exp(-R^2 / (2 n sigma^2)), since they are
sub-Gaussian (Canonne, Kamath, Steinke 2020).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import ceil, exp, expm1, floor, log, log1p, sqrt
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from privacy.accounting.events import CountNoise, DiscreteGaussian, DiscreteLaplace
from privacy.arrays import Floats
from privacy.marginals.uncertainty import variance
from privacy.statistics.noise_quantiles import six_digits_up

Counts = tuple[int, int, int]

_FINENESS: Final = 128
"""Multiples in a scale, where it is large."""
_LATTICE: Final = 64
"""Lattice steps in the smallest deviation of a sum."""
_LONGEST: Final = 2**17
_LEFT_OUT: Final = 1e-7
"""Share of what may exceed a bound that is left out; it also covers what transforms round (below 1e-10)."""
_ROUNDING: Final = 2.0**-40


def weighted_bounds(
    event: CountNoise, numbers: Sequence[Counts], weights: tuple[float, float, float], exceeding: float
) -> Floats:
    """Return for each n a c with P(w1 S1 + w2 S2 + w3 S3 > c) <= exceeding, and the same with other signs.

    Args:
        event: the noise [units].
        numbers: how many noises of each weight, >= 0, and at least one.
        weights: all above 0.
        exceeding: in (0, 0.5).
    Returns:
        Floats: one bound for each, of six digits, rounded up [units of the weights].
    Raises:
        ValueError: a number, a weight or a probability out of range.
    Privacy: computed from the declared noise; reads no data.
    """
    if not 0 < exceeding < 0.5 or min(weights) <= 0 or any(min(each) < 0 or not sum(each) for each in numbers):
        raise ValueError(f"noises, weights {weights} above 0 and a probability, not {exceeding}, below 0.5")
    if isinstance(event, DiscreteGaussian) and float(event.sigma_squared) > _FINENESS**2:
        bounds = [_normal_bound(event, each, weights, exceeding) for each in numbers]
    else:
        bounds = _lattice_bounds(event, numbers, weights, exceeding)
    return np.array([six_digits_up(bound * (1 + _ROUNDING)) for bound in bounds])


def _normal_bound(
    event: DiscreteGaussian, number: Counts, weights: tuple[float, float, float], exceeding: float
) -> float:
    from scipy.special import ndtri  # here, so that a plan of tables does not load it

    squares = sum(n * w * w for n, w in zip(number, weights, strict=True))
    margin = sum(n * w for n, w in zip(number, weights, strict=True))
    return -float(ndtri(exceeding)) * sqrt(float(event.sigma_squared) * squares) + margin


def _lattice_bounds(
    event: CountNoise, numbers: Sequence[Counts], weights: tuple[float, float, float], exceeding: float
) -> list[float]:
    """Return the bounds of sums on one lattice, on which the longest of them has room."""
    unit = _unit(event)
    terms = {(n, place) for each in numbers for place, n in enumerate(each) if n}
    laws = {n: _sum_law(event, n, unit, exceeding) for n, _ in terms}
    reach = max(
        sum(w * unit * (laws[n].size // 2) for n, w in zip(each, weights, strict=True) if n) for each in numbers
    )
    least = min(sum(n * w * w for n, w in zip(each, weights, strict=True)) for each in numbers)
    # Of six digits, so that every machine rounds places up alike.
    step = six_digits_up(max(sqrt(least * variance(event)) / _LATTICE, 2 * reach / (_LONGEST - 16)))
    size = 1 << (2 * ceil(reach / step) + 8).bit_length()
    functions: dict[tuple[int, int], Any] = {
        (n, place): np.fft.rfft(_laid_out(laws[n], weights[place] * unit / step, size)) for n, place in terms
    }
    found = []
    for each in numbers:
        product = 1.0
        for place, n in enumerate(each):
            product = product * functions[n, place] if n else product
        law = np.fft.fftshift(np.maximum(np.fft.irfft(product, size), 0.0))
        # over[k] is P(sum > k steps), k counted from the middle
        over = np.append(np.cumsum(law[::-1])[::-1][1:], 0.0)[size // 2 :]
        # What is rounded up may be off by a last bit: a millionth of a step covers it.
        found.append(step * (int(np.argmax(over <= exceeding * (1 - _LEFT_OUT))) + 1e-6))
    return found


def _laid_out(law: Floats, steps: float, size: int) -> Floats:
    """Lay a law of whole numbers, times a number of lattice steps, out on the lattice, each place rounded up."""
    reach = law.size // 2
    places = np.ceil(steps * np.arange(-reach, reach + 1, dtype=np.float64)).astype(np.intp)
    return np.bincount(places % size, weights=law, minlength=size).astype(np.float64)


def _unit(event: CountNoise) -> int:
    """Return of what noises are rounded up to multiples: 1 where they are small."""
    return max(1, floor(1 / (float(event.inverse_scale) * _FINENESS))) if isinstance(event, DiscreteLaplace) else 1


@lru_cache(maxsize=512)
def _sum_law(event: CountNoise, number: int, unit: int, exceeding: float) -> Floats:
    """Return the law of a sum of so many noises, in multiples of the unit, each rounded up; on -R to R."""
    lost = exceeding * _LEFT_OUT / 16
    # Each is rounded up by less than one multiple.
    reach = ceil(_sum_reach(event, number, lost) / unit) + number
    single = min(reach, ceil(_sum_reach(event, 1, lost / number) / unit) + 1)
    size = 1 << (2 * reach + 1).bit_length()
    wrapped = np.zeros(size)
    places = np.arange(-single, single + 1)
    wrapped[places % size] = _masses(event, places, unit)
    law = np.fft.irfft(np.fft.rfft(wrapped) ** number, size)
    found: Floats = np.maximum(law[np.arange(-reach, reach + 1) % size], 0.0)
    found.flags.writeable = False
    return found


def _masses(event: CountNoise, places: NDArray[np.int64], unit: int) -> Floats:
    """Return P(unit (y - 1) < X <= unit y) for each y."""
    sizes = np.abs(places).astype(np.float64)
    masses: Floats
    if isinstance(event, DiscreteLaplace):
        scale = float(event.inverse_scale)
        # The likeliest is unit (y - 1) + 1 above 0, else it is unit y.
        nearest = np.where(places > 0, unit * (sizes - 1) + 1, unit * sizes)
        masses = np.exp(-scale * nearest) * (-expm1(-scale * unit) / (1 + exp(-scale)))
    else:
        weights = np.exp(-(sizes**2) / (2 * float(event.sigma_squared)))
        masses = weights / weights.sum()
    return masses


@lru_cache(maxsize=512)
def _sum_reach(event: CountNoise, number: int, lost: float) -> float:
    """Return an R that the size of a sum of so many noises exceeds with probability at most `lost`."""
    depth = log(2 / lost)
    if isinstance(event, DiscreteGaussian):
        return sqrt(2 * number * float(event.sigma_squared) * depth)
    scale = float(event.inverse_scale)
    base, bounds = 2 * log(-expm1(-scale)), []
    for part in range(1, 64):
        tilt = scale * part / 64
        moment = base - log(-expm1(tilt - scale)) - log1p(-exp(-scale - tilt))
        bounds.append((depth + number * moment) / tilt)
    return min(bounds)
