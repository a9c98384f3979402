"""Queries across sites: each site sends its share of the answer once, and a coordinator releases the sum.

A site's draw is one attempt of one round. Its file is a receipt, an identifier with the event; the share itself is
kept nowhere, and leaves once. Asked a second time for the same attempt the site refuses: sums over different sites of
the same shares would tell what one of them sent.

The coordinator's draw is the sum over the sites that answered; its values are what is released, and a run that
resumes replays them. An attempt that fewer sites answered than the plan needs is lost: paid, made again out of the
reserve with new coins and new noise, never summed.

What is asked is an ordinary query of a kind that can be shared out (`ShareableQuery`). The plan says how many sites
there are, who adds the noise and how much of it, and what an answer costs a unit at one site, or a person at several.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from contracts.canonical import digest
from contracts.contract.impossible_cells import Clique
from privacy.accounting.events import PrivacyEvent
from privacy.federation.plan import FederatedPlan
from privacy.federation.plans import CountingPlan, SummingPlan
from privacy.federation.rounds import (
    AttemptLost,
    Call,
    Collected,
    Contribution,
    RoundSum,
    SiteAnswers,
    check_call,
    check_collected,
    check_round,
    lifted,
    residues_of,
)
from privacy.grant.measurement import DurableDraw
from privacy.grant.queries.marginal import MarginalQuery
from privacy.grant.queries.query import DrawStage, Handle, NoiseSource, Query, Relation
from privacy.grant.queries.sums import SumQuery
from privacy.grant.queries.training import TrainingQuery

Shared = MarginalQuery | SumQuery | TrainingQuery
"""The kinds that can be asked across sites; each is a `ShareableQuery`."""
SharingPlan = CountingPlan | SummingPlan | FederatedPlan


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
        self.query.check_shared(self.plan, self.call.number, relation)
        check_call(self.call, self.query.called_with)

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
        steps = self.query.shared(exact, plan=self.plan, call=self.call, noise=noise)
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
        self.query.check_shared(self.plan, self.number, relation)

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
        here, length = sum(collected.present), self.query.shared_length
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
    return {**query.shared_identity, "plan": digest(plan.to_json()), "round": number}
