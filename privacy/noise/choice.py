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

from collections.abc import Sequence
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import cache, lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from privacy.accounting.key_law import KeyCountLaw, keep_chances
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


# --- The exponential mechanism, exactly.


def exponential_mechanism(
    scores: Sequence[Fraction], *, epsilon: Fraction, sensitivity: Fraction, source: RandomBytes
) -> int:
    """Choose a candidate.

    Args:
        scores: one a candidate, exact; at least one.
        epsilon: > 0 [dimensionless].
        sensitivity: the most that one privacy unit changes any score, > 0 [units of the scores].
        source: uniform bytes.
    Returns:
        int: place of the chosen candidate.
    Raises:
        NoiseRefused: no scores, or an argument that is not positive; nothing was drawn.
    Privacy: epsilon-DP, of epsilon-bounded range. The time that it takes depends on the scores, which are private:
        docs/derivations.md, section 13.
    Source: McSherry, Talwar 2007; bounded range: Dong, Durfee, Rogers 2020.
    """
    for name, value in (("epsilon", epsilon), ("sensitivity", sensitivity), ("candidates", len(scores))):
        if value <= 0:
            raise NoiseRefused(name, str(value), "above 0")
    best = max(scores)

    @cache
    def coin(place: int) -> BinaryExpansion:
        return exp_minus(epsilon * (best - scores[place]) / (2 * sensitivity))

    while True:
        place = _uniform_index(len(scores), source)
        # The best candidate's gap is 0: its coin always shows heads, and e^0 = 1 has no expansion to compare with.
        if scores[place] == best or bernoulli(1, probability=coin(place), source=source)[0]:
            return place


def _uniform_index(size: int, source: RandomBytes) -> int:
    """Draw a uniform place below `size`: whole bytes, those beyond the last full multiple thrown away."""
    width = max(1, ((size - 1).bit_length() + 7) // 8)
    # Only whole multiples of `size` count, or the places at the front would be likelier.
    most = 256**width - 256**width % size
    while True:
        drawn = int.from_bytes(source.take(width).tobytes(), "big")
        if drawn < most:
            return drawn % size


# --- Noisy counts of keys, published from a threshold on, drawn exactly.


_WORD: Final = 2**64


def noisy_key_counts(
    rows: NDArray[np.int64], *, law: KeyCountLaw, source: RandomBytes
) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Draw the noisy count of every key, and whether it is published.

    Args:
        rows: how many rows have each key, >= 0, shape (keys,) [rows].
        law: of their noise.
        source: uniform bytes; 16 a key are taken.
    Returns:
        Whether each key is published, and its noisy count, which means nothing where it is not; shape (keys,).
    Raises:
        NoiseRefused: a negative number; nothing was drawn.
    Privacy: that of the law, for each key of which one row comes or goes.
    """
    if rows.size and rows.min() < 0:
        raise NoiseRefused("rows", "a negative number", "0 or more of each key")
    high, low = _words(law)
    drawn = source.take(16 * rows.size).view(">u8").reshape(-1, 2)
    first, second = drawn[:, 0].astype(np.uint64), drawn[:, 1].astype(np.uint64)
    # The first place whose chance lies above the number; of equal first words the second ones decide.
    place = np.searchsorted(high, first, side="left")
    while (tied := (place < high.size) & (high[at := np.minimum(place, high.size - 1)] == first)).any():
        passed = tied & (low[at] <= second)
        if not passed.any():
            break
        place += passed
    index = place + 1
    return index <= rows, rows - index + law.least


@lru_cache(maxsize=16)
def _words(law: KeyCountLaw) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Split each chance below 1 into two words of 64 bits; beyond the last of them nothing is compared."""
    split = [divmod(chance, _WORD) for chance in law.chances[:-1]]
    high, low = ([pair[part] for pair in split] for part in (0, 1))
    return np.array(high, dtype=np.uint64), np.array(low, dtype=np.uint64)


# --- The coins of a selection of keys.


def selected(
    units: NDArray[np.int64], *, epsilon: Fraction, delta: Fraction, source: RandomBytes
) -> NDArray[np.bool_]:
    """Toss the coin of every key.

    Args:
        units: how many units have each key, >= 0, shape (keys,) [units].
        epsilon: e, of one key's coin [dimensionless].
        delta: d, of one key's coin [probability].
        source: uniform bytes; 16 a key are taken.
    Returns:
        bool, shape (keys,): whether it is published.
    Raises:
        AmountRefused: as `keep_chances`; nothing was drawn.
        NoiseRefused: a negative number; nothing was drawn.
    Privacy: (e, d)-DP for each key whose number of units changes by one.
    """
    if units.size and units.min() < 0:
        raise NoiseRefused("units", "a negative number", "0 or more of each key")
    chances = keep_chances(epsilon, delta)
    high, low = _coin_words(chances)
    sure = len(chances) - 1
    place = np.minimum(units, sure)
    drawn = source.take(16 * units.size).view(">u8").reshape(-1, 2)
    first, second = drawn[:, 0].astype(np.uint64), drawn[:, 1].astype(np.uint64)
    below = (first < high[place]) | ((first == high[place]) & (second < low[place]))
    kept: NDArray[np.bool_] = below | (place == sure)
    return kept


def _coin_words(chances: tuple[int, ...]) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Split each chance below 1 into two words of 64 bits; of the last, which is 1, none is looked at."""
    split = [divmod(chance, _WORD) for chance in chances[:-1]] + [(0, 0)]
    high, low = zip(*split, strict=True)
    return np.array(high, dtype=np.uint64), np.array(low, dtype=np.uint64)
