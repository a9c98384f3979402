"""Parameters of a network with noise on them, or on their changes batch by batch.

A parameter, or the change of one in a batch, is clamped to its range, rounded to one of its `STEPS` + 1 points, gets
whole-numbered noise, and is clamped again (theorems 3 and 4). What is clamped twice moves by at most `STEPS` whatever
the rows are, also where they made the training overflow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from privacy.arrays import Floats, Unsigned
from privacy.grant.measurement import DurableDraw
from privacy.grant.queries.query import DrawStage, NoiseSource, Query, Relation, interval_names
from privacy.learning.feed_forward import as_layers, batch_deltas, delta_ranges, initial_vector, train_plainly
from privacy.learning.layout import PrivateRows, RowLayout
from privacy.learning.perturbed import (
    STEPS,
    DeltaTraining,
    ParameterRelease,
    Perturbation,
    VectorEvent,
    perturbation_digest,
)
from privacy.marginals.sensitivity import GaussianNoise, LaplaceNoise


@dataclass(frozen=True)
class ParameterMeasurement:
    """Noisy parameters of a network, or a checkpoint of a training on noisy changes; released, no longer private.

    Args:
        key: name of the draw inside its run.
        perturbation: what was trained, and where the noise came in.
        interval: which draw of its training it is, from 0.
        values: of `ParameterRelease` steps of its range, int64; of `DeltaTraining` float64 parameters as int64 words.
        event: the event.
        number: order of the draw inside its run.
        sha256: digest of the values.
    """

    key: str
    perturbation: Perturbation
    interval: int
    values: NDArray[np.int64]
    event: VectorEvent
    number: int
    sha256: str
    kind: ClassVar[str] = "parameters"


@dataclass(frozen=True)
class ParameterQuery(Query[tuple[ParameterMeasurement, ...]]):
    """Noise on every parameter, or on every change of one; the last draw holds the parameters.

    Args:
        rows: handle on the rows.
        perturbation: what is trained, and where the noise comes in.
        noise: epsilon of each parameter by itself (Laplace), or rho of all together (Gaussian).
    Privacy: `perturbation.event` a draw: the joint loss of all parameters, in either relation.
    """

    rows: PrivateRows
    perturbation: ParameterRelease | DeltaTraining
    noise: LaplaceNoise | GaussianNoise
    kind: ClassVar[str] = "parameters"

    @property
    def handles(self) -> tuple[PrivateRows]:
        """The rows."""
        return (self.rows,)

    def names(self, key: str) -> tuple[str, ...]:
        """Name the draws."""
        return interval_names(key, self.perturbation.draws)

    def check(self, relation: Relation) -> None:
        """Refuse a network that does not fit the rows.

        Raises:
            CannotTrain: with what fits.
        """
        self.perturbation.training.check(self.rows.layout)

    def event(self, relation: Relation) -> VectorEvent:
        """Return the cost of a draw: the joint loss of all parameters."""
        return self.perturbation.event(self.noise, rows_per_unit=relation.rows_per_unit)

    def identity(self, relation: Relation, place: int) -> Mapping[str, Any]:
        """Return the digests of what is trained and of the layout, and which draw it is."""
        told = {"perturbation": perturbation_digest(self.perturbation), "layout": self.rows.layout.digest}
        return {**told, "interval": place}

    def sample(
        self, exact: tuple[Any, ...], *, event: VectorEvent, noise: NoiseSource, stage: DrawStage
    ) -> NDArray[np.int64]:
        """Train and add noise, or go on from the checkpoint before with noise in every batch."""
        training, layout = self.perturbation.training, self.rows.layout
        match self.perturbation:
            case ParameterRelease():
                drawn = noisy_parameters(exact[0], release=self.perturbation, layout=layout, event=event, noise=noise)
            case DeltaTraining():
                before = stage.before
                state = initial_vector(training.widths, training.seed) if before is None else before.view(np.float64)
                changes = self.perturbation
                drawn = noisy_epochs(exact[0], training=changes, layout=layout, event=event, state=state, noise=noise)
        stage.progress(stage.place + 1, self.perturbation.draws)
        return drawn

    def result(self, event: VectorEvent, drawn: tuple[DurableDraw, ...]) -> tuple[ParameterMeasurement, ...]:
        """Return the draws in order, with what each cost."""
        return tuple(
            ParameterMeasurement(each.key, self.perturbation, place, each.values, event, each.number, each.sha256)
            for place, each in enumerate(drawn)
        )


def noisy_parameters(
    codes: Unsigned, *, release: ParameterRelease, layout: RowLayout, event: VectorEvent, noise: NoiseSource
) -> NDArray[np.int64]:
    """Train without noise, and return every parameter clamped, with noise, and clamped again, in steps of its range.

    Privacy: that of the event, whatever changes about the rows.
    """
    training = release.training
    rows, targets = vectors_of(codes, layout, training.label)
    trained = train_plainly(
        initial_vector(training.widths, training.seed),
        training.widths,
        rows,
        targets,
        epochs=training.epochs,
        batch=training.batch,
        learning_rate=training.learning_rate,
        regulariser=training.regulariser,
        seed=training.seed,
    )
    steps = clamped_steps(trained, *release.ranges)
    return _noisy_steps(steps, event=event, noise=noise)


def noisy_epochs(
    codes: Unsigned,
    *,
    training: DeltaTraining,
    layout: RowLayout,
    event: VectorEvent,
    state: Floats,
    noise: NoiseSource,
) -> NDArray[np.int64]:
    """Train on noisy changes for the epochs of one draw, and return the parameters as int64 words.

    Privacy: that of the event for all batches of these epochs together: each row is in one batch an epoch, drawn for
        it alone; batches are divided by their declared size, and each draws its noise whether it has rows or not.
    """
    plain = training.training
    rows, targets = vectors_of(codes, layout, plain.label)
    vector = state.copy()
    for _ in range(training.epochs_per_draw):
        places = assigned(rows.shape[0], training.batches, noise)
        order = np.argsort(places, kind="stable")
        ends = np.searchsorted(places[order], np.arange(training.batches + 1))
        for start, stop in pairwise(ends):
            chosen = order[start:stop]
            noisy_step(vector, rows[chosen], targets[chosen], training=training, event=event, noise=noise)
    return vector.view(np.int64).copy()


def noisy_step(
    vector: Floats, rows: Floats, targets: Floats, *, training: DeltaTraining, event: VectorEvent, noise: NoiseSource
) -> None:
    """Move the parameters by one batch: its changes clamped, noisy, clamped again (theorem 4; equations 5 and 6)."""
    plain = training.training
    layers = as_layers(vector, plain.widths)
    with np.errstate(over="ignore", invalid="ignore"):
        low, high = _limited(*delta_ranges(layers), training.limits)
        steps = clamped_steps(batch_deltas(layers, rows, targets), low, high)
        steps = _noisy_steps(steps, event=event, noise=noise)
        delta = low + (high - low) * (steps / STEPS)
        regular = as_layers(np.zeros_like(vector), plain.widths)
        for (weights, _), (into, _) in zip(layers, regular, strict=True):
            into[:] = plain.regulariser * weights
        for (weights, biases), (dw, db), (shrink, _) in zip(
            layers, as_layers(delta, plain.widths), regular, strict=True
        ):
            weights -= plain.learning_rate * (dw + shrink) / plain.batch
            biases -= plain.learning_rate * db / plain.batch


def _limited(low: Floats, high: Floats, limit: Floats) -> tuple[Floats, Floats]:
    """Keep ranges, which follow from released weights, within the limits; 0 is in each of them."""
    least, most = np.where(np.isnan(low), -limit, low), np.where(np.isnan(high), limit, high)
    return np.clip(least, -limit, 0.0), np.clip(most, 0.0, limit)


def clamped_steps(values: Floats, low: Floats, high: Floats) -> NDArray[np.int64]:
    """Clamp numbers to their ranges and round them to steps: whole numbers from 0 to `STEPS`, whatever they are."""
    width = np.maximum(high - low, 0)
    inside = np.clip(np.nan_to_num(values, nan=0.0, posinf=np.inf, neginf=-np.inf), low, high) - low
    shares = np.divide(inside, width, out=np.zeros_like(values), where=width > 0)
    steps: NDArray[np.int64] = np.clip(np.rint(np.nan_to_num(shares) * STEPS), 0, STEPS).astype(np.int64)
    return steps


def _noisy_steps(steps: NDArray[np.int64], *, event: VectorEvent, noise: NoiseSource) -> NDArray[np.int64]:
    """Add noise to every number, and clamp again."""
    noisy: NDArray[np.int64] = steps + noise.integers(steps.size, event=event)
    return noisy.clip(0, STEPS)


def assigned(rows: int, batches: int, noise: NoiseSource) -> NDArray[np.int64]:
    """Draw a batch for every row by itself; that other rows are there changes nothing of it."""
    words = noise.take(8 * rows).view(np.uint64)
    return (words % np.uint64(batches)).astype(np.int64)


def vectors_of(codes: Unsigned, layout: RowLayout, label: str) -> tuple[Floats, Floats]:
    """Return rows without the label's entries, and the label's, in float64."""
    head = next(each for each in layout.heads if each.column == label)
    vectors = layout.vectors(codes).astype(np.float64)
    kept = np.r_[0 : head.start, head.stop : layout.width]
    return np.ascontiguousarray(vectors[:, kept]), np.ascontiguousarray(vectors[:, head.start : head.stop])
