"""A noisy marginal, at its own or at a coarser resolution."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from privacy.grant.measurement import DurableDraw, Measurement
from privacy.grant.queries.query import DrawStage, NoiseSource, Query, Relation
from privacy.marginals.count_noise import variance
from privacy.marginals.sensitivity import GaussianNoise, LaplaceNoise, noise_event
from privacy.marginals.suppression import Threshold, threshold_for

if TYPE_CHECKING:
    from contracts.contract.impossible_cells import Clique
    from contracts.release.tables.tables import MinimumFrequency
    from privacy.accounting.events import CountNoise
    from privacy.marginals.counts import PrivateCounts


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
    kind: ClassVar[str] = "marginal"
    counts_parents: ClassVar[bool] = True

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
        rows = self.counts.rows_per_unit(relation.rows_per_unit)
        return noise_event(self.noise, adjacency=relation.adjacency, rows_per_unit=rows)

    def threshold(self, event: CountNoise) -> Threshold | None:
        """Return from which noisy count on a cell is published; None without a rule."""
        return None if self.minimum_frequency is None else threshold_for(self.minimum_frequency, event)

    def identity(self, relation: Relation, place: int) -> Mapping[str, Any]:
        """Return the threshold, the resolution and whose rows are counted, where there are such."""
        identity = self.counts.identity
        if (threshold := self.threshold(self.event(relation))) is not None:
            identity["published_from"] = threshold.value
        if self.counts.coarsening is not None:
            identity["coarsening"] = self.counts.coarsening.to_json()
        return identity

    def sample(
        self, exact: tuple[Any, ...], *, event: CountNoise, noise: NoiseSource, stage: DrawStage
    ) -> NDArray[np.int64]:
        """Add noise to every cell, and suppress what the rule says."""
        return noisy_counts(exact[0], event=event, threshold=self.threshold(event), noise=noise)

    def result(self, event: CountNoise, drawn: tuple[DurableDraw, ...]) -> Measurement:
        """Return the noisy marginal with what it cost."""
        (draw,) = drawn
        threshold, entered = self.threshold(event), (draw.number, draw.sha256)
        table = None if self.counts.parents is None else self.counts.parents.table
        terms = event, variance(event), *entered, threshold, table, self.counts.coarsening
        return Measurement(draw.key, draw.clique, draw.values, *terms)


def noisy_counts(
    exact: NDArray[np.int64], *, event: CountNoise, threshold: Threshold | None, noise: NoiseSource
) -> NDArray[np.int64]:
    """Add the event's noise to every cell, and suppress what is below the threshold of a minimum-frequency rule."""
    noisy = exact + noise.integers(exact.size, event=event).reshape(exact.shape)
    return noisy if threshold is None else threshold.censored(noisy)
