"""Training by DP-SGD: only a grant calls this (law 1).

One draw is one interval between checkpoints. Within it, step by step, and nothing of it is seen before it is whole:
    1. each row is sampled by a coin of its own, exactly with the plan's probability (an empty sample is one)
    2. the rows' clipped gradients are summed
    3. Gaussian noise is added to every entry, on a lattice
    4. the sum is divided by the expected batch size, which is public, and the optimizer makes its step
The checkpoint (parameters, the optimizer's moments) is written durably with the event of all its steps; the next
interval starts from what was written. An interval that a crash interrupts is paid again out of the plan's reserve.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from privacy.arrays import Unsigned
from privacy.grant.arguments.training_arguments import Training
from privacy.grant.durable_draws import DurableDraws, Reserve
from privacy.learning.errors import TrainingDiverged
from privacy.learning.learners import parameters_of
from privacy.learning.plan import TrainingPlan
from privacy.learning.rows import PrivateRows
from privacy.learning.trained import Trained, packed, unpacked
from privacy.learning.training import Session, TrainingState, initial_state, state_size
from privacy.noise.lattice_gaussian import add_noise
from privacy.noise.poisson_sample import poisson_sample
from privacy.noise.random_bytes import RandomBytes
from privacy.noise.row_normals import normals_from

Progress = Callable[[int, int], None]
"""Told how many steps of how many are done; never anything about the data."""


def train(
    rows: PrivateRows, training: Training, *, key: str, once: DurableDraws, source: RandomBytes, progress: Progress
) -> Trained:
    """Train from checkpoint to checkpoint, replaying those that are there; see `Grant.train`."""
    plan, learner = training.plan, training.learner
    state, digest, reserve, asked = initial_state(learner), "", Reserve(key, plan.reserve), training.asked(key)
    words: NDArray[np.int64] = np.empty(0, np.int64)
    for place, each in enumerate(asked):
        told = _EpochProgress(progress, place * plan.checkpoint_every, plan.steps)
        make = partial(_interval, state=state, training=training, place=place, source=source, told=told)
        draw = once.drawn(each, (rows,), rows._read, make, reserve=reserve)
        told.raise_what_it_raised()
        state, digest, words = (
            TrainingState.of(learner, unpacked(draw.values, state_size(learner))),
            draw.sha256,
            draw.values,
        )
        _check_converged(state, training, place, key)
    return Trained(learner, training.layout, state.trained, tuple(each.key for each in asked), digest, plan, words)


def noisy_step(
    session: Session, codes: Unsigned, *, plan: TrainingPlan, clipped_to: float, source: RandomBytes
) -> None:
    """Make one step: sample, clip, sum, add noise, divide, move.

    Args:
        session: the training.
        codes: all rows.
        plan: sampling, clipping and noise.
        clipped_to: the norm to which gradients are clipped: the plan's, less what rounding may add.
        source: uniform bytes.
    Privacy: one Poisson-sampled Gaussian of the plan's multiplier and probability, under add_remove of one row.
    """
    sampled = poisson_sample(codes.shape[0], probability=plan.sampling_probability, source=source)
    total = session.clipped_sum(codes[sampled], bound=clipped_to, normals=normals_from(source))
    add_noise(total, standard_deviation=plan.standard_deviation, source=source)
    session.advance(total, expected_batch_size=float(plan.expected_batch_size))


class _EpochProgress:
    """Passes progress on; what the caller's function raises waits until the interval is written down."""

    def __init__(self, progress: Progress, before: int, steps: int) -> None:
        self._progress, self._before, self._steps = progress, before, steps
        self._raised: Exception | None = None

    def done(self, steps: int) -> None:
        """Tell that so many steps of this interval are done."""
        if self._raised is None:
            try:
                self._progress(self._before + steps, self._steps)
            except Exception as error:  # noqa: BLE001 - raised again as soon as nothing is lost by it
                self._raised = error

    def raise_what_it_raised(self) -> None:
        """Raise what the caller's function raised, if it did."""
        if self._raised is not None:
            raise self._raised


def _interval(
    codes: Unsigned,
    *,
    state: TrainingState,
    training: Training,
    place: int,
    source: RandomBytes,
    told: _EpochProgress,
) -> NDArray[np.int64]:
    """Make the steps from one checkpoint to the next; return what the checkpoint holds."""
    plan = training.plan
    clipped_to = plan.clipped_to(parameters_of(training.learner))
    session = _session(training, state, place)
    for done in range(1, plan.checkpoint_every + 1):
        noisy_step(session, codes, plan=plan, clipped_to=clipped_to, source=source)
        told.done(done)
    return packed(session.state().to_vector())


def _session(training: Training, state: TrainingState, place: int) -> Session:
    plan = training.plan
    step = place * plan.checkpoint_every
    execution = training.execution
    return Session(training.learner, training.layout, state, step=step, steps=plan.steps, execution=execution)


def _check_converged(state: TrainingState, training: Training, place: int, key: str) -> None:
    """Stop where a released checkpoint is of no use. Post-processing: no private row takes part."""
    if _session(training, state, place).diverged():
        steps = (place + 1) * training.plan.checkpoint_every
        raise TrainingDiverged(
            f"training {key!r} has diverged within {steps} steps: its parameters or its loss on a made-up row are no "
            "finite numbers. What was drawn stays charged. Start another release with a smaller learning rate"
        )
