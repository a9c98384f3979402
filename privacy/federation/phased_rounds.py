"""The rounds of a run of two phases: the coordinator's side, and how a site answers each."""

from __future__ import annotations

from functools import partial
from typing import Protocol

import numpy as np

from privacy.arrays import Singles
from privacy.federation.coordinator import Attempts, FederatedModel, RoundGrant, attempted, train_across
from privacy.federation.phases import Phased, PhasedPlan, heard, keys, told
from privacy.federation.plan import FederatedPlan
from privacy.federation.rounds import Call, Collect, Collected, Contribution, RoundSum, Sites
from privacy.federation.summing_plan import SummingPlan
from privacy.learning.execution import Execution
from privacy.learning.layout import RowLayout
from privacy.learning.learners import Learner
from privacy.learning.moments import Moments
from privacy.learning.rows import PrivateRows


class PhasedGrant(RoundGrant, Protocol):
    """The coordinator's grant."""

    def sum_sums(
        self,
        layout: RowLayout,
        statistic: Moments,
        number: int,
        collect: Collect,
        *,
        attempt: str,
        plan: SummingPlan,
        key: str,
    ) -> RoundSum:
        """Collect one sum from the sites and release it, or replay it."""
        ...


class SiteGrant(Protocol):
    """A site's grant."""

    def contribute_sums(
        self, rows: PrivateRows, statistic: Moments, call: Call, *, plan: SummingPlan, key: str
    ) -> Contribution:
        """Make the site's sums."""
        ...

    def contribute(
        self,
        rows: PrivateRows,
        learner: Learner,
        call: Call,
        *,
        plan: FederatedPlan,
        key: str,
        execution: Execution,
    ) -> Contribution:
        """Make the site's contribution to a training."""
        ...


def run_phases(
    grant: PhasedGrant,
    sites: Sites,
    phased: Phased,
    *,
    plan: PhasedPlan,
    key: str,
    execution: Execution,
    attempts: Attempts,
) -> tuple[tuple[RoundSum, ...], FederatedModel]:
    """Sum, and then train; a round that too few sites answered is made again.

    Args:
        grant: the coordinator's; its charge holds `plan.person_events`.
        sites: the way to the sites.
        phased: what released sums are made into.
        plan: both phases.
        key: what the keys of its draws begin with.
        execution: device and memory.
        attempts: how rounds are attempted.
    Returns:
        The released sums, and what the training released.
    Raises:
        LedgerRefusal: more attempts were lost than a phase's reserve pays for.
    Privacy: `plan.person_events`, through the grant.
    """
    summing, training = keys(key)
    sums: list[RoundSum] = []
    for number in range(plan.sums.rounds):
        asked = partial(grant.sum_sums, phased.layout, phased.statistic(sums), plan=plan.sums, key=summing)
        after = AfterSums(sites, sums, first=0)
        collect = partial(_collect, after, number)
        sums.append(attempts.until_summed(partial(attempted, asked, number, collect)))
    model = train_across(
        grant,
        AfterSums(sites, sums, first=plan.sums.rounds),
        phased.learner(sums),
        phased.trained_layout,
        plan=plan.training,
        key=training,
        execution=execution,
        attempts=attempts,
    )
    return tuple(sums), model


class AfterSums:
    """The way to the sites after some sums: each call takes them along, and is numbered through both phases.

    Args:
        sites: the way.
        sums: what was released so far.
        first: the number of the phase's first round.
    """

    def __init__(self, sites: Sites, sums: list[RoundSum], *, first: int) -> None:
        self._sites, self._told, self._first = sites, told(sums), first

    def collect(self, call: Call) -> Collected:
        """Ask the sites."""
        numbers = np.concatenate([self._told, call.parameters])
        return self._sites.collect(Call(self._first + call.number, call.attempt, numbers))


def contribute_phase(
    grant: SiteGrant,
    phased: Phased,
    rows: PrivateRows,
    trained_rows: PrivateRows,
    call: Call,
    *,
    plan: PhasedPlan,
    key: str,
    execution: Execution,
) -> Contribution:
    """Answer one attempt of a round of either phase, once.

    Args:
        grant: the site's; its charge holds `plan.record_events`.
        phased: what released sums are made into, worked out from the site's own copy of the spec.
        rows: handle on the rows that are added up.
        trained_rows: handle on the rows that are trained on.
        call: the round, the attempt, and what was released so far.
        plan, key, execution: as for `run_phases`.
    Raises:
        CannotTrain, ValueError: no such round, or released sums that are none; nothing was drawn.
        LedgerRefusal: as for the grant's own contributions.
    """
    summing, training = keys(key)
    sums, parameters = heard(call, plan)
    if call.number < plan.sums.rounds:
        own = Call(call.number, call.attempt, parameters)
        return grant.contribute_sums(rows, phased.statistic(sums), own, plan=plan.sums, key=summing)
    own = Call(call.number - plan.sums.rounds, call.attempt, parameters)
    learner = phased.learner(sums)
    return grant.contribute(trained_rows, learner, own, plan=plan.training, key=training, execution=execution)


def _collect(sites: Sites, number: int, attempt: str) -> Collected:
    nothing: Singles = np.zeros(0, np.float32)
    return sites.collect(Call(number, attempt, nothing))
