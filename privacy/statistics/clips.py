"""From a noisy histogram of magnitudes to a clip: post-processing, exact in whole numbers and rationals.

A clip from a to b costs noise, which grows with its ends, and bias, which is what it cuts off. With m cells, k the
variance of the later draw's noise in one number over the squared width of its clip (the same for every clip, since
the draw's part of the charge is fixed), and cut(a, b) what all rows together lose, the clip is the one with the least

    m k g(a, b) + cut(a, b)^2 / m        g = a^2 + b^2 for sums,  (b - a)^2 / 2 for means

the squared error of all cells where the cut rows are spread evenly over them (docs/derivations.md, section 2). A row
of a bin counts as lying in the middle of it.

Most bins are empty where bounds are wide, and the noise of those far out would weigh more than all rows. So it is
decided first which bins have rows: runs of 1, 2, 4 or 8 bins whose noisy counts add up to more than empty bins reach,
but for a chance of `FALSE_ALARM` in all runs together. All others count as empty, yet rows may hide there: half of
what one bin needs to be seen. On each side with rows so many may lie beyond the bin where the outermost run begins,
at distances from 0 whose tail is that of Pareto's law with index 3/2, cut off at the bound; and so many may lie at 0.
Where no bin but that of 0 has rows for sure, the clip is the whole of the bounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import isqrt, prod
from typing import Final

import numpy as np
from numpy.typing import NDArray

from contracts.contract.contract import Contract
from contracts.domains.addends import NarrowedLattice, ValueMagnitudes
from contracts.domains.lattice import ValueLattice
from contracts.release.statistics import StatisticsTable
from privacy.accounting.events import CountNoise
from privacy.marginals.count_noise import half_width, variance
from privacy.marginals.sensitivity import LaplaceNoise, marginal_moves, moved_noise
from privacy.statistics.noise_sums import even_quantile
from privacy.statistics.plan import StatisticsDraw, StatisticsPlan

FALSE_ALARM: Final = 0.01
"""How likely any empty bin is taken for one with rows."""
HIDDEN: Final = Fraction(1, 2)
"""Rows that may hide, as a share of what one bin needs to be seen."""
RUNS: Final = (1, 2, 4, 8)
"""How many neighbouring bins are added up to find rows."""


@dataclass(frozen=True)
class FoundClip:
    """A clip that was found for a draw, and how many rows it cuts.

    Args:
        lattice: the column's lattice between its ends.
        rows: noisy number of rows with a value.
        below: noisy number of rows below the lower end.
        above: noisy number of rows above the upper end.
    """

    lattice: NarrowedLattice
    rows: int
    below: int
    above: int


@dataclass(frozen=True)
class LaterDraw:
    """What is known of the draw that the clip is for.

    Args:
        cells: its cells.
        variance: of its noise in one number, over the squared width of its clip.
        means: whether only means are published of the column; else sums too.
    """

    cells: int
    variance: Fraction
    means: bool

    def loss(self, low: Fraction, high: Fraction, cut: Fraction) -> Fraction:
        """Return the expected squared error of all cells together [steps^2]."""
        size = (high - low) ** 2 / 2 if self.means else low * low + high * high
        return self.cells * self.variance * size + cut * cut / self.cells


def find_clip(
    counts: Sequence[int], magnitudes: ValueMagnitudes, *, event: CountNoise, later: LaterDraw
) -> FoundClip:
    """Choose the clip of the least expected squared error.

    Args:
        counts: noisy counts of the bins [rows].
        magnitudes: the histogram.
        event: the noise of the counts.
        later: the draw that the clip is for.
    Privacy: post-processing.
    """
    bins = magnitudes.bins
    first, last = _best(_Histogram.of(counts, magnitudes, event), later)
    lattice = magnitudes.narrowed(bins[first][0], bins[last][1])
    return FoundClip(lattice, sum(counts), sum(counts[:first]), sum(counts[last + 1 :]))


def _best(histogram: _Histogram, later: LaterDraw) -> tuple[int, int]:
    """Return the first and the last bin of the best clip; those of the bounds where nothing was found."""
    bins, whole = histogram.magnitudes.bins, histogram.magnitudes.lattice
    if histogram.found == (0, 0):
        return 0, len(bins) - 1
    start = Fraction(whole.low) / Fraction(whole.step)
    below, above = histogram.cuts_below(), histogram.cuts_above()
    losses = {
        (first, last): later.loss(start + low, start + bins[last][1], below[first] + above[last])
        for first, (low, _) in enumerate(bins)
        for last in range(first, len(bins))
        if bins[last][1] > low
    }
    return min(losses, key=lambda pair: (losses[pair], pair))


@dataclass(frozen=True)
class _Histogram:
    """What a noisy histogram tells of rows.

    Args:
        magnitudes: its bins.
        rows: of each bin; none in bins that no run with rows holds.
        found: distances from 0 that the outermost runs begin at, below and above it; 0 where there is none [steps].
        hidden: rows that may lie beyond each, and at 0.
    """

    magnitudes: ValueMagnitudes
    rows: tuple[int, ...]
    found: tuple[int, int]
    hidden: Fraction

    @classmethod
    def of(cls, counts: Sequence[int], magnitudes: ValueMagnitudes, event: CountNoise) -> _Histogram:
        """Read noisy counts."""
        bins, zero = magnitudes.bins, magnitudes.zero
        place = bins.index((zero, zero))
        most = len(counts)
        below = occupied(counts[:place][::-1], event, most)
        above = occupied(counts[place + 1 :], event, most)
        inside = {place - 1 - each for start, run in below for each in range(start, start + run)}
        inside |= {place + 1 + each for start, run in above for each in range(start, start + run)}
        inside |= {place} if occupied(counts[place : place + 1], event, most) else set()
        rows = tuple(count if each in inside else 0 for each, count in enumerate(counts))
        low = min([place, *(place - 1 - start for start, _ in below)])
        high = max([place, *(place + 1 + start for start, _ in above)])
        found = zero - bins[low][0], bins[high][1] - zero
        return cls(magnitudes, rows, found, half_width(event, _confidence(most)) * HIDDEN)

    def cuts_above(self) -> list[Fraction]:
        """Return for each bin how many steps all rows lie above its end, together [steps]."""
        bins, zero, bound = self.magnitudes.bins, self.magnitudes.zero, self.magnitudes.lattice.width
        return _cuts(self.rows, bins, [end - zero for _, end in bins], self.found[1], bound - zero, zero, self.hidden)

    def cuts_below(self) -> list[Fraction]:
        """Return for each bin how many steps all rows lie below its start, together [steps]."""
        zero = self.magnitudes.zero
        mirrored = [(2 * zero - last, 2 * zero - first) for first, last in self.magnitudes.bins]
        distances = [zero - first for first, _ in self.magnitudes.bins]
        return _cuts(self.rows, mirrored, distances, self.found[0], zero, zero, self.hidden)


def _cuts(
    rows: Sequence[int],
    bins: Sequence[tuple[int, int]],
    distances: Sequence[int],
    reach: int,
    bound: int,
    zero: int,
    hidden: Fraction,
) -> list[Fraction]:
    """Return how many steps rows lie beyond each end; a negative distance is one on the other side of 0."""
    cuts = []
    for distance in distances:
        end = zero + distance
        beyond = [(low + high - 2 * end, count) for count, (low, high) in zip(rows, bins, strict=True) if low > end]
        seen = max(0, sum(twice * count for twice, count in beyond))
        cuts.append(Fraction(seen, 2) + hidden * (_beyond(reach, distance, bound) + max(0, -distance)))
    return cuts


def occupied(counts: Sequence[int], event: CountNoise, most: int) -> list[tuple[int, int]]:
    """Return where each run of bins with rows begins, and how long it is; a longer one holds no bin of a shorter one.

    Args:
        counts: noisy counts of the bins on one side of 0, outwards.
        event: their noise.
        most: bins on both sides, with that of 0.
    """
    found: list[tuple[int, int]] = []
    taken: set[int] = set()
    for run in RUNS:
        for start in range(len(counts) - run + 1):
            places = range(start, start + run)
            if not taken & set(places) and sum(counts[start : start + run]) > _margin(event, run, most):
                found.append((start, run))
                taken |= set(places)
    return found


@lru_cache(maxsize=256)
def _margin(event: CountNoise, run: int, most: int) -> float:
    """Return what the noise of so many bins together stays within."""
    return even_quantile([(1.0, event)] * run, _confidence(most))


def _confidence(most: int) -> float:
    """Return with what confidence noise stays within a margin on both sides, so that all runs hold on one."""
    return 1 - 2 * FALSE_ALARM / (most * len(RUNS))


def _beyond(reach: int, end: int, bound: int) -> Fraction:
    """Return how far a hidden row lies beyond an end, on average: (reach / x)^(3/2), integrated from it to the bound.

    Formula: 2 reach (sqrt(reach / end) - sqrt(reach / bound)), and reach - end besides where the end is nearer to 0.
    """
    if not 0 < reach < bound:
        return Fraction(0)
    tail = 2 * reach * (_root(Fraction(reach, max(end, reach))) - _root(Fraction(reach, bound)))
    return tail + max(0, reach - end)


def _root(number: Fraction) -> Fraction:
    """Return a square root, rounded down to 32 binary digits: the same on every machine."""
    return Fraction(isqrt((number.numerator << 64) // number.denominator), 1 << 32)


# --- The plan of a release of statistics once its private clips are found.


FORETOLD: Final = (4, 16, 256)
"""Parts of the bounds for which a plan tells how wide intervals would be."""
_MEANS: Final = frozenset({"mean", "quantiles"})


def find_clips(
    plan: StatisticsPlan,
    tables: Sequence[StatisticsTable],
    contract: Contract,
    histograms: Mapping[str, NDArray[np.int64]],
) -> dict[str, FoundClip]:
    """Find the clip of each draw that needs one.

    Args:
        plan: as it was charged.
        tables: those of the product.
        contract: its contract.
        histograms: the noisy counts of each histogram of magnitudes, by its key.
    Returns:
        dict: the clip of each such draw, by its key.
    Privacy: post-processing.
    """
    by_name, drawn = {table.name: table for table in tables}, {draw.key: draw for draw in plan.clips}
    found = {}
    for draw in plan.draws:
        if draw.clip is None:
            continue
        histogram = drawn[draw.clip]
        if not isinstance(histogram.addends, ValueMagnitudes):
            raise TypeError(f"{draw.clip} is no histogram of magnitudes")
        counts = [int(count) for count in histograms[draw.clip].reshape(-1)]
        later = _later(draw, by_name[draw.table], contract)
        found[draw.key] = find_clip(counts, histogram.addends, event=histogram.event, later=later)
    return found


def _later(draw: StatisticsDraw, table: StatisticsTable, contract: Contract) -> LaterDraw:
    """Return what the rule may know of a draw: its cells, its noise, and what is published of it."""
    moves = marginal_moves(contract.adjacency, contract.unit.max_rows_per_unit)
    if isinstance(draw.noise, LaplaceNoise):
        spread = 2 * Fraction(sum(map(abs, moves))) ** 2 / draw.noise.epsilon**2
    else:
        spread = Fraction(sum(move * move for move in moves)) / (2 * draw.noise.rho)
    column = None if draw.addends is None else draw.addends.column
    kinds = {each.what for each in table.of if column in {term.column for term in each.terms}}
    return LaterDraw(prod(draw.shape[:-1]), spread, kinds <= _MEANS)


def narrowed_plan(plan: StatisticsPlan, lattices: Mapping[str, ValueLattice]) -> StatisticsPlan:
    """Return a plan whose draws have the lattices that were found, by key; the others stay as they are.

    Privacy: public parameters alone; parts of the charge are those of `plan`.
    """
    draws = [_narrowed(draw, lattices[draw.key]) if draw.key in lattices else draw for draw in plan.draws]
    return replace(plan, draws=tuple(draws))


def narrower_plans(plan: StatisticsPlan) -> dict[str, StatisticsPlan]:
    """Return what the plan may become: for some parts of the bounds, in words, the plan with such clips everywhere.

    What a clip will be is not known before the charge; how wide intervals are with a few narrower ones is.
    """
    found = {}
    for parts in FORETOLD:
        lattices = {
            draw.key: _part_of(ValueMagnitudes(draw.addends.lattice), parts)
            for draw in plan.draws
            if draw.clip is not None and isinstance(draw.addends, ValueLattice)
        }
        if lattices:
            found[f"clip 1/{parts} of the bounds"] = narrowed_plan(plan, lattices)
    return found


def _part_of(magnitudes: ValueMagnitudes, parts: int) -> ValueLattice:
    """Return the bins within a part of the distance from 0 to both bounds; at least one step."""
    zero, width = magnitudes.zero, magnitudes.lattice.width
    low = max([first for first, _ in magnitudes.bins if (zero - first) * parts >= zero], default=0)
    high = min([last for _, last in magnitudes.bins if (last - zero) * parts >= width - zero], default=width)
    return magnitudes.narrowed(low, high)


def _narrowed(draw: StatisticsDraw, lattice: ValueLattice) -> StatisticsDraw:
    """Return a draw over a part of its lattice: it moves as many widths, and has the same part of the charge."""
    if not isinstance(draw.addends, ValueLattice):
        raise TypeError(f"{draw.key} adds nothing up")
    moves = tuple(move // draw.addends.width * lattice.width for move in draw.event.moves)
    event = moved_noise(draw.noise, moves)
    return replace(draw, addends=lattice, event=event, variance=variance(event))
