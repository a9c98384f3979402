"""Two phases in one run: sums across sites, and then a training whose learner is made of them.

One charge holds both, at every site and at the coordinator, before the first sum. Rounds are numbered through, the
sums first. What the coordinator sends are the sums that were released so far, and then the parameters; each party
makes statistic and learner of them by itself, so that nobody can ask for others than the plan's.

    present, a number a site; steps, two numbers each: steps = high 2^16 + low, 0 <= low < 2^16      of each sum
    parameters                                                                                       of the training

All are float32, which holds these whole numbers exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import Any, Final, Protocol

import numpy as np

from privacy.accounting.events import DiscreteGaussian, PoissonSampledGaussian, ZeroConcentrated
from privacy.arrays import Singles
from privacy.federation.plan import FederatedPlan, Trust
from privacy.federation.rounds import Call, RoundSum
from privacy.federation.summing_plan import SummingPlan
from privacy.learning.errors import CannotTrain
from privacy.learning.layout import RowLayout
from privacy.learning.learners import Learner
from privacy.learning.moments import Moments

PhaseEvent = DiscreteGaussian | ZeroConcentrated | PoissonSampledGaussian
_LOW: Final = 16
_LARGEST_HIGH: Final = 1 << 22


class Phased(Protocol):
    """What released sums are made into; every party works it out for itself."""

    @property
    def layout(self) -> RowLayout:
        """Of the rows that are added up."""
        ...

    @property
    def trained_layout(self) -> RowLayout:
        """Of the rows that are trained on."""
        ...

    def statistic(self, sums: Sequence[RoundSum]) -> Moments:
        """Return what is added up next, after these sums."""
        ...

    def learner(self, sums: Sequence[RoundSum]) -> Learner:
        """Return what is trained, after all sums."""
        ...


@dataclass(frozen=True)
class PhasedPlan:
    """Sums, and then a training, as they are accounted for together.

    Args:
        sums: the first phase.
        training: the second.
    Raises:
        CannotTrain: phases of other parties.
    """

    sums: SummingPlan
    training: FederatedPlan
    kind: str = field(default="phases", init=False)

    def __post_init__(self) -> None:
        if type(self.sums) is not SummingPlan or type(self.training) is not FederatedPlan:
            raise CannotTrain("plan", "parts of another type", "SummingPlan and FederatedPlan themselves")
        for name in ("sites", "rows_about", "trust"):
            if getattr(self.sums, name) != getattr(self.training, name):
                raise CannotTrain(name, "different in the phases", "the same in both")

    @property
    def sites(self) -> tuple[str, ...]:
        """Names, in order."""
        return self.sums.sites

    @property
    def trust(self) -> Trust:
        """Who is trusted with what."""
        return self.sums.trust

    @property
    def shares_counted(self) -> int:
        """Shares whose noise is sure to be in a sum and unknown to whoever looks at it."""
        return self.sums.shares_counted

    @property
    def rounds(self) -> int:
        """Rounds of both phases."""
        return self.sums.rounds + self.training.rounds

    @property
    def largest_entry(self) -> int:
        """Largest entry of one site's contribution; the same in both phases."""
        return max(self.sums.largest_entry, self.training.largest_entry)

    @cached_property
    def record_events(self) -> tuple[PhaseEvent, ...]:
        """What a site's account is charged: all rounds, and the reserves."""
        return (*self.sums.record_events, *self.training.record_events)

    @cached_property
    def person_events(self) -> tuple[PhaseEvent, ...]:
        """What the coordinator's account is charged."""
        return (*self.sums.person_events, *self.training.person_events)

    def to_json(self) -> dict[str, Any]:
        """Write the plan as JSON values."""
        return {"kind": self.kind, "sums": self.sums.to_json(), "training": self.training.to_json()}


def keys(key: str) -> tuple[str, str]:
    """Return what the keys of the two phases' draws begin with."""
    return f"{key}/sums", f"{key}/training"


def encode_sums(sums: Sequence[RoundSum]) -> Singles:
    """Write released sums as the coordinator sends them."""
    parts = [np.zeros(0, np.float32)]
    for each in sums:
        high, low = each.steps >> _LOW, each.steps & ((1 << _LOW) - 1)
        parts += [np.array(each.present, np.float32), np.stack([high, low], axis=1).ravel().astype(np.float32)]
    return np.concatenate(parts)


def heard(call: Call, plan: PhasedPlan) -> tuple[tuple[RoundSum, ...], Singles]:
    """Read what the coordinator sent: released sums, and the parameters so far.

    Raises:
        CannotTrain: no such round, or numbers that no released sums are.
    """
    if type(call) is not Call or type(call.number) is not int or not 0 <= call.number < plan.rounds:
        raise CannotTrain("round", "another", f"0 to {plan.rounds - 1}")
    given, sites = call.parameters, len(plan.sites)
    sizes = [sites + 2 * each.length for each in plan.sums.sums[: call.number]]
    if type(given) is not np.ndarray or given.dtype != np.float32 or given.ndim != 1 or given.size < sum(sizes):
        raise CannotTrain("parameters", "other numbers", f"float32, at least {sum(sizes)}: the sums so far")
    starts = [0, *accumulate(sizes)]
    sums = tuple(_heard(number, given[starts[number] : starts[number + 1]], sites) for number in range(len(sizes)))
    return sums, given[starts[-1] :]


def _heard(number: int, values: Singles, sites: int) -> RoundSum:
    """Read one sum."""
    present, pairs = values[:sites], values[sites:].reshape(-1, 2)
    whole = np.isfinite(values).all() and (values == np.rint(values)).all() and np.isin(present, (0.0, 1.0)).all()
    within = whole and (np.abs(pairs[:, 0]) < _LARGEST_HIGH).all() and (pairs[:, 1] >= 0).all()
    if not within or not (pairs[:, 1] < 1 << _LOW).all():
        raise CannotTrain("parameters", "numbers that no released sum is", "the released sums as they are written")
    high, low = pairs.astype(np.int64).T
    return RoundSum(number, tuple(bool(each) for each in present), (high << _LOW) + low, "")
