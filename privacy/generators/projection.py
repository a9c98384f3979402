"""From rows to few numbers: a measured centre, and principal axes of the second moment about it.

    centre     counts and sums of |x - 1/2| <= sqrt(width) / 2
    scale      where it is asked for: how far numbers are stretched (`NormShells`); the centre again, with the noise
               of numbers that are stretched; and the scale about that
    axes       the leading eigenvectors of the sum of (x - centre)(x - centre)', |x - centre| <= clip

Vectors are the rows as a `RowLayout` writes them, about the centre and stretched, x standing for entries times their
factors. All are noisy sums; what is made of them is post-processing.

Source: Dwork, Talwar, Thakurta, Zhang 2014 (the axes); James, Stein 1961 (the centre's shrinkage).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Final, Literal

import numpy as np

from contracts.reading.scalars import nearest
from privacy.arrays import Floats
from privacy.generators.generator import CannotGenerate, SynthesisTask
from privacy.grant.measurement import SumMeasurement
from privacy.learning.embedding import Embedding, embedding
from privacy.learning.lattice import MOST_BITS
from privacy.learning.layout import ColumnLayout, RowLayout
from privacy.learning.moments import Everyone, Moments, NormShells
from privacy.learning.principal_components import principal_components
from privacy.learning.window import Window

# --- How far numbers are stretched that fill little of their declared range.


MOST: Final = 64.0
"""Largest factor: with it products with axes stay whole in float64 (`Projection`)."""
WITHIN: Final = 0.5
"""The share of rows that is to lie within the norm."""
_SHELLS_AN_OCTAVE: Final = 4
_OCTAVES: Final = 9


def numbers_of(layout: RowLayout, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return those of the columns that are numbers; pictures are not."""
    return tuple(name for name in names if layout.column(name).kind == "number")


def shells_statistic(layout: RowLayout, numbers: tuple[str, ...], centre: Floats | None) -> Moments:
    """Return the counts of rows by the norm of their numbers.

    Args:
        layout: of all columns.
        numbers: at least one column.
        centre: of their entries; without it a stand-in of the same bound.
    """
    width = layout.select(numbers).width
    # The root of the width, rounded up: entries lie in [0, 1], so that no vector is clipped.
    bound = Fraction(math.isqrt(width * 10**6) + 1, 10**3)
    about = embedding(layout, bound=bound, bits=MOST_BITS, columns=numbers, centre=centre)
    return shells_within(about)


def shells_within(embedded: Embedding) -> Moments:
    """Return the counts of rows by the norm of their vectors.

    Args:
        embedded: from rows to vectors, in 2^16 units of the bound; larger norms are counted in the last shell.
    """
    return Moments(embedded, NormShells(np.rint((_radii() * 2.0**MOST_BITS) ** 2).astype(np.int64)), ("counts",))


def mean_square(statistic: Moments, measured: SumMeasurement, *, rows: float) -> float:
    """Return the rows' mean squared norm, a shell's rows having the product of its two radii.

    Args:
        statistic: a `shells_within`.
        measured: its noisy counts.
        rows: noisy number of rows, at least 1 [rows].
    Privacy: post-processing.
    """
    counts = _counts(np.asarray(statistic.blocks(measured.values).counts), rows)
    radii = np.concatenate([[0.0], _radii(), [1.0]]) * float(statistic.embedding.bound)
    return float(counts @ (radii[1:] * radii[:-1])) / rows


def measured_factor(statistic: Moments, measured: SumMeasurement, *, rows: float) -> float:
    """Return the factor by which numbers are stretched.

    Args:
        statistic: a `shells_statistic`.
        measured: its noisy counts.
        rows: noisy number of rows, at least 1 [rows].
    Privacy: post-processing.
    """
    bound, numbers = float(statistic.embedding.bound), len(statistic.embedding.columns)
    counts = _counts(np.asarray(statistic.blocks(measured.values).counts), rows)
    # The first shell at which the cumulated counts reach the wanted share.
    within = np.cumsum(counts)
    place = int(np.searchsorted(within, WITHIN * within[-1]))
    # The share is reached beyond the last radius only: nothing is gained by stretching.
    if place >= _radii().size:
        return 1.0
    return float(np.clip(math.sqrt(numbers / 16) / (bound * _radii()[place]), 1.0, MOST))


def _radii() -> Floats:
    """Return the shells' radii, rising, in the bound of the norm."""
    steps = np.arange(1, _OCTAVES * _SHELLS_AN_OCTAVE + 1)[::-1]
    return np.asarray(2.0 ** (-steps / _SHELLS_AN_OCTAVE))


def _counts(noisy: Floats, total: float) -> Floats:
    """Return the nearest counts that are not negative and add up to a total."""
    # The projection onto the simplex: what is taken off follows from the sorted counts.
    falling = np.sort(noisy)[::-1]
    over = (np.cumsum(falling) - total) / np.arange(1, noisy.size + 1)
    return np.asarray(np.maximum(noisy - over[np.flatnonzero(falling > over)[-1]], 0.0))


BITS: Final = 12
MOST_ENTRIES: Final = 4096


@dataclass(frozen=True, eq=False)
class Projection:
    """What is projected, and on how many axes; public.

    Args:
        layout: of all columns.
        names: the columns that are projected.
        dimensions: axes that are wanted; fewer where there are not so many entries.
        clip: norm to which vectors are clipped about their centre; None for that of the columns' form.
        stretches: whether it is measured how far numbers are stretched; where there are numbers, and no given norm.
    """

    layout: RowLayout
    names: tuple[str, ...]
    dimensions: int
    clip: float | None
    stretches: bool = False

    @cached_property
    def numbers(self) -> tuple[str, ...]:
        """The columns that are stretched, by one measured factor; none where nothing is measured for it."""
        return numbers_of(self.layout, self.names) if self.stretches and self.clip is None else ()

    @cached_property
    def width(self) -> int:
        """Entries of a vector."""
        return self.layout.select(self.names).width

    @property
    def projects(self) -> bool:
        """Whether there are more entries than axes."""
        return self.dimensions < self.width

    @property
    def latent(self) -> int:
        """Entries of a projected vector."""
        return min(self.dimensions, self.width)

    @property
    def basis(self) -> Floats | None:
        """The public basis of the axes, orthonormal columns, shape (width, n); None where they may be any."""
        return None

    def entries(self, name: str) -> range:
        """Return the entries of a projected column in a vector."""
        heads = [head for head in self.layout.select(self.names).heads if head.column == name]
        return range(heads[0].start, heads[-1].stop)

    @cached_property
    def bound(self) -> Fraction:
        """The norm bound: the given one, or from the form of the columns alone."""
        if self.clip is not None:
            return Fraction(self.clip).limit_denominator(10**6)
        squares = {"unit": 1 / 16, "flag": 1 / 4, "choice": 1.0}
        heads = self.layout.select(self.names).heads
        each = [squares[head.kind] * (1 if head.kind == "choice" else head.stop - head.start) for head in heads]
        return Fraction(math.sqrt(sum(each))).limit_denominator(10**6)

    def centre_statistic(self) -> Moments:
        """Return what is measured for the centre."""
        # Half the root of the width, rounded up: |x - 1/2| never exceeds it, so that nothing is clipped.
        bound = Fraction(math.isqrt(self.width * 10**6) + 1, 2 * 10**3)
        half = np.full(self.width, 0.5)
        about = embedding(self.layout, bound=bound, bits=BITS, columns=self.names, centre=half)
        return Moments(about, Everyone(), ("counts", "sums"))

    def shells_statistic(self, centre: Floats | None) -> Moments:
        """Return what is measured for the factor; without a centre a stand-in of the same bound."""
        among = None if centre is None else np.concatenate([centre[self.entries(name)] for name in self.numbers])
        return shells_statistic(self.layout, self.numbers, among)

    def again_statistic(self, centre: Floats | None, factors: Floats | None) -> Moments:
        """Return what is measured for the second centre, about the first; without them a stand-in of that bound."""
        return Moments(self.embedding(centre, None, factors=factors), Everyone(), ("counts", "sums"))

    def axes_statistic(self, centre: Floats | None, factors: Floats | None = None) -> Moments:
        """Return what is measured for the axes; without a centre a stand-in of the same bound."""
        return Moments(self.embedding(centre, self.basis, factors=factors), Everyone(), ("full",))

    def first_statistics(self) -> tuple[Moments, ...]:
        """Return stand-ins of all that `projected` measures, in order."""
        stretched: tuple[Moments, ...] = ()
        if self.numbers:
            shells = self.shells_statistic(None)
            stretched = (shells, self.again_statistic(None, None), shells)
        axes = (self.axes_statistic(None),) if self.projects else ()
        return (self.centre_statistic(), *stretched, *axes)

    @property
    def steps(self) -> tuple[str, ...]:
        """What `projected` measures, in words."""
        stretched = ("numbers' scale", "centre again", "numbers' scale again") if self.numbers else ()
        return ("centre", *stretched, *(("second moment",) if self.projects else ()))

    def shares(self, centre: Fraction, axes: Fraction) -> tuple[Fraction, ...]:
        """Split what centre and axes are given over the steps.

        Where numbers are stretched, each of two centres takes half of the centre's part, and each scale a quarter.
        """
        centres = (centre / 2, centre / 4) * 2 if self.numbers else (centre,)
        return (*centres, *((axes,) if self.projects else ()))

    def embedding(
        self,
        centre: Floats | None,
        axes: Floats | None,
        *,
        bound: Fraction | None = None,
        factors: Floats | None = None,
        bits: int = BITS,
    ) -> Embedding:
        """Return the embedding about a centre, with entries times their factors, on axes if there are some."""
        bound = self.bound if bound is None else bound
        if factors is not None and (factors != 1).any():
            # Entries are stretched before they are projected: the factors become part of the axes.
            axes = np.diag(factors) if axes is None else factors[:, None] * axes
        return embedding(self.layout, bound=bound, bits=bits, columns=self.names, centre=centre, axes=axes)

    def stand_in(self) -> Embedding:
        """Return an embedding of the same bounds as the one whose centre and axes nobody knows yet."""
        return self.embedding(None, np.zeros((self.width, self.dimensions)) if self.projects else None)

    def factors(self, factor: float) -> Floats:
        """Return each entry's factor: the numbers' is given, all else keeps its scale."""
        heads = self.layout.select(self.names).heads
        return np.concatenate(
            [
                np.full(
                    head.stop - head.start, factor if head.kind == "unit" and head.column in self.numbers else 1.0
                )
                for head in heads
            ]
        )


@dataclass(frozen=True, eq=False)
class Projected:
    """A projection that has been measured; released.

    Args:
        centre: in [0, 1], shape (width,).
        axes: orthonormal columns, of the entries times their factors, shape (width, latent).
        variances: mean square of rows along each axis, shape (latent,).
        rows: noisy number of rows, at least 1 [rows].
        means: noisy mean vector as it was measured, shape (width,).
        factors: of the entries, at least 1, shape (width,).
    """

    centre: Floats
    axes: Floats
    variances: Floats
    rows: float
    means: Floats
    factors: Floats

    @property
    def window(self) -> Window | None:
        """The part of the range that stretched numbers are looked at in, about the centre; None where none are."""
        if not (self.factors > 1).any():
            return None
        # A stretch of length 1 / factor about the centre, moved to lie within [0, 1].
        low = np.clip(self.centre - 0.5 / self.factors, 0.0, 1.0 - 1.0 / self.factors)
        return Window(low.astype(np.float32), self.factors.astype(np.float32))

    def windowed(self, entries: range) -> tuple[float, float]:
        """Return where a number's window begins, and its factor."""
        window = self.window
        return (0.0, 1.0) if window is None else (float(window.low[entries[0]]), float(window.factors[entries[0]]))


def checked_layout(task: SynthesisTask, label: str | None, what: str) -> RowLayout:
    """Return the layout of what is asked for, or refuse what no projection can be made of.

    Raises:
        CannotGenerate: as `labelled_layout`; or delta 0.
    """
    layout = labelled_layout(task, label, what)
    if task.delta == 0:
        raise CannotGenerate(f"{what}: Gaussian noise needs a delta above 0; do: give the charge a delta")
    return layout


def labelled_layout(task: SynthesisTask, label: str | None, what: str) -> RowLayout:
    """Return the layout of what is asked for, or refuse what rows of vectors with a label cannot be.

    Raises:
        CannotGenerate: no such label or none of listed values, no column beside it, or too many entries.
    """
    if task.layout is None or (label is not None and label not in task.domain.columns):
        columns = task.domain.columns
        remedy = nearest(label or "", columns) or "name one of these columns"
        raise CannotGenerate(
            f"options.label: {label!r} is not among the columns; allowed: one of {', '.join(columns)}; do: {remedy}"
        )
    if label is not None and task.layout.column(label).kind != "category":
        raise CannotGenerate(
            f"options.label: {label!r} is a number in bins; allowed: a column of listed values; "
            "do: name another column, or list its values in the contract"
        )
    if label is not None and len(task.layout.columns) == 1:
        raise CannotGenerate(f"{what} needs a column beside the label; do: add one to columns")
    if task.layout.width > MOST_ENTRIES:
        raise CannotGenerate(
            f"{what}: rows are vectors of {task.layout.width} entries; allowed: {MOST_ENTRIES}; "
            "do: take fewer columns, or coarser categories"
        )
    return task.layout


def check_clip(projection: Projection, *, whole_bits: int | None = None) -> None:
    """Refuse a norm so small that sums of clipped vectors would not be exact, whatever axes are measured.

    Formula: clip >= 2^BITS sqrt(latent width) / 2^26, since unit axes have absolute sums of at most sqrt(width)

    Args:
        projection: with its norm.
        whole_bits: of a unit norm, where whole vectors are summed too; without axes their entries are at most 1.
    Raises:
        CannotGenerate: with the least norm that is allowed.
    """
    width, latent = projection.width, projection.latent if projection.projects else 1
    units = [
        2.0**BITS * math.sqrt(width * latent),
        *([] if whole_bits is None else [2.0**whole_bits * math.sqrt(width)]),
    ]
    # A hundredth more leaves room for rounding to the lattice.
    least = 1.01 * 2.0**-26 * max(units)
    if projection.clip is not None and projection.clip < least:
        raise CannotGenerate(
            f"options.clip: {projection.clip:g} for vectors of {projection.width} entries; allowed: at least "
            f"{math.ceil(least * 10**4) / 10**4:g}, with which sums are exact; do: raise clip, or leave it out"
        )


def shrunk_centre(statistic: Moments, measured: SumMeasurement) -> tuple[Floats, Floats, float]:
    """Return the centre, the mean as it was measured, and the number of rows.

    The centre is shrunk towards 1/2 as far as noise makes up its distance from there, and lies in [0, 1].

    Args:
        statistic: a `Projection.centre_statistic`.
        measured: its noisy sums.
    """
    away, kept, count = mean_away(statistic, measured)
    return np.asarray(np.clip(0.5 + kept * away, 0.0, 1.0)), 0.5 + away, count


def moved_centre(
    statistic: Moments, measured: SumMeasurement, centre: Floats, factors: Floats
) -> tuple[Floats, Floats]:
    """Return the second centre, and the mean as it was measured; shrunk towards the first centre as that towards 1/2.

    Args:
        statistic: a `Projection.again_statistic`.
        measured: its noisy sums.
        centre: the first centre.
        factors: of the entries.
    """
    away, kept, _ = mean_away(statistic, measured)
    return np.asarray(np.clip(centre + kept * away / factors, 0.0, 1.0)), centre + away / factors


def mean_away(statistic: Moments, measured: SumMeasurement) -> tuple[Floats, float, float]:
    """Return the mean vector, the share of it that noise does not make up (James, Stein), and the number of rows.

    Args:
        statistic: counts and sums of vectors, of all groups of rows together.
        measured: its noisy sums.
    """
    blocks = statistic.blocks(measured.values)
    count = max(float(np.asarray(blocks.counts).sum()), 1.0)
    away = np.asarray(blocks.sums).sum(axis=0) / count
    # Noise of the groups' sums adds up.
    one = math.sqrt(statistic.groups.count * measured.variance) / statistic.move
    deviation = one * float(statistic.embedding.bound) / count
    squared = float(away @ away)
    # James, Stein: 1 - (d - 2) deviation² / |mean|², at least 0.
    kept = max(0.0, 1 - max(away.size - 2, 0) * deviation**2 / squared) if squared > 0 else 0.0
    return away, kept, count


def projected(projection: Projection, measure: Callable[[Moments], SumMeasurement]) -> Projected:
    """Measure the centre, how far numbers are stretched where that is wanted, and the axes where it projects.

    Privacy: that of the one to five draws.
    """
    first = projection.centre_statistic()
    centre, means, rows = shrunk_centre(first, measure(first))
    factors = np.ones(projection.width)
    if projection.numbers:
        factors = _stretched(projection, centre, rows, measure)
        again = projection.again_statistic(centre, factors)
        centre, means = moved_centre(again, measure(again), centre, factors)
        # Measured once more about the better centre; a factor never falls.
        factors = np.maximum(factors, _stretched(projection, centre, rows, measure))
    if not projection.projects:
        # Without a second moment rows are taken to spread evenly, as far as the bound.
        variances = np.full(projection.width, float(projection.bound) ** 2 / projection.width)
        return Projected(centre, np.eye(projection.width), variances, rows, means, factors)
    second = projection.axes_statistic(centre, factors)
    squares = np.asarray(second.blocks(measure(second).values).squares)[0]
    found = principal_components(squares, dimension=projection.dimensions)
    axes = found.axes if projection.basis is None else projection.basis @ found.axes
    return Projected(centre, axes, found.moments / rows, rows, means, factors)


def _stretched(
    projection: Projection, centre: Floats, rows: float, measure: Callable[[Moments], SumMeasurement]
) -> Floats:
    """Measure how far numbers are stretched, and return the entries' factors."""
    shells = projection.shells_statistic(centre)
    return projection.factors(measured_factor(shells, measure(shells), rows=rows))


# --- How numbers enter a vector.


NumberEntry = Literal["auto", "bins", "scaled"]
"""An option of generators: by bins, scaled by the bounds, or by bins where those are far from even."""
UNEVEN: Final = 10
"""Bins are far from even where their middles lie more than so many times as far apart in one place as in another."""


def entering(layout: RowLayout, numbers: NumberEntry) -> RowLayout:
    """Return the layout with those numbers by bins that are to enter so; names, cells and entries stay the same.

    Args:
        layout: numbers scaled by their bounds, as the contract has them.
        numbers: the option.
    """
    return RowLayout(tuple(_by_bins(each) if _enters_by_bins(each, numbers) else each for each in layout.columns))


def entry_notes(declared: RowLayout | None, used: RowLayout) -> tuple[str, ...]:
    """Name the numbers that enter by the places of their bins, for a plan; nothing where none does.

    Args:
        declared: as the contract has them.
        used: as a generator takes them.
    """
    names = () if declared is None else (each.name for each in used.columns if each is not declared.column(each.name))
    listed = ", ".join(names)
    return (f"numbers that enter by the places of their bins: {listed}",) if listed else ()


def _enters_by_bins(column: ColumnLayout, numbers: NumberEntry) -> bool:
    if column.kind != "number" or numbers == "scaled":
        return False
    apart = np.diff(column.points)
    # One bin or two have no distances to compare.
    return numbers == "bins" or bool(apart.size > 1 and apart.max() > UNEVEN * apart.min())


def _by_bins(column: ColumnLayout) -> ColumnLayout:
    """Return the column with its bins at even distances; the cell of nulls stays as it is."""
    table, bins = column.table.copy(), column.points.size
    table[:bins, 0] = (np.arange(bins) + 0.5) / bins
    return replace(column, table=table)
