"""Queries across sites: each site sends its share of the answer once, and a coordinator releases the sum.

A site's draw is one attempt of one round. Its file is a receipt, an identifier with the event; the share itself is
kept nowhere, and leaves once. Asked a second time for the same attempt the site refuses: sums over different sites of
the same shares would tell what one of them sent.

The coordinator's draw is the sum over the sites that answered; its values are what is released, and a run that
resumes replays them. An attempt that fewer sites answered than the plan needs is lost: paid, made again out of the
reserve with new coins and new noise, never summed.

What is asked is an ordinary query of one of the kinds whose exact numbers add up over disjoint rows (`SHARED`). The
plan says how many sites there are, who adds the noise and how much of it, and what an answer costs a unit at one site
or a person at several.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from types import MappingProxyType
from typing import Any, ClassVar, Final, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from contracts.canonical import digest
from contracts.contract.impossible_cells import Clique
from privacy.accounting.events import PrivacyEvent
from privacy.federation.plan import FederatedPlan
from privacy.federation.plans import CountingPlan, SumBounds, SummingPlan
from privacy.federation.rounds import (
    AttemptLost,
    Call,
    Collected,
    Contribution,
    RoundSum,
    SiteAnswers,
    check_call,
    check_collected,
    check_relation_of,
    check_round,
    lifted,
    residues_of,
)
from privacy.grant.measurement import DurableDraw
from privacy.grant.queries.marginal import MarginalQuery
from privacy.grant.queries.query import DrawStage, Handle, NoiseSource, Query, Relation
from privacy.grant.queries.sums import SumQuery, check_statistic, exact_total
from privacy.grant.queries.training import TrainingQuery, check_relation
from privacy.learning.learners import learner_digest, parameters_of
from privacy.learning.network import CannotTrain

Shared = MarginalQuery | SumQuery | TrainingQuery
"""The kinds that can be asked across sites (`SHARED`)."""
SharingPlan = CountingPlan | SummingPlan | FederatedPlan
QueryT = TypeVar("QueryT", bound=Query[Any])


class Sharing(ABC, Generic[QueryT]):
    """A query as it is asked across sites.

    Args:
        query: what is asked.
    """

    def __init__(self, query: QueryT) -> None:
        self.query = query

    @property
    def called_with(self) -> int:
        """How many parameters a call carries."""
        return 0

    @property
    @abstractmethod
    def length(self) -> int:
        """Numbers in a sum over sites."""

    @property
    @abstractmethod
    def identity(self) -> Mapping[str, Any]:
        """What is asked, as JSON values; plan and round stand beside it."""

    @abstractmethod
    def check(self, plan: SharingPlan, number: int, relation: Relation) -> None:
        """Refuse another plan, or another question than that of the round.

        Raises:
            CannotTrain: with what is allowed.
        """

    @abstractmethod
    def sent(self, exact: tuple[Any, ...], plan: Any, call: Call, noise: NoiseSource) -> NDArray[np.int64]:
        """Return a site's numbers in sent units, without noise. Only a grant calls this, with exact numbers."""


@dataclass(frozen=True)
class SiteShare(Query[Contribution]):
    """What one site sends in one attempt of a round: its exact numbers, with its share of the noise.

    Args:
        query: what is asked, of the site's own rows.
        plan: sites, trust and noise; the charge holds `plan.record_events`.
        call: the round, the attempt, and what was released so far.
    Privacy: `plan.site_event` for whoever sees sums over at least `plan.trust.fewest` sites; by itself a share has
        less noise, or none, which is what `plan.trust` says who is trusted with.
    """

    query: MarginalQuery | SumQuery | TrainingQuery
    plan: CountingPlan | SummingPlan | FederatedPlan
    call: Call
    kind: ClassVar[str] = "site_share"
    leaves_once: ClassVar[bool] = True

    @property
    def handles(self) -> tuple[Handle, ...]:
        """The site's handles."""
        return self.query.handles

    @property
    def clique(self) -> Clique:
        """Columns of the marginal, where it is one."""
        return self.query.clique

    def names(self, key: str) -> tuple[str, ...]:
        """Name the attempt."""
        return (f"{key}/{self.call.number:05d}/{self.call.attempt}",)

    def check(self, relation: Relation) -> None:
        """Refuse a round that there is not, and a query that the round does not ask.

        Raises:
            CannotTrain: with what is allowed.
        """
        check_round(self.call.number, self.plan.rounds)
        shared(self.query).check(self.plan, self.call.number, relation)
        check_call(self.call, shared(self.query).called_with)

    def event(self, relation: Relation) -> PrivacyEvent:
        """Return what the round costs a unit at one site."""
        return self.plan.site_event(self.call.number)

    def identity(self, relation: Relation, place: int) -> Mapping[str, Any]:
        """Return what is asked, the plan's digest and the round."""
        return _identity(self.query, self.plan, self.call.number)

    def sample(
        self, exact: tuple[Any, ...], *, event: PrivacyEvent, noise: NoiseSource, stage: DrawStage
    ) -> NDArray[np.int64]:
        """Return the site's numbers in sent units, with its share of the noise where sites add it."""
        steps = shared(self.query).sent(exact, self.plan, self.call, noise)
        share = self.plan.site_noise(self.call.number)
        return steps if share is None else steps + noise.share(steps.size, noise=share)

    def result(self, event: PrivacyEvent, drawn: tuple[DurableDraw, ...]) -> Contribution:
        """Return the share as it leaves."""
        return Contribution(drawn[0].key, residues_of(drawn[0].values))


@dataclass(frozen=True)
class SumOverSites(Query[RoundSum]):
    """The sum over the sites that answered one attempt of a round, with all of the noise.

    Args:
        query: what is asked, of rows of nobody: a coordinator has none.
        plan: sites, trust and noise; the charge holds `plan.person_events`.
        number: the round, from 0.
        answers: makes the attempt, unless the round was summed before.
    Privacy: `plan.person_event`. Where the server adds the noise it is drawn here, on the sums that `answers` brings.
    """

    query: MarginalQuery | SumQuery | TrainingQuery
    plan: CountingPlan | SummingPlan | FederatedPlan
    number: int
    answers: SiteAnswers
    kind: ClassVar[str] = "sum_over_sites"

    @property
    def handles(self) -> tuple[SiteAnswers]:
        """The way to the sites."""
        return (self.answers,)

    @property
    def clique(self) -> Clique:
        """Columns of the marginal, where it is one."""
        return self.query.clique

    @property
    def reserve(self) -> int:
        """How many attempts may be lost."""
        return self.plan.reserve

    def names(self, key: str) -> tuple[str, ...]:
        """Name the round."""
        return (f"{key}/{self.number:05d}",)

    def check(self, relation: Relation) -> None:
        """Refuse a round that there is not, and a query that the round does not ask.

        Raises:
            CannotTrain: with what is allowed.
        """
        check_round(self.number, self.plan.rounds)
        shared(self.query).check(self.plan, self.number, relation)

    def event(self, relation: Relation) -> PrivacyEvent:
        """Return what the round costs a person, with rows at as many sites as one may have."""
        return self.plan.person_event(self.number)

    def identity(self, relation: Relation, place: int) -> Mapping[str, Any]:
        """Return what is asked, the plan's digest and the round."""
        return _identity(self.query, self.plan, self.number)

    def sample(
        self, exact: tuple[Any, ...], *, event: PrivacyEvent, noise: NoiseSource, stage: DrawStage
    ) -> NDArray[np.int64]:
        """Add up what the sites sent, with the server's noise where it adds it.

        Raises:
            AttemptLost: too few sites answered; nothing was summed.
        """
        collected: Collected = exact[0]
        here, length = sum(collected.present), shared(self.query).length
        if here < self.plan.trust.fewest:
            missing = ", ".join(f"{site}: {why}" for site, why in sorted(collected.absent.items()))
            told = f"{here} of {len(self.plan.sites)} sites answered; needed: {self.plan.trust.fewest}"
            raise AttemptLost(f"{told}. Nothing was summed ({missing})")
        steps = lifted(check_collected(collected, self.plan, length).residues)
        if (added := self.plan.server_noise(self.number)) is not None:
            steps = steps + noise.share(length, noise=added)
        return np.concatenate([np.array(collected.present, np.int64), steps])

    def result(self, event: PrivacyEvent, drawn: tuple[DurableDraw, ...]) -> RoundSum:
        """Return which sites are in the sum, and the sum."""
        (draw,), sites = drawn, len(self.plan.sites)
        present = tuple(bool(each) for each in draw.values[:sites])
        return RoundSum(self.number, present, draw.values[sites:], draw.sha256)


def _identity(query: Shared, plan: SharingPlan, number: int) -> Mapping[str, Any]:
    return {**shared(query).identity, "plan": digest(plan.to_json()), "round": number}


# --- The kinds that can be asked across sites.


class MarginalSharing(Sharing[MarginalQuery]):
    """A marginal across sites."""

    @property
    def length(self) -> int:
        """Cells of the marginal."""
        return prod(self.query.counts.shape)

    @property
    def identity(self) -> Mapping[str, Any]:
        """Return the cells along each column."""
        return {"shape": list(self.query.counts.shape)}

    def check(self, plan: SharingPlan, number: int, relation: Relation) -> None:
        """Refuse another plan, or another table than that of the round.

        Raises:
            CannotTrain: with what is allowed.
        """
        if type(plan) is not CountingPlan:
            raise CannotTrain("plan", type(plan).__name__, "CountingPlan itself")
        check_relation_of(plan, relation.adjacency, relation.rows_per_unit)
        clique, plain, counts = plan.cliques[number], (None, None), self.query.counts
        own = counts.coarsening or counts.parents, self.query.minimum_frequency
        if counts.clique != clique or own != plain:
            raise CannotTrain("counts", "of other columns", f"the table of round {number}: {', '.join(clique)}")
        if self.query.noise != plan.noise(number):
            raise CannotTrain("noise", "another", "the plan's")

    def sent(self, exact: tuple[Any, ...], plan: Any, call: Call, noise: NoiseSource) -> NDArray[np.int64]:
        """Return a site's counts in fine units."""
        steps: NDArray[np.int64] = plan.sent(exact[0])
        return steps


class SumSharing(Sharing[SumQuery]):
    """Sums over rows across sites."""

    @property
    def length(self) -> int:
        """Numbers in the sum."""
        return self.query.statistic.length

    @property
    def identity(self) -> Mapping[str, Any]:
        """Return the digests of the statistic and of how rows lie."""
        return {"statistic": self.query.statistic.digest, "layout": self.query.rows.layout.digest}

    def check(self, plan: SharingPlan, number: int, relation: Relation) -> None:
        """Refuse another plan, or a statistic of other bounds than the round's.

        Raises:
            CannotTrain: with what is allowed.
        """
        if type(plan) is not SummingPlan:
            raise CannotTrain("plan", type(plan).__name__, "SummingPlan itself")
        check_relation_of(plan, relation.adjacency, relation.rows_per_unit)
        statistic = self.query.statistic
        check_statistic(statistic, self.query.rows.layout)
        bounds, terms = plan.sums[number], {"adjacency": plan.adjacency, "rows_per_unit": plan.rows_per_unit}
        if SumBounds.of(statistic, rho=bounds.rho, **terms) != bounds:  # type: ignore[arg-type]
            raise CannotTrain("statistic", "of other bounds", f"that of round {number}, as it was planned")
        if self.query.noise != plan.noise(number):
            raise CannotTrain("noise", "another", "the plan's")

    def sent(self, exact: tuple[Any, ...], plan: Any, call: Call, noise: NoiseSource) -> NDArray[np.int64]:
        """Add up exactly, and round to sent units."""
        total = exact_total(exact[0], self.query.statistic, self.query.rows.layout)
        steps: NDArray[np.int64] = plan.sent(call.number, total)
        return steps


class TrainingSharing(Sharing[TrainingQuery]):
    """A step of DP-SGD across sites."""

    @property
    def length(self) -> int:
        """Parameters of the learner."""
        return parameters_of(self.query.learner)

    @property
    def called_with(self) -> int:
        """The parameters so far."""
        return self.length

    @property
    def identity(self) -> Mapping[str, Any]:
        """Return the digests of learner and layout."""
        return {"learner": learner_digest(self.query.learner), "layout": self.query.rows.layout.digest}

    def check(self, plan: SharingPlan, number: int, relation: Relation) -> None:
        """Refuse another plan, and what cannot be trained.

        Raises:
            CannotTrain: with what is allowed.
        """
        if type(plan) is not FederatedPlan or plan.training != self.query.plan:
            raise CannotTrain("plan", type(plan).__name__, "FederatedPlan itself, of this training")
        check_relation(relation)
        self.query.learner.check(self.query.rows.layout)
        plan.clipped_to(self.length)
        self.query.execution.chosen_device()

    def sent(self, exact: tuple[Any, ...], plan: Any, call: Call, noise: NoiseSource) -> NDArray[np.int64]:
        """Sample, clip, sum, and round to the lattice; a site keeps nothing from round to round."""
        from privacy.learning.training import Session, TrainingState, initial_state  # torch takes seconds to import

        (codes,), query = exact, self.query
        state = TrainingState(call.parameters, initial_state(query.learner).moments, np.empty(0, np.float32))
        named = {"step": call.number, "steps": plan.rounds}
        session = Session(query.learner, query.rows.layout, state, execution=query.execution, **named)
        sampled = noise.poisson_sample(codes.shape[0], probability=query.plan.sampling_probability)
        total = session.clipped_sum(codes[sampled], bound=plan.clipped_to(self.length), normals=noise.row_normals)
        steps: NDArray[np.int64] = plan.sent(total.astype(np.float64))
        return steps


SHARED: Final[Mapping[type, type[Sharing[Any]]]] = MappingProxyType(
    {MarginalQuery: MarginalSharing, SumQuery: SumSharing, TrainingQuery: TrainingSharing}
)


def shared(query: Shared) -> Sharing[Any]:
    """Return a query as it is asked across sites."""
    return SHARED[type(query)](query)
