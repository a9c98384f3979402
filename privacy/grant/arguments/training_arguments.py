"""What a grant lets in to train: exact types, built anew, that fit the rows and the charge's relation."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from contracts.canonical import digest
from privacy.grant.arguments.exact_types import checked_layout
from privacy.grant.measurement import DrawRequest
from privacy.learning.errors import CannotTrain
from privacy.learning.execution import Execution
from privacy.learning.layout import RowLayout
from privacy.learning.learners import Learner, checked_learner, learner_digest, parameters_of
from privacy.learning.plan import TrainingPlan
from privacy.ledger.terms import ChargeRequest


@dataclass(frozen=True, eq=False)
class Training:
    """A training that may be done: copies that nobody else holds.

    Args:
        learner: what is trained.
        layout: how its rows lie in vectors.
        plan: sampling, clipping, noise and event.
        execution: device and memory.
    """

    learner: Learner
    layout: RowLayout
    plan: TrainingPlan
    execution: Execution

    def asked(self, key: str) -> tuple[DrawRequest, ...]:
        """Return its draws, one an interval between checkpoints."""
        about = {
            "learner": learner_digest(self.learner),
            "layout": self.layout.digest,
            "plan": digest(self.plan.to_json()),
        }
        return tuple(
            DrawRequest(f"{key}/{place:05d}", (), self.plan.event, {**about, "interval": place})
            for place in range(self.plan.checkpoints)
        )


def checked_training(
    rows: object, learner: object, plan: object, execution: object, request: ChargeRequest
) -> Training:
    """Refuse rows, learners and plans of another making, and relations under which the events say nothing.

    Raises:
        CannotTrain: replace_one, several rows a unit, a learner that does not fit, noise too fine for its lattice,
            no torch, or no such device; nothing was drawn.
        ValueError: rows of another making.
    """
    layout = checked_layout(rows)
    if type(plan) is not TrainingPlan:
        raise CannotTrain("plan", type(plan).__name__, "TrainingPlan itself")
    if type(execution) is not Execution:
        raise CannotTrain("execution", type(execution).__name__, "Execution itself")
    check_relation(request)
    training = Training(checked_learner(learner, layout), layout, _rebuilt(plan), _rebuilt(execution))
    training.plan.clipped_to(parameters_of(training.learner))
    training.execution.chosen_device()
    return training


def check_relation(request: ChargeRequest) -> None:
    """Refuse a relation or contribution bound under which Poisson-sampled noise is not accounted for.

    Raises:
        CannotTrain: with what the contract would have to declare.
    """
    if request.adjacency != "add_remove":
        remedy = "declare add_remove, without a public total"
        raise CannotTrain(
            "adjacency", request.adjacency, "add_remove: each row is sampled by a coin of its own", remedy
        )
    if request.rows_per_unit != 1:
        found, allowed = f"{request.rows_per_unit}", "1: a unit is sampled and clipped as one row"
        raise CannotTrain("rows_per_unit", found, allowed, "bound the contribution of a unit to one row")


def _rebuilt(value: Any) -> Any:
    return type(value)(**{each.name: getattr(value, each.name) for each in fields(value)})
