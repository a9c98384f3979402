"""From rows to few numbers: a measured centre, and principal axes of the second moment about it.

    centre     counts and sums of |x - 1/2| <= sqrt(width) / 2
    axes       the leading eigenvectors of the sum of (x - centre)(x - centre)', |x - centre| <= clip

Vectors are the rows as a `RowLayout` writes them. Both are noisy sums; what is made of them is post-processing.

Source: Dwork, Talwar, Thakurta, Zhang 2014 (the axes); James, Stein 1961 (the centre's shrinkage).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final

import numpy as np

from privacy.generators.generator import Asked, CannotGenerate
from privacy.learning.embedding import Embedding, embedding
from privacy.learning.groups import Everyone
from privacy.learning.lattice import Array
from privacy.learning.layout import RowLayout
from privacy.learning.moments import Moments
from privacy.learning.principal_components import principal_components
from privacy.ledger.measurement import SumMeasurement

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
    """

    layout: RowLayout
    names: tuple[str, ...]
    dimensions: int
    clip: float | None

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
        bound = Fraction(math.isqrt(self.width * 10**6) + 1, 2 * 10**3)
        half = np.full(self.width, 0.5)
        about = embedding(self.layout, bound=bound, bits=BITS, columns=self.names, centre=half)
        return Moments(about, Everyone(), ("counts", "sums"))

    def axes_statistic(self, centre: Array | None) -> Moments:
        """Return what is measured for the axes; without a centre a stand-in of the same bound."""
        return Moments(self.embedding(centre, None), Everyone(), ("full",))

    def embedding(self, centre: Array | None, axes: Array | None, *, bound: Fraction | None = None) -> Embedding:
        """Return the embedding about a centre, on axes if there are some."""
        bound = self.bound if bound is None else bound
        return embedding(self.layout, bound=bound, bits=BITS, columns=self.names, centre=centre, axes=axes)

    def stand_in(self) -> Embedding:
        """Return an embedding of the same bounds as the one whose centre and axes nobody knows yet."""
        return self.embedding(None, np.zeros((self.width, self.dimensions)) if self.projects else None)


@dataclass(frozen=True, eq=False)
class Projected:
    """A projection that has been measured; released.

    Args:
        centre: in [0, 1], shape (width,).
        axes: orthonormal columns, shape (width, latent).
        variances: mean square of rows along each axis, shape (latent,).
        rows: noisy number of rows, at least 1 [rows].
        means: noisy mean vector as it was measured, shape (width,).
    """

    centre: Array
    axes: Array
    variances: Array
    rows: float
    means: Array


def checked_layout(asked: Asked, label: str | None, what: str) -> RowLayout:
    """Return the layout of what is asked for, or refuse what no projection can be made of.

    Raises:
        CannotGenerate: no such label or none of listed values, no column beside it, too many entries, or delta 0.
    """
    if asked.layout is None or (label is not None and label not in asked.domain.columns):
        raise CannotGenerate(
            f"options.label: {label!r} is not among the columns; "
            f"allowed: one of {', '.join(asked.domain.columns)}; do: mend the spec"
        )
    if label is not None and asked.layout.column(label).kind != "category":
        raise CannotGenerate(
            f"options.label: {label!r} is a number in bins; allowed: a column of listed values; "
            "do: name another column, or list its values in the contract"
        )
    if label is not None and len(asked.layout.columns) == 1:
        raise CannotGenerate(f"{what} needs a column beside the label; do: add one to columns")
    if asked.layout.width > MOST_ENTRIES:
        raise CannotGenerate(
            f"{what}: rows are vectors of {asked.layout.width} entries; allowed: {MOST_ENTRIES}; "
            "do: take fewer columns, or coarser categories"
        )
    if asked.delta == 0:
        raise CannotGenerate(f"{what}: Gaussian noise needs a delta above 0; do: give the charge a delta")
    return asked.layout


def shrunk_centre(statistic: Moments, measured: SumMeasurement) -> tuple[Array, Array, float]:
    """Return the centre, the mean as it was measured, and the number of rows.

    The centre is shrunk towards 1/2 as far as noise makes up its distance from there, and lies in [0, 1].

    Args:
        statistic: a `Projection.centre_statistic`.
        measured: its noisy sums.
    """
    blocks = statistic.blocks(measured.values)
    count = max(float(np.asarray(blocks.counts)[0]), 1.0)
    away = np.asarray(blocks.sums)[0] / count
    deviation = math.sqrt(measured.variance) / statistic.move * float(statistic.embedding.bound) / count
    squared = float(away @ away)
    kept = max(0.0, 1 - max(away.size - 2, 0) * deviation**2 / squared) if squared > 0 else 0.0
    return np.asarray(np.clip(0.5 + kept * away, 0.0, 1.0)), 0.5 + away, count


def projected(projection: Projection, measure: Callable[[Moments], SumMeasurement]) -> Projected:
    """Measure the centre and, where it projects, the axes.

    Privacy: that of the one or two draws.
    """
    first = projection.centre_statistic()
    centre, means, rows = shrunk_centre(first, measure(first))
    if not projection.projects:
        variances = np.full(projection.width, float(projection.bound) ** 2 / projection.width)
        return Projected(centre, np.eye(projection.width), variances, rows, means)
    second = projection.axes_statistic(centre)
    squares = np.asarray(second.blocks(measure(second).values).squares)[0]
    found = principal_components(squares, dimension=projection.dimensions)
    return Projected(centre, found.axes, found.moments / rows, rows, means)
