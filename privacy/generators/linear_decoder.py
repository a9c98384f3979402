"""P3GM without its training, for so few rows that one would learn nothing: noisy sums alone, and a linear decoder.

    MEASURE   the centre, and how far numbers are stretched                               (`projection`)
    MEASURE   counts of rows by the norm of their vectors                                 how large rows are
    MEASURE   counts and sums of each label's rows, in all entries                        how labels differ
    MEASURE   the second moment about the centre, where its axes can stand out of noise   (`principal_components`)
    MEASURE   counts, sums and second moments of each label on the axes that do
    SAMPLE    a label's mean, a normal vector on the axes, and an even spread of what numbers vary beside

A training spends its noise on every weight of the decoder, so it needs many rows. The labels' means are the few
numbers that tell labels apart, and all labels together are one sum: a row is in one of them. They are kept as they
were measured: each entry is unbiased, and in which direction labels differ comes out best without shrinkage.

Where (one letter each)
    w   entries of a vector     n   declared number of rows     b   norm bound     s   noise over one row's bound

Noise alone makes eigenvalues of the second moment up to  10/7 s b² √w  (`noise_edge`, above the diagonal 5/7 s b²);
all eigenvalues of n rows add up to at most n b². An axis with more than a fifth of all that varies is rare, so where
the edge is above n b² / 5 no second moment is measured: its share of the budget goes to the labels' means.

Source: phase one as `p3gm`; Hastie, Tibshirani, Friedman 2009, section 4.3 (what classifiers learn from such rows).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

import numpy as np

from contracts.message import message
from privacy.accounting.renyi import rho_for
from privacy.arrays import Floats
from privacy.generators.decoder import DecoderModel
from privacy.generators.fit_times import START, sums_seconds
from privacy.generators.generator import (
    CannotGenerate,
    CountsSource,
    Fitted,
    GeneratorPlan,
    Model,
    PlannedStep,
    SynthesisTask,
)
from privacy.generators.latent import Sums, Timer, sum_events, sum_in_words, sum_noises
from privacy.generators.projection import Projected, Projection, mean_away, mean_square, projected, shells_within
from privacy.grant.draws import Draws
from privacy.grant.measurement import SumMeasurement
from privacy.learning.lattice import MOST_BITS
from privacy.learning.mixture import Mixture, into_bound, shrunk_classes
from privacy.learning.moments import ABOVE, ON, Everyone, LabelCodes, MomentBlocks, Moments
from privacy.learning.outputs import output_columns
from privacy.learning.principal_components import noise_edge, principal_components
from privacy.learning.whole_network import LARGEST_LATENT, WEIGHT, LatentMixture, to_steps, whole_layers

# --- Rows of labels as vectors.


_LEAST_SPREAD: Final = 0.1
"""Of what varies in all: at least so much is spread evenly, however large noise has made the labels' means."""


@dataclass(frozen=True, eq=False)
class LabelledVectors:
    """What the noisy sums say of rows as vectors about the released centre; no longer private.

    Args:
        counts: of rows by label, at least 0, shape (labels,) [rows].
        middle: the mean of all rows, shrunk, shape (width,).
        offsets: the mean of each label, shape (labels, width).
        axes: directions whose variance stands out of noise, shape (width, axes).
        mixture: the labels on the axes; None without a second moment.
        varies: mean squared norm of the rows.
    """

    counts: Floats
    middle: Floats
    offsets: Floats
    axes: Floats
    mixture: Mixture | None
    varies: float

    @property
    def shares(self) -> Floats:
        """Of the labels; equal ones where noise says of no row."""
        total = float(self.counts.sum())
        return self.counts / max(total, 1.0) if total > 0 else np.full(self.counts.size, 1 / self.counts.size)

    @property
    def spread(self) -> float:
        """The deviation of each entry that is on no axis: what labels' means and axes leave of the mean square."""
        within = 0.0
        if self.mixture is not None:
            within = float(self.shares @ np.trace(self.mixture.covariances, axis1=1, axis2=2))
        left = self.varies - float(self.shares @ (self.offsets**2).sum(axis=1)) - within
        width, kept = self.axes.shape
        return math.sqrt(max(left, _LEAST_SPREAD * self.varies) / max(width - kept, 1))


def one_layer(
    task: SynthesisTask, projection: Projection, made: Projected, label: str, found: LabelledVectors
) -> DecoderModel:
    """Write a label's mean and what varies about it as a decoder of one layer.

    Args:
        task: what rows are impossible, and the public total.
        projection: the columns of the vectors.
        made: the released centre, and the factors of its entries.
        label: the column of labels.
        found: of the vectors.
    Privacy: post-processing.
    """
    latents, directions = _latents(found)
    return DecoderModel(
        rows=task.public_total if task.public_total is not None else round(float(found.counts.sum())),
        columns=output_columns(projection.layout),
        latents=latents,
        network=whole_layers([(directions / made.factors[:, None], made.centre + found.middle / made.factors)]),
        reading="values",
        spreads=to_steps(found.spread / made.factors),
        label=label,
        labels=np.arange(found.counts.size, dtype=np.int64),
        impossible=task.impossible,
    )


def _latents(found: LabelledVectors) -> tuple[LatentMixture, Floats]:
    """Return the mixture of latent vectors, and which direction each latent entry moves a row along.

    Latent entries are the axes' and then those of the directions, beside the axes, in which labels' means differ.
    """
    axes, mixture, kept = found.axes, found.mixture, found.axes.shape[1]
    away = found.offsets - found.middle
    beside = away - away @ axes @ axes.T
    _, sizes, directions = np.linalg.svd(beside, full_matrices=False)
    directions = directions[sizes > 1e-9] if (sizes > 1e-9).any() else directions[:1]
    on_axes = found.offsets @ axes if mixture is None else mixture.means
    means = np.concatenate([on_axes - found.middle @ axes, beside @ directions.T], axis=1)
    covariances = np.zeros((found.counts.size, means.shape[1], means.shape[1]))
    if mixture is not None:
        covariances[:, :kept, :kept] = mixture.cholesky()
    latents = LatentMixture(
        # At least 1: no label becomes impossible by rounding.
        np.maximum(np.rint(found.shares * WEIGHT), 1.0).astype(np.int64),
        np.clip(to_steps(means), -LARGEST_LATENT, LARGEST_LATENT),
        to_steps(covariances),
    )
    return latents, np.concatenate([axes, directions.T], axis=1)


_CENTRE, _NORMS = Fraction(1, 20), Fraction(1, 50)
_AXES: Final = Fraction(3, 10)
"""Of the budget: the second moment, and as much for what is measured on its axes. The labels' means take the rest."""
_RARE: Final = 0.2
"""An axis that has more of all that varies is rare."""
_ROOM: Final = 1.5
"""The norm bound on the axes, over the rows' root mean square norm there."""
_NORM_ROOM: Final = 2
"""Up to how many times the norm bound norms are told apart."""
NORM_BITS: Final = MOST_BITS - 1
"""Of the lattice of norms, in a ball of `_NORM_ROOM` times the norm bound: bits of the bound itself."""
NOT_TRAINED: Final = message(
    "the decoder is linear and made of noisy sums: of so few rows a training would have learnt next to nothing"
)
ASKED_FOR: Final = message("the decoder is linear and made of noisy sums, as options.decoder says")


@dataclass(frozen=True, eq=False)
class LinearForm:
    """What is measured; public.

    Args:
        projection: of all columns but the label, on as many axes as there are entries: centre and stretch alone.
        label: groups of rows.
        dimensions: axes at most.
        measures_axes: whether a second moment is measured.
    """

    projection: Projection
    label: LabelCodes
    dimensions: int
    measures_axes: bool

    @property
    def steps(self) -> tuple[str, ...]:
        """What is measured, in words."""
        axes = ("second moment", message("labels on the axes")) if self.measures_axes else ()
        return (*self.projection.steps, message("norms of rows"), message("labels' means"), *axes)

    @property
    def shares(self) -> tuple[Fraction, ...]:
        """Of the budget, one a draw."""
        first = (*self.projection.shares(_CENTRE, Fraction(0)), _NORMS)
        axes = (_AXES, _AXES) if self.measures_axes else ()
        return (*first, 1 - sum((*first, *axes), Fraction(0)), *axes)

    @property
    def statistics(self) -> tuple[Moments, ...]:
        """Stand-ins of all sums, in order: of the same bounds."""
        first = (*self.projection.first_statistics(), self.norms(None), self.means(None))
        axes = np.zeros((self.projection.width, 1))
        measured = (self.second_moment(None), self.on_axes(None, axes, self.projection.bound))
        return (*first, *measured) if self.measures_axes else first

    def norms(self, made: Projected | None) -> Moments:
        """Return the counts by norm; without a centre a stand-in."""
        embedded = self.projection.embedding(
            *_centred(made), bound=_NORM_ROOM * self.projection.bound, factors=_factors(made), bits=MOST_BITS
        )
        return shells_within(embedded)

    def means(self, made: Projected | None) -> Moments:
        """Return the labels' counts and sums; without a centre a stand-in."""
        embedded = self.projection.embedding(*_centred(made), factors=_factors(made))
        return Moments(embedded, self.label, ("counts", "sums"))

    def second_moment(self, made: Projected | None) -> Moments:
        """Return the second moment; without a centre a stand-in."""
        return Moments(self.projection.embedding(*_centred(made), factors=_factors(made)), Everyone(), ("full",))

    def on_axes(self, made: Projected | None, axes: Floats, bound: Fraction) -> Moments:
        """Return the labels' counts, sums and second moments on axes; without a centre a stand-in."""
        centre = None if made is None else made.centre
        embedded = self.projection.embedding(centre, axes, bound=bound, factors=_factors(made))
        return Moments(embedded, self.label, ("counts", "sums", "full"))


def linear_form(task: SynthesisTask, projection: Projection, label: LabelCodes, *, rows: int) -> LinearForm:
    """Return what is measured: a second moment only where its axes can stand out.

    Args:
        task: the charge.
        projection: of all columns but the label, on the wanted axes.
        label: groups of rows.
        rows: about how many there are, as declared [rows].
    """
    edge = noise_edge(projection.width, _deviation(task, _AXES) * ON / ABOVE)
    # With as many axes as entries `projected` measures none.
    whole = replace(projection, dimensions=projection.width)
    return LinearForm(whole, label, projection.dimensions, edge <= _RARE * rows)


def linear_plan(
    task: SynthesisTask, form: LinearForm, what: str, *, rows: int, most_megabytes: float, asked: bool
) -> GeneratorPlan:
    """Plan the sums, which take the whole charge.

    Args:
        task, form: the charge, and what is measured.
        what: the generator, for messages.
        rows: about how many there are, as declared [rows].
        most_megabytes: the limit of memory [MB].
        asked: whether options name this decoder; the notes say which.
    Raises:
        CannotGenerate: too small a charge, noise that drowns a label of average size, or too little memory.
    """
    statistics, shares = form.statistics, form.shares
    _refuse_drowned(task, form, what, rows=rows)
    events = sum_events(task, statistics, sum_noises(task, 1.0, shares), what)
    steps = tuple(
        PlannedStep(name, 1, float(share), sum_in_words(event, statistic.move))
        for name, share, event, statistic in zip(form.steps, shares, events, statistics, strict=True)
    )
    width = form.projection.width
    megabytes = 8 * (6 * width * width * form.measures_axes + 4 * width * form.label.count) / 2**20
    if megabytes > most_megabytes:
        raise CannotGenerate(
            f"{what}: about {megabytes:,.0f} MB of memory; allowed: max_memory_megabytes {most_megabytes:g}; "
            "do: raise it, or take fewer columns"
        )
    seconds = START + sums_seconds(statistics, rows=rows)
    return GeneratorPlan(events, steps, megabytes, seconds, {}, notes=_notes(asked=asked))


def _deviation(task: SynthesisTask, share: Fraction) -> float:
    """Return the noise over one row's bound, of a draw that takes a share of the budget."""
    # As `Moments.moves`: k rows of a unit move a sum k times as far, rows that are exchanged the root of two times.
    relation = task.rows_per_unit * (math.sqrt(2) if task.adjacency == "replace_one" else 1.0)
    return relation / math.sqrt(2 * float(rho_for(task.epsilon, task.delta)) * float(share))


def _notes(*, asked: bool) -> tuple[str, ...]:
    """Say why nothing is trained."""
    return (ASKED_FOR if asked else NOT_TRAINED,)


def _refuse_drowned(task: SynthesisTask, form: LinearForm, what: str, *, rows: int) -> None:
    """Refuse noise above the rows of a label of average size: labels would then differ by noise alone."""
    place = len(form.projection.steps) + 1
    noise, average = _deviation(task, form.shares[place]), rows / form.label.count
    if noise > average:
        enough = task
        while _deviation(enough, form.shares[place]) > average:
            enough = replace(enough, epsilon=enough.epsilon * Fraction(11, 10))
        raise CannotGenerate(
            f"{what}: noise of {noise:.3g} rows on each label, of which {average:.3g} rows are declared on average "
            f"(rows_about {rows}); allowed: noise below that; "
            f"do: take an epsilon of about {1.1 * float(enough.epsilon):.2g}, more rows, or fewer labels"
        )


def linear_fit(
    task: SynthesisTask, form: LinearForm, counts: CountsSource, grant: Draws, timer: Timer, *, asked: bool
) -> Fitted[Model]:
    """Measure all sums, and put the model together.

    Args:
        task, form, counts, grant, timer: what is measured, of which rows, and by whose permission.
        asked: whether options name this decoder; else so few declared rows led to it. The notes say which.
    Raises:
        OutOfTime: the time limit has passed.
    Privacy: exactly the planned events.
    """
    rows = counts.rows(task.domain.columns).with_layout(form.projection.layout)
    sums = Sums(grant, rows, sum_noises(task, 1.0, form.shares), timer)
    model = _measured(task, form, sums.measure)
    timer.report(1.0, "done")
    return Fitted(model, tuple(sums.drawn), _notes(asked=asked))


def _measured(task: SynthesisTask, form: LinearForm, measure: Callable[[Moments], SumMeasurement]) -> DecoderModel:
    """Measure in the order of `LinearForm.statistics`, and make a decoder of it."""

    def blocks(statistic: Moments) -> MomentBlocks:
        drawn = measure(statistic)
        return statistic.blocks(drawn.values, variance=drawn.variance)

    made = projected(form.projection, measure)
    norms = form.norms(made)
    varies = mean_square(norms, measure(norms), rows=made.rows)
    of_labels = form.means(made)
    drawn = measure(of_labels)
    means = of_labels.blocks(drawn.values, variance=drawn.variance)
    bound, width = float(form.projection.bound), form.projection.width
    counts = np.maximum(np.asarray(means.counts), 0.0)
    # The mean of all labels is measured better than the centre was; what noise makes of it is taken off.
    away, share, _ = mean_away(of_labels, drawn)
    middle = share * away
    offsets = _label_means(means, middle, bound)
    axes, mixture = np.zeros((width, 0)), None
    if form.measures_axes:
        second = form.second_moment(made)
        axes, reach = _standing_out(blocks(second), form.dimensions, bound)
        measured = blocks(form.on_axes(made, axes, reach))
        mixture = shrunk_classes(measured, bound=float(reach))
        # Two measurements of one mean: each weighs as the other's noise.
        noise = (means.deviation * bound) ** 2, (measured.deviation * float(reach)) ** 2
        first = noise[1] / (noise[0] + noise[1]) if sum(noise) > 0 else 0.5
        mixture = replace(mixture, means=first * (offsets @ axes) + (1 - first) * mixture.means)
    found = LabelledVectors(counts, middle, offsets, axes, mixture, varies)
    return one_layer(task, form.projection, made, form.label.column, found)


def _centred(made: Projected | None) -> tuple[Floats | None, None]:
    """Return the centre, and that there are no axes."""
    return (None if made is None else made.centre), None


def _factors(made: Projected | None) -> Floats | None:
    return None if made is None else made.factors


def _label_means(blocks: MomentBlocks, middle: Floats, bound: float) -> Floats:
    """Return the labels' means about the centre; a label whose count may be noise has that of all."""
    counts = np.asarray(blocks.counts)
    known = counts >= max(1.0, 2 * blocks.deviation)
    means = into_bound(np.asarray(blocks.sums) / np.where(known, counts, 1.0)[:, None], bound)
    return np.where(known[:, None], means, middle)


def _standing_out(second: MomentBlocks, dimensions: int, bound: float) -> tuple[Floats, Fraction]:
    """Return those axes whose eigenvalue noise alone hardly makes, at least one, and the norm bound on them."""
    squares = np.asarray(second.squares)[0]
    found = principal_components(squares, dimension=min(dimensions, len(squares)))
    edge = noise_edge(len(squares), second.deviation * bound * bound * ON / ABOVE)
    kept = max(1, int((found.moments > edge).sum()))
    # The trace is the rows' number times their mean square norm, which is at most the bound's square.
    share = float(found.moments[:kept].sum()) / max(float(np.trace(squares)), float(found.moments.sum()), 1e-9)
    reach = bound * min(1.0, _ROOM * math.sqrt(max(share, 1e-4)))
    return found.axes[:, :kept], Fraction(reach).limit_denominator(10**6)
