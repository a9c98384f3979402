"""The cells of a noisy marginal that reach a threshold; the others are never written down.

All layers of a table, from its first threshold to its last, are one draw and cost what the dense table costs. Write V
for the noisy vector over the whole domain, each cell with its own discrete Laplace noise. What is returned is a
function of V and of public or released parameters: the first threshold is public; each next one is computed from them
and from the cells of V at or above the one before (`Depth`); and the result holds the cells of V at or above the last
one. So it is post-processing of V, whose noise is the event, whatever the threshold turns out to be. That the sampler
has the distribution of V cut off at a threshold is shown in `privacy.noise.sparse_laplace`.

The draws of populated cells below the threshold die with the draw. Nobody sees a layer before all of it is written:
the rule by which the threshold falls is a value, not code of the caller.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from contracts.contract.impossible_cells import Clique
from privacy.accounting.events import DiscreteLaplace
from privacy.grant.measurement import DurableDraw, SparseMeasurement
from privacy.grant.queries.query import DrawStage, NoiseSource, Query, Relation
from privacy.marginals.count_noise import variance
from privacy.marginals.counts import SparseCounts
from privacy.marginals.sensitivity import LaplaceNoise, noise_event
from privacy.refine.sparse import SparseTable
from privacy.refine.sparse_depth import Depth


@dataclass(frozen=True)
class SparseMarginalQuery(Query[SparseMeasurement]):
    """The listed cells of a noisy marginal.

    Args:
        counts: handle on the populated cells.
        noise: the cost of the noise, as for the whole marginal.
        until: the first threshold, and how it is lowered, from public parameters and released values.
    """

    counts: SparseCounts
    noise: LaplaceNoise
    until: Depth
    kind: ClassVar[str] = "sparse_marginal"

    @property
    def handles(self) -> tuple[SparseCounts]:
        """The populated cells."""
        return (self.counts,)

    @property
    def clique(self) -> Clique:
        """The marginal's columns."""
        return self.counts.clique

    def check(self, relation: Relation) -> None:
        """Refuse a depth that was made for other noise, or cannot be drawn to.

        Raises:
            ValueError: with what is allowed.
        """
        until, wanted = self.until, self.event(relation).inverse_scale
        if not 1 <= until.least <= until.first or (until.target is not None and until.target < 0):
            raise ValueError("until must have 1 <= least <= first, and a target of at least 0")
        if until.inverse_scale != wanted:
            raise ValueError(f"until must be made for the noise that is drawn, {wanted}")

    def event(self, relation: Relation) -> DiscreteLaplace:
        """Return the event of the noise on the whole marginal, of which the listed cells are post-processing."""
        event = noise_event(self.noise, adjacency=relation.adjacency, rows_per_unit=relation.rows_per_unit)
        if not isinstance(event, DiscreteLaplace):
            raise ValueError("noise of a sparse table must be discrete Laplace")
        return event

    def identity(self, relation: Relation, place: int) -> Mapping[str, Any]:
        """Return the size of the domain."""
        return {"listed_from_cells": self.counts.cells}

    def sample(
        self, exact: tuple[Any, ...], *, event: DiscreteLaplace, noise: NoiseSource, stage: DrawStage
    ) -> SparseTable:
        """Draw the noisy cells at or above a threshold, and lower it as `until` says."""
        return draw_listed(exact[0], cells=self.counts.cells, event=event, until=self.until, noise=noise)

    def result(self, event: DiscreteLaplace, drawn: tuple[DurableDraw, ...]) -> SparseMeasurement:
        """Return the listed cells with what they cost."""
        (draw,) = drawn
        if draw.listing is None:
            raise ValueError(f"draw {draw.key!r} lists no cells")
        table = SparseTable(draw.listing.codes, draw.values, draw.listing.threshold, draw.listing.cells)
        return SparseMeasurement(draw.key, draw.clique, table, event, variance(event), draw.number, draw.sha256)


def draw_listed(
    populated: tuple[NDArray[np.int64], NDArray[np.int64]],
    *,
    cells: int,
    event: DiscreteLaplace,
    until: Depth,
    noise: NoiseSource,
) -> SparseTable:
    """Draw the noisy cells at or above a threshold, and lower it as `until` says.

    Args:
        populated: codes, ascending and distinct, and exact counts of the populated cells.
        cells: size of the declared domain.
        event: the noise.
        until: how far down.
        noise: where the randomness comes from.
    Returns:
        SparseTable: without any mark of which cells are populated.
    Privacy: that of the event, by the module's docstring.
    """
    scale, first = event.inverse_scale, until.first
    layers = noise.sparse_laplace(*populated, cells=cells, inverse_scale=scale, threshold=first)
    table = SparseTable(*layers.drawn(), first, cells)
    while (wanted := until.next(table)) != table.threshold:
        table = SparseTable(*layers.lower(wanted), wanted, cells)
    return table
