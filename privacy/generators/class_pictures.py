"""Pictures of a label: Gaussians in a smooth subspace, measured as noisy sums, and deformed as they are sampled.

    MEASURE   the centre of all rows' vectors                  counts and sums, |x - 1/2| <= sqrt(width) / 2
    MEASURE   the second moment of their smooth part           lowest frequencies of each picture: a public basis
    MEASURE   counts, means and covariances of each label      of the vectors on the leading axes
    ESTIMATE  each label's covariance, drawn towards that of all labels               (`shrunk_classes`)
    SPLIT     each Gaussian in two, and MEASURE again, as often as the charge affords (`binary_splitting`)
    SAMPLE    a Gaussian, a normal vector, back along the axes, and a small deformation  (`deformations`)

Noise falls on the few numbers of the smooth part, not on all pairs of pixels. What a label's own rows cannot tell
through the noise comes from those of all labels. And that a picture may lie or lean a little differently is not
measured: it is known.

How many components a label has at most follows from the charge alone. K components of a label have a K-th of its rows
each, so noise is K times as large beside them. K is the largest power of two with which that is no more than noise of
`_NOISE` rows is beside one Gaussian a label, whatever the number of rows is. It is reckoned as if one measurement had
all that centre and axes leave. What those before the last take makes noise larger, by up to 22 %. Rows of a round are
shared out among the components of their own label, so all components together cost what one does.

Source: Dwork, Talwar, Thakurta, Zhang 2014 (the private axes); Hastie, Tibshirani, Friedman 2009, section 4.3 (the
model); Ahmed, Natarajan, Rao 1974 (the cosine basis). It keeps phase one of P3GM (Takagi et al. 2021), with a
component a label, and leaves out phase two.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from privacy.accounting.amounts import AmountRefused
from privacy.accounting.renyi import rho_for
from privacy.arrays import Floats
from privacy.generators.decoder import DecoderModel, read_decoder
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
    Spending,
    SynthesisTask,
    too_small,
)
from privacy.generators.projection import Projected, Projection, check_clip, checked_layout, projected
from privacy.grant.draws import Draws
from privacy.grant.measurement import SumMeasurement
from privacy.grant.queries.sums import SumQuery
from privacy.learning.binary_splitting import split_mixture
from privacy.learning.deformations import ONE, Deformation
from privacy.learning.embedding import ClipNorm, Embedding
from privacy.learning.mixture import Mixture, mixture_statistic, shrunk_classes, smallest_floor
from privacy.learning.moments import MOST_GROUPS, LabelCodes, MomentBlocks, Moments, sum_event
from privacy.learning.outputs import output_columns
from privacy.learning.whole_network import WEIGHT, LatentMixture, to_steps, whole_layers
from privacy.marginals.portable import PostProcessingSeed
from privacy.marginals.sensitivity import GaussianNoise

# --- A decoder whose pictures are deformed a little after they were decoded, in whole numbers.


_PURPOSE: Final = "deformations"
_KEY: Final = "deformations"


@dataclass(frozen=True, eq=False)
class DeformedDecoder(DecoderModel):
    """A decoder, and how its pictures are deformed.

    Args:
        deformations: of columns of pictures.
    Raises:
        ValueError: as of a decoder; a deformation of no picture of that size.
    """

    kind: ClassVar[str] = "deformed_decoder"
    deformations: Mapping[str, Deformation] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        lengths = {column.name: column.length for column in self.columns if column.kind == "array"}
        for name, each in self.deformations.items():
            if lengths.get(name) != each.height * each.width:
                raise ValueError(f"deformations: no column {name} of pictures of {each.height} x {each.width} places")

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, NDArray[np.int64]]]:
        """Return the model as JSON values and integer arrays, for publication."""
        values, arrays = super().to_arrays()
        return {**values, _KEY: {name: each.to_json() for name, each in self.deformations.items()}}, arrays

    def _finished(self, codes: NDArray[np.int32], seed: PostProcessingSeed, piece: int) -> NDArray[np.int32]:
        """Deform the pictures of a piece; each column reads a stream of its own."""
        own = seed.derived(_PURPOSE)
        finished = codes.copy()
        # In the order of the columns: that of a mapping is lost in the published JSON, whose keys are sorted.
        names = [column.name for column in self.columns if column.name in self.deformations]
        for number, name in enumerate(names):
            places = slice(self._starts[name], self._starts[name] + self._lengths[name])
            finished[:, places] = self.deformations[name](codes[:, places], own, piece * len(names) + number)
        return finished


def deformed_decoder(decoder: DecoderModel, deformations: Mapping[str, Deformation]) -> DeformedDecoder:
    """Return a decoder with deformations of its pictures."""
    parts = {each.name: getattr(decoder, each.name) for each in fields(DecoderModel)}
    return DeformedDecoder(**parts, deformations=deformations)


def read_deformed(values: Mapping[str, Any], arrays: Mapping[str, NDArray[np.int64]]) -> DeformedDecoder:
    """Read a published one back; written by a stranger, and checked.

    Raises:
        ValueError, KeyError, TypeError: not such a model.
    """
    written = values[_KEY]
    if not isinstance(written, Mapping):
        raise ValueError("deformations must be named by their columns")
    plain = {name: value for name, value in values.items() if name != _KEY}
    deformations = {name: Deformation.from_json(each) for name, each in written.items()}
    return deformed_decoder(read_decoder(plain, arrays), deformations)


_CENTRE: Final = Fraction(3, 100)
_AXES: Final = Fraction(1, 10)
"""Of the budget; the classes take the rest."""
_EARLY: Final = Fraction(7, 100)
"""Of the budget, each measurement of labels or components that are split again."""
_NOISE, _MOST_ROUNDS = 4, 4
"""Noise of a label's count, times its components, up to which it is split [rows]; and how often at most."""
_MOST_PER_UNIT: Final = 16
"""Rows of a unit with which the sums of shared rows fit into events."""
_ROWS_PER_AXIS: Final = 8
"""A component of fewer rows than this times the axes would say little of its covariance."""
_PIXEL: Final = 1 / 32
"""Squared norm bound, over the pixels: half of that of other columns, for noise costs more than what is cut off."""
_WEIGHT_BITS: Final = 5
"""A row is shared out among components in parts of 2^-5: finer ones would leave less room for rows of one unit."""
_MEGABYTE: Final = 2**20
_SCALE, _SHIFT = 2 / 3, 1 / 4
"""A picture's change of size, and its shift over its side, each over its turn."""


class ClassPicturesOptions(BaseModel):
    """Options of `class_pictures`; unknown options are refused.

    Args:
        label: the column whose cells are the classes; not a number in bins.
        dimensions: axes that are kept, fewer where there are not so many frequencies.
        frequencies: of each picture, the lowest ones, in which the axes are sought.
        clip: norm to which vectors are clipped about their centre. Without it the root of 1/32 a pixel. Choose it
            without looking at the data.
        deform: how far pictures are turned and sheared at random, as a standard deviation of the slope; sizes change
            by two thirds of it, and places by a quarter of it times the side. 0 for not at all.
        components: Gaussians of a label at most: 1, 2, 4, 8 or 16, for they double round by round. Without it as
            many as the charge affords.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    label: str
    dimensions: int = Field(default=32, ge=1, le=256)
    frequencies: int = Field(default=140, ge=1, le=1024)
    clip: ClipNorm = None
    deform: float = Field(default=0.15, ge=0, le=0.5, allow_inf_nan=False)
    components: int | None = Field(default=None, ge=1, le=2**_MOST_ROUNDS)


@dataclass(frozen=True, eq=False)
class SmoothProjection(Projection):
    """A projection on axes within the lowest frequencies of pictures.

    Args:
        frequencies: of each picture; all of them, where it has no more places.
    """

    frequencies: int = 0

    @cached_property
    def basis(self) -> Floats:
        """The public basis: orthonormal columns, zero outside of their picture; shape (width, frequencies of all)."""
        sides = [self.layout.column(name).sides or (1, 1) for name in self.names]
        parts = [lowest_cosines(*each, most=self.frequencies) for each in sides]
        basis = np.zeros((self.width, sum(part.shape[1] for part in parts)))
        row = column = 0
        for part in parts:
            basis[row : row + part.shape[0], column : column + part.shape[1]] = part
            row, column = row + part.shape[0], column + part.shape[1]
        return basis


@dataclass(frozen=True, eq=False)
class PicturesForm:
    """What the options make of the columns; public.

    Args:
        projection: all columns but the label.
        label: groups of rows.
        names: of the draws, for people.
        shares: of the budget, one a draw.
        statistics: stand-ins of what is measured, of the same bounds.
        rounds: in how many rounds classes are split and measured again.
    """

    projection: Projection
    label: LabelCodes
    names: tuple[str, ...]
    shares: tuple[Fraction, ...]
    statistics: tuple[Moments, ...]
    rounds: int


class ClassPictures:
    """Fits Gaussians of each class in a smooth subspace, and deforms what they give."""

    name: ClassVar[str] = "class_pictures"
    options: type[Any] = ClassPicturesOptions
    takes_pictures: ClassVar[bool] = True

    def plan(self, task: SynthesisTask, options: ClassPicturesOptions) -> GeneratorPlan:
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
        seconds = START + sums_seconds(form.statistics, rows=task.public_total or ROWS_ASSUMED)
        return GeneratorPlan(events, steps, megabytes, seconds, {}, notes=assumed_rows_note(task.public_total))

    def fit(
        self,
        task: SynthesisTask,
        options: ClassPicturesOptions,
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
        embedded = form.projection.embedding(made.centre, made.axes if form.projection.projects else None)

        def blocks(statistic: Moments) -> MomentBlocks:
            measured = measure(statistic)
            return statistic.blocks(measured.values, variance=measured.variance)

        mixture, sizes = _classes(form, embedded, blocks)
        sides = {name: deformation(options.deform, *sides) for name, sides in _sides(form)}
        progress(1.0, "done")
        return Fitted(deformed_decoder(_decoder(task, form, made, mixture, sizes), sides), tuple(drawn))

    def form(self, task: SynthesisTask, options: ClassPicturesOptions) -> PicturesForm:
        """Return what is measured, in order.

        Raises:
            CannotGenerate: no such label, a column that holds no pictures, too many entries, delta 0, or
                components that are no power of two.
        """
        layout = checked_layout(task, options.label, self.name)
        names = tuple(name for name in layout.names if name != options.label)
        for name in names:
            if layout.column(name).sides is None:
                raise CannotGenerate(
                    f"{self.name}: column {name!r} holds no pictures; allowed: a label, and columns of pictures; "
                    "do: name only these under columns, or take p3gm"
                )
        places = [layout.column(name).length for name in names]
        clip = math.sqrt(_PIXEL * sum(places)) if options.clip is None else options.clip
        # No more axes than there are frequencies to seek them in.
        dimensions = min(options.dimensions, sum(min(options.frequencies, each) for each in places))
        projection = SmoothProjection(layout, names, dimensions, clip, frequencies=options.frequencies)
        check_clip(projection)
        cells = int(layout.column(options.label).table.shape[0])
        most = max((MOST_GROUPS // cells).bit_length() - 1, 0)
        rounds = min(rounds_afforded(task), most)
        if options.components is not None:
            rounds = _doublings(options.components)
        if rounds > most:
            raise CannotGenerate(
                f"{self.name}: components is {options.components} for the {cells:,} cells of {options.label!r}; "
                f"allowed: {MOST_GROUPS:,} Gaussians of all labels, {2**most} a label; do: leave components out"
            )
        if rounds and task.rows_per_unit > _MOST_PER_UNIT:
            raise CannotGenerate(
                f"{self.name}: components is {options.components} with max_rows_per_unit {task.rows_per_unit}; "
                f"allowed: 1 where a unit has more than {_MOST_PER_UNIT} rows; do: leave components out"
            )
        label = LabelCodes(options.label, cells)
        # The classes' stand-in: centre and axes are not known yet.
        embedded = projection.stand_in()
        again = (_component_statistic(label, embedded, _even(label, embedded)),) * rounds
        statistics = (*projection.first_statistics(), _class_statistic(label, embedded), *again)
        before = (*projection.shares(_CENTRE, _AXES), *(_EARLY,) * rounds)
        names = (*projection.steps, "classes", *("components of classes",) * rounds)
        return PicturesForm(projection, label, names, (*before, 1 - sum(before, Fraction(0))), statistics, rounds)


def _classes(
    form: PicturesForm, embedded: Embedding, measure: Callable[[Moments], MomentBlocks]
) -> tuple[Mixture, Floats]:
    """Measure the labels, then their components; each as far as noise lets it differ from that of all.

    Args:
        form: what is measured.
        embedded: from rows to vectors on the released axes.
        measure: draws what is next in the plan.
    Returns:
        a mixture with owners, and the noisy counts of its components.
    """
    bound, least = float(embedded.bound), _ROWS_PER_AXIS * embedded.dimension
    blocks = measure(_class_statistic(form.label, embedded))
    mixture = shrunk_classes(blocks, bound=bound)
    for _ in range(form.rounds):
        # SPLIT those whose halves are still large enough
        large = np.asarray(blocks.counts) >= 2 * max(least, 2 * blocks.deviation)
        mixture = split_mixture(mixture, large, floor=max(smallest_floor(embedded), bound * bound * 1e-6))
        # MEASURE, all components together
        blocks = measure(_component_statistic(form.label, embedded, mixture))
        mixture = shrunk_classes(blocks, bound=bound, owners=mixture.owners)
    return mixture, np.asarray(blocks.counts)


def _class_statistic(label: LabelCodes, embedded: Embedding) -> Moments:
    return Moments(embedded, label, ("counts", "sums", "full"))


def _component_statistic(label: LabelCodes, embedded: Embedding, mixture: Mixture) -> Moments:
    """Return what is measured of components; a row is shared out among those of its own class."""
    return mixture_statistic(mixture, embedded, weight_bits=_WEIGHT_BITS, labels=label)


def _even(label: LabelCodes, embedded: Embedding) -> Mixture:
    """Return a stand-in of components: one a class, all alike."""
    count, size = label.count, embedded.dimension
    spread = np.repeat(np.eye(size)[None], count, axis=0)
    return Mixture(np.full(count, 1 / count), np.zeros((count, size)), spread, np.arange(count, dtype=np.int64))


def _noises(task: SynthesisTask, form: PicturesForm) -> tuple[GaussianNoise, ...]:
    """Split the budget over the draws."""
    try:
        spending = Spending(task, "gaussian")
        return tuple(GaussianNoise(part) for part in spending.split(spending.total, form.shares))
    except AmountRefused as refused:
        raise too_small(refused) from refused


def _decoder(
    task: SynthesisTask, form: PicturesForm, projected: Projected, mixture: Mixture, counts: Floats
) -> DecoderModel:
    """Write centre, axes and classes as a decoder of one layer."""
    latents = LatentMixture(
        # At least 1: no label becomes impossible by rounding.
        np.maximum(np.rint(mixture.weights * WEIGHT), 1.0).astype(np.int64),
        to_steps(mixture.means),
        to_steps(mixture.cholesky()),
    )
    total = float(np.maximum(counts, 0).sum())
    return DecoderModel(
        rows=task.public_total if task.public_total is not None else round(total),
        columns=output_columns(form.projection.layout),
        latents=latents,
        # A vector is centre + axes · latent: one affine layer.
        network=whole_layers([(projected.axes, projected.centre)]),
        reading="values",
        spreads=np.zeros(form.projection.width, dtype=np.int64),
        label=form.label.column,
        labels=np.arange(counts.size, dtype=np.int64) if mixture.owners is None else mixture.owners,
        impossible=task.impossible,
    )


def _in_words(sigma_squared: Fraction, move: int) -> str:
    return f"discrete Gaussian, standard deviation {math.sqrt(float(sigma_squared)) / move:.3g} times one row's bound"


def _doublings(components: int) -> int:
    """Return how often one Gaussian a label is split for so many.

    Raises:
        CannotGenerate: no power of two: with the two that are nearest.
    """
    rounds = components.bit_length() - 1
    if components != 2**rounds:
        allowed = ", ".join(str(2**each) for each in range(_MOST_ROUNDS + 1))
        raise CannotGenerate(
            f"options.components: {components} Gaussians of a label, which double from round to round; allowed: one "
            f"of {allowed}; do: write components: {2**rounds} or components: {2 ** (rounds + 1)}"
        )
    return rounds


def rounds_afforded(task: SynthesisTask) -> int:
    """Return how often labels are split: by the charge and the relation alone.

    Raises:
        CannotGenerate: too small a charge.
    """
    try:
        budget = float(rho_for(task.epsilon, task.delta) * (1 - _CENTRE - _AXES)) if task.delta > 0 else 0.0
    except AmountRefused as refused:
        raise too_small(refused) from refused
    if task.rows_per_unit > _MOST_PER_UNIT:
        return 0
    # Three parts of one bound each: a count's noise has the variance 3 / (2 rho), times two where rows are exchanged.
    variance = (3 if task.adjacency == "add_remove" else 6) * task.rows_per_unit**2 / (2 * budget) if budget else 1e9
    return min(max(math.floor(math.log2(_NOISE / math.sqrt(variance))), 0), _MOST_ROUNDS)


def deformation(deform: float, height: int, width: int) -> Deformation:
    """Return how pictures of a size are deformed, in whole numbers."""
    scale, shift = ONE * deform * _SCALE, ONE * deform * _SHIFT * max(height, width)
    return Deformation(height, width, round(scale), round(ONE * deform), round(shift))


def lowest_cosines(height: int, width: int, *, most: int) -> Floats:
    """Return the cosines of lowest frequency over a picture's places, row by row.

    Formula: cos(pi (2 y + 1) u / 2 h) cos(pi (2 x + 1) v / 2 w), of norm 1, by (u / h)² + (v / w)², then u

    Args:
        height, width: of the picture [places].
        most: how many; all of them, where there are not so many.
    Returns:
        orthonormal columns, shape (height · width, at most `most`).
    """
    lines, columns = _cosines(height), _cosines(width)
    # Whole numbers in the place of (u / h)² + (v / w)²: no machine orders two frequencies in another way.
    found = [((u * width) ** 2 + (v * height) ** 2, u, v) for u in range(height) for v in range(width)]
    return np.stack([np.outer(lines[u], columns[v]).ravel() for _, u, v in sorted(found)[:most]], axis=1)


def _cosines(side: int) -> Floats:
    """Return the discrete cosine transform of type II, orthonormal rows, shape (side, side)."""
    frequencies, places = np.arange(side)[:, None], np.arange(side)[None, :]
    waves = np.cos(np.pi * (2 * places + 1) * frequencies / (2 * side)) * math.sqrt(2 / side)
    return np.where(frequencies == 0, math.sqrt(1 / side), waves)


def _sides(form: PicturesForm) -> Iterator[tuple[str, tuple[int, int]]]:
    for name in form.projection.names:
        sides = form.projection.layout.column(name).sides
        if sides is not None:
            yield name, sides
