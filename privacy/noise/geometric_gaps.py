"""Which of many rare independent trials succeed, exactly, without looking at each: by the gaps between successes.

Let each of n ordered trials succeed with probability p, q = 1 - p. The number G of failures before the next success
is geometric, P(G = g) = p q^g, whatever came before. So the ranks of the successes are

    rank_1 = G_1,  rank_{k+1} = rank_k + 1 + G_{k+1},   until a rank reaches n,

and the work is that of the successes. A gap is drawn as in `geometric`, with q in the place of r: digit j is 1 with
probability q^(2^j) / (1 + q^(2^j)), and the quotient counts the heads of a coin with P(heads) = q^(2^J). That coin is
tossed first, and a gap of n or more ends everything; with 2^J >= n one head is such a gap. Hence, where p is so
small that nothing ever succeeds, no more of p is worked out than its leading zeros.

p is not rational here. It is given by rigorous bounds that close in on it (`Bracket`), and each coin compares with an
expansion that is worked out from them as far as is needed: no rounding takes part, and no floating-point number other
than the estimate of p that chooses J and how many gaps are drawn at once. Requirement: p is a rational function with
rational coefficients, not constant, of e^x for a rational x other than 0. Then so are q^n / (1 + q^n) and 1 - q^n;
such numbers are transcendental (Lindemann), so their expansions never end.

Source: Devroye 1986, "Non-uniform random variate generation", counts the successes of a binomial variable by such
waiting times; `discrete_laplace` for their digits.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from math import ceil, log1p, log2, sqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray

from privacy.noise.bernoulli import bernoulli
from privacy.noise.binary_expansion import BinaryExpansion, Bracket, _directed
from privacy.noise.geometric import CHUNK, TAIL_EXPONENT, binary_digits
from privacy.noise.limits import NoiseRefused, check_size
from privacy.noise.random_bytes import RandomBytes

MOST_TRIALS: Final = 2**63 - 1
_ESTIMATE_DIGITS: Final = 20


def successes(trials: int, *, probability: Bracket, source: RandomBytes) -> NDArray[np.int64]:
    """Draw the ranks of the trials that succeed, each independently with the same probability.

    Args:
        trials: n, from 0 to 2^63 - 1.
        probability: rigorous bounds on p, transcendental, 0 < p < 1; see the module's docstring.
        source: uniform bytes.
    Returns:
        int64: distinct ranks from 0 to n - 1 in ascending order.
    Raises:
        NoiseRefused: the number of trials is out of its limits; nothing was drawn.
    """
    if check_size("trials", trials) > MOST_TRIALS:
        raise NoiseRefused("trials", str(trials), f"at most {MOST_TRIALS}")
    coins, parts, first = _coins(probability, trials), [], 0
    while first < trials:
        # As many gaps as successes are expected, and four deviations more: the float decides how many are drawn at
        # once, never where a success lies.
        expected = (trials - first) * coins.estimate
        size = min(CHUNK, ceil(expected + 4 * sqrt(expected)) + 16)
        # uint64: each rank that is kept lies below n < 2^63, and one more gap of at most n does not wrap.
        ranks = np.cumsum(_gaps(size, trials, coins, source) + np.uint64(1), dtype=np.uint64)
        ranks += np.uint64(first)
        ranks -= np.uint64(1)
        # The first rank past the end closes the list; gaps drawn after it belong to no trial.
        beyond = np.flatnonzero(ranks >= trials)
        kept = ranks[: beyond[0]] if beyond.size else ranks
        parts.append(kept.view(np.int64))
        first = trials if beyond.size else int(kept[-1]) + 1
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


@dataclass(frozen=True)
class _Coins:
    """The coins of one gap, and p as a float, which decides how much is drawn at once and nothing else."""

    digits: tuple[BinaryExpansion, ...]
    quotient: BinaryExpansion
    estimate: float


@lru_cache(maxsize=16)
def _coins(probability: Bracket, trials: int) -> _Coins:
    """Choose J: heads of the quotient's coin are rare, or one of them leaves the trials."""
    estimate = min(float(probability(_ESTIMATE_DIGITS)[1]), 0.99)
    # q^(2^J) <= e^-6: J = log2(6 / hazard). Where all trials together are that rare, one head passes them all.
    hazard = -log1p(-estimate)
    count = trials.bit_length() if hazard * trials < TAIL_EXPONENT else max(0, ceil(log2(TAIL_EXPONENT / hazard)))
    digits = tuple(_failures_share(probability, digit) for digit in reversed(range(count)))
    return _Coins(digits, _some_success(probability, count), estimate)


def _gaps(size: int, trials: int, coins: _Coins, source: RandomBytes) -> NDArray[np.uint64]:
    """Draw gaps, cut down to n; nothing is drawn after a first gap that is n or more by its quotient alone."""
    step, gaps = np.uint64(1 << len(coins.digits)), np.zeros(size, np.uint64)
    running = np.flatnonzero(~bernoulli(size, probability=coins.quotient, source=source))
    while running.size:
        # A head is a run of 2^J failures. A gap that has passed n already need not be counted to its end.
        gaps[running] += step
        running = running[gaps[running] < trials]
        running = running[~bernoulli(running.size, probability=coins.quotient, source=source)]
    ends = np.flatnonzero(gaps >= trials)
    inside = int(ends[0]) if ends.size else size
    if inside:
        gaps[:inside] += binary_digits(inside, coins.digits, source)
    # The one gap past the end stays, cut down to n, as the sign that nothing follows it.
    return np.minimum(gaps[: inside + 1], np.uint64(trials), dtype=np.uint64)


def _failures_share(probability: Bracket, doublings: int) -> BinaryExpansion:
    """Expand q^n / (1 + q^n), n = 2^doublings: it grows with q^n, and each step is rounded in its direction."""

    def bounds(digits: int) -> tuple[Decimal, Decimal]:
        down, up = _directed(digits)
        least, most = _failures(probability, doublings, digits)
        return down.divide(least, up.add(1, least)), up.divide(most, down.add(1, most))

    return BinaryExpansion(bounds)


def _some_success(probability: Bracket, doublings: int) -> BinaryExpansion:
    """Expand 1 - q^n, n = 2^doublings, which is n p at most: that bound sees leading zeros where q^n rounds to 1."""

    def bounds(digits: int) -> tuple[Decimal, Decimal]:
        down, up = _directed(digits)
        least, most = _failures(probability, doublings, digits)
        expected = up.multiply(Decimal(1 << doublings), probability(digits)[1])
        return down.subtract(1, most), min(up.subtract(1, least), expected)

    return BinaryExpansion(bounds)


def _failures(probability: Bracket, doublings: int, digits: int) -> tuple[Decimal, Decimal]:
    """Bound q^n by squaring bounds on q; lost digits make the bounds wide, never wrong."""
    down, up = _directed(digits)
    rare, often = probability(digits)
    least, most = max(down.subtract(1, often), Decimal(0)), min(up.subtract(1, rare), Decimal(1))
    for _ in range(doublings):
        least, most = down.multiply(least, least), up.multiply(most, most)
    return least, most
