"""Noisy sums of bounded vectors over rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from privacy.accounting.events import DiscreteGaussian
from privacy.arrays import Unsigned
from privacy.grant.measurement import DurableDraw, SumMeasurement
from privacy.grant.queries.query import DrawStage, NoiseSource, Query, Relation
from privacy.learning.layout import PrivateRows, RowLayout
from privacy.learning.moments import Moments, sum_event
from privacy.marginals.count_noise import variance
from privacy.marginals.sensitivity import GaussianNoise

BLOCK: Final = 1 << 22
"""Rows that are added up in 64 bits: a statistic's sums over more of them might wrap around."""


@dataclass(frozen=True)
class SumQuery(Query[SumMeasurement]):
    """Noisy sums over rows, one number for each of the statistic's.

    Args:
        rows: handle on the rows.
        statistic: what is added up.
        noise: the cost of the noise.
    """

    rows: PrivateRows
    statistic: Moments
    noise: GaussianNoise
    kind: ClassVar[str] = "sums"

    @property
    def handles(self) -> tuple[PrivateRows]:
        """The rows."""
        return (self.rows,)

    def check(self, relation: Relation) -> None:
        """Refuse a statistic of other rows.

        Raises:
            ValueError: with what the rows have.
        """
        check_statistic(self.statistic, self.rows.layout)

    def event(self, relation: Relation) -> DiscreteGaussian:
        """Return the event of the noise; the bound of a change is the statistic's."""
        terms = {"adjacency": relation.adjacency, "rows_per_unit": relation.rows_per_unit}
        return sum_event(self.statistic, self.noise, **terms)  # type: ignore[arg-type]

    def identity(self, relation: Relation, place: int) -> Mapping[str, Any]:
        """Return the digests of the statistic and of how rows lie."""
        return {"statistic": self.statistic.digest, "layout": self.rows.layout.digest}

    def sample(
        self, exact: tuple[Any, ...], *, event: DiscreteGaussian, noise: NoiseSource, stage: DrawStage
    ) -> NDArray[np.int64]:
        """Add up over rows, and add noise to every number."""
        return noisy_sums(exact[0], statistic=self.statistic, layout=self.rows.layout, event=event, noise=noise)

    def result(self, event: DiscreteGaussian, drawn: tuple[DurableDraw, ...]) -> SumMeasurement:
        """Return the noisy sums with what they cost."""
        (draw,) = drawn
        entered = draw.number, draw.sha256
        return SumMeasurement(draw.key, draw.values, event, variance(event), *entered, self.statistic)


def check_statistic(statistic: Moments, layout: RowLayout) -> None:
    """Refuse a statistic of other rows.

    Raises:
        ValueError: with what the rows have.
    """
    statistic.embedding.check(layout)
    statistic.groups.check(statistic.embedding, layout)


def exact_total(codes: Unsigned, statistic: Moments, layout: RowLayout) -> NDArray[Any]:
    """Add a statistic up over all rows, however many: whole numbers of 64 bits, or of any size over many rows.

    Privacy: private; for a grant alone.
    """
    total: NDArray[Any] = statistic.total(codes[:BLOCK], layout)
    for start in range(BLOCK, codes.shape[0], BLOCK):
        total = total.astype(object) + statistic.total(codes[start : start + BLOCK], layout).astype(object)
    return total


def noisy_sums(
    codes: Unsigned, *, statistic: Moments, layout: RowLayout, event: DiscreteGaussian, noise: NoiseSource
) -> NDArray[np.int64]:
    """Add up a statistic over rows, and add the event's noise to every number; int64, shape (length,).

    Privacy: that of the event, for every change within the statistic's bound (`privacy.learning.moments`).
    """
    exact = statistic.total(codes, layout)
    return exact + noise.integers(exact.size, event=event)
