"""A training by DP-SGD, from checkpoint to checkpoint.

One draw is one interval between checkpoints. Within it, step by step, and nothing of it is seen before it is whole:
    1. each row is sampled by a coin of its own, exactly with the plan's probability (an empty sample is one)
    2. the rows' clipped gradients are summed
    3. Gaussian noise is added to every entry, on a lattice
    4. the sum is divided by the expected batch size, which is public, and the optimizer makes its step
The checkpoint (parameters, the optimizer's moments) is written durably with the event of all its steps; the next
interval starts from what was written. An interval that a crash interrupts is paid again out of the plan's reserve.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from contracts.canonical import digest
from privacy.accounting.events import PoissonSampledGaussian
from privacy.arrays import Unsigned
from privacy.grant.measurement import DurableDraw
from privacy.grant.queries.query import DrawStage, NoiseSource, Query, Relation, interval_names
from privacy.learning.layout import PrivateRows
from privacy.learning.learners import Classifier, ClusteredModel, LatentModel, learner_digest, parameters_of
from privacy.learning.network import CannotTrain, TrainingDiverged
from privacy.learning.plan import Execution, TrainingPlan
from privacy.learning.trained import Trained, packed, unpacked

if TYPE_CHECKING:  # torch takes seconds to import
    from privacy.learning.training import Session, TrainingState


@dataclass(frozen=True)
class TrainingQuery(Query[Trained]):
    """Parameters that DP-SGD trains.

    Args:
        rows: handle on the rows.
        learner: what is trained.
        plan: sampling, clipping, noise and event; the charge holds `plan.events`.
        execution: device and memory; changes nothing of what is drawn.
    Privacy: Poisson-sampled Gaussian, `plan.events`, under add_remove with one row a unit; exact but for the rounding
        of float32 gradients (docs/derivations.md, section 4).
    """

    rows: PrivateRows
    learner: Classifier | LatentModel | ClusteredModel
    plan: TrainingPlan
    execution: Execution
    kind: ClassVar[str] = "training"

    @property
    def handles(self) -> tuple[PrivateRows]:
        """The rows."""
        return (self.rows,)

    @property
    def reserve(self) -> int:
        """How many intervals may be interrupted."""
        return self.plan.reserve

    def names(self, key: str) -> tuple[str, ...]:
        """Name the checkpoints."""
        return interval_names(key, self.plan.checkpoints)

    def check(self, relation: Relation) -> None:
        """Refuse relations under which the events say nothing, and what cannot be trained.

        Raises:
            CannotTrain: replace_one, several rows a unit, a learner that does not fit, noise too fine for its
                lattice, no torch, or no such device.
        """
        check_relation(relation)
        self.learner.check(self.rows.layout)
        self.plan.clipped_to(parameters_of(self.learner))
        self.execution.chosen_device()

    def event(self, relation: Relation) -> PoissonSampledGaussian:
        """Return the cost of the steps of an interval."""
        return self.plan.event

    def identity(self, relation: Relation, place: int) -> Mapping[str, Any]:
        """Return the digests of learner, layout and plan, and which interval it is."""
        return {
            "learner": learner_digest(self.learner),
            "layout": self.rows.layout.digest,
            "plan": digest(self.plan.to_json()),
            "interval": place,
        }

    def sample(
        self, exact: tuple[Any, ...], *, event: PoissonSampledGaussian, noise: NoiseSource, stage: DrawStage
    ) -> NDArray[np.int64]:
        """Make the steps from one checkpoint to the next; return what the checkpoint holds."""
        plan, size = self.plan, parameters_of(self.learner)
        session, first = self._session(stage.before, stage.place), stage.place * plan.checkpoint_every
        for done in range(1, plan.checkpoint_every + 1):
            noisy_step(session, exact[0], plan=plan, clipped_to=plan.clipped_to(size), noise=noise)
            stage.progress(first + done, plan.steps)
        return packed(session.state().to_vector())

    def inspect(self, drawn: DurableDraw, place: int) -> None:
        """Stop where a released checkpoint is of no use.

        Raises:
            TrainingDiverged: what was drawn stays charged.
        """
        if self._session(drawn.values, place).diverged():
            steps, key = (place + 1) * self.plan.checkpoint_every, drawn.key.rpartition("/")[0]
            raise TrainingDiverged(
                f"training {key!r} has diverged within {steps} steps: its parameters or its loss on a made-up row "
                "are no finite numbers. What was drawn stays charged. Start another release with a smaller learning "
                "rate"
            )

    def result(self, event: PoissonSampledGaussian, drawn: tuple[DurableDraw, ...]) -> Trained:
        """Return the last checkpoint's parameters, with the keys of all."""
        last, keys = drawn[-1], tuple(each.key for each in drawn)
        state = self._state(last.values)
        return Trained(self.learner, self.rows.layout, state.trained, keys, last.sha256, self.plan, last.values)

    def _state(self, checkpoint: NDArray[np.int64] | None) -> TrainingState:
        from privacy.learning.training import TrainingState, initial_state, state_size

        if checkpoint is None:
            return initial_state(self.learner)
        return TrainingState.of(self.learner, unpacked(checkpoint, state_size(self.learner)))

    def _session(self, checkpoint: NDArray[np.int64] | None, place: int) -> Session:
        from privacy.learning.training import Session

        state, step = self._state(checkpoint), place * self.plan.checkpoint_every
        named = {"step": step, "steps": self.plan.steps}
        return Session(self.learner, self.rows.layout, state, execution=self.execution, **named)


def check_relation(relation: Relation) -> None:
    """Refuse a relation or contribution bound under which Poisson-sampled noise is not accounted for.

    Raises:
        CannotTrain: with what the contract would have to declare.
    """
    if relation.adjacency != "add_remove":
        remedy = "declare add_remove, without a public total"
        allowed = "add_remove: each row is sampled by a coin of its own"
        raise CannotTrain("adjacency", relation.adjacency, allowed, remedy)
    if relation.rows_per_unit != 1:
        found, allowed = f"{relation.rows_per_unit}", "1: a unit is sampled and clipped as one row"
        raise CannotTrain("rows_per_unit", found, allowed, "bound the contribution of a unit to one row")


def noisy_step(
    session: Session, codes: Unsigned, *, plan: TrainingPlan, clipped_to: float, noise: NoiseSource
) -> None:
    """Make one step: sample, clip, sum, add noise, divide, move.

    Args:
        session: the training.
        codes: all rows.
        plan: sampling, clipping and noise.
        clipped_to: the norm to which gradients are clipped: the plan's, less what rounding may add.
        noise: where the randomness comes from.
    Privacy: one Poisson-sampled Gaussian of the plan's multiplier and probability, under add_remove of one row.
    """
    sampled = noise.poisson_sample(codes.shape[0], probability=plan.sampling_probability)
    total = session.clipped_sum(codes[sampled], bound=clipped_to, normals=noise.row_normals)
    noise.add_lattice_gaussian(total, standard_deviation=plan.standard_deviation)
    session.advance(total, expected_batch_size=float(plan.expected_batch_size))
