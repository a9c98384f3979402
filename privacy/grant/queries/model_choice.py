"""A private choice among models: the one whose marginals lie nearest the exact counts, by the exponential mechanism.

The score of a model is minus the sum over m marginals r of |n_r - p_r|_1, with n_r the exact counts and p_r the
model's. k rows of one unit move each distance by at most the L1 of one marginal, and so the score of any model by

    add_remove   m k            replace_one   2 m k

(docs/derivations.md, "A choice among models"). The models are released, public, or fitted to released values: to a
neighbour they are the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from contracts.canonical import digest
from privacy.accounting.events import ExponentialMechanism
from privacy.grant.measurement import DurableDraw
from privacy.grant.queries.choice import check_distance, choice
from privacy.grant.queries.query import DrawStage, NoiseSource, Query, Relation
from privacy.marginals.counts import PrivateCounts
from privacy.marginals.scores import DistanceScore, score_of
from privacy.marginals.sensitivity import marginal_moves


@dataclass(frozen=True)
class ModelSelection:
    """Which of several models was chosen, with what it cost; released, no longer private.

    Args:
        key: name of the draw inside its run.
        index: place of the model.
        event: the event.
        number: order of the draw inside its run.
        sha256: digest of the choice.
    """

    key: str
    index: int
    event: ExponentialMechanism
    number: int
    sha256: str
    kind: ClassVar[str] = "model_choice"


@dataclass(frozen=True)
class ModelChoiceQuery(Query[ModelSelection]):
    """A choice of one model by the sum of its distances from exact marginals.

    Args:
        marginals: the exact marginals; at least one.
        models: of each model its counts of every marginal, as scores of weight 1 and bias 0; at least two models.
        epsilon: what the choice costs, > 0 [dimensionless].
    """

    marginals: tuple[PrivateCounts, ...]
    models: tuple[tuple[DistanceScore, ...], ...]
    epsilon: Fraction
    kind: ClassVar[str] = "model_choice"

    @property
    def handles(self) -> tuple[PrivateCounts, ...]:
        """The exact marginals."""
        return self.marginals

    def check(self, relation: Relation) -> None:
        """Refuse parts with which the sensitivity would not be the derived one, or a sum would overflow.

        Raises:
            ValueError: with what is allowed.
        """
        if not self.marginals or len(self.models) < 2:
            raise ValueError("a choice among models needs at least one marginal and two models")
        for model in self.models:
            if len(model) != len(self.marginals):
                raise ValueError("every model needs counts of every marginal")
            for score, counts in zip(model, self.marginals, strict=True):
                if score.weight != 1 or score.bias:
                    raise ValueError("a choice among models measures distances of weight 1 and bias 0")
                if counts.coarsening is not None:
                    raise ValueError(
                        "a choice among models reads marginals of the contract's cells, not coarser ones"
                    )
                check_distance(score, counts)

    def event(self, relation: Relation) -> ExponentialMechanism:
        """Return an epsilon-bounded range."""
        return ExponentialMechanism(self.epsilon)

    def identity(self, relation: Relation, place: int) -> Mapping[str, Any]:
        """Return the digests of the marginals and of the models: a choice among models is none among others."""
        return {
            "marginals": digest([list(each.clique) for each in self.marginals]),
            "models": digest([[score.digest for score in model] for model in self.models]),
        }

    def sensitivity(self, relation: Relation) -> Fraction:
        """Return how far one unit moves the score of any model, from the marginals and the relation."""
        return Fraction(len(self.marginals) * sum(marginal_moves(relation.adjacency, relation.rows_per_unit)))

    def scores(self, exact: tuple[Any, ...]) -> list[Fraction]:
        """Return the score of each model; private where the counts are, which a grant alone reads."""
        return [
            -sum((score_of(score, counts) for score, counts in zip(model, exact, strict=True)), Fraction(0))
            for model in self.models
        ]

    def sample(
        self, exact: tuple[Any, ...], *, event: ExponentialMechanism, noise: NoiseSource, stage: DrawStage
    ) -> NDArray[np.int64]:
        """Choose by exact scores; the place of the choice, shape (1,)."""
        terms = {"epsilon": self.epsilon, "sensitivity": self.sensitivity(stage.relation)}
        return choice(self.scores(exact), noise=noise, **terms)

    def result(self, event: ExponentialMechanism, drawn: tuple[DurableDraw, ...]) -> ModelSelection:
        """Return which model was chosen, with what it cost."""
        (draw,) = drawn
        return ModelSelection(draw.key, int(draw.values[0]), event, draw.number, draw.sha256)
