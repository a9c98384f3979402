"""The coordinator's side of a training across sites: round after round, and what comes of released sums.

Parameters are post-processing of the released sums: whoever has these, the learner and the plan computes them again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from privacy.arrays import Singles
from privacy.federation.plan import FederatedPlan
from privacy.federation.plans import CountingPlan, Phased, PhasedPlan, encode_sums, heard, keys
from privacy.federation.rounds import Call, Collect, Collected, Contribution, RoundSum, SiteAnswers, Sites
from privacy.grant.draws import Draws
from privacy.grant.queries.across_sites import Shared, SharingPlan, SiteShare, SumOverSites
from privacy.grant.queries.marginal import MarginalQuery
from privacy.grant.queries.sums import SumQuery
from privacy.grant.queries.training import TrainingQuery
from privacy.learning.layout import PrivateRows, RowLayout
from privacy.learning.learners import Learner
from privacy.learning.plan import Execution
from privacy.marginals.counts import PrivateCounts

OnRound = Callable[[RoundSum], None]
"""Told of each round that was summed."""


@dataclass(frozen=True, eq=False)
class FederatedModel:
    """What a training across sites has released.

    Args:
        learner: what was trained.
        layout: of the rows.
        plan: sites, trust, sampling, clipping and noise.
        rounds: the noisy sums, in order.
        parameters: the flat vector that they lead to, float32.
    """

    learner: Learner
    layout: RowLayout
    plan: FederatedPlan
    rounds: tuple[RoundSum, ...]
    parameters: Singles


@dataclass(frozen=True)
class Attempts:
    """How rounds are attempted.

    Args:
        names: gives a new name for an attempt each time.
        lost: what the grant raises when an attempt was lost.
        told: told of each round that was summed.
        waiting: called between a lost attempt and the next.
    """

    names: Callable[[], str]
    lost: type[Exception]
    told: OnRound = lambda summed: None
    waiting: Callable[[Exception], None] = lambda error: None

    def until_summed(self, ask: Callable[[str], RoundSum]) -> RoundSum:
        """Attempt a round until it is summed, or its grant refuses another attempt."""
        while True:
            try:
                summed = ask(self.names())
            except self.lost as error:
                self.waiting(error)
                continue
            self.told(summed)
            return summed


def train_across(
    grant: Draws,
    sites: Sites,
    learner: Learner,
    layout: RowLayout,
    *,
    plan: FederatedPlan,
    key: str,
    execution: Execution,
    attempts: Attempts,
) -> FederatedModel:
    """Train round after round; a round that too few sites answered is made again.

    Args:
        grant: the coordinator's.
        sites: the way to the sites.
        learner: what is trained.
        layout: how rows lie in vectors at every site.
        plan: sites, trust, sampling, clipping and noise.
        key: what the keys of its draws begin with.
        execution: device and memory.
        attempts: how rounds are attempted.
    Raises:
        LedgerRefusal: more attempts were lost than the reserve pays for.
    Privacy: `plan.person_event` a round, through the grant.
    """
    moved = _Moved(learner, layout, plan, execution)
    rounds: list[RoundSum] = []
    query = TrainingQuery(PrivateRows.of_nobody(layout), learner, plan.training, execution)
    for number in range(plan.rounds):
        collect = partial(collected, sites, number, moved.parameters)
        rounds.append(attempts.until_summed(partial(attempted, grant, query, plan, number, collect, key)))
        moved.step(rounds[-1])
    return FederatedModel(learner, layout, plan, tuple(rounds), moved.trained)


def count_across(
    grant: Draws, sites: Sites, shapes: Sequence[tuple[int, ...]], *, plan: CountingPlan, key: str, attempts: Attempts
) -> tuple[RoundSum, ...]:
    """Count table after table over all sites; what too few sites answered is asked again.

    Args:
        grant: the coordinator's.
        sites: the way to the sites.
        shapes: cells along each column, of every table.
        plan: tables, sites, trust and noise.
        key: what the keys of its draws begin with.
        attempts: how rounds are attempted.
    Returns:
        The noisy sums, in fine units (`CountingPlan.fine_bits`).
    Raises:
        LedgerRefusal: more attempts were lost than the reserve pays for.
    Privacy: `plan.person_event` a table, through the grant.
    """
    rounds, nothing = [], np.zeros(0, np.float32)
    for number, shape in enumerate(shapes):
        handle = PrivateCounts.of_nobody(plan.cliques[number], shape)
        query, collect = MarginalQuery(handle, plan.noise(number)), partial(collected, sites, number, nothing)
        rounds.append(attempts.until_summed(partial(attempted, grant, query, plan, number, collect, key)))
    return tuple(rounds)


def collected(sites: Sites, number: int, parameters: Singles, attempt: str) -> Collected:
    """Make one attempt of a round."""
    return sites.collect(Call(number, attempt, parameters))


def attempted(
    grant: Draws, query: Shared, plan: SharingPlan, number: int, collect: Collect, key: str, attempt: str
) -> RoundSum:
    """Draw one attempt of a round's sum, or replay the sum."""
    return grant.draw(SumOverSites(query, plan, number, SiteAnswers(attempt, collect)), key=key)


def replayed(
    learner: Learner, layout: RowLayout, plan: FederatedPlan, rounds: Sequence[RoundSum], *, execution: Execution
) -> Singles:
    """Compute the parameters again from released sums. Post-processing."""
    moved = _Moved(learner, layout, plan, execution)
    for summed in rounds:
        moved.step(summed)
    return moved.trained


class _Moved:
    """Parameters that released sums move."""

    def __init__(self, learner: Learner, layout: RowLayout, plan: FederatedPlan, execution: Execution) -> None:
        from privacy.learning.training import Session, initial_state  # loads torch, which tables need not

        self._plan = plan
        state = initial_state(learner)
        self._session = Session(learner, layout, state, step=0, steps=plan.rounds, execution=execution)

    @property
    def parameters(self) -> Singles:
        """Where the next round starts."""
        return self._session.state().parameters

    @property
    def trained(self) -> Singles:
        """What is handed out."""
        return self._session.state().trained

    def step(self, summed: RoundSum) -> None:
        """Move along a released sum."""
        noisy = (summed.steps * self._plan.lattice).astype(np.float32)
        self._session.advance(noisy, expected_batch_size=self._plan.expected_rows(summed.present))


# --- The rounds of a run of two phases.


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
