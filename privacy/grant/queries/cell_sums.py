"""Noisy sums of a column in every cell of a marginal, or the nodes of its tree of counts, in one draw."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from contracts.contract.impossible_cells import Clique
from contracts.domains.addends import addend_problems
from contracts.release.tables.tables import MinimumFrequency
from privacy.accounting.events import CountNoise
from privacy.grant.measurement import CellSumMeasurement, DurableDraw
from privacy.grant.queries.query import DrawStage, NoiseSource, Query, Relation
from privacy.marginals.cell_sums import PrivateCellSums, cell_sum_event
from privacy.marginals.count_noise import variance
from privacy.marginals.sensitivity import GaussianNoise, LaplaceNoise
from privacy.statistics.cell_suppression import CellThreshold, cell_threshold, counts_rows


@dataclass(frozen=True)
class CellSumQuery(Query[CellSumMeasurement]):
    """Noisy sums by cell.

    Args:
        sums: handle on the exact sums.
        noise: the kind of noise and its cost.
        minimum_frequency: the rule under which small cells are suppressed before they are written down.
    """

    sums: PrivateCellSums
    noise: LaplaceNoise | GaussianNoise
    minimum_frequency: MinimumFrequency | None = None
    kind: ClassVar[str] = "cell_sums"

    @property
    def handles(self) -> tuple[PrivateCellSums]:
        """The exact sums."""
        return (self.sums,)

    @property
    def clique(self) -> Clique:
        """The columns that rows are grouped by."""
        return self.sums.clique

    def check(self, relation: Relation) -> None:
        """Refuse lattices that have no whole number of steps, or so many that sums might leave 64 bits.

        Raises:
            ValueError: with what is allowed.
        """
        problems = addend_problems(self.sums.addends, relation.rows_per_unit)
        if problems:
            raise ValueError(f"{problems[0].found}, allowed {problems[0].allowed}")
        if self.minimum_frequency is not None and not counts_rows(self.sums.addends):
            raise ValueError(f"{self.sums.addends.column}: a minimum frequency needs sums that count rows")

    def event(self, relation: Relation) -> CountNoise:
        """Return the event of the noise, its scale calibrated to how far one unit moves the sums."""
        terms = {"adjacency": relation.adjacency, "rows_per_unit": relation.rows_per_unit}
        terms["cells"] = prod(self.sums.shape)
        return cell_sum_event(self.noise, self.sums.addends, **terms)  # type: ignore[arg-type]

    def identity(self, relation: Relation, place: int) -> Mapping[str, Any]:
        """Return the lattice, with the resolution of a tree and the lattice of a weight; and a threshold."""
        threshold = self.threshold(self.event(relation))
        told = {} if threshold is None else {"published_from": threshold.value}
        return {"addends": self.sums.addends.to_json(), **told}

    def threshold(self, event: CountNoise) -> CellThreshold | None:
        """Return from which noisy count on a cell is published; None without a rule."""
        rule = self.minimum_frequency
        return None if rule is None else cell_threshold(rule, self.sums.addends, event)

    def sample(
        self, exact: tuple[Any, ...], *, event: CountNoise, noise: NoiseSource, stage: DrawStage
    ) -> NDArray[np.int64]:
        """Add noise to every number, and suppress what the rule says."""
        noisy, threshold = noisy_cell_sums(exact[0], event=event, noise=noise), self.threshold(event)
        return noisy if threshold is None else threshold.censored(noisy)

    def result(self, event: CountNoise, drawn: tuple[DurableDraw, ...]) -> CellSumMeasurement:
        """Return the noisy sums with what they cost."""
        (draw,) = drawn
        entered = draw.number, draw.sha256
        return CellSumMeasurement(
            draw.key,
            draw.clique,
            self.sums.addends,
            draw.values,
            event,
            variance(event),
            *entered,
            self.threshold(event),
        )


def noisy_cell_sums(exact: NDArray[np.int64], *, event: CountNoise, noise: NoiseSource) -> NDArray[np.int64]:
    """Add the event's noise to every number; int64, shape as `exact`.

    Privacy: that of the event, for every change that one unit can make (`privacy.marginals.cell_sums`).
    """
    return exact + noise.integers(exact.size, event=event).reshape(exact.shape)
