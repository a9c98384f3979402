"""Noisy answers of whole-number strategies over ordered columns and residuals, all of a release in one draw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from contracts.contract.impossible_cells import Clique
from privacy.accounting.events import DiscreteGaussian
from privacy.grant.measurement import DrawnNumbers, DurableDraw
from privacy.grant.queries.query import DrawStage, NoiseSource, Query, Relation
from privacy.marginals.count_noise import variance
from privacy.marginals.counts import PrivateCounts
from privacy.marginals.ordered.design import RangeResidual
from privacy.marginals.ordered.strategies import (
    RangeStrategy,
    measured_numbers,
    resolved_places,
    strategies_digest,
    strategy_event,
)
from privacy.marginals.sensitivity import GaussianNoise


@dataclass(frozen=True)
class StrategyMeasurement(DrawnNumbers):
    """Noisy answers of strategies: one after the other, each the rows of its plain cells in their order.

    Args:
        residuals: what was measured, in the order of the values.
    """

    event: DiscreteGaussian
    residuals: tuple[RangeStrategy, ...]
    kind: ClassVar[str] = "strategies"


@dataclass(frozen=True)
class StrategyQuery(Query[StrategyMeasurement]):
    """The residuals of several marginals, each times a matrix over its ordered columns, with one noise.

    Args:
        counts: handles on the exact marginals: of each the plain columns first, then the ordered ones.
        plain: of each, how many columns are plain.
        matrices: of each the whole numbers by which the ordered cells are added up, int64, upper triangular.
        noise: what all of them cost together.
    """

    counts: tuple[PrivateCounts, ...]
    plain: tuple[int, ...]
    matrices: tuple[NDArray[np.int64], ...]
    noise: GaussianNoise
    kind: ClassVar[str] = "strategies"

    @property
    def handles(self) -> tuple[PrivateCounts, ...]:
        """The exact marginals."""
        return self.counts

    @property
    def strategies(self) -> tuple[RangeStrategy, ...]:
        """What is measured."""
        return tuple(
            RangeStrategy(_residual(each.clique, each.shape, plain), matrix)
            for each, plain, matrix in zip(self.counts, self.plain, self.matrices, strict=True)
        )

    def check(self, relation: Relation) -> None:
        """Refuse strategies that repeat, that are of coarser cells, or whose ordered columns do not fit together.

        Raises:
            ValueError: with what is allowed.
        """
        if not self.counts or not len(self.counts) == len(self.plain) == len(self.matrices):
            found = f"{len(self.counts)} marginals, {len(self.plain)} numbers, {len(self.matrices)} matrices"
            raise ValueError(f"{found}; allowed: one of each")
        if any(each.coarsening is not None for each in self.counts):
            raise ValueError("strategies of coarser cells; allowed: those of the contract's cells")
        strategies = self.strategies
        resolved_places(strategies)
        if len({frozenset(each.residual.columns) for each in strategies}) < len(strategies):
            raise ValueError("a set of plain columns twice; allowed: each once")
        ordered = {name for each in strategies for name in each.residual.resolved}
        if ordered & {name for each in strategies for name in each.residual.columns}:
            raise ValueError("a column that is plain and ordered; allowed: one of the two")

    def event(self, relation: Relation) -> DiscreteGaussian:
        """Return the event of the noise, its scale calibrated to how far one unit moves all strategies together."""
        terms = {"adjacency": relation.adjacency, "rows_per_unit": relation.rows_per_unit}
        return strategy_event(self.strategies, self.noise, **terms)  # type: ignore[arg-type]

    def identity(self, relation: Relation, place: int) -> Mapping[str, Any]:
        """Return the digest of what is measured."""
        return {"strategies": strategies_digest(self.strategies)}

    def sample(
        self, exact: tuple[Any, ...], *, event: DiscreteGaussian, noise: NoiseSource, stage: DrawStage
    ) -> NDArray[np.int64]:
        """Measure the exact marginals, and add noise to every number."""
        return noisy_strategies(exact, self.strategies, event=event, noise=noise)

    def result(self, event: DiscreteGaussian, drawn: tuple[DurableDraw, ...]) -> StrategyMeasurement:
        """Return the noisy numbers with what they cost."""
        (draw,) = drawn
        numbers = draw.key, draw.values, event, variance(event), draw.number, draw.sha256
        return StrategyMeasurement(*numbers, self.strategies)


def _residual(clique: Clique, shape: tuple[int, ...], plain: int) -> RangeResidual:
    return RangeResidual(clique[:plain], shape[:plain], clique[plain:], shape[plain:])


def noisy_strategies(
    exact: Sequence[NDArray[np.int64]],
    strategies: Sequence[RangeStrategy],
    *,
    event: DiscreteGaussian,
    noise: NoiseSource,
) -> NDArray[np.int64]:
    """Return what is measured of exact marginals, with noise on every number.

    Raises:
        ValueError: counts of another shape than was planned; nothing was drawn.
    Privacy: that of the event. Where a number passes 64 bits it wraps around, and so does its sum with the noise:
        that is a function of the whole numbers' sum.
    """
    for counts, each in zip(exact, strategies, strict=True):
        if counts.shape != each.shape:
            raise ValueError(f"counts of shape {counts.shape}, where {each.shape} was planned")
    values = np.concatenate([measured_numbers(each, counts) for counts, each in zip(exact, strategies, strict=True)])
    noisy: NDArray[np.int64] = values + noise.integers(values.size, event=event)
    return noisy
