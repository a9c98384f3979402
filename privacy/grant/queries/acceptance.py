"""A noisy test of a candidate: how far what its model says lies from the exact counts, as one whole number.

What is measured, for marginals r with exact counts n_r and the model's counts p_r, k rows a unit
                    the number                            one unit moves it by        add_remove    replace_one
    worst_marginal  max over r of |n_r - p_r|_1           the L1 of one marginal      k             2k
    mean_marginal   sum over m of |n_r - p_r|_1           m times that                m k           2 m k
    worst_cell      max over cells c of |n_c - p_c|       the most in one cell        k             k

A largest of numbers that one unit moves by so much moves by no more; a sum moves by the sum (docs/derivations.md,
section 6). The model is released or was fitted to released values: to a neighbour it is the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar, Final, Literal

import numpy as np
from numpy.typing import NDArray

from contracts.canonical import digest
from contracts.contract.contract import Adjacency
from privacy.accounting.events import CountNoise
from privacy.grant.measurement import DurableDraw
from privacy.grant.queries.choice import check_distance
from privacy.grant.queries.query import DrawStage, NoiseSource, Query, Relation
from privacy.marginals.counts import PrivateCounts
from privacy.marginals.scores import Candidate, DistanceScore, score_of
from privacy.marginals.sensitivity import GaussianNoise, LaplaceNoise, marginal_moves, moved_noise

CriterionKind = Literal["worst_marginal", "mean_marginal", "worst_cell"]
_LARGEST_NUMBER: Final = 2**62


@dataclass(frozen=True)
class CriterionTest:
    """How far a candidate's model is from the table by one criterion, with noise; released, no longer private.

    Args:
        key: name of the draw inside its run.
        candidate: number of the candidate, from 0.
        criterion: number of the criterion, from 0.
        distance: the noisy number [rows].
        passes_at: the largest noisy number with which the criterion is met [rows].
        event: the event, with the scale of the noise and the sensitivity.
        number: order of the draw inside its run.
        sha256: digest of the value.
    """

    key: str
    candidate: int
    criterion: int
    distance: int
    passes_at: int
    event: CountNoise
    number: int
    sha256: str
    kind: ClassVar[str] = "acceptance"

    @property
    def met(self) -> bool:
        """Whether the criterion is met. Post-processing."""
        return self.distance <= self.passes_at


@dataclass(frozen=True)
class AcceptanceQuery(Query[CriterionTest]):
    """A noisy test of one candidate by one criterion.

    Args:
        of: what is measured.
        marginals: the exact marginals, each with the model's counts as the prediction of its score, of weight 1 and
            bias 0; at least one.
        cells: of `worst_cell` the number of one cell in each marginal, row by row; else empty.
        candidate: number of the candidate, from 0.
        criterion: number of the criterion, from 0.
        passes_at: the largest noisy number with which the criterion is met; public, and of no influence here [rows].
        noise: its cost.
    """

    of: CriterionKind
    marginals: tuple[Candidate, ...]
    cells: tuple[int, ...]
    candidate: int
    criterion: int
    passes_at: int
    noise: LaplaceNoise | GaussianNoise
    kind: ClassVar[str] = "acceptance"

    @property
    def handles(self) -> tuple[PrivateCounts, ...]:
        """The exact marginals."""
        return tuple(each.counts for each in self.marginals)

    def check(self, relation: Relation) -> None:
        """Refuse parts with which the sensitivity would not be the derived one, or a sum would overflow.

        Raises:
            ValueError: with what is allowed.
        """
        if not self.marginals:
            raise ValueError("a test needs at least one marginal")
        for each in self.marginals:
            score = each.score
            if not isinstance(score, DistanceScore) or score.weight != 1 or score.bias:
                raise ValueError("a test measures distances of weight 1 and bias 0")
            if each.counts.coarsening is not None:
                raise ValueError("a test measures marginals of the contract's cells, not coarser ones")
            check_distance(score, each.counts)
        sizes = [prod(each.counts.shape) for each in self.marginals]
        if self.of == "worst_cell":
            inside = len(self.cells) == len(sizes)
            if not inside or not all(0 <= cell < size for cell, size in zip(self.cells, sizes, strict=True)):
                raise ValueError("cells must be one a marginal, each inside it")
        elif self.cells:
            raise ValueError(f"{self.of} takes no cells")

    def event(self, relation: Relation) -> CountNoise:
        """Return the event of noise on one number, its scale calibrated to how far one unit moves it."""
        terms = relation.adjacency, relation.rows_per_unit
        return moved_noise(self.noise, (most_moved(self.of, len(self.marginals), *terms),))

    def identity(self, relation: Relation, place: int) -> Mapping[str, Any]:
        """Return which candidate and criterion it is, and the digests of marginals and cells, and of the model.

        A test of a model is no test of another: where a run that resumes has fitted another one, it is refused.
        """
        measured = [self.of, [list(each.clique) for each in self.marginals], list(self.cells)]
        model = digest([each.score.digest for each in self.marginals if isinstance(each.score, DistanceScore)])
        return {
            "candidate": self.candidate,
            "criterion": self.criterion,
            "measured": digest(measured),
            "model": model,
        }

    def sample(
        self, exact: tuple[Any, ...], *, event: CountNoise, noise: NoiseSource, stage: DrawStage
    ) -> NDArray[np.int64]:
        """Measure, and add noise to the one number; shape (1,)."""
        # Kept within 2^62, so that no sum of distances and noise overflows: post-processing.
        drawn = int(noise.integers(1, event=event)[0]) + self.measured(exact)
        return np.array([min(max(drawn, -_LARGEST_NUMBER), _LARGEST_NUMBER)], dtype=np.int64)

    def measured(self, exact: tuple[Any, ...]) -> int:
        """Return the exact number of counts; private where the counts are, which a grant alone reads."""
        paired = list(zip(self.marginals, exact, strict=True))
        if self.of == "worst_cell":
            return max(
                abs(int(counts.flat[cell]) - int(each.score.prediction.flat[cell]))  # type: ignore[union-attr]
                for (each, counts), cell in zip(paired, self.cells, strict=True)
            )
        distances = [int(score_of(each.score, counts)) for each, counts in paired]
        return sum(distances) if self.of == "mean_marginal" else max(distances)

    def result(self, event: CountNoise, drawn: tuple[DurableDraw, ...]) -> CriterionTest:
        """Return the noisy number with what it cost, and from where on the criterion is met."""
        (draw,) = drawn
        asked = self.candidate, self.criterion, int(draw.values[0]), self.passes_at
        return CriterionTest(draw.key, *asked, event, draw.number, draw.sha256)


def most_moved(of: CriterionKind, marginals: int, adjacency: Adjacency, rows_per_unit: int) -> int:
    """Return how far one privacy unit moves the number of a criterion at most [rows].

    Args:
        of: what is measured.
        marginals: how many there are.
        adjacency: the relation between neighbours.
        rows_per_unit: k, the rows of one unit at most.
    """
    moves = marginal_moves(adjacency, rows_per_unit)
    match of:
        case "worst_cell":
            return max(moves)
        case "worst_marginal":
            return sum(moves)
    return marginals * sum(moves)
