"""Noisy residuals of marginals, all of a release in one draw."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from contracts.canonical import canonical_json
from privacy.accounting.events import DiscreteGaussian
from privacy.grant.measurement import DurableDraw, ResidualMeasurement
from privacy.grant.queries.query import DrawStage, NoiseSource, Query, Relation
from privacy.marginals.count_noise import variance
from privacy.marginals.counts import PrivateCounts
from privacy.marginals.residual_basis import Residual, residual_event, residual_of
from privacy.marginals.sensitivity import GaussianNoise


@dataclass(frozen=True)
class ResidualQuery(Query[ResidualMeasurement]):
    """The residuals of several marginals, each times its multiplier, with one discrete Gaussian noise.

    Args:
        counts: handles on the exact marginals; of each the residual is measured.
        multipliers: of each residual, >= 1.
        noise: what all of them cost together.
    """

    counts: tuple[PrivateCounts, ...]
    multipliers: tuple[int, ...]
    noise: GaussianNoise
    kind: ClassVar[str] = "residuals"

    @property
    def handles(self) -> tuple[PrivateCounts, ...]:
        """The exact marginals."""
        return self.counts

    @property
    def residuals(self) -> tuple[Residual, ...]:
        """What is measured."""
        paired = zip(self.counts, self.multipliers, strict=True)
        return tuple(Residual(each.clique, each.shape, multiplier) for each, multiplier in paired)

    def check(self, relation: Relation) -> None:
        """Refuse residuals that repeat, or that are of coarser cells.

        Raises:
            ValueError: with what is allowed.
        """
        if not self.counts or len(self.counts) != len(self.multipliers):
            raise ValueError(f"{len(self.counts)} marginals and {len(self.multipliers)} multipliers; allowed: pairs")
        if any(each.coarsening is not None for each in self.counts):
            raise ValueError("residuals of coarser cells; allowed: those of the contract's cells")
        if len({frozenset(each.columns) for each in self.residuals}) < len(self.counts):
            raise ValueError("a set of columns twice; allowed: each once")

    def event(self, relation: Relation) -> DiscreteGaussian:
        """Return the event of the noise, its scale calibrated to how far one unit moves all residuals together."""
        terms = {"adjacency": relation.adjacency, "rows_per_unit": relation.rows_per_unit}
        return residual_event(self.residuals, self.noise, **terms)  # type: ignore[arg-type]

    def identity(self, relation: Relation, place: int) -> Mapping[str, Any]:
        """Return the digest of what is measured."""
        return {"residuals": residuals_digest(self.residuals)}

    def sample(
        self, exact: tuple[Any, ...], *, event: DiscreteGaussian, noise: NoiseSource, stage: DrawStage
    ) -> NDArray[np.int64]:
        """Make the residuals of the exact marginals, and add noise to every number."""
        return noisy_residuals(exact, self.residuals, event=event, noise=noise)

    def result(self, event: DiscreteGaussian, drawn: tuple[DurableDraw, ...]) -> ResidualMeasurement:
        """Return the noisy residuals with what they cost."""
        (draw,) = drawn
        numbers = draw.key, draw.values, event, variance(event), draw.number, draw.sha256
        return ResidualMeasurement(*numbers, self.residuals)


def residuals_digest(residuals: Sequence[Residual]) -> str:
    """Return the SHA-256 (hex) of which residuals are measured, and how often each counts."""
    told = [[list(each.columns), list(each.shape), each.multiplier] for each in residuals]
    return hashlib.sha256(canonical_json(told)).hexdigest()


def noisy_residuals(
    exact: Sequence[NDArray[np.int64]], residuals: Sequence[Residual], *, event: DiscreteGaussian, noise: NoiseSource
) -> NDArray[np.int64]:
    """Return the residuals of exact marginals times their multipliers, with noise on every number.

    Raises:
        ValueError: counts of another shape than was planned; nothing was drawn.
    Privacy: that of the event. Where a number passes 64 bits it wraps around, and so does its sum with the noise:
        that is a function of the whole numbers' sum.
    """
    parts = []
    for counts, each in zip(exact, residuals, strict=True):
        if counts.shape != each.shape:
            raise ValueError(f"counts of shape {counts.shape}, where {each.shape} was planned")
        parts.append(residual_of(counts).reshape(-1) * np.int64(each.multiplier))
    values = np.concatenate(parts)
    noisy: NDArray[np.int64] = values + noise.integers(values.size, event=event)
    return noisy
