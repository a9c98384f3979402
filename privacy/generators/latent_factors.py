"""Latent factors: all pairs of many columns in one draw of residuals, and a model of few numbers fitted to them.

    MEASURE     the residuals of all columns and all pairs, with one noise      one draw
    ESTIMATE    a latent factor model (`privacy.marginals.latent_factors`)
    SAMPLE      one of its points, and the columns independently, given the point

For tables of so many columns that a tree or rounds of choices reach few of the pairs. Noise on a pair is large, but
the model has far fewer numbers than there are pairs of cells, so that most of the noise averages out. It cannot tell
what three columns share beyond their factors, nor a pair that goes along with no other column.
"""

from __future__ import annotations

import time
from typing import ClassVar, Final, Protocol

import numpy as np

from contracts.contract.contract import Adjacency
from privacy.accounting.amounts import AmountRefused
from privacy.accounting.events import DiscreteGaussian
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
from privacy.grant.draws import Draws
from privacy.grant.measurement import ResidualMeasurement
from privacy.grant.queries.residuals import ResidualQuery
from privacy.learning.outputs import OutputColumn
from privacy.learning.whole_network import LatentMixture, to_steps, whole_layers
from privacy.marginals.latent_factors import POINTS, LatentFactors, NoisyPairs, fit_latent_factors
from privacy.marginals.residual_basis import Residual, residual_event
from privacy.marginals.residuals import ResidualTables, pair_residuals, residual_variances
from privacy.marginals.sensitivity import GaussianNoise

# --- What generators that measure residuals have in common.


KEY: Final = "residuals"


class ResidualChoice(Protocol):
    """Which residuals are measured, of columns with their numbers of cells."""

    def __call__(
        self, cells: tuple[tuple[str, int], ...], /, *, adjacency: Adjacency, total_is_public: bool
    ) -> tuple[Residual, ...]:
        """Return the residuals, the total first where it is not public."""
        ...


def residuals_of(task: SynthesisTask, chosen: ResidualChoice, *, name: str) -> tuple[Residual, ...]:
    """Return the residuals that a generator measures.

    Args:
        task: gives columns, adjacency, and whether the total is public.
        chosen: which of them.
        name: of the generator, for the message.
    Raises:
        CannotGenerate: there are none.
    """
    sizes = tuple(zip(task.domain.columns, task.domain.shape, strict=True))
    found = chosen(sizes, adjacency=task.adjacency, total_is_public=task.public_total is not None)
    if not found:
        raise CannotGenerate(
            f"{name}: the number of rows is public and every column has one cell, so there is nothing to "
            "measure; do: add a column of several cells"
        )
    return found


def event_of(task: SynthesisTask, residuals: tuple[Residual, ...], noise: GaussianNoise) -> DiscreteGaussian:
    """Return the event of their draw.

    Raises:
        CannotGenerate: the charge is too small.
    """
    try:
        return residual_event(residuals, noise, adjacency=task.adjacency, rows_per_unit=task.rows_per_unit)
    except AmountRefused as refused:
        raise too_small(refused) from refused


def measure(
    task: SynthesisTask, residuals: tuple[Residual, ...], noise: GaussianNoise, counts: CountsSource, grant: Draws
) -> tuple[ResidualMeasurement, ResidualTables]:
    """Measure all residuals in one draw; return it, and the tables that follow from it.

    Privacy: the event of `event_of`.
    """
    handles = counts.marginals([each.columns for each in residuals])
    drawn = grant.draw(ResidualQuery(handles, tuple(each.multiplier for each in residuals), noise), key=KEY)
    return drawn, ResidualTables(residuals, drawn.values, total=task.public_total)


def rows_of(task: SynthesisTask, tables: ResidualTables) -> int:
    """Return the number of rows of the model: the public one, or the estimated one, which may not be negative."""
    return task.public_total if task.public_total is not None else max(0, round(tables.total))


_MOST_COLUMNS: Final = 510
"""More have more residuals of pairs than a plan may have."""
_MEGABYTE: Final = 2**20
_OPERATIONS_PER_SECOND: Final = 2e10
_LEAST_SECONDS: Final = 1.0
_SECONDS_PER_RESIDUAL: Final = 1e-3
_ESTIMATES: Final = 400
"""Steps of the fit, over all numbers of factors."""


class LatentFactorGenerator:
    """Measures all pairs at once.

    Args:
        clock: seconds since any moment; for the time limit.
    """

    name: ClassVar[str] = "latent_factors"
    reads_rows: ClassVar[bool] = False
    joins_bins: ClassVar[bool] = False
    options = Options

    def __init__(self, clock: Stopwatch = time.monotonic) -> None:
        self._clock = clock

    def plan(self, task: SynthesisTask, options: Options) -> GeneratorPlan:
        """Plan the one draw.

        Raises:
            CannotGenerate: too many columns or cells, delta 0, no possible row, or too small a charge.
        """
        check(task, options, ())
        cells, columns = sum(task.domain.shape), len(task.domain.columns)
        if columns > _MOST_COLUMNS:
            raise CannotGenerate(
                f"latent_factors: {columns} columns; allowed: at most {_MOST_COLUMNS}; do: publish fewer columns"
            )
        if options.noise == "laplace" or task.delta == 0:
            raise CannotGenerate(
                "latent_factors: its noise is Gaussian, and needs a delta above 0; "
                "do: give the charge a delta and leave `noise` out, or take another generator"
            )
        megabytes = 6 * 4 * cells * cells / _MEGABYTE
        refuse_above_cap(megabytes, options, f"all pairs of {cells} cells")
        check_time(options, _LEAST_SECONDS)
        residuals = _residuals(task)
        event = event_of(task, residuals, _noise(task))
        step = PlannedStep("residuals of all columns and all pairs", 1, 1.0, noise_in_words([event]))
        operations = 6.0 * _ESTIMATES * POINTS * cells * cells
        seconds = _LEAST_SECONDS + _SECONDS_PER_RESIDUAL * len(residuals) + operations / _OPERATIONS_PER_SECOND
        return GeneratorPlan((event,), (step,), megabytes, seconds, {})

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
        """Measure all residuals in one draw, and fit the model.

        Raises:
            OutOfTime: the time limit has passed before they were measured.
        Privacy: exactly the planned event.
        """
        Fitting(task, options, counts, grant, progress, self._clock).refuse_late("residuals")
        progress(0.0, "measuring")
        # MEASURE
        residuals = _residuals(task)
        drawn, tables = measure(task, residuals, _noise(task), counts, grant)
        # ESTIMATE
        variances = residual_variances(residuals, drawn.event.sigma_squared)
        parts = {each.columns: tables.part(each.columns) for each in residuals if each.columns}
        of_parts = {columns: float(each) for columns, each in variances.items()}
        noisy = NoisyPairs.of(task.domain, parts, of_parts, max(tables.total, 1.0))
        found = fit_latent_factors(noisy, lambda done: progress(0.2 + 0.75 * done, "estimating"))
        progress(1.0, "done")
        return Fitted(_model(task, found, rows_of(task, tables)), (drawn,))


def _residuals(task: SynthesisTask) -> tuple[Residual, ...]:
    return residuals_of(task, pair_residuals, name="latent_factors")


def _noise(task: SynthesisTask) -> GaussianNoise:
    return GaussianNoise(Spending(task, "gaussian").total)


def _model(task: SynthesisTask, found: LatentFactors, rows: int) -> DecoderModel:
    """Write the points as components without spread, and intercepts and loadings as one layer of logits."""
    points, loadings = found.points, found.loadings
    if not points.shape[1]:  # no factors: a latent of which nothing depends
        points, loadings = np.zeros((len(points), 1)), np.zeros((1, loadings.shape[1]))
    size, none = points.shape[1], np.empty(0, dtype=np.int64)
    latents = LatentMixture(
        np.ones(len(points), dtype=np.int64), to_steps(points), np.zeros((len(points), size, size), dtype=np.int64)
    )
    return DecoderModel(
        rows=rows,
        columns=tuple(
            OutputColumn(name, "category", cells, 1, none, False)
            for name, cells in zip(task.domain.columns, task.domain.shape, strict=True)
        ),
        latents=latents,
        network=whole_layers([(loadings.T, found.intercepts)]),
        reading="logits",
        spreads=np.zeros(sum(task.domain.shape), dtype=np.int64),
        label=None,
        labels=none,
        impossible=task.impossible,
    )
