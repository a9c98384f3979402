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
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Final, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from privacy.accounting.amounts import AmountRefused
from privacy.arrays import Floats
from privacy.generators.bin_places import NumberEntry, entering, entry_notes
from privacy.generators.decoder_model import DecoderModel
from privacy.generators.fit_times import ROWS_ASSUMED, START, assumed_rows_note, sums_seconds
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
from privacy.generators.latent_checks import check_numbers
from privacy.generators.projection import Projected, Projection, check_clip, checked_layout, projected
from privacy.generators.spending import Spending, too_small
from privacy.grant.draws import Draws
from privacy.grant.measurement import SumMeasurement
from privacy.grant.queries.sums import SumQuery
from privacy.learning.embedding import ClipNorm, Embedding
from privacy.learning.groups import LabelCodes, Responsibilities
from privacy.learning.mixture import Mixture, class_gaussians, mixture_statistic
from privacy.learning.moments import MomentBlocks, Moments, sum_event
from privacy.learning.outputs import output_columns
from privacy.learning.whole_network import LatentMixture, to_steps, whole_layers
from privacy.marginals.sensitivity import GaussianNoise

_CENTRE: Final = Fraction(1, 20)
_AXES: Final = Fraction(1, 4)
"""Of the budget; the classes take the rest."""
_NONE: Final = Fraction(0)
WEIGHT: Final = 2**40
_WEIGHT_BITS: Final = 5
"""A row is shared out among components in parts of 2^-5: finer ones would leave less room for rows of one unit."""
_MEGABYTE: Final = 2**20


class ClassGaussianOptions(BaseModel):
    """Options of `class_gaussian`; unknown options are refused.

    Args:
        label: the column whose cells are the classes; not a number in bins.
        dimensions: axes that are kept, fewer where there are not so many entries.
        clip: norm to which vectors are clipped about their centre. Without it the root of 1/16 a number or pixel,
            1/4 a column that may be null, and 1 a category. Choose it without looking at the data.
        scale: "measured", numbers that fill little of their declared range are stretched, as far as a noisy count
            of norms says (`number_scale`; not where `clip` is given); "declared", they are left as they are declared.
        numbers: how they enter: "scaled" by their bounds; "bins", by the places of their bins (`bin_places`); "auto",
            by bins where those are far from even.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    label: str
    dimensions: int = Field(default=32, ge=1, le=1024)
    clip: ClipNorm = None
    scale: Literal["measured", "declared"] = "measured"
    numbers: NumberEntry = "auto"


@dataclass(frozen=True, eq=False)
class GaussianForm:
    """What the options make of the columns; public.

    Args:
        projection: all columns but the label.
        label: groups of rows.
        names: of the draws, for people.
        shares: of the budget, one a draw.
        statistics: stand-ins of what is measured, of the same bounds.
    """

    projection: Projection
    label: LabelCodes
    names: tuple[str, ...]
    shares: tuple[Fraction, ...]
    statistics: tuple[Moments, ...]

    @property
    def rounds(self) -> int:
        """In how many rounds classes are split and measured again."""
        return sum(isinstance(each.groups, Responsibilities) for each in self.statistics)


class ClassGaussian:
    """Fits one Gaussian a class in a private principal subspace."""

    name: ClassVar[str] = "class_gaussian"
    options: type[Any] = ClassGaussianOptions
    takes_pictures: ClassVar[bool] = True

    def plan(self, task: SynthesisTask, options: Any) -> GeneratorPlan:
        """Plan the sums.

        Raises:
            CannotGenerate: no such label, too many entries, delta 0, or too small a charge.
        """
        try:
            form = self.form(task, options)
            events = tuple(
                sum_event(each, noise, adjacency=task.adjacency, rows_per_unit=task.rows_per_unit)
                for each, noise in zip(form.statistics, _noises(task, form), strict=True)
            )
        except (AmountRefused, ValueError) as refused:
            raise CannotGenerate(
                f"{self.name}: {refused}; do: raise epsilon, or mend clip or dimensions"
            ) from refused
        steps = tuple(
            PlannedStep(name, 1, float(share), _in_words(event.sigma_squared, statistic.move))
            for name, share, event, statistic in zip(form.names, form.shares, events, form.statistics, strict=True)
        )
        width, size = form.projection.width, form.projection.latent
        gaussians = form.label.count * 2**form.rounds
        megabytes = 8 * (6 * width * width + 4 * size * size * gaussians) / _MEGABYTE
        rows = task.public_total or ROWS_ASSUMED
        seconds = START + sums_seconds(form.statistics, rows=rows)
        notes = (*entry_notes(task.layout, form.projection.layout), *assumed_rows_note(task.public_total))
        return GeneratorPlan(events, steps, megabytes, seconds, {}, notes=notes)

    def fit(
        self,
        task: SynthesisTask,
        options: Any,
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
        form = self.form(task, options)
        rows = counts.rows(task.domain.columns).with_layout(form.projection.layout)
        drawn: list[SumMeasurement] = []
        noises = _noises(task, form)

        def measure(statistic: Moments) -> SumMeasurement:
            progress(len(drawn) / (len(noises) + 1), "measuring sums over rows")
            key = f"measurement-{len(drawn) + 1:04d}"
            drawn.append(grant.draw(SumQuery(rows, statistic, noises[len(drawn)]), key=key))
            return drawn[-1]

        # MEASURE the centre and the axes
        made = projected(form.projection, measure)
        # MEASURE the classes
        axes = made.axes if form.projection.projects else None
        embedded = form.projection.embedding(made.centre, axes, factors=made.factors)

        def blocks(statistic: Moments) -> MomentBlocks:
            measured = measure(statistic)
            return statistic.blocks(measured.values, variance=measured.variance)

        mixture, sizes = self.classes(form, embedded, blocks)
        model = self.model(task, options, form, _decoder(task, form, made, mixture, sizes))
        progress(1.0, "done")
        return Fitted(model, tuple(drawn))

    def form(self, task: SynthesisTask, options: Any) -> GaussianForm:
        """Return what is measured, in order.

        Raises:
            CannotGenerate: no such label, too many entries, delta 0, or an option of numbers where there are none.
        """
        declared = checked_layout(task, options.label, self.name)
        check_numbers(declared, options.label, {} if options.numbers == "auto" else {"numbers": options.numbers})
        layout = entering(declared, options.numbers)
        names = tuple(name for name in layout.names if name != options.label)
        projection = Projection(layout, names, options.dimensions, options.clip, options.scale == "measured")
        check_clip(projection)
        return form_of(projection, options.label, _CENTRE, _AXES)

    def classes(
        self, form: GaussianForm, embedded: Embedding, measure: Callable[[Moments], MomentBlocks]
    ) -> tuple[Mixture, Floats]:
        """Measure the labels, and return a mixture with owners, and the noisy counts of its components.

        Args:
            form: what is measured.
            embedded: from rows to vectors on the released axes.
            measure: draws what is next in the plan.
        """
        blocks, bound = measure(class_statistic(form.label, embedded)), float(embedded.bound)
        mixture = class_gaussians(blocks, bound=bound, floor=bound * bound * 1e-6, least=1.0)
        return mixture, np.asarray(blocks.counts)

    def model(self, task: SynthesisTask, options: Any, form: GaussianForm, decoder: DecoderModel) -> DecoderModel:
        """Return the model that is published."""
        return decoder


def form_of(
    projection: Projection, label: str, centre: Fraction, axes: Fraction, *, rounds: int = 0, early: Fraction = _NONE
) -> GaussianForm:
    """Return what is measured, in order.

    Args:
        projection: all columns but the label.
        label: the column whose cells are the classes.
        centre, axes: their shares of the budget; the classes take the rest.
        rounds: in which classes are split into components and measured again.
        early: share of the budget that each measurement before the last round takes.
    """
    groups = LabelCodes(label, int(projection.layout.column(label).table.shape[0]))
    first = projection.shares(centre, axes)
    # The classes' stand-in: centre and axes are not known yet.
    embedded = projection.stand_in()
    again = (component_statistic(groups, embedded, _even(groups, embedded)),) * rounds
    statistics = (*projection.first_statistics(), class_statistic(groups, embedded), *again)
    before = (*first, *(early,) * rounds)
    names = (*projection.steps, "classes", *("components of classes",) * rounds)
    return GaussianForm(projection, groups, names, (*before, 1 - sum(before, _NONE)), statistics)


def class_statistic(label: LabelCodes, embedded: Embedding) -> Moments:
    """Return what is measured of the classes."""
    return Moments(embedded, label, ("counts", "sums", "full"))


def component_statistic(label: LabelCodes, embedded: Embedding, mixture: Mixture) -> Moments:
    """Return what is measured of components; a row is shared out among those of its own class."""
    return mixture_statistic(mixture, embedded, weight_bits=_WEIGHT_BITS, labels=label)


def _even(label: LabelCodes, embedded: Embedding) -> Mixture:
    """Return a stand-in of components: one a class, all alike."""
    count, size = label.count, embedded.dimension
    spread = np.repeat(np.eye(size)[None], count, axis=0)
    return Mixture(np.full(count, 1 / count), np.zeros((count, size)), spread, np.arange(count, dtype=np.int64))


def _noises(task: SynthesisTask, form: GaussianForm) -> tuple[GaussianNoise, ...]:
    """Split the budget over the draws."""
    try:
        spending = Spending(task, "gaussian")
        return tuple(GaussianNoise(part) for part in spending.split(spending.total, form.shares))
    except AmountRefused as refused:
        raise too_small(refused) from refused


def _decoder(
    task: SynthesisTask, form: GaussianForm, projected: Projected, mixture: Mixture, counts: Floats
) -> DecoderModel:
    """Write centre, axes and classes as a decoder of one layer."""
    latents = LatentMixture(
        # At least 1: no label becomes impossible by rounding.
        np.maximum(np.rint(mixture.weights * WEIGHT), 1.0).astype(np.int64),
        to_steps(mixture.means),
        to_steps(mixture.cholesky()),
    )
    total = float(np.maximum(counts, 0).sum())
    impossible: Mapping[tuple[str, ...], np.ndarray] = task.impossible
    return DecoderModel(
        rows=task.public_total if task.public_total is not None else round(total),
        columns=output_columns(form.projection.layout),
        latents=latents,
        # A vector is centre + axes · latent, unstretched: one affine layer.
        network=whole_layers([(projected.axes / projected.factors[:, None], projected.centre)]),
        reading="values",
        spreads=np.zeros(form.projection.width, dtype=np.int64),
        label=form.label.column,
        labels=np.arange(counts.size, dtype=np.int64) if mixture.owners is None else mixture.owners,
        impossible=impossible,
    )


def _in_words(sigma_squared: Fraction, move: int) -> str:
    return f"discrete Gaussian, standard deviation {math.sqrt(float(sigma_squared)) / move:.3g} times one row's bound"
