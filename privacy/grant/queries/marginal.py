"""The query for a noisy marginal, at its own or at a coarser resolution."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from contracts.contract.impossible_cells import Clique
from contracts.release.tables.minimum_frequency import MinimumFrequency
from privacy.accounting.events import CountNoise
from privacy.grant.measurement import Measurement
from privacy.grant.queries.query import Query, Relation
from privacy.marginals.counts import PrivateCounts
from privacy.marginals.sensitivity import GaussianNoise, LaplaceNoise, noise_event
from privacy.marginals.suppression import Threshold, threshold_for


@dataclass(frozen=True)
class MarginalQuery(Query[Measurement]):
    """A noisy marginal.

    Args:
        counts: handle on the exact marginal.
        noise: the kind of noise and its cost.
        minimum_frequency: the rule under which small noisy counts are suppressed before they are written down.
    """

    counts: PrivateCounts
    noise: LaplaceNoise | GaussianNoise
    minimum_frequency: MinimumFrequency | None = None

    @property
    def handles(self) -> tuple[PrivateCounts]:
        """The exact marginal."""
        return (self.counts,)

    @property
    def clique(self) -> Clique:
        """The marginal's columns."""
        return self.counts.clique

    def event(self, relation: Relation) -> CountNoise:
        """Return the event of the noise, its scale calibrated to how far one unit moves a marginal."""
        return noise_event(self.noise, adjacency=relation.adjacency, rows_per_unit=relation.rows_per_unit)

    def threshold(self, event: CountNoise) -> Threshold | None:
        """Return from which noisy count on a cell is published; None without a rule."""
        return None if self.minimum_frequency is None else threshold_for(self.minimum_frequency, event)

    def identity(self, relation: Relation) -> Mapping[str, Any]:
        """Return the threshold and the resolution, where there are such."""
        identity: dict[str, Any] = {}
        if (threshold := self.threshold(self.event(relation))) is not None:
            identity["published_from"] = threshold.value
        if self.counts.coarsening is not None:
            identity["coarsening"] = self.counts.coarsening.to_json()
        return identity
