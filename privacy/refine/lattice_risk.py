"""What rounding to whole numbers adds to the expected error: the cut between the remainders moves with λ.

Under little noise few noisy values occur near the threshold, and whether all cells that show a 3 stay or go depends
on the cut between the remainders. So for tables that are rounded, the expected number of cells N(v) at each noisy
value v is rounded as a whole: cells of one value are alike, and where the cut falls among them a share is raised.
With d = ⌊b(v)⌋ - v, D(v) = Σ (x - v) over the cells that show v, and s the share that is raised by one, the squared
error is  Σ N (d² + s (2d + 1)) - 2 D (d + s) + cells · variance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

TOP: Final = 1 << 10
"""Larger amounts lie far above the threshold that serves under little noise; their rounding is left out."""


_ANY: Final = 1e-9
"""Cells: fewer are expected nowhere that matters, and a division by less would overflow."""


@dataclass(frozen=True)
class RiskLattice:
    """The cells with small amounts, by the noisy value that they would show.

    Args:
        values: v, consecutive whole numbers [units].
        cells: N(v), the expected number of cells.
        difference: D(v), the expected sum of x - v over them [units].
        variance: Σ variance over these cells [units²].
    """

    values: NDArray[np.float64]
    cells: NDArray[np.float64]
    difference: NDArray[np.float64]
    variance: float

    @staticmethod
    def of(amounts: NDArray[np.float64], cells: NDArray[np.float64], mass: NDArray[np.float64]) -> RiskLattice:
        """Spread the cells over the values that they would show.

        Args:
            amounts: whole numbers from 0 to TOP, at least one.
            cells: how many cells hold each.
            mass: P(noise = z) for z from -reach to reach.
        """
        reach = mass.size // 2
        noise = np.arange(-reach, reach + 1)
        held = np.bincount(np.rint(amounts).astype(np.int64), weights=cells).astype(np.float64)
        values = np.arange(-reach, held.size + reach, dtype=np.float64)
        variance = float(cells.sum() * (mass @ noise**2))
        return RiskLattice(values, np.convolve(held, mass), np.convolve(held, -noise * mass), variance)

    def squared_error(self, lambda_: float, theta: float) -> tuple[float, float]:
        """Return the expected squared error of these cells, and how many of them stay above 0."""
        refined = np.maximum(self.values - theta, 0.0) / (1 - lambda_)
        whole = np.floor(refined)
        raised = self._raised(refined, refined - whole, lambda_)
        d = whole - self.values
        # β - x = (d + b) - (x - v), b the raised unit, 0 or 1: b² = b, the cross term is D(v)'s, and the last square
        # is the noise's variance.
        squared = self.cells @ (d * d + raised * (2 * d + 1)) - 2 * float(self.difference @ (d + raised))
        return float(squared) + self.variance, float(self.cells @ np.where(whole > 0, 1.0, raised))

    def _raised(
        self, refined: NDArray[np.float64], remainder: NDArray[np.float64], lambda_: float
    ) -> NDArray[np.float64]:
        """Return the share of the cells at each value that gets one of the units left over."""
        left = float(self.cells @ remainder)
        raised = np.zeros(remainder.size)
        if lambda_ == 0:  # every remainder is the same: cell numbers decide, which is to say chance
            active = refined > 0
            raised[active] = left / max(float(self.cells[active].sum()), 1.0)
            return raised
        order = np.flatnonzero(remainder)
        order = order[np.argsort(-remainder[order], kind="stable")]
        held = self.cells[order]
        # Largest remainders first, until the units are used up; the value at which they run out gets them in part.
        raised[order] = np.clip((left - (np.cumsum(held) - held)) / np.maximum(held, _ANY), 0, 1)
        return raised
