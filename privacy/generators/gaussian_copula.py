"""Gaussian copula: columns in an order, with normal numbers behind them whose correlations are measured at once.

    MEASURE     all columns                                      one draw of residuals
    MEASURE     the products of all columns' scores              one draw of a sum of bounded vectors
    ESTIMATE    correlations from products, and their factors    (`privacy.marginals.gaussian_copula`)
    SAMPLE      normal numbers, cut into cells

The score of a cell is the mean of the normal number in it, as the first draw cuts it; of a number in bins a line over
its values. So a row is a vector of d scores of length about √d, and all d (d - 1) / 2 products cost as little as one
vector of length 2 d. A table of a pair has the noise of its two columns, and hardly any of its own.

What it cannot tell: whatever else two columns share than that they rise and fall together. Cells of a category are
taken in the order of the contract, and a cell of nulls is taken as the highest.

Source: Li, Xiong, Jiang 2014 (DPCopula). Deviates: margins are of discrete cells, correlations come from products of
scores and not from ranks of pairs, and factors are fitted to them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Final

import numpy as np

from privacy.accounting.amounts import AmountRefused
from privacy.accounting.events import DiscreteGaussian
from privacy.arrays import Floats
from privacy.generators.decoder import DecoderModel
from privacy.generators.fitting import Fitting, Stopwatch, check, check_time, noise_in_words, refuse_above_cap
from privacy.generators.generator import (
    CannotGenerate,
    CountsSource,
    DrawSeed,
    FitProgress,
    Fitted,
    GeneratorPlan,
    Model,
    Options,
    PlannedStep,
    Spending,
    SynthesisTask,
    too_small,
)
from privacy.generators.latent_factors import event_of, measure, residuals_of, rows_of
from privacy.generators.projection import BITS, checked_layout
from privacy.grant.draws import Draws
from privacy.grant.measurement import SumMeasurement
from privacy.grant.queries.sums import SumQuery
from privacy.learning.embedding import embedding, least_bound
from privacy.learning.layout import ColumnLayout, RowLayout
from privacy.learning.moments import ABOVE, ON, Everyone, Moments, sum_event
from privacy.learning.outputs import UNIT_BITS, OutputColumn
from privacy.learning.whole_network import LatentMixture, to_steps, whole_layers
from privacy.marginals.gaussian_copula import ORDERS, CutNormal, correlations, factor_loadings, line_through
from privacy.marginals.residual_basis import Residual
from privacy.marginals.residuals import ResidualTables, column_residuals
from privacy.marginals.sensitivity import GaussianNoise
from privacy.refine.simplex import project_simplex

_COLUMNS: Final = Fraction(3, 4)
"""Of the budget; the products take the rest (docs/derivations.md)."""
_ROOM: Final = 2
"""Squared norms of rows are bounded by so many times their expected mean."""
_RANGE: Final = 8.0
"""A normal number from -4 to 4 is an output from 0 to 1."""
_LEAST_KEPT: Final = 0.5
_SMALL: Final = 1e-9
_MEGABYTE: Final = 2**20
_LEAST_SECONDS: Final = 2.0
_SECONDS_PER_COLUMN: Final = 0.05


class GaussianCopula:
    """Measures columns, and the products of their scores.

    Args:
        clock: seconds since any moment; for the time limit.
    """

    name: ClassVar[str] = "gaussian_copula"
    options = Options

    def __init__(self, clock: Stopwatch = time.monotonic) -> None:
        self._clock = clock

    def plan(self, task: SynthesisTask, options: Options) -> GeneratorPlan:
        """Plan the two draws.

        Raises:
            CannotGenerate: no columns or too many cells, delta 0, no possible row, or too small a charge.
        """
        check(task, options, ())
        layout = _layout(task, options)
        columns = len(task.domain.columns)
        megabytes = 8 * (6 * columns * columns + 2 * ORDERS * columns + layout.width * columns) / _MEGABYTE
        refuse_above_cap(megabytes, options, f"all pairs of {columns} columns")
        check_time(options, _LEAST_SECONDS)
        events = _events(task, layout)
        shares = (float(_COLUMNS), float(1 - _COLUMNS))
        names = ("residuals of all columns", "products of all columns' scores")
        steps = tuple(
            PlannedStep(name, 1, share, noise_in_words([event]))
            for name, share, event in zip(names, shares, events, strict=True)
        )
        seconds = _LEAST_SECONDS + _SECONDS_PER_COLUMN * columns
        return GeneratorPlan(events, steps, megabytes, seconds, {})

    def fit(
        self,
        task: SynthesisTask,
        options: Options,
        plan: GeneratorPlan,
        counts: CountsSource,
        grant: Draws,
        progress: FitProgress,
        seed: DrawSeed,
    ) -> Fitted[Model]:
        """Measure columns and products, and fit the correlations.

        Raises:
            OutOfTime: the time limit has passed before the columns were measured.
        Privacy: exactly the planned events.
        """
        Fitting(task, options, counts, grant, progress, self._clock).refuse_late("residuals")
        layout, (for_columns, for_products) = _layout(task, options), _noises(task)
        # MEASURE the columns
        progress(0.0, "measuring")
        residuals = _residuals(task)
        drawn, tables = measure(task, residuals, for_columns, counts, grant)
        normals = [_cut(tables, name, cells) for name, cells in _sizes(task).items()]
        # MEASURE the products
        progress(0.3, "measuring sums over rows")
        scores = [_Scores.of(normal, column) for normal, column in zip(normals, layout.columns, strict=True)]
        statistic = _products(layout, scores)
        measured = grant.draw(SumQuery(counts.rows(layout.names), statistic, for_products), key="products")
        # ESTIMATE
        progress(0.8, "estimating")
        loadings = _loadings(statistic, measured, scores, max(tables.total, 1.0))
        progress(1.0, "done")
        return Fitted(_model(task, normals, loadings, rows_of(task, tables)), (drawn, measured))


def _layout(task: SynthesisTask, options: Options) -> RowLayout:
    if options.noise == "laplace":
        raise CannotGenerate(
            "gaussian_copula: its noise is Gaussian; do: leave `noise` out, or name another generator"
        )
    return checked_layout(task, None, "gaussian_copula")


def _sizes(task: SynthesisTask) -> dict[str, int]:
    return dict(zip(task.domain.columns, task.domain.shape, strict=True))


def _residuals(task: SynthesisTask) -> tuple[Residual, ...]:
    return residuals_of(task, column_residuals, name="gaussian_copula")


def _noises(task: SynthesisTask) -> tuple[GaussianNoise, GaussianNoise]:
    spending = Spending(task, "gaussian")
    first, second = spending.split(spending.total, (_COLUMNS, 1 - _COLUMNS))
    return GaussianNoise(first), GaussianNoise(second)


def _events(task: SynthesisTask, layout: RowLayout) -> tuple[DiscreteGaussian, DiscreteGaussian]:
    residuals = _residuals(task)
    of_columns, of_products = _noises(task)
    # How far a row moves the sum does not depend on scores or bound, which nobody knows yet.
    stand_in = Moments(
        embedding(layout, bound=Fraction(1), bits=BITS, axes=np.zeros((layout.width, len(layout.columns)))),
        Everyone(),
        ("full",),
    )
    try:
        products = sum_event(stand_in, of_products, adjacency=task.adjacency, rows_per_unit=task.rows_per_unit)
    except AmountRefused as refused:
        raise too_small(refused) from refused
    return event_of(task, residuals, of_columns), products


def _cut(tables: ResidualTables, name: str, cells: int) -> CutNormal:
    """Return a column's shares: the nearest to the noisy ones that are not negative and add up to 1."""
    even = np.full(cells, 1 / cells)
    if cells == 1 or tables.total <= 0:
        return CutNormal(even)
    return CutNormal(project_simplex(even + tables.part((name,)) / tables.total, 1.0))


@dataclass(frozen=True, eq=False)
class _Scores:
    """The scores of a column's cells: what the axis makes of their entries.

    Args:
        normal: the column's number.
        table: entries of each cell, shape (cells, entries).
        axis: shape (entries,).
        zero: what is taken off the first entry, from 0 to 1.
    """

    normal: CutNormal
    table: Floats
    axis: Floats
    zero: float

    @classmethod
    def of(cls, normal: CutNormal, column: ColumnLayout) -> _Scores:
        """Score a column. A category's entries are its cells; a number has one, and one that says that it is null."""
        if column.kind == "category":
            return cls(normal, column.table, normal.means, 0.0)
        slope, zero = line_through(normal, column.points)
        if not column.nullable:
            return cls(normal, column.table, np.array([slope]), zero)
        known = normal.shares[:-1]
        middle = float(known @ normal.means[:-1]) / max(float(known.sum()), _SMALL)
        # A null's number is 0. The entry that says so lifts it to as far above the line's zero as its cell lies.
        lift = float(normal.means[-1]) - middle + slope * zero
        return cls(normal, column.table, np.array([slope, lift]), zero)

    @property
    def values(self) -> Floats:
        """The score of each cell."""
        return np.asarray(self.table @ self.axis - self.zero * self.axis[0])

    @property
    def square(self) -> float:
        """Its mean square."""
        return float(self.normal.shares @ self.values**2)

    @property
    def series(self) -> Floats:
        """Its coefficients in the normal number."""
        return self.normal.coefficients(self.values)


def _products(layout: RowLayout, scores: Sequence[_Scores]) -> Moments:
    """Return the second moments of all scores, of rows brought within a ball of twice their mean squared norm.

    Where the shares put nearly all rows into one cell the ball would be too small for whole numbers: it is then the
    least that is not. Both follow from what was released.
    """
    centre, axes = np.zeros(layout.width), np.zeros((layout.width, len(scores)))
    start = 0
    for place, each in enumerate(scores):
        axes[start : start + each.axis.size, place] = each.axis
        centre[start] = each.zero
        start += each.axis.size
    wanted = math.sqrt(_ROOM * sum(each.square for each in scores))
    within = max(Fraction(wanted).limit_denominator(10**6), least_bound(axes, bits=BITS))
    return Moments(embedding(layout, bound=within, bits=BITS, centre=centre, axes=axes), Everyone(), ("full",))


def _loadings(statistic: Moments, measured: SumMeasurement, scores: Sequence[_Scores], rows: float) -> Floats:
    """Return the loadings of the normal numbers on the factors that the products show, shape (columns, factors)."""
    blocks = statistic.blocks(measured.values, variance=measured.variance)
    products = np.asarray(blocks.squares)[0] / rows
    expected = sum(each.square for each in scores)
    # Rows beyond the ball were shortened, which makes all products smaller alike.
    kept = min(max(float(np.trace(products)) / max(expected, _SMALL), _LEAST_KEPT), 1.0)
    series = np.stack([each.series for each in scores])
    sizes = series[:, 1]
    covariances = correlations(products / kept, series) * np.outer(sizes, sizes)
    deviation = blocks.deviation * float(statistic.embedding.bound) ** 2 * ON / ABOVE / rows / kept
    return factor_loadings(covariances, sizes, deviation)


def _model(task: SynthesisTask, normals: Sequence[CutNormal], loadings: Floats, rows: int) -> DecoderModel:
    """Write factors as a latent of independent normals, and what a number has for itself as its spread."""
    if not loadings.shape[1]:  # no factors: a latent of which nothing depends
        loadings = np.zeros((len(normals), 1))
    size, none = loadings.shape[1], np.empty(0, dtype=np.int64)
    own = np.sqrt(1 - (loadings**2).sum(axis=1))
    columns = tuple(
        OutputColumn(name, "number", cells, 1, np.rint(_outputs(normal.cuts[1:-1]) * 2.0**UNIT_BITS).astype(np.int64))
        for (name, cells), normal in zip(_sizes(task).items(), normals, strict=True)
    )
    return DecoderModel(
        rows=rows,
        columns=columns,
        latents=LatentMixture(
            np.ones(1, dtype=np.int64), np.zeros((1, size), dtype=np.int64), to_steps(np.eye(size)[None])
        ),
        network=whole_layers([(loadings / _RANGE, np.full(len(normals), 0.5))]),
        reading="values",
        spreads=to_steps(own / _RANGE),
        label=None,
        labels=none,
        impossible=task.impossible,
    )


def _outputs(numbers: Floats) -> Floats:
    """Return the outputs of normal numbers, from 0 to 1."""
    return np.clip(0.5 + numbers / _RANGE, 0.0, 1.0)
