"""Noisy votes of rows for the nearest of public candidates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from contracts.contract.impossible_cells import Clique
from privacy.accounting.events import CountNoise
from privacy.grant.measurement import DrawnNumbers, DurableDraw
from privacy.grant.queries.query import DrawStage, NoiseSource, Query, Relation
from privacy.learning.candidates import Candidates, vote_event
from privacy.learning.layout import PrivateRows
from privacy.marginals.count_noise import variance
from privacy.marginals.sensitivity import GaussianNoise, LaplaceNoise


@dataclass(frozen=True)
class VoteMeasurement(DrawnNumbers):
    """Noisy votes, shape (candidates,) [rows].

    Args:
        candidates: digest of the public rows that were voted for, in the order of the values.
        label: the column by which they are parted; None where they are not.
    """

    candidates: str
    label: str | None
    kind: ClassVar[str] = "votes"

    @property
    def clique(self) -> Clique:
        """No columns: candidates are whole rows."""
        return ()


@dataclass(frozen=True)
class VoteQuery(Query[VoteMeasurement]):
    """How many rows have each candidate as their nearest, with noise.

    Args:
        rows: handle on the rows.
        candidates: public, or made of what was released before.
        noise: the kind of noise and its cost.
    """

    rows: PrivateRows
    candidates: Candidates
    noise: LaplaceNoise | GaussianNoise
    kind: ClassVar[str] = "votes"

    @property
    def handles(self) -> tuple[PrivateRows]:
        """The rows."""
        return (self.rows,)

    def check(self, relation: Relation) -> None:
        """Refuse candidates of other rows.

        Raises:
            ValueError: with what the rows have.
        """
        self.candidates.check(self.rows.layout)

    def event(self, relation: Relation) -> CountNoise:
        """Return the event of the noise, its scale calibrated to how far one unit moves the votes."""
        return vote_event(self.noise, adjacency=relation.adjacency, rows_per_unit=relation.rows_per_unit)

    def identity(self, relation: Relation, place: int) -> Mapping[str, Any]:
        """Return the digests of the candidates and of how rows lie."""
        return {"candidates": self.candidates.digest, "layout": self.rows.layout.digest}

    def sample(
        self, exact: tuple[Any, ...], *, event: CountNoise, noise: NoiseSource, stage: DrawStage
    ) -> NDArray[np.int64]:
        """Count the votes, and add noise to every candidate's."""
        votes = self.candidates.votes(exact[0], self.rows.layout)
        return votes + noise.integers(votes.size, event=event)

    def result(self, event: CountNoise, drawn: tuple[DurableDraw, ...]) -> VoteMeasurement:
        """Return the noisy votes with what they cost."""
        (draw,) = drawn
        entered = draw.number, draw.sha256, self.candidates.digest, self.candidates.label
        return VoteMeasurement(draw.key, draw.values, event, variance(event), *entered)
