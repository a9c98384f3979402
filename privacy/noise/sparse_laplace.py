"""Discrete Laplace noise on a table too large to write down: the cells whose noisy value is tau or more.

The table has N cells, of which a few are populated. The dense path adds X with P(x) = (1 - r) / (1 + r) r^|x|,
r = e^-t, to every cell and keeps those >= tau. Here the same is drawn with work in proportion to what is kept:

1. Populated cells get ordinary draws.
2. An empty cell is kept when X >= tau, independently of all others. For tau >= 1 (in fact for tau >= 0)
       P(X >= tau) = (1 - r) / (1 + r) sum_{x >= tau} r^x = r^tau / (1 + r).
   Where the kept ones are, in the order of the codes, is drawn by their gaps (`successes`).
3. Given X >= tau, P(X = tau + g) = (1 - r) r^g: tau plus a geometric variable (`geometric`).

Lowering tau to s draws what lies between, given that everything >= tau is known. Of the empty cells that were not
kept, each is kept now with
       P(X >= s | X < tau) = (r^s - r^tau) / (1 + r - r^tau),
and its value is s plus a geometric variable cut off at tau - s. Populated cells below tau keep the draw that they
have.

tau >= 1 is required, since at 0 and below more than half of all empty cells would be kept; and an absent cell then
reads "< tau", which includes 0. Only cells at or above tau ever leave this object: the value of a populated
cell below tau, or that there is one, would tell that it is populated. The probabilities are rational functions of
r, not constant, as `successes` requires.

Source: Cormode, Procopiuc, Srivastava and Tran 2012, "Differentially private summaries for sparse data" (filtering at
a high threshold), draw the number of kept empty cells from a binomial distribution; here no number is rounded.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from math import ceil, log1p, log2, sqrt
from typing import Final, NamedTuple, NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray

from privacy.noise.bernoulli import bernoulli
from privacy.noise.binary_expansion import BinaryExpansion, Bracket, _directed, _exp_minus_bounds
from privacy.noise.discrete_laplace import (
    CHUNK,
    LARGEST_INVERSE_SCALE,
    SMALLEST_INVERSE_SCALE,
    TAIL_EXPONENT,
    binary_digits,
    discrete_laplace,
    geometric,
)
from privacy.noise.limits import NoiseRefused, check_fraction, check_size
from privacy.noise.random_bytes import RandomBytes

# --- Which of many rare independent trials succeed, exactly, without looking at each.
# Let each of n ordered trials succeed with probability p, q = 1 - p. The number G of failures before the next
# success is geometric, P(G = g) = p q^g, whatever came before. So the ranks of the successes are
#
#     rank_1 = G_1,  rank_{k+1} = rank_k + 1 + G_{k+1},   until a rank reaches n,
#
# and the work is that of the successes. A gap is drawn as in `geometric`, with q in the place of r: digit j is 1
# with probability q^(2^j) / (1 + q^(2^j)), and the quotient counts the heads of a coin with P(heads) = q^(2^J).
# That coin is tossed first, and a gap of n or more ends everything; with 2^J >= n one head is such a gap. Hence,
# where p is so small that nothing ever succeeds, no more of p is worked out than its leading zeros.
#
# p is not rational here. It is given by rigorous bounds that close in on it (`Bracket`), and each coin compares
# with an expansion that is worked out from them as far as is needed: no rounding takes part, and no floating-point
# number other than the estimate of p that chooses J and how many gaps are drawn at once. Requirement: p is a
# rational function with rational coefficients, not constant, of e^x for a rational x other than 0. Then so are q^n
# / (1 + q^n) and 1 - q^n; such numbers are transcendental (Lindemann), so their expansions never end.
#
# Source: Devroye 1986, "Non-uniform random variate generation", counts the successes of a binomial variable by such
# waiting times; `discrete_laplace` for their digits.


MOST_TRIALS: Final = 2**63 - 1
_ESTIMATE_DIGITS: Final = 20


def successes(trials: int, *, probability: Bracket, source: RandomBytes) -> NDArray[np.int64]:
    """Draw the ranks of the trials that succeed, each independently with the same probability.

    Args:
        trials: n, from 0 to 2^63 - 1.
        probability: rigorous bounds on p, transcendental, 0 < p < 1; see above.
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


CellsAndValues: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Codes in ascending order, and a number for each."""

MOST_CELLS: Final = 2**63 - 1
_MOST_UNITS: Final = 2**62
_LIMIT_REASON: Final = "below it a draw might not fit into 64 bits, above it there is no noise"


class _Layers(NamedTuple):
    """What is drawn at or above the threshold, and the populated cells below it, which stay hidden."""

    drawn: CellsAndValues
    hidden: CellsAndValues
    threshold: int


class SparseLaplace:
    """A noisy table that is drawn from the top down to a threshold, and further down on request.

    It holds exact draws of populated cells below the threshold, which must not be seen: it shows no value and
    refuses pickling.

    Formula:  {(c, count_c + X_c) : 0 <= c < cells, count_c + X_c >= tau},  count_c = 0 where c is not in `codes`

    Args:
        codes: populated cells, ascending and distinct, from 0 to cells - 1, shape (n,).
        counts: exact counts, shape (n,), from 0 to 2^62 - 1 [units].
        cells: N, size of the declared domain, from 1 to 2^63 - 1.
        inverse_scale: t, from 2^-50 to 2^20 [1 / unit].
        threshold: tau, from 1 to 2^62 - 1, derived from public parameters [units].
        source: uniform bytes.
    Raises:
        NoiseRefused: an argument is out of its limits; nothing was drawn.
    Privacy: post-processing of the (t * l1_sensitivity)-DP noisy table over the whole domain. The time and the memory
        that it takes depend on the number of populated cells.
    """

    __slots__ = ("_cells", "_inverse_scale", "_layers", "_source")

    def __init__(
        self,
        codes: NDArray[np.int64],
        counts: NDArray[np.int64],
        *,
        cells: int,
        inverse_scale: Fraction,
        threshold: int,
        source: RandomBytes,
    ) -> None:
        _check_table(codes, counts, cells)
        _check_noise(inverse_scale, threshold)
        self._cells, self._inverse_scale, self._source = cells, inverse_scale, source
        noise = discrete_laplace(codes.size, inverse_scale=inverse_scale, source=source)
        noise += counts
        nothing = np.empty(0, np.int64), np.empty(0, np.int64)
        self._layers = self._draw(nothing, (codes, noise), threshold, above=None)

    def __repr__(self) -> str:
        """Show the public parameters only."""
        return f"SparseLaplace(cells={self._cells}, threshold={self.threshold})"

    def __reduce__(self) -> NoReturn:
        """Refuse copying and pickling: what lies below the threshold stays in this object."""
        raise TypeError("SparseLaplace cannot be copied or pickled: draws below its threshold are private")

    @property
    def threshold(self) -> int:
        """The threshold: every cell that is not among the drawn ones reads "less than this" [units]."""
        return self._layers.threshold

    def drawn(self) -> CellsAndValues:
        """Return the codes of all cells at or above the threshold, ascending, and their noisy values, read-only."""
        codes, values = (array.view() for array in self._layers.drawn)
        codes.flags.writeable = values.flags.writeable = False
        return codes, values

    def lower(self, threshold: int) -> CellsAndValues:
        """Draw what lies from `threshold` up to the present one, exactly, and return all that is drawn then.

        Args:
            threshold: from 1 to the present threshold; from public parameters and what was drawn before [units].
        Returns:
            As `drawn`.
        Raises:
            NoiseRefused: the threshold is out of its limits; nothing was drawn.
        Privacy: post-processing of the noisy table.
        """
        _check_noise(self._inverse_scale, threshold)
        drawn, hidden, above = self._layers
        if threshold > above:
            raise NoiseRefused("threshold", str(threshold), f"at most {above}, the present one")
        if threshold < above:
            self._layers = self._draw(drawn, hidden, threshold, above=above)
        return self.drawn()

    def _draw(self, drawn: CellsAndValues, hidden: CellsAndValues, threshold: int, *, above: int | None) -> _Layers:
        """Draw the empty cells of the next layer, and uncover the populated ones that belong to it."""
        # Cells that are populated or drawn already are not among the empty ones whose ranks are drawn next.
        known = _merge(hidden, drawn)[0]
        odds = layer_probability(self._inverse_scale, threshold, above)
        ranks = successes(self._cells - known.size, probability=odds, source=self._source)
        below = None if above is None else above - threshold
        values = geometric(ranks.size, inverse_scale=self._inverse_scale, source=self._source, below=below)
        values += threshold
        codes, noisy = hidden
        # A populated cell keeps the one draw that it has: it shows now if that draw reaches the new threshold.
        uncovered = noisy >= threshold
        layer = _merge((codes[uncovered], noisy[uncovered]), (_skip(ranks, known), values))
        return _Layers(_merge(layer, drawn), (codes[~uncovered], noisy[~uncovered]), threshold)


@lru_cache(maxsize=64)
def layer_probability(inverse_scale: Fraction, threshold: int, above: int | None) -> Bracket:
    """Bound the probability that noise is at least s = threshold, given that it is below tau = `above`.

    Formula:  r^s / (1 + r) without an upper end, else (r^s - r^tau) / (1 + r - r^tau);  1 <= s < tau
    """

    def bounds(digits: int) -> tuple[Decimal, Decimal]:
        down, up = _directed(digits)
        r_least, r_most = _exp_minus_bounds(inverse_scale, digits)
        s_least, s_most = _exp_minus_bounds(inverse_scale * threshold, digits)
        tau_least, tau_most = (
            (Decimal(0), Decimal(0)) if above is None else _exp_minus_bounds(inverse_scale * above, digits)
        )
        # s and tau are bounded apart, so that the difference may come out below 0 at few digits; a probability is
        # not.
        least = max(down.subtract(s_least, tau_most), Decimal(0))
        most = up.subtract(s_most, tau_least)
        rest_least = down.subtract(down.add(1, r_least), tau_most)
        rest_most = up.subtract(up.add(1, r_most), tau_least)
        return down.divide(least, rest_most), up.divide(most, rest_least)

    return bounds


def _skip(ranks: NDArray[np.int64], occupied: NDArray[np.int64]) -> NDArray[np.int64]:
    """Turn ranks among the cells that are not known into codes, in place; both ascending.

    The code of rank k is k plus the number of known codes e_i (i = 0, 1, ...) with e_i - i <= k.
    """
    # e_i - i empty cells lie before the i-th known one: each rank moves up by the known ones before it.
    before = occupied - np.arange(occupied.size)
    # The same count by searching the shorter list in the longer one.
    if occupied.size < ranks.size:
        first = np.searchsorted(ranks, before, side="left")
        ranks += np.cumsum(np.bincount(first, minlength=ranks.size + 1)[: ranks.size])
    else:
        ranks += np.searchsorted(before, ranks, side="right")
    return ranks


def _merge(left: CellsAndValues, right: CellsAndValues) -> CellsAndValues:
    """Merge two lists of cells that have none in common, by the codes."""
    few, many = (left, right) if left[0].size < right[0].size else (right, left)
    if few[0].size == 0:
        return many
    places = np.searchsorted(many[0], few[0])
    places += np.arange(few[0].size)
    others = np.ones(few[0].size + many[0].size, np.bool_)
    others[places] = False
    merged = np.empty(others.size, np.int64), np.empty(others.size, np.int64)
    for whole, some, rest in zip(merged, few, many, strict=True):
        whole[places] = some
        whole[others] = rest
    return merged


def _check_noise(inverse_scale: Fraction, threshold: int) -> None:
    limits = SMALLEST_INVERSE_SCALE, LARGEST_INVERSE_SCALE
    check_fraction("inverse_scale", inverse_scale, *limits, _LIMIT_REASON)
    if not 1 <= check_size("threshold", threshold) < _MOST_UNITS:
        raise NoiseRefused("threshold", str(threshold), "a whole number from 1 to 2^62 - 1")


def _check_table(codes: NDArray[np.int64], counts: NDArray[np.int64], cells: int) -> None:
    """Refuse what is not a list of distinct cells with a number each; no row's value is told."""
    if not 1 <= check_size("cells", cells) <= MOST_CELLS:
        raise NoiseRefused("cells", str(cells), "a whole number from 1 to 2^63 - 1")
    for name, array in (("codes", codes), ("counts", counts)):
        if array.dtype != np.int64 or array.ndim != 1:
            raise NoiseRefused(name, f"{array.dtype} in {array.ndim} dimensions", "int64 in 1 dimension")
    if codes.size != counts.size:
        raise NoiseRefused("counts", "of another length than the codes", "one for each code")
    if codes.size and (codes[0] < 0 or codes[-1] >= cells):
        raise NoiseRefused("codes", "outside of the domain", f"from 0 to {cells - 1}")
    if np.any(codes[1:] <= codes[:-1]):
        raise NoiseRefused("codes", "not ascending, or not distinct", "ascending distinct codes")
    if counts.size and (counts.min() < 0 or counts.max() >= _MOST_UNITS):
        raise NoiseRefused("counts", "out of its limits", "from 0 to 2^62 - 1")
