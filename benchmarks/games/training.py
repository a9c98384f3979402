"""Games on DP-SGD: the noise of a step, steps with a worst-case canary, and their accounting.

The canary is a table's only row; its gradient is longer than the clipping norm, so that each step in which it is
sampled moves the sum by all that it may. The attacker knows the gradient's direction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Final

import numpy as np
import torch

from benchmarks.games.attackers import claimed
from benchmarks.games.game import Game
from benchmarks.games.rows import LAYOUT, NOBODY, ONE
from privacy.accounting.events import PoissonSampledGaussian
from privacy.arrays import Floats, Unsigned
from privacy.grant.queries.training import noisy_step
from privacy.grant.sampled_noise import SampledNoise
from privacy.learning.learners import Classifier
from privacy.learning.network import Sgd, perceptron
from privacy.learning.plan import Execution, TrainingPlan
from privacy.learning.training import Session, initial_state
from privacy.noise.lattice_gaussian import add_noise, normals_from
from privacy.noise.random_bytes import RandomBytes, SecureBytes

TRIALS: Final = 8_000
ENTRIES: Final = 400_000
DELTA: Final = 0.05
SMALL_DELTA: Final = 1e-5
RATE: Final = 0.1
LEARNER: Final = Classifier(perceptron(2, outputs=3), "kind", Sgd(RATE), seed=1)
START: Final = initial_state(LEARNER)
_NORM: Final = Fraction(1, 100)
_NOT_CLIPPED: Final = 2


def lattice_noise() -> Game:
    """The noise of a step alone: an entry of 0 or of the clipping norm."""
    event = PoissonSampledGaussian(Fraction(1), Fraction(1), 1)

    def noisy(there: bool, trials: int, deviation: Fraction) -> Floats:
        values = np.full(trials, float(there), np.float32)
        add_noise(values, standard_deviation=deviation, source=SecureBytes())
        return values.astype(np.float64)

    plays = [partial(noisy, deviation=each) for each in (Fraction(1), Fraction(1, 2))]
    threat = "an entry of a summed gradient, 0 or the clipping norm; the noisy entry is seen"
    return Game(
        "noise of a DP-SGD step",
        threat,
        claimed([event], SMALL_DELTA),
        SMALL_DELTA,
        ENTRIES,
        *plays,
        "half the noise",
        method="gaussian",
        twin_method="gaussian",
    )


def whole_batches() -> Game:
    """Steps over all rows; the twin does not clip."""
    plan = _plan(Fraction(1), 1)
    loose = partial(_steps, plan=plan, clipped_to=_NOT_CLIPPED)
    return _game("one DP-SGD step over all rows", plan, loose, "gradients are not clipped")


def sampled() -> Game:
    """Sampled steps; the twin has half the noise."""
    plan = _plan(Fraction(1, 2), 2)
    twin = partial(_steps, plan=replace(plan, noise_multiplier=plan.noise_multiplier / 2))
    return _game("two DP-SGD steps, half of the rows sampled", plan, twin, "half the noise")


def rarely_sampled() -> Game:
    """Rarely sampled steps; the twin takes all rows in every step, and is charged as if it sampled."""
    plan = _plan(Fraction(1, 5), 4)
    twin = partial(_steps, plan=replace(plan, sampling_probability=Fraction(1)))
    return _game("four DP-SGD steps, a fifth of the rows sampled", plan, twin, "rows are not sampled")


def _plan(chance: Fraction, steps: int) -> TrainingPlan:
    return TrainingPlan(chance, Fraction(1), steps, _NORM, Fraction(1), steps, reserve=0)


def _game(name: str, plan: TrainingPlan, twin: Callable[[bool, int], Floats], broken: str) -> Game:
    threat = "a table of one row, whose gradient is above the clipping norm, or of none; the parameters are seen"
    epsilon = claimed(plan.events, DELTA)
    return Game(name, threat, epsilon, DELTA, TRIALS, partial(_steps, plan=plan), twin, broken)


def _steps(there: bool, trials: int, *, plan: TrainingPlan, clipped_to: float | None = None) -> Floats:
    """Train so often; return how far the parameters went along the canary's gradient [clipping norms]."""
    torch.set_num_threads(1)
    bound = plan.clipped_to(START.parameters.size) if clipped_to is None else clipped_to
    direction = _session(1).clipped_sum(ONE, bound=1.0, normals=normals_from(SecureBytes())).astype(np.float64)
    direction /= np.linalg.norm(direction)
    source, codes = SecureBytes(), ONE if there else NOBODY
    went = np.stack([_trained(codes, plan, bound, source) for _ in range(trials)])
    return np.asarray(went @ direction / RATE / float(plan.clipping_norm))


def _trained(codes: Unsigned, plan: TrainingPlan, bound: float, source: RandomBytes) -> Floats:
    session = _session(plan.steps)
    for _ in range(plan.steps):
        noisy_step(session, codes, plan=plan, clipped_to=bound, noise=SampledNoise(source))
    return np.asarray(START.parameters - session.state().parameters, dtype=np.float64)


def _session(steps: int) -> Session:
    return Session(LEARNER, LAYOUT, START, step=0, steps=steps, execution=Execution("cpu"))


GAMES: Final[Mapping[str, Callable[[], Game]]] = {
    "lattice_noise": lattice_noise,
    "dp_sgd": whole_batches,
    "dp_sgd_sampled": sampled,
    "dp_sgd_rarely_sampled": rarely_sampled,
}
