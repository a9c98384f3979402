"""Class-conditional Gaussians in a private principal subspace: a few noisy sums, and no training.

    MEASURE   the centre of all rows' vectors                  counts and sums, |x - 1/2| <= sqrt(width) / 2
    MEASURE   how far numbers are stretched                    counts by norm, the centre again, counts again
    MEASURE   their second moment about it                     its leading eigenvectors are the axes
    MEASURE   counts, means and covariances of each label      of the vectors on these axes
    SAMPLE    a label, a normal vector of its mean and covariance, and back along the axes

Vectors are the rows as a `RowLayout` writes them: numbers in [0, 1], one entry a category's cell, one a pixel. The
whole fit costs three Gaussian draws, six where there are numbers (`number_scale`), so nearly all of the budget goes
into few numbers; what classifiers learn from a sample is what a quadratic discriminant analysis would.

Source: Dwork, Talwar, Thakurta, Zhang 2014 (the private axes); Hastie, Tibshirani, Friedman 2009, section 4.3 (the
model). Beside P3GM (Takagi et al. 2021) it keeps phase one, with a component a label, and leaves out phase two.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import ClassVar, Final, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from privacy.accounting.amounts import AmountRefused
from privacy.arrays import Floats
from privacy.generators.decoder_model import DecoderModel
from privacy.generators.generator import (
    CannotGenerate,
    CountsSource,
    DrawSeed,
    FitProgress,
    Fitted,
    GeneratorPlan,
    Model,
    PlannedStep,
    SynthesisTask,
)
from privacy.generators.projection import Projected, Projection, checked_layout, projected
from privacy.generators.spending import Spending, too_small
from privacy.grant.draws import Draws
from privacy.grant.measurement import SumMeasurement
from privacy.grant.queries.sums import SumQuery
from privacy.learning.embedding import Embedding
from privacy.learning.groups import LabelCodes
from privacy.learning.mixture import Mixture, class_gaussians
from privacy.learning.moments import Moments, sum_event
from privacy.learning.outputs import output_columns
from privacy.learning.whole_network import LatentMixture, to_steps, whole_layers
from privacy.marginals.sensitivity import GaussianNoise

_CENTRE: Final = Fraction(1, 20)
_AXES: Final = Fraction(1, 4)
"""Of the budget; the classes take the rest."""
_WEIGHT: Final = 2**40
_MEGABYTE: Final = 2**20
_MULTIPLICATIONS_PER_SECOND: Final = 1e10
_ROWS_ASSUMED: Final = 100_000


class ClassGaussianOptions(BaseModel):
    """Options of `class_gaussian`; unknown options are refused.

    Args:
        label: the column whose cells are the classes; not a number in bins.
        dimensions: axes that are kept, fewer where there are not so many entries.
        clip: norm to which vectors are clipped about their centre. Without it the root of 1/16 a number or pixel,
            1/4 a column that may be null, and 1 a category. Choose it without looking at the data.
        scale: "measured", numbers that fill little of their declared range are stretched, as far as a noisy count
            of norms says (`number_scale`; not where `clip` is given); "declared", they are left as they are declared.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    label: str
    dimensions: int = Field(default=32, ge=1, le=1024)
    clip: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    scale: Literal["measured", "declared"] = "measured"


class ClassGaussian:
    """Fits one Gaussian a class in a private principal subspace."""

    name: ClassVar[str] = "class_gaussian"
    options = ClassGaussianOptions
    takes_pictures: ClassVar[bool] = True

    def plan(self, task: SynthesisTask, options: ClassGaussianOptions) -> GeneratorPlan:
        """Plan the three sums.

        Raises:
            CannotGenerate: no such label, too many entries, delta 0, or too small a charge.
        """
        projection = _projection(task, options)
        try:
            statistics = _stand_ins(projection, options)
            events = tuple(
                sum_event(each, noise, adjacency=task.adjacency, rows_per_unit=task.rows_per_unit)
                for each, noise in zip(statistics, _noises(task, projection), strict=True)
            )
        except (AmountRefused, ValueError) as refused:
            raise CannotGenerate(
                f"class_gaussian: {refused}; do: raise epsilon, or mend clip or dimensions"
            ) from refused
        names = (*projection.steps, "classes")
        steps = tuple(
            PlannedStep(name, 1, float(share), _in_words(event.sigma_squared, statistic.move))
            for name, share, event, statistic in zip(names, _shares(projection), events, statistics, strict=True)
        )
        width, size = projection.width, projection.latent
        megabytes = 8 * (6 * width * width + 4 * size * size * _classes(projection, options)) / _MEGABYTE
        seconds = 0.5 + 2 * _ROWS_ASSUMED * width * width / _MULTIPLICATIONS_PER_SECOND
        return GeneratorPlan(events, steps, megabytes, seconds, {})

    def fit(
        self,
        task: SynthesisTask,
        options: ClassGaussianOptions,
        plan: GeneratorPlan,
        counts: CountsSource,
        grant: Draws,
        progress: FitProgress,
        seed: DrawSeed,
    ) -> Fitted[Model]:
        """Measure centre, axes and classes, and put them together.

        Raises:
            GrantExceeded: more was planned than the grant holds; nothing was drawn.
        Privacy: exactly the planned events.
        """
        projection = _projection(task, options)
        rows = counts.rows(task.domain.columns)
        drawn: list[SumMeasurement] = []
        noises = _noises(task, projection)

        def measure(statistic: Moments) -> SumMeasurement:
            progress(len(drawn) / (len(noises) + 1), "measuring sums over rows")
            key = f"measurement-{len(drawn) + 1:04d}"
            drawn.append(grant.draw(SumQuery(rows, statistic, noises[len(drawn)]), key=key))
            return drawn[-1]

        # MEASURE the centre and the axes
        made = projected(projection, measure)
        # MEASURE the classes
        axes = made.axes if projection.projects else None
        embedded = projection.embedding(made.centre, axes, factors=made.factors)
        statistic = _class_statistic(projection, options, embedded)
        measured = measure(statistic)
        bound = float(projection.bound)
        blocks = statistic.blocks(measured.values, variance=measured.variance)
        mixture = class_gaussians(blocks, bound=bound, floor=bound * bound * 1e-6, least=1.0)
        model = _model(task, options, projection, made, mixture, np.asarray(blocks.counts))
        progress(1.0, "done")
        return Fitted(model, tuple(drawn))


def _projection(task: SynthesisTask, options: ClassGaussianOptions) -> Projection:
    """Return what is projected: all columns but the label."""
    layout = checked_layout(task, options.label, "class_gaussian")
    names = tuple(name for name in layout.names if name != options.label)
    return Projection(layout, names, options.dimensions, options.clip, options.scale == "measured")


def _classes(projection: Projection, options: ClassGaussianOptions) -> int:
    return int(projection.layout.column(options.label).table.shape[0])


def _shares(projection: Projection) -> tuple[Fraction, ...]:
    first = projection.shares(_CENTRE, _AXES)
    return (*first, 1 - sum(first, Fraction(0)))


def _noises(task: SynthesisTask, projection: Projection) -> tuple[GaussianNoise, ...]:
    """Split the budget over the draws."""
    try:
        spending = Spending(task, "gaussian")
        return tuple(GaussianNoise(part) for part in spending.split(spending.total, _shares(projection)))
    except AmountRefused as refused:
        raise too_small(refused) from refused


def _class_statistic(projection: Projection, options: ClassGaussianOptions, embedded: Embedding) -> Moments:
    labels = LabelCodes(options.label, _classes(projection, options))
    return Moments(embedded, labels, ("counts", "sums", "full"))


def _stand_ins(projection: Projection, options: ClassGaussianOptions) -> tuple[Moments, ...]:
    """Return statistics of the same bounds as those that are measured, whose centre and axes nobody knows yet."""
    return (*projection.first_statistics(), _class_statistic(projection, options, projection.stand_in()))


def _model(
    task: SynthesisTask,
    options: ClassGaussianOptions,
    projection: Projection,
    projected: Projected,
    mixture: Mixture,
    counts: Floats,
) -> DecoderModel:
    """Write centre, axes and classes as a decoder of one layer."""
    latents = LatentMixture(
        # At least 1: no label becomes impossible by rounding.
        np.maximum(np.rint(mixture.weights * _WEIGHT), 1.0).astype(np.int64),
        to_steps(mixture.means),
        to_steps(mixture.cholesky()),
    )
    total = float(np.maximum(counts, 0).sum())
    labels = np.arange(len(counts), dtype=np.int64)
    spreads = np.zeros(projection.width, dtype=np.int64)
    impossible: Mapping[tuple[str, ...], np.ndarray] = task.impossible
    return DecoderModel(
        rows=task.public_total if task.public_total is not None else round(total),
        columns=output_columns(projection.layout),
        latents=latents,
        # A vector is centre + axes · latent, unstretched: one affine layer.
        network=whole_layers([(projected.axes / projected.factors[:, None], projected.centre)]),
        reading="values",
        spreads=spreads,
        label=options.label,
        labels=labels,
        impossible=impossible,
    )


def _in_words(sigma_squared: Fraction, move: int) -> str:
    return f"discrete Gaussian, standard deviation {math.sqrt(float(sigma_squared)) / move:.3g} times one row's bound"
