"""Noisy counts of the places of a level, in the cells of some columns."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from contracts.contract.impossible_cells import Clique
from privacy.accounting.events import CountNoise
from privacy.grant.measurement import DurableDraw, PlaceMeasurement
from privacy.grant.queries.query import DrawStage, NoiseSource, Query, Relation
from privacy.marginals.count_noise import variance
from privacy.marginals.counts import PrivateCounts
from privacy.marginals.sensitivity import GaussianNoise, noise_event

PIECE: Final = 1 << 22
"""Cells that are added up at a time."""


@dataclass(frozen=True)
class PlaceCountQuery(Query[PlaceMeasurement]):
    """Noisy counts of larger places: sums over the smallest places in them, and over columns that are left out.

    Args:
        counts: handle on the exact marginal of the smallest places and all columns, the places first.
        level: name of the level.
        places: of the level, how many.
        groups: of each smallest place, in the order of the contract's codes, the number of its place, int64.
        columns: those that are kept of the marginal, in its order.
        noise: its cost.
    """

    counts: PrivateCounts
    level: str
    places: int
    groups: NDArray[np.int64]
    columns: Clique
    noise: GaussianNoise
    kind: ClassVar[str] = "place_counts"

    @property
    def handles(self) -> tuple[PrivateCounts]:
        """The exact marginal."""
        return (self.counts,)

    @property
    def clique(self) -> Clique:
        """The column of places, and those that are kept."""
        return (self.counts.clique[0], *self.columns)

    def check(self, relation: Relation) -> None:
        """Refuse groups under which a row might be in two places, or in none.

        Raises:
            ValueError: with what is allowed.
        """
        if self.counts.coarsening is not None or not self.counts.clique:
            raise ValueError("counts of coarser cells; allowed: a marginal of the contract's cells, places first")
        if self.groups.shape != self.counts.shape[:1]:
            raise ValueError(f"groups of {self.groups.shape}, allowed: one for each of {self.counts.shape[0]} places")
        if self.groups.size and not 0 <= self.groups.min() <= self.groups.max() < self.places:
            raise ValueError(f"groups must lie in [0, {self.places})")
        if self.columns != tuple(name for name in self.counts.clique[1:] if name in self.columns):
            raise ValueError("columns must be some of the marginal's, each once, in its order")

    def event(self, relation: Relation) -> CountNoise:
        """Return the event of a marginal: a row is in one place of the level and one cell of the kept columns."""
        return noise_event(self.noise, adjacency=relation.adjacency, rows_per_unit=relation.rows_per_unit)

    def identity(self, relation: Relation, place: int) -> Mapping[str, Any]:
        """Return the level, and the digest of which places it adds up."""
        return {"level": self.level, "groups": groups_digest(self.places, self.groups)}

    def sample(
        self, exact: tuple[Any, ...], *, event: CountNoise, noise: NoiseSource, stage: DrawStage
    ) -> NDArray[np.int64]:
        """Add up, and add noise to every number."""
        sums = added_up(exact[0], self.groups, self.places, self._kept)
        sums += noise.integers(sums.size, event=event).reshape(sums.shape)
        return sums

    @property
    def _kept(self) -> tuple[bool, ...]:
        return tuple(name in self.columns for name in self.counts.clique[1:])

    def result(self, event: CountNoise, drawn: tuple[DurableDraw, ...]) -> PlaceMeasurement:
        """Return the noisy counts with what they cost."""
        (draw,) = drawn
        numbers = draw.key, draw.values, event, variance(event), draw.number, draw.sha256
        return PlaceMeasurement(*numbers, draw.clique, self.level, groups_digest(self.places, self.groups))


def groups_digest(places: int, groups: NDArray[np.int64]) -> str:
    """Return the SHA-256 (hex) of which place each smallest place lies in."""
    digest = hashlib.sha256(str(places).encode())
    digest.update(np.ascontiguousarray(groups, dtype="<i8").tobytes())
    return digest.hexdigest()


def added_up(
    exact: NDArray[np.int64], groups: NDArray[np.int64], places: int, kept: tuple[bool, ...]
) -> NDArray[np.int64]:
    """Return exact sums by place and kept columns, int64, in pieces so that no second copy of the marginal is held.

    Args:
        exact: shape (smallest places, cells ...).
        groups: of each smallest place the number of its place.
        places: how many.
        kept: which columns are not added up.
    """
    left_out = tuple(axis for axis, own in enumerate(kept, start=1) if not own)
    shape = [size for size, own in zip(exact.shape[1:], kept, strict=True) if own]
    sums, order = np.zeros((places, *shape), dtype=np.int64), np.argsort(groups, kind="stable")
    step = max(1, PIECE // max(1, prod(exact.shape[1:])))
    for low in range(0, order.size, step):
        rows = order[low : low + step]
        inside = exact[rows].sum(axis=left_out) if left_out else exact[rows]
        own = groups[rows]
        starts = np.flatnonzero(np.diff(own, prepend=own[0] - 1))
        # A place whose parts lie in two pieces is added to twice; within a piece each place stands once.
        sums[own[starts]] += np.add.reduceat(inside, starts, axis=0)
    return sums
