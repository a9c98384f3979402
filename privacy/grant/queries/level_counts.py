"""Noisy counts of groups, each at a level of detail of its own, in one draw.

Which level a group has is part of the query. It may follow from what was drawn before, and from nothing private.
Whatever it is, a row lies in one group, and in one cell of that group's level: all numbers together are a partition
of the rows, so that one unit moves them as it moves a marginal (docs/derivations.md, section 2).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from contracts.contract.impossible_cells import Clique
from privacy.accounting.events import CountNoise
from privacy.grant.measurement import DrawnNumbers, DurableDraw
from privacy.grant.queries.query import DrawStage, NoiseSource, Query, Relation
from privacy.marginals.counts import PrivateCounts
from privacy.marginals.group_levels import chosen_digest, level_sums, levels_digest
from privacy.marginals.sensitivity import Noise, noise_event
from privacy.marginals.uncertainty import variance


@dataclass(frozen=True)
class LevelMeasurement(DrawnNumbers):
    """Noisy counts of groups at their levels, group after group, each the cells of its level [rows].

    Args:
        clique: the columns of the groups, then those of the most detailed level.
        grouped_by: how many of these columns are of the groups.
        levels: SHA-256 (hex) of which cells each level adds up.
        chosen: SHA-256 (hex) of the level of each group.
    """

    clique: Clique
    grouped_by: int
    levels: str
    chosen: str
    kind: ClassVar[str] = "level_counts"


@dataclass(frozen=True)
class LevelCountQuery(Query[LevelMeasurement]):
    """Noisy counts of all groups, each in the cells of its level.

    Args:
        counts: handle on the exact marginal of the groups' columns, then those of the most detailed level.
        grouped_by: how many columns are of the groups, at least one.
        cells: of each level, how many.
        cell_of: of each level its cell for each cell of a group, both row-major, int64.
        chosen: of each group its level, int64.
        noise: its cost.
    """

    counts: PrivateCounts
    grouped_by: int
    cells: tuple[int, ...]
    cell_of: tuple[NDArray[np.int64], ...]
    chosen: NDArray[np.int64]
    noise: Noise
    kind: ClassVar[str] = "level_counts"

    @property
    def handles(self) -> tuple[PrivateCounts]:
        """The exact marginal."""
        return (self.counts,)

    @property
    def clique(self) -> Clique:
        """The marginal's columns."""
        return self.counts.clique

    def check(self, relation: Relation) -> None:
        """Refuse levels under which a row might be in two numbers, or in none.

        Raises:
            ValueError: with what is allowed.
        """
        shape, by = self.counts.shape, self.grouped_by
        if self.counts.coarsening is not None or not 1 <= by <= len(shape):
            raise ValueError(
                "counts of coarser cells, or of no group; allowed: a marginal, the groups' columns first"
            )
        groups, finest = prod(shape[:by]), prod(shape[by:])
        if len(self.cells) != len(self.cell_of) or not self.cells:
            raise ValueError(f"{len(self.cells)} numbers of cells for {len(self.cell_of)} levels, allowed: one each")
        for cells, cell_of in zip(self.cells, self.cell_of, strict=True):
            if cell_of.shape != (finest,) or not 0 <= cell_of.min() <= cell_of.max() < cells:
                raise ValueError(f"a level must give each of {finest} cells a number in [0, {cells})")
        if self.chosen.shape != (groups,) or not 0 <= self.chosen.min() <= self.chosen.max() < len(self.cells):
            raise ValueError(f"chosen must be a level in [0, {len(self.cells)}) for each of {groups} groups")

    def event(self, relation: Relation) -> CountNoise:
        """Return the event of a marginal, whatever was chosen: a row is in one cell of its group's level."""
        return noise_event(self.noise, adjacency=relation.adjacency, rows_per_unit=relation.rows_per_unit)

    def identity(self, relation: Relation, place: int) -> Mapping[str, Any]:
        """Return the digests of the levels and of the choice."""
        return {"levels": levels_digest(self.cells, self.cell_of), "chosen": chosen_digest(self.chosen)}

    def sample(
        self, exact: tuple[Any, ...], *, event: CountNoise, noise: NoiseSource, stage: DrawStage
    ) -> NDArray[np.int64]:
        """Add up, and add noise to every number."""
        sums = level_sums(exact[0].reshape(self.chosen.size, -1), self.cells, self.cell_of, self.chosen)
        sums += noise.integers(sums.size, event=event)
        return sums

    def result(self, event: CountNoise, drawn: tuple[DurableDraw, ...]) -> LevelMeasurement:
        """Return the noisy counts with what they cost."""
        (draw,) = drawn
        digests = levels_digest(self.cells, self.cell_of), chosen_digest(self.chosen)
        numbers = draw.key, draw.values, event, variance(event), draw.number, draw.sha256
        return LevelMeasurement(*numbers, draw.clique, self.grouped_by, *digests)
