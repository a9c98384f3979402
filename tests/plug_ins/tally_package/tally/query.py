"""The noisy number of rows in the last cell of a column."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from privacy.accounting.events import DiscreteLaplace, laplace_inverse_scale
from privacy.grant.measurement import DurableDraw
from privacy.grant.queries.query import DrawStage, NoiseSource, Query, Relation
from privacy.marginals.counts import PrivateCounts


@dataclass(frozen=True)
class Tally:
    """What was drawn; released."""

    key: str
    column: str
    cell: int
    value: int
    event: DiscreteLaplace
    number: int
    kind: ClassVar[str] = "tally"


@dataclass(frozen=True)
class TallyQuery(Query[Tally]):
    """Asks for it, at a pure epsilon."""

    counts: PrivateCounts
    epsilon: Fraction
    kind: ClassVar[str] = "tally"

    @property
    def handles(self) -> tuple[PrivateCounts]:
        """The column's counts."""
        return (self.counts,)

    @property
    def clique(self) -> tuple[str, ...]:
        return self.counts.clique

    def check(self, relation: Relation) -> None:
        """Refuse several columns."""
        if len(self.counts.shape) != 1:
            raise ValueError("a tally is of one column")

    def event(self, relation: Relation) -> DiscreteLaplace:
        """One unit's rows all come or go, or change from one side to the other."""
        moves = (relation.rows_per_unit,)
        return DiscreteLaplace(laplace_inverse_scale(self.epsilon, moves), moves)

    def identity(self, relation: Relation, place: int) -> Mapping[str, Any]:
        """Return nothing more than column and event."""
        return {}

    def sample(
        self, exact: tuple[Any, ...], *, event: DiscreteLaplace, noise: NoiseSource, stage: DrawStage
    ) -> NDArray[np.int64]:
        """Add noise to the last cell."""
        return exact[0][-1:] + noise.integers(1, event=event)

    def result(self, event: DiscreteLaplace, drawn: tuple[DurableDraw, ...]) -> Tally:
        (draw,) = drawn
        return Tally(draw.key, self.clique[0], self.counts.shape[0] - 1, int(draw.values[0]), event, draw.number)
