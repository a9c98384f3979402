"""The exponential mechanism over many candidates of few utilities, exactly: runs of candidates with whole weights.

    P(run) proportional to weight * e^-g,    g = rate * distance,    both exact

A run is proposed with probability proportional to weight * 2^-k, and kept with probability e^-g 2^k, else proposed
anew: what is kept has the probabilities above, for whatever whole k with 2^-k >= e^-g. So k may come of
floating-point numbers: it is floor(10 g / 7) from a g of 52 bits, at most `_DEEPEST`; 10/7 is 1 % below 1 / ln 2,
far more than g can be off. The weights times 2^(`_DEEPEST` - k) are whole numbers, a proposal is a uniform one below
their sum, and a coin of e^-g 2^k is exact, so that no rounding takes part in what comes out.

About every second proposal is kept: a proposal of gap g is kept with probability above e^(-0.01 g) / 2 up to the
deepest k, and those beyond are not proposed in the lifetime of a machine.
"""

from __future__ import annotations

from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from privacy.noise.bernoulli import bernoulli
from privacy.noise.binary_expansion import BinaryExpansion, exp_minus
from privacy.noise.limits import NoiseRefused
from privacy.noise.random_bytes import RandomBytes

_DEEPEST: Final = 256
_LARGEST: Final = 2**62
_BIT: Final = 8


def weighted_choice(
    distances: NDArray[np.int64], weights: NDArray[np.int64], *, rate: Fraction, source: RandomBytes
) -> tuple[int, int]:
    """Choose a run of candidates, and one of them.

    Args:
        distances: of each run, >= 0, int64, shape (runs,) [some unit].
        weights: of all candidates of a run together, >= 0 and below 2^62 in all, int64, same shape; one is above 0.
        rate: > 0 [1 / unit].
        source: uniform bytes.
    Returns:
        tuple: place of the chosen run, and a uniform whole number below its weight.
    Raises:
        NoiseRefused: an argument out of range; nothing was drawn.
    Privacy: with distances of which no two move by more than r against each other, (rate r)-DP, of (rate r)-bounded
        range. The time that it takes depends on the distances, which are private: docs/derivations.md, section 13.
    Source: McSherry, Talwar 2007, with a base measure; bounded range: Dong, Durfee, Rogers 2020.
    """
    total = int(weights.astype(np.float64).sum()) if weights.size else 0
    for name, value, sound in (
        ("rate", str(rate), rate > 0),
        ("weights", str(total), 0 < total < _LARGEST and int(weights.min()) >= 0),
        ("distances", str(distances.shape), distances.shape == weights.shape and int(distances.min()) >= 0),
    ):
        if not sound:
            raise NoiseRefused(name, value, "in range")
    # The nearest run that weighs anything has no gap: its coin always shows heads.
    gaps = distances - int(distances[weights > 0].min())
    depths = np.minimum(np.floor(gaps * (float(rate) * 10 / 7)), _DEEPEST).astype(np.int64)
    depths[gaps <= 0] = 0
    added = np.zeros(_DEEPEST + 1, dtype=np.int64)
    np.add.at(added, depths, weights)
    proposals = [int(weight) << (_DEEPEST - depth) for depth, weight in enumerate(added)]
    while True:
        drawn = _uniform(sum(proposals), source)
        depth = 0
        while drawn >= proposals[depth]:
            drawn -= proposals[depth]
            depth += 1
        at = np.flatnonzero(depths == depth)
        inside = np.cumsum(weights[at])
        drawn >>= _DEEPEST - depth
        step = int(np.searchsorted(inside, drawn, side="right"))
        place, gap = int(at[step]), int(gaps[at[step]])
        if gap <= 0 or bernoulli(1, probability=_shifted(rate * gap, depth), source=source)[0]:
            return place, drawn - (int(inside[step - 1]) if step else 0)


def _uniform(size: int, source: RandomBytes) -> int:
    """Draw a uniform whole number below `size`: whole bytes, those beyond the last full multiple thrown away."""
    width = max(1, ((size - 1).bit_length() + _BIT - 1) // _BIT)
    most = 256**width - 256**width % size
    while True:
        drawn = int.from_bytes(source.take(width).tobytes(), "big")
        if drawn < most:
            return drawn % size


def _shifted(exponent: Fraction, depth: int) -> BinaryExpansion:
    """Expand e^-x 2^k, which is below 1: transcendental as e^-x is."""
    plain = exp_minus(exponent)
    if depth == 0:
        return plain

    def bounds(digits: int) -> tuple[Decimal, Decimal]:
        more = digits + depth
        lower, upper = plain._bounds(more)
        down, up = (Context(more, rounding, MIN_EMIN, MAX_EMAX) for rounding in (ROUND_FLOOR, ROUND_CEILING))
        return down.multiply(lower, 1 << depth), up.multiply(upper, 1 << depth)

    return BinaryExpansion(bounds, zeros=max(0, plain._zeros - depth // _BIT - 1))
