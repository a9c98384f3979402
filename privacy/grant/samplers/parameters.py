"""Noise on parameters, or on their changes batch by batch: only a grant calls this (law 1).

A parameter, or the change of one in a batch, is clamped to its range, rounded to one of its `STEPS` + 1 points, gets
whole-numbered noise, and is clamped again (theorems 3 and 4). What is clamped twice moves by at most `STEPS` whatever
the rows are, also where they made the training overflow.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from privacy.accounting.events import DiscreteGaussian, DiscreteLaplaceVector
from privacy.arrays import Floats, Unsigned
from privacy.grant.arguments.parameter_arguments import checked_perturbation, draw_requests
from privacy.grant.durable_draws import DurableDraws
from privacy.grant.measurement import ParameterMeasurement
from privacy.learning.feed_forward import as_layers, batch_deltas, delta_ranges, initial_vector, train_plainly
from privacy.learning.layout import RowLayout
from privacy.learning.perturbed import STEPS, DeltaTraining, ParameterRelease, Perturbation, VectorEvent
from privacy.learning.rows import PrivateRows
from privacy.ledger.terms import ChargeRequest
from privacy.marginals.sensitivity import Noise
from privacy.noise.discrete_gaussian import discrete_gaussian
from privacy.noise.discrete_laplace import discrete_laplace
from privacy.noise.random_bytes import RandomBytes

OnEpoch = Callable[[int, int], None]
"""Told how many draws of how many are done; never anything about the data."""


def silent(done: int, draws: int) -> None:
    """Tell nobody."""


def perturbed(
    rows: PrivateRows,
    perturbation: Perturbation,
    noise: Noise,
    key: str,
    request: ChargeRequest,
    once: DurableDraws,
    source: RandomBytes,
    progress: OnEpoch,
) -> tuple[ParameterMeasurement, ...]:
    """Make, or replay, the draws of a training one after the other; see `Grant.perturb`."""
    copied, layout = checked_perturbation(rows, perturbation, noise)
    made: list[ParameterMeasurement] = []
    state = initial_vector(copied.training.widths, copied.training.seed)
    for place, each in enumerate(draw_requests(copied, layout, noise, rows_per_unit=request.rows_per_unit, key=key)):
        event = copied.event(noise, rows_per_unit=request.rows_per_unit)
        make: Callable[[Unsigned], NDArray[np.int64]]
        if isinstance(copied, ParameterRelease):
            make = partial(noisy_parameters, release=copied, layout=layout, event=event, source=source)
        else:
            make = partial(noisy_epochs, training=copied, layout=layout, event=event, state=state, source=source)
        draw = once.drawn(each, (rows,), rows._read, make)
        made.append(ParameterMeasurement(each.key, copied, place, draw.values, event, draw.number, draw.sha256))
        state = draw.values.view(np.float64)
        progress(place + 1, copied.draws)
    return tuple(made)


def noisy_parameters(
    codes: Unsigned, *, release: ParameterRelease, layout: RowLayout, event: VectorEvent, source: RandomBytes
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
    return _noisy_steps(steps, event=event, source=source)


def noisy_epochs(
    codes: Unsigned,
    *,
    training: DeltaTraining,
    layout: RowLayout,
    event: VectorEvent,
    state: Floats,
    source: RandomBytes,
) -> NDArray[np.int64]:
    """Train on noisy changes for the epochs of one draw, and return the parameters as int64 words.

    Privacy: that of the event for all batches of these epochs together: each row is in one batch an epoch, drawn for
        it alone; batches are divided by their declared size, and each draws its noise whether it has rows or not.
    """
    plain = training.training
    rows, targets = vectors_of(codes, layout, plain.label)
    vector = state.copy()
    for _ in range(training.epochs_per_draw):
        places = assigned(rows.shape[0], training.batches, source)
        order = np.argsort(places, kind="stable")
        ends = np.searchsorted(places[order], np.arange(training.batches + 1))
        for start, stop in pairwise(ends):
            chosen = order[start:stop]
            noisy_step(vector, rows[chosen], targets[chosen], training=training, event=event, source=source)
    return vector.view(np.int64).copy()


def noisy_step(
    vector: Floats, rows: Floats, targets: Floats, *, training: DeltaTraining, event: VectorEvent, source: RandomBytes
) -> None:
    """Move the parameters by one batch: its changes clamped, noisy, clamped again (theorem 4; equations 5 and 6)."""
    plain = training.training
    layers = as_layers(vector, plain.widths)
    with np.errstate(over="ignore", invalid="ignore"):
        low, high = _limited(*delta_ranges(layers), training.limits)
        steps = clamped_steps(batch_deltas(layers, rows, targets), low, high)
        steps = _noisy_steps(steps, event=event, source=source)
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


def _noisy_steps(steps: NDArray[np.int64], *, event: VectorEvent, source: RandomBytes) -> NDArray[np.int64]:
    """Add noise to every number, and clamp again."""
    noisy: NDArray[np.int64] = steps + vector_noise(steps.size, event=event, source=source)
    return noisy.clip(0, STEPS)


def vector_noise(size: int, *, event: VectorEvent, source: RandomBytes) -> NDArray[np.int64]:
    """Draw the noise of so many numbers."""
    match event:
        case DiscreteLaplaceVector(inverse_scale=inverse_scale):
            return discrete_laplace(size, inverse_scale=inverse_scale, source=source)
        case DiscreteGaussian(sigma_squared=sigma_squared):
            return discrete_gaussian(size, sigma_squared=sigma_squared, source=source)
        case _:
            assert_never(event)


def assigned(rows: int, batches: int, source: RandomBytes) -> NDArray[np.int64]:
    """Draw a batch for every row by itself; that other rows are there changes nothing of it."""
    words = source.take(8 * rows).view(np.uint64)
    return (words % np.uint64(batches)).astype(np.int64)


def vectors_of(codes: Unsigned, layout: RowLayout, label: str) -> tuple[Floats, Floats]:
    """Return rows without the label's entries, and the label's, in float64."""
    head = next(each for each in layout.heads if each.column == label)
    vectors = layout.vectors(codes).astype(np.float64)
    kept = np.r_[0 : head.start, head.stop : layout.width]
    return np.ascontiguousarray(vectors[:, kept]), np.ascontiguousarray(vectors[:, head.start : head.stop])
