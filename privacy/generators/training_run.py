"""The training within a fit: through the grant, with the time left told and the time limit kept."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Final

from privacy.generators.fitting import Stopwatch
from privacy.generators.generator import FitProgress, OutOfTime
from privacy.generators.latent_options import TrainingOptions
from privacy.grant.draws import Draws
from privacy.grant.measurement import SumMeasurement
from privacy.grant.queries.sums import SumQuery
from privacy.grant.queries.training import TrainingQuery
from privacy.learning.execution import Execution
from privacy.learning.learners import Learner
from privacy.learning.moments import MomentBlocks, Moments
from privacy.learning.plan import TrainingPlan
from privacy.learning.rows import PrivateRows
from privacy.learning.trained import Trained
from privacy.marginals.sensitivity import GaussianNoise

KEY: Final = "training-0001"
SUMS_DONE: Final = 0.2
"""Share of the progress that is told when the sums are measured."""


class Timer:
    """The time limit of a fit, and what is told on the way.

    Args:
        options: with the limit.
        progress: told a share from 0 to 1.
        clock: seconds since any moment.
    """

    def __init__(self, options: TrainingOptions, progress: FitProgress, clock: Stopwatch = time.monotonic) -> None:
        self._limit, self._progress, self._clock, self._began = options.time_limit, progress, clock, clock()

    def report(self, share: float, what: str) -> None:
        """Tell how far it is.

        Raises:
            OutOfTime: the limit has passed; what was drawn is durable.
        """
        if self._limit is not None and self._clock() - self._began >= self._limit:
            raise OutOfTime(
                f"time_limit {self._limit:g} s has passed while {what}; do: run the same spec again, which goes on "
                "from the last checkpoint; with another time_limit it is another release, and is charged anew"
            )
        self._progress(share, what)

    def training(self, start: float) -> Callable[[int, int], None]:
        """Return what a training is told by: steps done, of how many; `start` is the share done before."""
        began, first = self._clock(), [0]

        def report_step(done: int, steps: int) -> None:
            # Steps count from the first report on, which may hold those of an earlier run.
            first[0] = first[0] or done
            passed = done - first[0]
            left = (self._clock() - began) / passed * (steps - done) if passed else math.nan
            said = f"training, step {done} of {steps}" + ("" if math.isnan(left) else f", about {left:.0f} s left")
            self.report(start + (1 - start) * 0.99 * done / steps, said)

        return report_step


class Sums:
    """The noisy sums of a fit, measured one after the other; all that it holds is released.

    Args:
        grant: draws.
        rows: of all columns.
        noises: of the draws, in order.
        timer: told before each.
    """

    def __init__(self, grant: Draws, rows: PrivateRows, noises: Sequence[GaussianNoise], timer: Timer) -> None:
        self.drawn: list[SumMeasurement] = []
        self._grant, self._rows, self._noises, self._timer = grant, rows, noises, timer

    def measure(self, statistic: Moments) -> SumMeasurement:
        """Measure the next sum."""
        number = len(self.drawn)
        self._timer.report(SUMS_DONE * number / len(self._noises), "measuring sums over rows")
        key = f"measurement-{number + 1:04d}"
        self.drawn.append(self._grant.draw(SumQuery(self._rows, statistic, self._noises[number]), key=key))
        return self.drawn[-1]

    def blocks(self, statistic: Moments, _turn: int = 0) -> MomentBlocks:
        """Measure the next sum, and return it in natural units."""
        made = self.measure(statistic)
        return statistic.blocks(made.values, variance=made.variance)


def train(
    grant: Draws, rows: PrivateRows, learner: Learner, plan: TrainingPlan, options: TrainingOptions, timer: Timer
) -> Trained:
    """Train through the grant.

    Raises:
        OutOfTime: the limit has passed; the same run again goes on from the last checkpoint.
        TrainingDiverged: the parameters are of no use; what was drawn stays charged.
    """
    execution = Execution(options.device, options.rows_at_once)
    report_step = timer.training(SUMS_DONE)
    return grant.draw(TrainingQuery(rows, learner, plan, execution), key=KEY, progress=report_step)
