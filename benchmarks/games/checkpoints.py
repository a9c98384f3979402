"""Games on trainings of one, two and three steps of which every checkpoint is published, against exact digits.

A table of 30 pictures, and one with a picture more. The attacker has all checkpoints (parameters and Adam's two
moments) and all rows but that one, and looks at digits, not at sizes:
    1. SOLVE    the whole number of lattice steps of each noisy sum, from the moments before and after a step
    2. SUBTRACT the clipped sum without the row, and with it, at the parameters that were published before
    3. COUNT    pairs of what is left that no float32 radius and angle can give
Noise that was made in float32 gives pairs of the first kind only, under the right one of the two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.games import float32_noise
from benchmarks.games.attackers import claimed
from benchmarks.games.game import Game
from privacy.arrays import Floats, Unsigned
from privacy.grant.queries.training import noisy_step
from privacy.grant.sampled_noise import SampledNoise
from privacy.learning.layout import ColumnLayout, RowLayout
from privacy.learning.learners import Classifier
from privacy.learning.network import Adam, perceptron
from privacy.learning.plan import Execution, TrainingPlan
from privacy.learning.training import Session, TrainingState, initial_state
from privacy.noise.lattice_gaussian import lattice_of, normals_from, on_lattice
from privacy.noise.random_bytes import RandomBytes, SecureBytes

Step = Callable[[Session, Unsigned, TrainingPlan, RandomBytes], None]
TRIALS: Final = 100
DELTA: Final = 1e-5
ROWS: Final = 30
WIDTH: Final = 700
_NEAR: Final = 4
"""Lattice steps on either side of a first guess at which the attacker tries whether they give the checkpoint."""
LAYOUT: Final = RowLayout(
    (
        ColumnLayout("picture", "array", np.linspace(0, 1, 256)[:, None], length=WIDTH),
        ColumnLayout("kind", "category", np.eye(2)),
    )
)
LEARNER: Final = Classifier(perceptron(WIDTH, outputs=2), "kind", Adam(0.05), seed=1)
START: Final = initial_state(LEARNER)
SIZE: Final = START.parameters.size


def plan_of(steps: int) -> TrainingPlan:
    """All rows in every step, 40 clipping norms of noise, a checkpoint a step."""
    return TrainingPlan(Fraction(1), Fraction(ROWS), steps, Fraction(1), Fraction(40), 1, reserve=0)


def table(there: bool) -> Unsigned:
    """Return the rows, with the canary as the last one or without it."""
    random = np.random.default_rng(3)
    pictures = random.integers(0, 256, (ROWS + 1, WIDTH)).astype(np.uint8)
    kinds = random.integers(0, 2, (ROWS + 1, 1)).astype(np.uint8)
    return np.concatenate([pictures, kinds], axis=1)[: ROWS + there]


def shipped_step(session: Session, codes: Unsigned, plan: TrainingPlan, source: RandomBytes) -> None:
    """Make a step as a grant does."""
    noisy_step(session, codes, plan=plan, clipped_to=plan.clipped_to(SIZE), noise=SampledNoise(source))


def float32_step(session: Session, codes: Unsigned, plan: TrainingPlan, source: RandomBytes) -> None:
    """Make a step with noise from float32."""
    total = session.clipped_sum(codes, bound=plan.clipped_to(SIZE), normals=normals_from(source))
    float32_noise.add_noise(total, standard_deviation=plan.standard_deviation, source=source)
    session.advance(total, expected_batch_size=float(plan.expected_batch_size))


def published(codes: Unsigned, plan: TrainingPlan, step: Step, source: RandomBytes) -> list[TrainingState]:
    """Train, and return the state before the first step and after each."""
    states = [START]
    session = _session(START, 0, plan)
    for _ in range(plan.steps):
        step(session, codes, plan, source)
        states.append(session.state())
    return states


def impossible(states: Sequence[TrainingState], plan: TrainingPlan) -> tuple[int, int]:
    """Count pairs that float32 noise cannot have made, had the canary not been there, and had it been there."""
    told = [0, 0]
    for place in range(plan.steps):
        before, after = states[place], states[place + 1]
        noisy = solved(before, after, place, plan)
        for there in (False, True):
            session, normals = _session(before, place, plan), normals_from(SecureBytes())
            exact = session.clipped_sum(table(there), bound=plan.clipped_to(SIZE), normals=normals)
            left = noisy - on_lattice(exact, lattice_of(plan.standard_deviation))
            told[there] += float32_noise.unreachable(left, plan.standard_deviation)
    return told[0], told[1]


def solved(before: TrainingState, after: TrainingState, place: int, plan: TrainingPlan) -> NDArray[np.float64]:
    """Return the noisy sum between two states in whole lattice steps; NaN where several would give the second."""
    lattice, batch = lattice_of(plan.standard_deviation), float(plan.expected_batch_size)
    first = LEARNER.optimizer.first if isinstance(LEARNER.optimizer, Adam) else 0.0
    gradient = (after.moments[0].astype(np.float64) - first * before.moments[0]) / (1 - first)
    guess = np.rint(gradient * batch / lattice)
    found, hits = np.full(SIZE, np.nan), np.zeros(SIZE, np.int64)
    for away in range(-_NEAR, _NEAR + 1):
        session = _session(before, place, plan)
        tried = (guess + away).astype(np.float32) * np.float32(lattice)
        session.advance(tried, expected_batch_size=batch)
        hit = (session.state().moments == after.moments).all(axis=0)
        hits += hit
        found[hit] = (guess + away)[hit]
    return np.where(hits == 1, found, np.nan)


def _session(state: TrainingState, place: int, plan: TrainingPlan) -> Session:
    return Session(LEARNER, LAYOUT, state, step=place, steps=plan.steps, execution=Execution("cpu"))


def _play(there: bool, trials: int, *, plan: TrainingPlan, step: Step) -> Floats:
    torch.set_num_threads(1)
    source = SecureBytes()
    told = [impossible(published(table(there), plan, step, source), plan) for _ in range(trials)]
    return np.array([without - canary for without, canary in told], dtype=np.float64)


def _game(steps: int) -> Game:
    plan = plan_of(steps)
    name = f"{steps} DP-SGD step{'s' if steps > 1 else ''} over all rows, every checkpoint published"
    threat = "a table of 30 pictures, or of one more; the digits of parameters and moments are seen after each step"
    plays = [partial(_play, plan=plan, step=step) for step in (shipped_step, float32_step)]
    return Game(name, threat, claimed(plan.events, DELTA), DELTA, TRIALS, *plays, "noise made in float32")


GAMES: Final[Mapping[str, Callable[[], Game]]] = {
    "checkpoints_three": partial(_game, 3),
    "checkpoints_two": partial(_game, 2),
    "checkpoints_one": partial(_game, 1),
}
