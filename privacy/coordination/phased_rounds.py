"""The rounds of a run of two phases: the coordinator's side, and how a site answers each."""

from __future__ import annotations

from functools import partial

import numpy as np

from privacy.coordination.coordinator import Attempts, FederatedModel, attempted, collected, train_across
from privacy.federation.phases import Phased, PhasedPlan, encode_sums, heard, keys
from privacy.federation.rounds import Call, Collected, Contribution, RoundSum, Sites
from privacy.grant.draws import Draws
from privacy.grant.queries.across_sites import SiteShare
from privacy.grant.queries.sums import SumQuery
from privacy.grant.queries.training import TrainingQuery
from privacy.learning.execution import Execution
from privacy.learning.rows import PrivateRows


def run_phases(
    grant: Draws,
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
        rows = PrivateRows.of_nobody(phased.layout)
        query = SumQuery(rows, phased.statistic(sums), plan.sums.noise(number))
        collect = partial(collected, AfterSums(sites, sums, first=0), number, np.zeros(0, np.float32))
        sums.append(attempts.until_summed(partial(attempted, grant, query, plan.sums, number, collect, summing)))
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
        self._sites, self._told, self._first = sites, encode_sums(sums), first

    def collect(self, call: Call) -> Collected:
        """Ask the sites."""
        numbers = np.concatenate([self._told, call.parameters])
        return self._sites.collect(Call(self._first + call.number, call.attempt, numbers))


def contribute_phase(
    grant: Draws,
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
        query = SumQuery(rows, phased.statistic(sums), plan.sums.noise(own.number))
        return grant.draw(SiteShare(query, plan.sums, own), key=summing)
    own = Call(call.number - plan.sums.rounds, call.attempt, parameters)
    learner = phased.learner(sums)
    trained = TrainingQuery(trained_rows, learner, plan.training.training, execution)
    return grant.draw(SiteShare(trained, plan.training, own), key=training)
