"""What generators and trainers may ask of a grant, apart from the books in which its draws are entered.

`Grant` is what draws. The checker has another that draws nothing and hands out what was published; neither it nor a
generator needs the ledger, the samplers of noise or the database for that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Protocol

from privacy.grant.measurement import Measurement, ParameterMeasurement, Selection, SumMeasurement
from privacy.learning.execution import Execution
from privacy.learning.learners import Learner
from privacy.learning.moments import Moments
from privacy.learning.perturbed import Perturbation
from privacy.learning.plan import TrainingPlan
from privacy.learning.rows import PrivateRows
from privacy.learning.trained import Trained
from privacy.marginals.counts import PrivateCounts
from privacy.marginals.scores import Candidate
from privacy.marginals.sensitivity import GaussianNoise, Noise


class Draws(Protocol):
    """The draws that one charge pays for; what each method means stands in `Grant`."""

    def measure(self, counts: PrivateCounts, *, noise: Noise, key: str) -> Measurement:
        """Return the noisy marginal."""
        ...

    def measure_sums(
        self, rows: PrivateRows, statistic: Moments, *, noise: GaussianNoise, key: str
    ) -> SumMeasurement:
        """Return noisy sums of bounded vectors over rows."""
        ...

    def train(
        self,
        rows: PrivateRows,
        learner: Learner,
        *,
        plan: TrainingPlan,
        key: str,
        execution: Execution,
        progress: Callable[[int, int], None] = ...,
    ) -> Trained:
        """Return what DP-SGD trained."""
        ...

    def perturb(
        self,
        rows: PrivateRows,
        perturbation: Perturbation,
        *,
        noise: Noise,
        key: str,
        progress: Callable[[int, int], None] = ...,
    ) -> tuple[ParameterMeasurement, ...]:
        """Return what was trained with noise on parameters or on their changes, draw by draw."""
        ...

    def select(self, candidates: Sequence[Candidate], *, epsilon: Fraction, key: str) -> Selection:
        """Return a private choice among marginals."""
        ...
