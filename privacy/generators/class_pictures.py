"""Pictures of a label: Gaussians in a smooth subspace, measured as noisy sums, and deformed as they are sampled.

    MEASURE   the centre of all rows' vectors                  counts and sums, |x - 1/2| <= sqrt(width) / 2
    MEASURE   the second moment of their smooth part           lowest frequencies of each picture: a public basis
    MEASURE   counts, means and covariances of each label      of the vectors on the leading axes
    ESTIMATE  each label's covariance, drawn towards that of all labels               (`class_shrinkage`)
    SPLIT     each Gaussian in two, and MEASURE again, as often as the charge affords (`binary_splitting`)
    SAMPLE    a Gaussian, a normal vector, back along the axes, and a small deformation  (`deformations`)

Beside `class_gaussian` three things are different, and none of them costs anything. Noise falls on the few numbers of
the smooth part, not on all pairs of pixels. What a label's own rows cannot tell through the noise comes from those of
all labels. And that a picture may lie or lean a little differently is not measured: it is known.

How many components a label has at most follows from the charge alone. K components of a label have a K-th of its rows
each, so noise is K times as large beside them. K is the largest power of two with which that is no more than noise of
`_NOISE` rows is beside one Gaussian a label, whatever the number of rows is. It is reckoned as if one measurement had
all that centre and axes leave. What those before the last take makes noise larger, by up to 22 %. Rows of a round are
shared out among the components of their own label, so all components together cost what one does.

Source: as `class_gaussian`; Ahmed, Natarajan, Rao 1974 (the cosine basis).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, Final

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from privacy.accounting.amounts import AmountRefused
from privacy.accounting.convert import rho_for
from privacy.arrays import Floats
from privacy.generators.class_gaussian import (
    ClassGaussian,
    GaussianForm,
    class_statistic,
    component_statistic,
    form_of,
)
from privacy.generators.decoder_model import DecoderModel
from privacy.generators.deformed_decoder import deformed_decoder
from privacy.generators.generator import CannotGenerate, SynthesisTask
from privacy.generators.projection import Projection, check_clip, checked_layout
from privacy.generators.spending import too_small
from privacy.learning.binary_splitting import split_mixture
from privacy.learning.class_shrinkage import shrunk_classes
from privacy.learning.deformations import ONE, Deformation
from privacy.learning.embedding import ClipNorm, Embedding
from privacy.learning.groups import MOST_GROUPS
from privacy.learning.mixture import Mixture, smallest_floor
from privacy.learning.moments import MomentBlocks, Moments

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
"""Squared norm bound, over the pixels: half of `class_gaussian`'s, for noise costs more than what is cut off."""
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


class ClassPictures(ClassGaussian):
    """Fits one Gaussian a class in a smooth subspace, and deforms what it gives."""

    name: ClassVar[str] = "class_pictures"
    options = ClassPicturesOptions

    def form(self, task: SynthesisTask, options: ClassPicturesOptions) -> GaussianForm:
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
                    "do: name only these under columns, or take class_gaussian"
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
        return form_of(projection, options.label, _CENTRE, _AXES, rounds=rounds, early=_EARLY)

    def classes(
        self, form: GaussianForm, embedded: Embedding, measure: Callable[[Moments], MomentBlocks]
    ) -> tuple[Mixture, Floats]:
        """Measure the labels, then their components; each as far as noise lets it differ from that of all."""
        bound, least = float(embedded.bound), _ROWS_PER_AXIS * embedded.dimension
        blocks = measure(class_statistic(form.label, embedded))
        mixture = shrunk_classes(blocks, bound=bound)
        for _ in range(form.rounds):
            # SPLIT those whose halves are still large enough
            large = np.asarray(blocks.counts) >= 2 * max(least, 2 * blocks.deviation)
            mixture = split_mixture(mixture, large, floor=max(smallest_floor(embedded), bound * bound * 1e-6))
            # MEASURE, all components together
            blocks = measure(component_statistic(form.label, embedded, mixture))
            mixture = shrunk_classes(blocks, bound=bound, owners=mixture.owners)
        return mixture, np.asarray(blocks.counts)

    def model(
        self, task: SynthesisTask, options: ClassPicturesOptions, form: GaussianForm, decoder: DecoderModel
    ) -> DecoderModel:
        """Return the model that is published: the decoder, and how its pictures are deformed."""
        return deformed_decoder(decoder, {name: deformation(options.deform, *sides) for name, sides in _sides(form)})


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


def _sides(form: GaussianForm) -> Iterator[tuple[str, tuple[int, int]]]:
    for name in form.projection.names:
        sides = form.projection.layout.column(name).sides
        if sides is not None:
            yield name, sides
