"""What a model is fitted to: noisy marginals with their variances, and cells known to be impossible."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from contracts.contract.impossible_cells import Clique
from privacy.arrays import Floats
from privacy.marginals.domain import CellDomain

ScalarT = TypeVar("ScalarT", np.float64, np.bool_)


@dataclass(frozen=True, eq=False)
class Measured:
    """Noisy counts of a marginal.

    Args:
        clique: the columns, each once; empty for the total.
        values: noisy counts, one axis a column in the clique's order, integer or float [rows].
        variance: of the noise in one cell, > 0 [rows²].
    Raises:
        ValueError: values that are not finite numbers, or a variance that is not positive and finite.
    """

    clique: Clique
    values: NDArray[np.int64] | Floats
    variance: float

    def __post_init__(self) -> None:
        if not (np.isfinite(self.variance) and self.variance > 0):
            raise ValueError(f"the variance of {'×'.join(self.clique) or 'the total'} must be positive and finite")
        if not np.isfinite(self.values).all():
            raise ValueError(f"the values of {'×'.join(self.clique) or 'the total'} must be finite")


@dataclass(frozen=True, eq=False)
class StructuralZeros:
    """Cells of a clique that no row can be in.

    Args:
        clique: the columns, each once.
        impossible: True where no row can be, one axis a column in the clique's order.
    """

    clique: Clique
    impossible: NDArray[np.bool_]

    def on(self, domain: CellDomain) -> NDArray[np.bool_]:
        """Return the mask with its axes in the domain's order of columns.

        Raises:
            ValueError: an unknown column, or a mask that does not have the clique's shape.
        """
        return _in_order(domain, self.clique, self.impossible)


def combine(domain: CellDomain, measurements: Sequence[Measured]) -> dict[Clique, tuple[Floats, float]]:
    """Return one measurement a clique: the mean weighted by inverse variances, and its variance.

    Source: for independent Gaussian noise the weighted mean is sufficient; the loss changes by a constant.
    """
    merged: dict[Clique, tuple[Floats, float]] = {}
    for one in measurements:
        clique = domain.canonical(one.clique)
        values = _in_order(domain, one.clique, np.asarray(one.values, dtype=np.float64))
        if clique in merged:
            before, variance = merged[clique]
            # The weight of what was there before is the other's share of the variances: precise measurements count
            # more.
            share = one.variance / (variance + one.variance)
            merged[clique] = before * share + values * (1 - share), variance * share
        else:
            merged[clique] = values, one.variance
    return merged


def estimate_total(measurements: Sequence[Measured]) -> float:
    """Return the number of rows from the sums of the measurements, weighted by inverse variances; at least 0.

    Formula: the sum of k cells has variance k · variance_c. Without measurements 0.
    """
    if not measurements:
        return 0.0
    # A sum over k cells has k times the variance of one: fine marginals say less about the total.
    weights = np.array([1.0 / (one.variance * one.values.size) for one in measurements])
    sums = np.array([float(one.values.sum()) for one in measurements])
    return max(0.0, float((weights / weights.sum()) @ sums))


def _in_order(domain: CellDomain, clique: Clique, values: NDArray[ScalarT]) -> NDArray[ScalarT]:
    """Return the values with their axes in the domain's order."""
    known = domain.canonical(clique)
    if values.shape != domain.sizes(clique):
        raise ValueError(
            f"the values of {'×'.join(clique) or 'the total'} have shape {values.shape}, the domain says "
            f"{domain.sizes(clique)}"
        )
    return values.transpose([clique.index(name) for name in known])
