"""Class-conditional Gaussians in a private principal subspace: three noisy sums, and no training.

    MEASURE   the centre of all rows' vectors                  counts and sums, |x - 1/2| <= sqrt(width) / 2
    MEASURE   their second moment about it                     its leading eigenvectors are the axes
    MEASURE   counts, means and covariances of each label      of the vectors on these axes
    SAMPLE    a label, a normal vector of its mean and covariance, and back along the axes

Vectors are the rows as a `RowLayout` writes them: numbers in [0, 1], one entry a category's cell, one a pixel. The
whole fit costs three Gaussian draws, so nearly all of the budget goes into few numbers; what classifiers learn from
a sample is what a quadratic discriminant analysis would.

Source: Dwork, Talwar, Thakurta, Zhang 2014 (the private axes); Hastie, Tibshirani, Friedman 2009, section 4.3 (the
model). Beside P3GM (Takagi et al. 2021) it keeps phase one, with a component a label, and leaves out phase two.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import ClassVar, Final

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from privacy.accounting.amounts import AmountRefused
from privacy.generators.decoder_model import DecoderModel
from privacy.generators.generator import (
    Asked,
    CannotGenerate,
    CountsSource,
    Fitted,
    GeneratorPlan,
    PlannedStep,
    Progress,
)
from privacy.generators.spending import Spending, too_small
from privacy.learning.embedding import Embedding, embedding
from privacy.learning.groups import Everyone, Labels
from privacy.learning.lattice import Array
from privacy.learning.layout import RowLayout
from privacy.learning.mixture import Mixture, class_gaussians
from privacy.learning.moments import Moments
from privacy.learning.outputs import output_columns
from privacy.learning.principal_components import principal_components
from privacy.learning.statistics import sum_event
from privacy.learning.whole_network import LatentMixture, whole, whole_layers
from privacy.ledger.grant import Grant
from privacy.ledger.measurement import SumMeasurement
from privacy.marginals.sensitivity import GaussianNoise

BITS: Final = 12
_SHARES: Final = (Fraction(1, 20), Fraction(1, 4), Fraction(7, 10))
"""Of the budget: the centre, the axes, the classes."""
_WIDEST: Final = 4096
_WEIGHT: Final = 2**40
_MEGABYTE: Final = 2**20
_MULTIPLICATIONS_A_SECOND: Final = 1e10
_ROWS_ASSUMED: Final = 100_000


class ClassGaussianOptions(BaseModel):
    """Options of `class_gaussian`; unknown options are refused.

    Args:
        label: the column whose cells are the classes; not a number in bins.
        dimensions: axes that are kept, fewer where there are not so many entries.
        clip: norm to which vectors are clipped about their centre. Without it the root of 1/16 a number or pixel,
            1/4 a column that may be null, and 1 a category. Choose it without looking at the data.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    label: str
    dimensions: int = Field(default=32, ge=1, le=1024)
    clip: float | None = Field(default=None, gt=0, allow_inf_nan=False)


class ClassGaussian:
    """Fits one Gaussian a class in a private principal subspace."""

    name: ClassVar[str] = "class_gaussian"
    options = ClassGaussianOptions
    takes_pictures: ClassVar[bool] = True

    def plan(self, asked: Asked, options: ClassGaussianOptions) -> GeneratorPlan:
        """Plan the three sums.

        Raises:
            CannotGenerate: no such label, too many entries, delta 0, or too small a charge.
        """
        layout = _checked(asked, options)
        try:
            statistics = _stand_ins(layout, options)
            events = tuple(
                sum_event(each, noise, adjacency=asked.adjacency, rows_per_unit=asked.rows_per_unit)
                for each, noise in zip(statistics, _noises(asked, len(statistics)), strict=True)
            )
        except (AmountRefused, ValueError) as refused:
            raise CannotGenerate(
                f"class_gaussian: {refused}; do: raise epsilon, or mend clip or dimensions"
            ) from refused
        names = ("centre", "second moment", "classes")[: len(events)] if len(events) == 3 else ("centre", "classes")
        steps = tuple(
            PlannedStep(name, 1, float(share), _in_words(event.sigma_squared, statistic.move))
            for name, share, event, statistic in zip(names, _shares(len(events)), events, statistics, strict=True)
        )
        width, size = layout.width, statistics[-1].embedding.dimension
        megabytes = 8 * (6 * width * width + 4 * size * size * _classes(layout, options)) / _MEGABYTE
        seconds = 0.5 + 2 * _ROWS_ASSUMED * width * width / _MULTIPLICATIONS_A_SECOND
        return GeneratorPlan(events, steps, megabytes, seconds, {})

    def fit(
        self,
        asked: Asked,
        options: ClassGaussianOptions,
        plan: GeneratorPlan,
        counts: CountsSource,
        grant: Grant,
        progress: Progress,
    ) -> Fitted:
        """Measure centre, axes and classes, and put them together.

        Raises:
            GrantExceeded: more was planned than the grant holds; nothing was drawn.
        Privacy: exactly the planned events.
        """
        layout = _checked(asked, options)
        rows = counts.rows(asked.domain.columns)
        drawn: list[SumMeasurement] = []
        noises = _noises(asked, len(plan.events))

        def measured(statistic: Moments) -> Moments:
            key = f"measurement-{len(drawn) + 1:04d}"
            drawn.append(grant.measure_sums(rows, statistic, noise=noises[len(drawn)], key=key))
            return statistic

        # MEASURE the centre
        progress(0.0, "measuring the centre")
        first = measured(_centre_statistic(layout, options))
        centre = _centre(first, drawn[-1])
        # MEASURE the axes
        axes = None
        if _projects(layout, options):
            progress(0.1, "measuring the second moment")
            second = measured(Moments(_about(layout, options, centre), Everyone(), ("full",)))
            squares = second.blocks(drawn[-1].values).squares
            axes = principal_components(np.asarray(squares)[0], dimension=options.dimensions).axes
        # MEASURE the classes
        progress(0.5, "measuring the classes")
        third = measured(_class_statistic(layout, options, centre, axes))
        bound = float(third.embedding.bound)
        blocks = third.blocks(drawn[-1].values, variance=drawn[-1].variance)
        mixture = class_gaussians(blocks, bound=bound, floor=bound * bound * 1e-6, least=1.0)
        model = _model(asked, options, layout, centre, axes, mixture, np.asarray(blocks.counts))
        progress(1.0, "done")
        return Fitted(model, (), (), sums=tuple(drawn))


def _checked(asked: Asked, options: ClassGaussianOptions) -> RowLayout:
    """Return the layout, or refuse what must fail."""
    if asked.layout is None or options.label not in asked.domain.columns:
        raise CannotGenerate(
            f"options.label: {options.label!r} is not among the columns; "
            f"allowed: one of {', '.join(asked.domain.columns)}; do: mend the spec"
        )
    if asked.layout.column(options.label).kind != "category":
        raise CannotGenerate(
            f"options.label: {options.label!r} is a number in bins; allowed: a column of listed values; "
            "do: name another column, or list its values in the contract"
        )
    if len(asked.layout.columns) == 1:
        raise CannotGenerate("class_gaussian needs a column beside the label; do: add one to columns")
    width = asked.layout.select(_decoded(asked.layout, options)).width
    if width > _WIDEST:
        raise CannotGenerate(
            f"class_gaussian: rows are vectors of {width} entries; allowed: {_WIDEST}; do: take fewer columns, "
            "or coarser categories"
        )
    if asked.delta == 0:
        raise CannotGenerate("class_gaussian: Gaussian noise needs a delta above 0; do: give the charge a delta")
    return asked.layout


def _decoded(layout: RowLayout, options: ClassGaussianOptions) -> tuple[str, ...]:
    return tuple(name for name in layout.names if name != options.label)


def _classes(layout: RowLayout, options: ClassGaussianOptions) -> int:
    return int(layout.column(options.label).table.shape[0])


def _width(layout: RowLayout, options: ClassGaussianOptions) -> int:
    return layout.select(_decoded(layout, options)).width


def _projects(layout: RowLayout, options: ClassGaussianOptions) -> bool:
    """Whether there are more entries than axes."""
    return options.dimensions < _width(layout, options)


def _clip(layout: RowLayout, options: ClassGaussianOptions) -> Fraction:
    """Return the norm bound: the option's, or from the form of the columns alone."""
    if options.clip is not None:
        return Fraction(options.clip).limit_denominator(10**6)
    squares = {"unit": 1 / 16, "flag": 1 / 4, "choice": 1.0}
    heads = layout.select(_decoded(layout, options)).heads
    each = [squares[head.kind] * (1 if head.kind == "choice" else head.stop - head.start) for head in heads]
    return Fraction(math.sqrt(sum(each))).limit_denominator(10**6)


def _shares(draws: int) -> tuple[Fraction, ...]:
    return _SHARES if draws == 3 else (_SHARES[0], 1 - _SHARES[0])


def _noises(asked: Asked, draws: int) -> tuple[GaussianNoise, ...]:
    """Split the budget over the draws."""
    try:
        spending = Spending(asked, "gaussian")
        return tuple(GaussianNoise(part) for part in spending.split(spending.whole, _shares(draws)))
    except AmountRefused as refused:
        raise too_small(refused) from refused


def _centre_statistic(layout: RowLayout, options: ClassGaussianOptions) -> Moments:
    names, width = _decoded(layout, options), _width(layout, options)
    bound = Fraction(math.isqrt(width * 10**6) + 1, 2 * 10**3)
    about = embedding(layout, bound=bound, bits=BITS, columns=names, centre=np.full(width, 0.5))
    return Moments(about, Everyone(), ("counts", "sums"))


def _about(
    layout: RowLayout, options: ClassGaussianOptions, centre: Array | None, axes: Array | None = None
) -> Embedding:
    names = _decoded(layout, options)
    return embedding(layout, bound=_clip(layout, options), bits=BITS, columns=names, centre=centre, axes=axes)


def _class_statistic(
    layout: RowLayout, options: ClassGaussianOptions, centre: Array | None, axes: Array | None
) -> Moments:
    labels = Labels(options.label, _classes(layout, options))
    return Moments(_about(layout, options, centre, axes), labels, ("counts", "sums", "full"))


def _stand_ins(layout: RowLayout, options: ClassGaussianOptions) -> tuple[Moments, ...]:
    """Return statistics of the same bounds as those that are measured, whose centre and axes nobody knows yet."""
    first = _centre_statistic(layout, options)
    if not _projects(layout, options):
        return first, _class_statistic(layout, options, None, None)
    axes = np.zeros((_width(layout, options), options.dimensions))
    second = Moments(_about(layout, options, None), Everyone(), ("full",))
    return first, second, _class_statistic(layout, options, None, axes)


def _centre(statistic: Moments, measured: SumMeasurement) -> Array:
    """Return the mean vector, shrunk towards 1/2 as far as noise makes up its distance from there, in [0, 1].

    Source: James, Stein 1961 (positive part).
    """
    blocks = statistic.blocks(measured.values)
    count = max(float(np.asarray(blocks.counts)[0]), 1.0)
    away = np.asarray(blocks.sums)[0] / count
    deviation = math.sqrt(measured.variance) / statistic.move * float(statistic.embedding.bound) / count
    squared = float(away @ away)
    kept = max(0.0, 1 - max(away.size - 2, 0) * deviation**2 / squared) if squared > 0 else 0.0
    return np.asarray(np.clip(0.5 + kept * away, 0.0, 1.0))


def _model(
    asked: Asked,
    options: ClassGaussianOptions,
    layout: RowLayout,
    centre: Array,
    axes: Array | None,
    mixture: Mixture,
    counts: Array,
) -> DecoderModel:
    """Write centre, axes and classes as a decoder of one layer."""
    outputs = np.eye(centre.size) if axes is None else axes
    latents = LatentMixture(
        np.maximum(np.rint(mixture.weights * _WEIGHT), 1.0).astype(np.int64),
        whole(mixture.means),
        whole(mixture.cholesky()),
    )
    total = float(np.maximum(counts, 0).sum())
    labels = np.arange(len(counts), dtype=np.int64)
    spreads = np.zeros(centre.size, dtype=np.int64)
    impossible: Mapping[tuple[str, ...], np.ndarray] = asked.impossible
    return DecoderModel(
        rows=asked.public_total if asked.public_total is not None else round(total),
        columns=output_columns(layout),
        latents=latents,
        network=whole_layers([(outputs, centre)]),
        reading="values",
        spreads=spreads,
        label=options.label,
        labels=labels,
        impossible=impossible,
    )


def _in_words(sigma_squared: Fraction, move: int) -> str:
    return f"discrete Gaussian, standard deviation {math.sqrt(float(sigma_squared)) / move:.3g} times one row's bound"
