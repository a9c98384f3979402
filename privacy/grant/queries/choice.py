"""A private choice among marginals, by the exponential mechanism."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from contracts.canonical import digest
from privacy.accounting.events import ExponentialMechanism
from privacy.grant.measurement import DurableDraw, Selection
from privacy.grant.queries.query import DrawStage, NoiseSource, Query, Relation
from privacy.marginals.scores import Candidate, DistanceScore, MutualInformationScore, score_of

if TYPE_CHECKING:
    from privacy.marginals.counts import PrivateCounts

LARGEST_PREDICTION: Final = 2**53
"""No count comes near it, and differences of two such numbers stay far inside 64 bits [rows]."""
LARGEST_DISTANCE: Final = 2**62
"""The largest number of a prediction times its cells: the sum of all differences stays inside 64 bits too [rows]."""


@dataclass(frozen=True)
class ChoiceQuery(Query[Selection]):
    """A choice of one marginal.

    Args:
        candidates: the marginals to choose from, each with its score; at least one.
        epsilon: what the choice costs, > 0 [dimensionless].
    """

    candidates: tuple[Candidate, ...]
    epsilon: Fraction
    kind: ClassVar[str] = "choice"
    counts_parents: ClassVar[bool] = True

    @property
    def handles(self) -> tuple[PrivateCounts, ...]:
        """The candidates' exact marginals."""
        return tuple(candidate.counts for candidate in self.candidates)

    def check(self, relation: Relation) -> None:
        """Refuse candidates of whose scores the sensitivity would not be the derived one.

        Raises:
            ValueError: no candidates; a prediction of another shape, beyond 2^53, or so large in so many cells that
                sums overflow; a weight that is not positive; mutual information where the number of rows is not
                public or not the one declared.
        """
        if not self.candidates:
            raise ValueError("candidates must hold at least one marginal")
        for candidate in self.candidates:
            match candidate.score:
                case DistanceScore():
                    _check_distance(candidate.score, candidate.counts)
                case MutualInformationScore():
                    _check_information(candidate, relation)

    def event(self, relation: Relation) -> ExponentialMechanism:
        """Return an epsilon-bounded range."""
        return ExponentialMechanism(self.epsilon)

    def identity(self, relation: Relation, place: int) -> Mapping[str, Any]:
        """Return the digest of what the choice is among: columns, resolution where that is coarser, whose rows."""
        named = [
            [
                *each.clique,
                *([] if each.coarsening is None else [each.coarsening.to_json()]),
                *([each.identity] if each.identity else []),
            ]
            for each in self.handles
        ]
        return {"candidates": digest(named)}

    def sensitivity(self, relation: Relation) -> Fraction:
        """Return how far one unit moves any of the scores, from clique, weight and relation."""
        return max(
            candidate.score.sensitivity(relation.adjacency, candidate.counts.rows_per_unit(relation.rows_per_unit))
            for candidate in self.candidates
        )

    def sample(
        self, exact: tuple[Any, ...], *, event: ExponentialMechanism, noise: NoiseSource, stage: DrawStage
    ) -> NDArray[np.int64]:
        """Choose by exact scores; the place of the choice, shape (1,)."""
        scores = [score_of(each.score, counts) for each, counts in zip(self.candidates, exact, strict=True)]
        return choice(scores, epsilon=self.epsilon, sensitivity=self.sensitivity(stage.relation), noise=noise)

    def result(self, event: ExponentialMechanism, drawn: tuple[DurableDraw, ...]) -> Selection:
        """Return which candidate was chosen, with what it cost."""
        (draw,) = drawn
        index = int(draw.values[0])
        return Selection(draw.key, index, self.candidates[index].clique, event, draw.number, draw.sha256)


def choice(
    scores: Sequence[Fraction], *, epsilon: Fraction, sensitivity: Fraction, noise: NoiseSource
) -> NDArray[np.int64]:
    """Choose by exact scores; the place of the choice, shape (1,)."""
    chosen = noise.exponential_mechanism(scores, epsilon=epsilon, sensitivity=sensitivity)
    return np.array([chosen], dtype=np.int64)


def _check_distance(score: DistanceScore, counts: PrivateCounts) -> None:
    """Refuse a prediction of another shape or too large for exact sums, or a weight that is not positive.

    Raises:
        ValueError: with what is allowed.
    """
    prediction = score.prediction
    if prediction.shape != counts.shape:
        raise ValueError(f"score.prediction must be int64 of shape {counts.shape}, like the counts")
    if prediction.size and not -LARGEST_PREDICTION <= prediction.min() <= prediction.max() <= LARGEST_PREDICTION:
        raise ValueError(f"score.prediction must lie within {LARGEST_PREDICTION} of 0")
    if prediction.size and max(-int(prediction.min()), int(prediction.max())) * prediction.size > LARGEST_DISTANCE:
        raise ValueError(f"score.prediction: its largest number times its cells must be at most {LARGEST_DISTANCE}")
    if score.weight <= 0:
        raise ValueError(f"score.weight must be above 0, not {score.weight}")


def _check_information(candidate: Candidate, relation: Relation) -> None:
    rows = relation.public_total if candidate.counts.parents is None else None  # no total of parents is public
    public = rows is not None and isinstance(candidate.score, MutualInformationScore) and candidate.score.rows == rows
    if relation.adjacency != "replace_one" or relation.rows_per_unit != 1 or not public:
        raise ValueError(
            "mutual information needs adjacency replace_one, one row a unit, and as its number of rows the total "
            "that the contract declares public"
        )
