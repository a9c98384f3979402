"""What a grant lets in to train across sites: exact types, built anew, that fit rows and relation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from contracts.canonical import digest
from privacy.federation.plan import FederatedPlan, Trust
from privacy.federation.rounds import Call
from privacy.grant.measurement import DrawRequest
from privacy.grant.queries.query import Relation
from privacy.grant.queries.training import check_relation
from privacy.learning.errors import CannotTrain
from privacy.learning.execution import Execution
from privacy.learning.layout import RowLayout
from privacy.learning.learners import Learner, checked_learner, learner_digest, parameters_of
from privacy.learning.plan import TrainingPlan
from privacy.ledger.terms import ChargeRequest


@dataclass(frozen=True, eq=False)
class FederatedTraining:
    """A training across sites that may be done: copies that nobody else holds.

    Args:
        learner: what is trained.
        layout: how rows lie in vectors, the same at every site.
        plan: sites, trust, sampling, clipping, noise and events.
        execution: device and memory.
    """

    learner: Learner
    layout: RowLayout
    plan: FederatedPlan
    execution: Execution

    def asked_of_site(self, key: str, call: Call) -> DrawRequest:
        """Return the draw that one attempt of a round is at a site."""
        about = {**self._about(), "round": call.number}
        return DrawRequest(f"{key}/{call.number:05d}/{call.attempt}", (), self.plan.site_row_event, about)

    def asked_of_coordinator(self, key: str, number: int) -> DrawRequest:
        """Return the draw that a round is at the coordinator."""
        return DrawRequest(f"{key}/{number:05d}", (), self.plan.person_event, {**self._about(), "round": number})

    def _about(self) -> dict[str, Any]:
        return {
            "learner": learner_digest(self.learner),
            "layout": self.layout.digest,
            "plan": digest(self.plan.to_json()),
        }


def checked_federation(
    layout: RowLayout, learner: object, plan: object, execution: object, request: ChargeRequest
) -> FederatedTraining:
    """Refuse learners and plans of another making, and relations under which the events say nothing.

    Raises:
        CannotTrain: replace_one, several rows a unit, a learner that does not fit, or no torch; nothing was drawn.
    """
    if type(plan) is not FederatedPlan:
        raise CannotTrain("plan", type(plan).__name__, "FederatedPlan itself")
    if type(execution) is not Execution:
        raise CannotTrain("execution", type(execution).__name__, "Execution itself")
    check_relation(Relation(request.adjacency, request.rows_per_unit))
    copy = FederatedPlan(
        TrainingPlan(**vars(plan.training)), tuple(plan.sites), tuple(plan.rows_about), Trust(**vars(plan.trust))
    )
    training = FederatedTraining(
        checked_learner(learner, layout), layout, copy, Execution(execution.device, execution.rows_at_once)
    )
    copy.clipped_to(parameters_of(training.learner))
    training.execution.chosen_device()
    return training
