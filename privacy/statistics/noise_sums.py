"""How large a weighted sum of noises gets: quantiles of |w1 X1 + w2 X2 + w3 X3|, from the declared noise alone.

Where the noise is small, its law is enumerated: equal weights are convolved, different ones conditioned on. The table
leaves out a share 10^-9 of what may exceed the quantile, which is counted as exceeding it.

Where it is large, each noise X lies within 1 of a continuous one C, so |sum w X| <= |sum w C| + sum |w|:

    Laplace    X = floor(E1/t) - floor(E2/t) with E1, E2 exponential, and C = (E1 - E2) / t is Laplace of scale 1/t.
    Gaussian   Q(q/sigma) <= P(X >= q) <= Q((q - 1)/sigma) for whole q >= 1: the density falls on the positive
               numbers, so a sum over the integers lies between two integrals, and its weights add up to 1 + s, where
               0 <= s <= 3 exp(-2 pi^2 sigma^2) by Poisson's summation formula (sigma > 7 here: s < 10^-400). Put X
               and C normal at the same rank: X = q >= 1 means q - 1 <= C < q + 1, and X = 0 means |C| < 1.

The continuous laws, with scales b_i = |w_i| / t:

    normal     z sigma sqrt(sum w^2)
    Laplace    P(|sum| > q) = sum_i c_i exp(-q / b_i),  c_i = prod_{j != i} b_i^2 / (b_i^2 - b_j^2),
               the partial fractions of prod_i 1 / (1 + b_i^2 s^2). Equal scales are the limits, with z = q / b:
               two      exp(-z) (1 + z/2)
               three    exp(-z) (1 + 5z/8 + z^2/8)
               two and another a, rho = (a/b)^2:
                        (exp(-z) ((2 + z/2)(1 - rho) - 1) + rho^2 exp(-q/a)) / (1 - rho)^2

Scales within 0.1 % of a larger one are raised to it, and tiny ones to 10^-12 of the largest: symmetric laws with one
peak spread further as a scale grows (Birnbaum 1948, On random variables with comparable peakedness).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from decimal import ROUND_CEILING, Context, Decimal
from functools import lru_cache
from math import ceil, comb, exp, expm1, factorial, floor, isfinite, log, log1p, prod, sqrt
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from privacy.accounting.events import CountNoise, DiscreteGaussian, DiscreteLaplace
from privacy.arrays import Floats
from privacy.marginals.count_noise import variance

PIECES: Final = 64
"""Into how many pieces `contrast_quantiles` cuts [0, 1]; a power of two, so that their ends are exact."""

_LEFT_OUT: Final = 1e-9
MOST_WEIGHTS: Final = 3
"""What `quantile` takes."""
_MOST_TERMS: Final = 4
_APART: Final = 0.005
_MOST_EVEN: Final = 100
"""Beyond, powers of the tail's formula leave the range of doubles."""
_WIDEST: Final = {1: 2**11, 2: 2**11, 3: 181}
"""The widest table of one noise that is enumerated, by the number of different weights."""
_WIDEST_CONTRAST: Final = 2**8
_CLOSE: Final = 2.0**-10
_NEGLIGIBLE: Final = 2.0**-40
_EQUAL: Final = {1: (0.0, 0.0), 2: (0.5, 0.0), 3: (0.625, 0.125)}
"""The factors of z and z^2 in the tail of so many equal Laplace noises."""
_ROUNDING: Final = 2.0**-40
_STEPS: Final = 44
_LAST_BITS: Final = 1e-12
"""By what share of a quantile machines may differ; much less than 1e-6 of the probability hangs on it."""


def quantile(event: CountNoise, weights: Sequence[float], confidence: float) -> float:
    """Return a q with P(|sum_i w_i X_i| <= q) >= confidence for independent noises of one kind.

    Args:
        event: the noise of each X_i [units].
        weights: one to three numbers, of any size and sign.
        confidence: in (0, 1).
    Returns:
        float: the smallest such q, up to a relative 10^-8, where the noise is small; else at most sum |w_i| and 0.1 %
        larger than that of the continuous law; never smaller than the smallest [units of the weights].
    Raises:
        ValueError: confidence outside (0, 1), no weight, more than three, or one that is not finite.
    Privacy: computed from the declared noise; reads no data.
    """
    exceeding = _exceeding(confidence)
    if not 1 <= len(weights) <= MOST_WEIGHTS or not all(isfinite(weight) for weight in weights):
        raise ValueError(f"weights must be one to three finite numbers, not {list(weights)}")
    sizes = sorted((abs(float(weight)) for weight in weights if weight), reverse=True)
    if not sizes:
        return 0.0
    # Times of the largest: no square of a weight overflows.
    unit = sizes[0]
    shares = [size / unit for size in sizes]
    reach = _reach(event, exceeding)
    different = Counter(shares)
    if 2 * reach + 1 <= _WIDEST[len(different)]:
        return unit * _enumerated_quantile(_masses(event, reach), different, exceeding * (1 - 4 * _LEFT_OUT))
    return unit * (_continuous_quantile(event, shares, exceeding) + sum(shares)) * (1 + _ROUNDING)


def mixed_quantile(terms: Sequence[tuple[float, CountNoise]], confidence: float) -> float:
    """Return a q with P(|sum_i w_i X_i| <= q) >= confidence for independent noises of one family and several scales.

    Args:
        terms: at most four weights, each with the noise of its X_i: all discrete Laplace, or all discrete Gaussian.
        confidence: in (0, 1).
    Returns:
        float: the quantile of the continuous laws, and sum |w_i| beside it. Laplace scales within 0.5 % of each other
        are spread so far apart, upwards [units of the weights].
    Raises:
        ValueError: confidence outside (0, 1), no terms or more than four, or noises of two families.
    Privacy: computed from the declared noise; reads no data.
    """
    from scipy.special import ndtri  # here, so that a plan of tables does not load it

    exceeding = _exceeding(confidence)
    weighed = [(abs(weight), event) for weight, event in terms if weight]
    if not 1 <= len(weighed) <= _MOST_TERMS or len({type(event) for _, event in weighed}) > 1:
        raise ValueError(f"terms must be one to {_MOST_TERMS} noises of one family, with weights other than 0")
    margin = sum(weight for weight, _ in weighed)
    scales = [weight / float(event.inverse_scale) for weight, event in weighed if isinstance(event, DiscreteLaplace)]
    if not scales:
        squares = (w * w * float(event.sigma_squared) for w, event in weighed if isinstance(event, DiscreteGaussian))
        return (-float(ndtri(exceeding / 2)) * sqrt(sum(squares)) + margin) * (1 + _ROUNDING)
    # Raised first, so that the tail raises none of them onto another.
    least = max(scales) * 2 * _NEGLIGIBLE
    scales = sorted(max(scale, least) for scale in scales)
    for place in range(1, len(scales)):
        scales[place] = max(scales[place], scales[place - 1] * (1 + _APART))
    unit = scales[-1]
    over = _laplace_tail(sorted((scale / unit for scale in scales), reverse=True))
    return (unit * _bisected(over, exceeding, log(_MOST_TERMS / exceeding) * len(scales)) + margin) * (1 + _ROUNDING)


def even_quantile(terms: Sequence[tuple[float, CountNoise]], confidence: float) -> float:
    """Return a q with P(|sum_i w_i X_i| <= q) >= confidence for up to 100 noises that spread about alike.

    Formula: of n Laplace noises of scale b, z = q / b:  P(|sum| > q) = 2 exp(-z) sum_j c_j sum_{i < n - j} z^i / i!,
    c_j = C(n - 1 + j, j) / 2^(n + j). A sum of n is the difference of two gamma variables of shape n.

    Args:
        terms: weights, each with the noise of its X_i: all discrete Laplace, or all discrete Gaussian.
        confidence: in (0, 1).
    Returns:
        float: the quantile of the continuous laws, with every Laplace scale raised to the largest one, and sum |w_i|
        beside it [units of the weights].
    Raises:
        ValueError: confidence outside (0, 1), no terms or more than 100, or noises of two families.
    Privacy: computed from the declared noise; reads no data.
    """
    from scipy.special import ndtri  # here, so that a plan of tables does not load it

    exceeding = _exceeding(confidence)
    if not 1 <= len(terms) <= _MOST_EVEN or len({type(event) for _, event in terms}) > 1:
        raise ValueError(f"terms must be one to {_MOST_EVEN} noises of one family")
    margin, number = sum(abs(weight) for weight, _ in terms), len(terms)
    scales = [
        abs(weight) / float(event.inverse_scale) for weight, event in terms if isinstance(event, DiscreteLaplace)
    ]
    if not scales:
        squares = (w * w * float(event.sigma_squared) for w, event in terms if isinstance(event, DiscreteGaussian))
        return (-float(ndtri(exceeding / 2)) * sqrt(sum(squares)) + margin) * (1 + _ROUNDING)
    shares = [comb(number - 1 + j, j) / 2.0 ** (number + j) for j in range(number)]

    def over(z: float) -> float:
        powers = [z**i / factorial(i) for i in range(number)]
        return 2 * exp(-z) * sum(share * sum(powers[: number - j]) for j, share in enumerate(shares))

    return (max(scales) * _bisected(over, exceeding, log(number / exceeding) * number) + margin) * (1 + _ROUNDING)


def _bisected(over: Callable[[float], float], exceeding: float, high: float) -> float:
    """Return the upper end of where a falling tail reaches a probability, between 0 and `high`."""
    low = 0.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if over(middle) <= exceeding else (middle, high)
    return high


@lru_cache(maxsize=64)
def contrast_quantiles(event: CountNoise, confidence: float) -> Floats:
    """Return bounds on |(1 - q) X - q Y| for all shares q, X and Y independent noises of one kind.

    Piece j holds the q from j / 64 to (j + 1) / 64. For every single q in it P(|(1 - q) X - q Y| <= bound) >=
    confidence. Enumerated, the bound is the quantile of the larger of the sizes at the piece's ends: between them
    the contrast is linear in q. Continuous, it is 1 plus the quantile at weights 1 - j / 64 and (j + 1) / 64, the
    largest of the piece.

    Args:
        event: the noise of X and of Y [units].
        confidence: in (0, 1).
    Returns:
        Floats: one bound per piece, shape (64,), read-only [units].
    Raises:
        ValueError: confidence outside (0, 1).
    Privacy: computed from the declared noise; reads no data.
    """
    exceeding = _exceeding(confidence)
    reach = _reach(event, exceeding)
    bounds = np.empty(PIECES)
    contrast: Callable[[float, float], float]
    if 2 * reach + 1 <= _WIDEST_CONTRAST:
        contrast = _enumerated_contrast(_masses(event, reach), exceeding * (1 - 4 * _LEFT_OUT))
    else:

        def contrast(start: float, end: float) -> float:
            return (_continuous_quantile(event, [1 - start, end], exceeding) + 1) * (1 + _ROUNDING)

    for piece in range(PIECES // 2):
        # q and 1 - q swap the two noises.
        bounds[piece] = bounds[PIECES - 1 - piece] = contrast(piece / PIECES, (piece + 1) / PIECES)
    bounds.flags.writeable = False
    return bounds


def six_digits_up(value: float) -> float:
    """Round a quantile up to six digits, so that libraries that differ in a last bit give the same number."""
    up = Context(prec=6, rounding=ROUND_CEILING).create_decimal(Decimal(value * (1 - _LAST_BITS)))
    return float(up)


def _exceeding(confidence: float) -> float:
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie in (0, 1), not {confidence}")
    return 1.0 - confidence


def _reach(event: CountNoise, exceeding: float) -> int:
    """Return a size that one noise exceeds with probability at most 10^-9 exceeding."""
    depth = -log(_LEFT_OUT * exceeding)
    if isinstance(event, DiscreteLaplace):
        return ceil(depth / float(event.inverse_scale))
    # P(|X| > R) <= 2 Q(R / sigma) <= exp(-R^2 / (2 sigma^2))
    return ceil(sqrt(2 * depth * float(event.sigma_squared)))


def _masses(event: CountNoise, reach: int) -> Floats:
    """Return the probabilities of -reach to reach, which add up to one."""
    sizes = np.abs(np.arange(-reach, reach + 1, dtype=np.float64))
    if isinstance(event, DiscreteLaplace):
        weights = np.exp(-float(event.inverse_scale) * sizes)
    else:
        weights = np.exp(-(sizes**2) / (2 * float(event.sigma_squared)))
    masses: Floats = weights / weights.sum()
    return masses


def _tails(masses: Floats) -> Floats:
    """Return the sums of the masses from each place on, and a zero; summed from the far end, where they are small."""
    return np.append(np.cumsum(masses[::-1])[::-1], 0.0)


def _enumerated_quantile(masses: Floats, different: Counter[float], exceeding: float) -> float:
    tables = [_multiple(masses, share, times) for share, times in different.items()]
    (places, chances), others = tables[0], tables[1:]
    if not others:
        zero = places.size // 2
        # tails[zero + k + 1] is P(sum > k)
        over = 2 * _tails(chances)[zero + 1 :]
        return float(places[zero + int(np.argmax(over <= exceeding))])
    if len(others) == 1:
        ((inner, inner_chances),) = others
    else:
        (first, first_chances), (second, second_chances) = others
        inner = np.add.outer(first, second).ravel()
        order = np.argsort(inner)
        inner, inner_chances = inner[order], np.multiply.outer(first_chances, second_chances).ravel()[order]
    tails = _tails(inner_chances)
    low, high = 0.0, float(places[-1] + inner[-1])
    # Sums of floats that are equal as numbers may differ by this.
    rounding = 2.0**-49 * high
    for _ in range(_STEPS):
        middle = (low + high) / 2
        exceeds = 2 * float(chances @ tails[np.searchsorted(inner, middle - places, side="right")])
        low, high = (low, middle) if exceeds <= exceeding else (middle, high)
    return high + rounding


def _multiple(masses: Floats, share: float, times: int) -> tuple[Floats, Floats]:
    """Return the places and masses of the sum of so many noises of one weight."""
    chances = masses
    for _ in range(times - 1):
        chances = np.convolve(chances, masses)
    reach = chances.size // 2
    return share * np.arange(-reach, reach + 1, dtype=np.float64), chances


def _enumerated_contrast(masses: Floats, exceeding: float) -> Callable[[float, float], float]:
    """Return the function of a piece's ends that bounds the contrast in it."""
    reach = masses.size // 2
    second = np.arange(-reach, reach + 1, dtype=np.float64)
    # (X, Y) and (-X, -Y) have the same size: X > 0 twice.
    first = second[reach:, None]
    chances = (masses[reach:, None] * np.where(first > 0, 2.0, 1.0) * masses).ravel()

    def contrast(start: float, end: float) -> float:
        sizes = np.maximum(
            np.abs((1 - start) * first - start * second), np.abs((1 - end) * first - end * second)
        ).ravel()
        order = np.argsort(sizes)
        over = _tails(chances[order])[1:]
        return float(sizes[order][int(np.argmax(over <= exceeding))])

    return contrast


def _continuous_quantile(event: CountNoise, sizes: Sequence[float], exceeding: float) -> float:
    """Return the quantile of |sum w C|, C the continuous law next to the event's."""
    from scipy.special import ndtri  # here, so that a plan of tables does not load it

    if not isinstance(event, DiscreteLaplace):
        return -float(ndtri(exceeding / 2)) * sqrt(float(event.sigma_squared) * sum(size * size for size in sizes))
    over = _laplace_tail(sorted((size for size in sizes if size), reverse=True))
    # A union bound starts the search: each exceeds its own quantile at a third.
    return _bisected(over, exceeding, log(MOST_WEIGHTS / exceeding) * sum(sizes)) / float(event.inverse_scale)


def _laplace_tail(scales: list[float]) -> Callable[[float], float]:
    """Return q -> P(|sum of Laplace noises| > q), never too small; scales falling, the first one largest."""
    for place in range(1, len(scales)):
        scales[place] = max(scales[place], scales[0] * _NEGLIGIBLE)
        if scales[place] >= scales[place - 1] * (1 - _CLOSE):
            scales[place] = scales[place - 1]
    different = Counter(scales)
    if len(different) == 1:
        linear, square = _EQUAL[len(scales)]
        return lambda q: exp(-q / scales[0]) * (1 + q / scales[0] * (linear + square * q / scales[0]))
    if len(different) < len(scales):
        twice, once = sorted(different, key=lambda scale: -different[scale])
        return lambda q: _two_and_another(q, twice, once)
    factors = [prod(1 / (1 - (other / scale) ** 2) for other in scales if other != scale) for scale in scales]
    # Close scales cancel: each term is off by less than this share of itself.
    upward = [factor + abs(factor) * _ROUNDING for factor in factors]
    return lambda q: sum(factor * exp(-q / scale) for factor, scale in zip(upward, scales, strict=True))


def _two_and_another(q: float, twice: float, once: float) -> float:
    ratio = (once / twice) ** 2
    terms = (exp(-q / twice) * (2 + q / twice / 2) * (1 - ratio), -exp(-q / twice), ratio * ratio * exp(-q / once))
    return (sum(terms) + _ROUNDING * sum(abs(term) for term in terms)) / (1 - ratio) ** 2


# --- How large a weighted sum of many noises gets.


Counts = tuple[int, int, int]

_FINENESS: Final = 128
"""Multiples in a scale, where it is large."""
_LATTICE: Final = 64
"""Lattice steps in the smallest deviation of a sum."""
_LONGEST: Final = 2**17
_EXCESS_LEFT_OUT: Final = 1e-7
"""Share of what may exceed a bound that is left out; it also covers what transforms round (below 1e-10)."""


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
        found.append(step * (int(np.argmax(over <= exceeding * (1 - _EXCESS_LEFT_OUT))) + 1e-6))
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
    lost = exceeding * _EXCESS_LEFT_OUT / 16
    # Each is rounded up by less than one multiple.
    reach = ceil(_sum_reach(event, number, lost) / unit) + number
    single = min(reach, ceil(_sum_reach(event, 1, lost / number) / unit) + 1)
    size = 1 << (2 * reach + 1).bit_length()
    wrapped = np.zeros(size)
    places = np.arange(-single, single + 1)
    wrapped[places % size] = _interval_masses(event, places, unit)
    law = np.fft.irfft(np.fft.rfft(wrapped) ** number, size)
    found: Floats = np.maximum(law[np.arange(-reach, reach + 1) % size], 0.0)
    found.flags.writeable = False
    return found


def _interval_masses(event: CountNoise, places: NDArray[np.int64], unit: int) -> Floats:
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
