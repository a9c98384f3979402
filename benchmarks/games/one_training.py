"""An audit of one whole training: thousands of canaries, each in the table by a fair coin, and one run of `dp_sgd`.

The trainer fits a classifier without hidden layers through the grant's own code: it samples, clips, adds noise and
makes its steps as it is shipped, calibrated to the charge. The canaries are the only rows.
    - a canary has eight entries of the input to itself, all 1. Its gradient lies there, but for the bias, and nobody
      else's does: the canaries do not disturb each other
    - gradients are far above the clipping norm all the time, so that a canary moves a step by all that it may

The attacker sees every checkpoint: Adam's first moment before and after a step tells the noisy sum. Summed over the
steps along a canary's gradient it is the canary's score. The highest scores are guessed as "there", the lowest as
"not there", on the others the attacker keeps silent (`privacy.games.one_run`).

The bound is of a Gaussian curve: the least mu that so many right guesses allow. The claim is the least mu whose curve
allows as much as the plan's loss distribution, at each of several delta.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, Final

import numpy as np
import torch
from scipy.optimize import brentq

from benchmarks._no_seed import no_seed
from benchmarks.games.game import Game
from benchmarks.games.generators import Source
from benchmarks.games.grant import NotClipping, UnrecordedGrant
from benchmarks.games.lower_bound import gaussian_epsilon
from privacy.accounting.claim import pld_epsilon
from privacy.arrays import Floats, Unsigned
from privacy.classifiers.dp_sgd import DpSgd, DpSgdOptions, dp_sgd_learner
from privacy.classifiers.trainer import ClassificationTask
from privacy.generators.generator import GeneratorPlan
from privacy.grant.queries.query import DrawStage, Query
from privacy.learning.layout import ColumnLayout, RowLayout
from privacy.learning.network import Adam
from privacy.learning.trained import unpacked
from privacy.learning.training import TrainingState, state_size
from privacy.ledger.draw_files import Draw
from privacy.marginals.graph import CellDomain

CANARIES: Final = 20_000
EPSILON: Final = Fraction(4)
DELTA: Final = Fraction(1, 10**5)
_ENTRIES: Final = 8
_CELLS: Final = 64
_TOGETHER: Final = 8
"""Canaries whose entries are those of one column; its first code is nobody's, and all of it is 0."""
_SHARE: Final = Fraction(3, 4)
_STEPS: Final = 16
_LABEL: Final = "kind"
_DELTAS: Final = (1e-9, 1e-7, 1e-5, 1e-4, 1e-3, 1e-2, 0.05, 0.1)


class WatchedGrant(UnrecordedGrant):
    """Keeps what it has drawn, checkpoint by checkpoint."""

    def _drawn(self, own: Query[Any], name: str, stage: DrawStage, *, prefix: str) -> Draw:
        drawn = super()._drawn(own, name, stage, prefix=prefix)
        self.seen = [*getattr(self, "seen", []), drawn.values]
        return drawn


class WatchedNotClipping(WatchedGrant, NotClipping):
    """Keeps what it has drawn, hardly clipped."""


@dataclass(frozen=True)
class Training:
    """A training that is audited: its canaries, and what is asked for.

    Args:
        canaries: m, a multiple of eight; each has a label of its own, alternately.
    """

    canaries: int

    @cached_property
    def task(self) -> ClassificationTask:
        """What the trainer is asked for."""
        table = np.zeros((_CELLS, _CELLS))
        for place in range(_TOGETHER):
            table[1 + place, place * _ENTRIES : (place + 1) * _ENTRIES] = 1.0
        names = [f"x{number:05d}" for number in range(self.canaries // _TOGETHER)]
        columns = [ColumnLayout(name, "category", table) for name in names]
        layout = RowLayout((*columns, ColumnLayout(_LABEL, "category", np.eye(2))))
        domain = CellDomain(layout.names, (*[_CELLS] * len(names), 2))
        return ClassificationTask(
            domain, {}, "add_remove", 1, EPSILON, DELTA, None, layout, label=_LABEL, vectors=layout
        )

    @cached_property
    def options(self) -> DpSgdOptions:
        """Three quarters of the rows in each step, and a checkpoint after each."""
        rows = self.canaries // 2
        return DpSgdOptions(
            rows_about=rows,
            batch=int(rows * _SHARE),
            epochs=float(_STEPS * _SHARE),
            checkpoints=_STEPS,
            gradient_norm=0.05,
            learning_rate=1e-5,
            averaging=None,
            rows_at_once=64,
            max_memory_megabytes=1e12,
        )

    @cached_property
    def plan(self) -> GeneratorPlan:
        """What the trainer spends."""
        return DpSgd().plan(self.task, self.options)

    def codes(self, coins: Floats) -> Unsigned:
        """Return the rows of the canaries whose coin says so."""
        places = np.flatnonzero(coins)
        rows = np.zeros((len(places), self.canaries // _TOGETHER + 1), np.uint8)
        rows[np.arange(len(places)), places // _TOGETHER] = 1 + places % _TOGETHER
        rows[:, -1] = places % 2
        return rows

    def scores(self, checkpoints: list[Any]) -> Floats:
        """Return how far all noisy sums went along each canary's gradient."""
        learner = dp_sgd_learner(self.task, self.options)
        keeps = learner.optimizer.first if isinstance(learner.optimizer, Adam) else 0.0
        before, total = 0.0, 0.0
        for values in checkpoints:
            moment = TrainingState.of(learner, unpacked(values, state_size(learner))).moments[0].astype(np.float64)
            total, before = total + (moment - keeps * before) / (1 - keeps), moment
        inputs = self.task.inputs
        weights = np.asarray(total)[: 2 * inputs].reshape(2, inputs)
        # The gradient raises the other class and lowers a row's own.
        away = (weights[1] - weights[0]).reshape(self.canaries, _ENTRIES).sum(axis=1)
        return np.where(np.arange(self.canaries) % 2 == 0, away, -away)


@dataclass
class OneRun:
    """One training, whose scores are handed out with the canary and without.

    Args:
        grant: what it is trained with.
    """

    grant: type[WatchedGrant]
    _scores: dict[bool, Floats] = field(default_factory=dict)

    def __call__(self, there: bool, canaries: int) -> Floats:
        """Train, where that is not done yet, and return the scores of those who are there, or are not."""
        if there not in self._scores:
            torch.set_num_threads(1)
            training = Training(canaries // _TOGETHER * _TOGETHER)
            coins = np.random.default_rng().random(training.canaries) < 0.5
            task, grant = training.task, self.grant(training.task, training.plan)
            source = Source(task, training.codes(coins))
            DpSgd().fit(task, training.options, training.plan, source, grant, _quiet, no_seed)
            scores = training.scores(grant.seen)
            self._scores = {True: scores[coins], False: scores[~coins]}
        return self._scores.pop(there)


def claimed_shift(plan: GeneratorPlan) -> float:
    """Return the least mu of a Gaussian curve that allows all that the plan's loss distribution does, on a grid."""
    shifts = []
    for delta in _DELTAS:
        epsilon = pld_epsilon(plan.events, delta)
        if epsilon is None:
            raise ValueError("the plan has no loss distribution")
        shifts.append(brentq(lambda shift: gaussian_epsilon(shift, delta) - epsilon, 1e-3, 50.0))  # noqa: B023
    return float(max(shifts))


def _quiet(_done: float, _what: str) -> None:
    """Nobody looks."""


def _game(broken: str, grant: type[WatchedGrant]) -> Game:
    shift = claimed_shift(Training(CANARIES).plan)
    return Game(
        name="one whole training of dp_sgd",
        threat="a table of canaries alone, each there by a fair coin; every checkpoint of one training is seen",
        epsilon=gaussian_epsilon(shift, float(DELTA)),
        delta=float(DELTA),
        trials=CANARIES,
        shipped=OneRun(WatchedGrant),
        twin=OneRun(grant),
        broken=broken,
        method="one_run",
        way="the grant's own code, without a ledger",
        twin_method="one_run",
        shift=shift,
    )


GAMES: Final[Mapping[str, Callable[[], Game]]] = {
    "one_training": partial(_game, "gradients are not clipped", WatchedNotClipping)
}
