"""Exact discrete Gaussian noise: P(x) proportional to e^(-x^2 / (2 sigma^2)) on all integers.

Rejection from the discrete Laplace distribution. A proposal y with P(y) proportional to e^(-t |y|) is kept with
probability e^-loss, loss = (|y| - sigma^2 t)^2 / (2 sigma^2). Since

    t |y| + (|y| - sigma^2 t)^2 / (2 sigma^2) = y^2 / (2 sigma^2) + sigma^2 t^2 / 2

and the last term does not depend on y, what is kept has the discrete Gaussian distribution, for any t > 0.
With t = 1 / (floor(sigma) + 1), between 44 % and 76 % of the proposals are kept.

The decision "U < e^-loss" for a uniform U is exact, although nearly all of them are made in float64. U's first
32 bits w say that 2^32 U lies in [w, w + 1). Let E = 2^32 e^-loss and let F be the same computed in float64.

* Where loss <= 64, |F - E| <= 2^-42 E. With u = 2^-53: |y|, the centre c = sigma^2 t < sigma and 1 / (2 sigma^2)
  are each rounded once, so the computed gap d = |y| - c is wrong by at most 2 u (|d| + c) and terms in u^2. Twice
  |d| times that, over 2 sigma^2, is at most u (4 loss + 2 sqrt(2 loss)), since |d| = sigma sqrt(2 loss); the square,
  the product and the rounded 1 / (2 sigma^2) add 3 u loss. In all the loss is wrong by less than 500 u, and exp
  (which numpy computes to within a few u) leaves a wide margin to 2^-42 = 2048 u.
* Where loss > 64, E < 1/2, and F < 1/2 too, because the computed loss is above 60 by the same relative bound.

So E lies between F (1 - 2^-40) - 1 and F (1 + 2^-40) + 1, with room for the rounding of these two. If w is below
the lower one less 1, U is below; if w is at or above the upper one, U is not. Otherwise (fewer than one in 2^29
times) the exact expansion of e^-loss, with the rational loss, is compared with w and then with further random
bytes until they differ. The margin decides how often that happens, never how it ends.

Source: Canonne, Kamath and Steinke 2020, "The discrete Gaussian for differential privacy", algorithm 3, where 1 / t
is called t. What deviates: the coins are compared with expansions; the paper draws them by von Neumann's method.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import isqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray

from privacy.noise.bernoulli import below
from privacy.noise.binary_expansion import exp_minus
from privacy.noise.discrete_laplace import discrete_laplace
from privacy.noise.limits import check_fraction, check_size
from privacy.noise.random_bytes import RandomBytes

SMALLEST_SIGMA_SQUARED: Final = Fraction(1, 2**40)
LARGEST_SIGMA_SQUARED: Final = Fraction((2**50 - 1) ** 2)
_LIMIT_REASON: Final = "below it there is no noise, above it a draw might not fit into 64 bits"
_CHUNK: Final = 1 << 15
_MARGIN: Final = 2.0**-40
_WORD_RANGE: Final = 2.0**32


def discrete_gaussian(size: int, *, sigma_squared: Fraction, source: RandomBytes) -> NDArray[np.int64]:
    """Draw independent discrete Gaussian noise, exactly.

    Formula:  P(x) = exp(-x^2 / (2 sigma_squared)) / sum_k exp(-k^2 / (2 sigma_squared))

    Args:
        size: how many draws, >= 0.
        sigma_squared: the variance parameter, from 2^-40 to (2^50 - 1)^2 [unit^2]. The variance itself is a
            little smaller.
        source: uniform bytes.
    Returns:
        int64, shape (size,). Beyond the result, memory does not grow with the size.
    Raises:
        NoiseRefused: an argument is out of its limits; nothing was drawn.
        OverflowError: a proposal reached 2^62, which has a probability below e^-4000.
    Privacy: (l2_sensitivity^2 / (2 sigma_squared))-zCDP when added to integers. The time that it takes depends on
        the draws.
    Source: Canonne, Kamath and Steinke 2020, algorithm 3; see the module's docstring.
    """
    check_size("size", size)
    limits = SMALLEST_SIGMA_SQUARED, LARGEST_SIGMA_SQUARED
    target = _Target.of(check_fraction("sigma_squared", sigma_squared, *limits, _LIMIT_REASON))
    drawn = np.empty(size, np.int64)
    filled = 0
    while filled < size:
        # At least 44 % are kept: twice as many proposals nearly always do in one turn.
        count = min(_CHUNK, 2 * (size - filled) + 16)
        proposed = discrete_laplace(count, inverse_scale=target.inverse_scale, source=source)
        kept = np.compress(_keep(proposed, target, source), proposed)[: size - filled]
        drawn[filled : filled + kept.size] = kept
        filled += kept.size
    return drawn


@dataclass(frozen=True)
class _Target:
    """What a proposal is compared with: the exact numbers, and their nearest float64."""

    sigma_squared: Fraction
    inverse_scale: Fraction
    centre: float
    half_precision: float

    @classmethod
    def of(cls, sigma_squared: Fraction) -> _Target:
        """Derive the proposals' scale, floor(sigma) + 1, in whole numbers."""
        inverse_scale = Fraction(1, isqrt(sigma_squared.numerator // sigma_squared.denominator) + 1)
        centre, half_precision = sigma_squared * inverse_scale, 1 / (2 * sigma_squared)
        return cls(sigma_squared, inverse_scale, float(centre), float(half_precision))

    def loss(self, magnitude: int) -> Fraction:
        """Return the exponent of the probability of being kept, exact."""
        return (magnitude - self.sigma_squared * self.inverse_scale) ** 2 / (2 * self.sigma_squared)


def _keep(
    proposed: NDArray[np.int64], target: _Target, source: RandomBytes, *, margin: float = _MARGIN
) -> NDArray[np.bool_]:
    """Decide for each proposal whether it is kept; a wider margin only sends more of them the exact way."""
    words = source.take(4 * proposed.size).view("<u4")
    gap = np.abs(proposed) - target.centre
    with np.errstate(under="ignore"):
        chance = np.exp(gap * gap * -target.half_precision) * _WORD_RANGE
    # Below the lower bound U is below e^-loss for certain, at or above the upper one it is not (module docstring).
    keep: NDArray[np.bool_] = words < chance * (1 - margin) - 2
    # The two comparisons differ where the word lies between the bounds: these few are decided in exact numbers.
    undecided = np.flatnonzero(keep != (words < chance * (1 + margin) + 1))
    for index in undecided.tolist():
        keep[index] = _exactly(int(words[index]), abs(int(proposed[index])), target, source)
    return keep


def _exactly(word: int, magnitude: int, target: _Target, source: RandomBytes) -> bool:
    """Decide U < e^-loss from U's first 32 bits, the exact expansion and, on a tie, further bytes."""
    loss = target.loss(magnitude)
    if loss == 0:
        return True
    return below(word.to_bytes(4, "big"), probability=exp_minus(loss), source=source)
