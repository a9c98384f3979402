"""What error negative ℓ2 would make on a table that is taken for the truth, over all noise that could be drawn.

The parametric bootstrap draws noise on such a table again and again. Here the average over all draws is computed
instead, so that no random number is needed: both the threshold and the squared error are sums over cells, and a sum
over many cells hardly differs from its expectation. With x a true cell, Z its noise, γ = 1 - λ, y = x - θ and
u = (λx - θ)/γ, the cell's error is u + Z/γ where Z > -y and -x elsewhere, hence
    θ:      Σ E[(y + Z)⁺] = γ Σx
    risk:   Σ u² P(Z > -y) + 2u E[Z; Z > -y]/γ + E[Z²; Z > -y]/γ² + x² P(Z ≤ -y)
and only three tables of tail moments of Z are needed, whatever the range of the counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, sqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray

from privacy.accounting.events import CountNoise
from privacy.refine.lattice_risk import TOP, RiskLattice
from privacy.refine.noise_mass import noise_likelihood, noise_unit

STEPS_PER_UNIT: Final = 32
_REACH: Final = 32
"""Standard deviations: e^-45 of discrete Laplace noise lies beyond, and less of a Gaussian."""
_MOST_AMOUNTS: Final = 1 << 14
_LATTICE_BELOW: Final = 8.0
"""Standard deviation: with more noise, rounding changes the error by less than the choice could gain."""
_NEWTON_STEPS: Final = 100
_CLOSE: Final = 1e-12


@dataclass(frozen=True)
class CellPopulation:
    """Cells by what they hold: all that the risk depends on.

    Args:
        amounts: distinct values, ≥ 0, ascending, shape (values,) [units].
        cells: how many cells hold each, shape (values,).
    """

    amounts: NDArray[np.float64]
    cells: NDArray[np.float64]


@dataclass(frozen=True)
class Risk:
    """The expected error at one λ.

    Args:
        rmse: root of the mean squared error a cell [units].
        nonzero_share: share of the cells above 0.
    """

    rmse: float
    nonzero_share: float


def population(amounts: NDArray[np.float64], cells: NDArray[np.int64], *, unit: float) -> CellPopulation:
    """Merge equal amounts; where there are very many, neighbours far closer than the noise is wide, too."""
    merged, place = np.unique(amounts, return_inverse=True)
    if merged.size > _MOST_AMOUNTS:
        # arcsinh(x / unit) is linear near 0 and logarithmic far up: what merges differs by little beside its size.
        stretched = np.arcsinh(amounts / unit)
        _, place = np.unique(np.round(stretched * (_MOST_AMOUNTS / stretched.max())), return_inverse=True)
    counted = np.bincount(place, weights=cells).astype(np.float64)
    held = np.bincount(place, weights=cells * amounts).astype(np.float64)
    return CellPopulation(held / counted, counted)


def expected_risks(
    truth: CellPopulation, event: CountNoise, lambdas: Sequence[float], *, integers: bool
) -> list[Risk]:
    """Return the expected error of negative ℓ2 at each λ, were `truth` the table.

    Args:
        truth: the table, one cell at least.
        event: the noise that is put on it.
        lambdas: in [0, 1), ascending.
        integers: whether the refined table is rounded to whole numbers. Under noise that is far wider than one unit
            that makes no difference and is left out.
    Returns:
        one Risk for each λ.
    Privacy: none of its own: post-processing of whatever `truth` was made from.
    """
    tails, risks = _Tails.of(event), []
    total = float(truth.cells @ truth.amounts)
    small = (
        truth.amounts <= TOP
        if integers and noise_unit(event) < _LATTICE_BELOW
        else np.zeros(truth.amounts.size, np.bool_)
    )
    lattice = RiskLattice.of(truth.amounts[small], truth.cells[small], tails.mass()) if small.any() else None
    large = CellPopulation(truth.amounts[~small], truth.cells[~small])
    theta = -np.inf
    for lambda_ in lambdas:
        theta = _expected_threshold(truth, tails, (1 - lambda_) * total, theta)
        squared, nonzero = _squared_error(large, tails, lambda_, theta)
        rounded, kept = (0.0, 0.0) if lattice is None else lattice.squared_error(lambda_, theta)
        cells = float(truth.cells.sum())
        risks.append(Risk(sqrt(max(0.0, squared + rounded) / cells), (nonzero + kept) / cells))
    return risks


@dataclass(frozen=True)
class _Tails:
    """Σ p(z), Σ z p(z) and Σ z² p(z) over the noise z > bound, for every bound on a grid."""

    step: int
    moments: NDArray[np.float64]

    @staticmethod
    def of(event: CountNoise) -> _Tails:
        """Tabulate the noise in steps of 1, or of a 32nd of its standard deviation where that is more."""
        step = max(1, int(noise_unit(event) / STEPS_PER_UNIT))
        reach = ceil(_REACH * noise_unit(event) / step)
        noise = np.arange(-reach, reach + 1) * step
        mass = noise_likelihood(event, noise)
        mass /= mass.sum()
        terms = np.stack([mass, noise * mass, noise.astype(np.float64) ** 2 * mass])
        suffix = np.cumsum(terms[:, ::-1], axis=1)[:, ::-1]
        return _Tails(step, np.concatenate([suffix, np.zeros((3, 1))], axis=1))

    def mass(self) -> NDArray[np.float64]:
        """Return p(z) over the grid."""
        mass: NDArray[np.float64] = -np.diff(self.moments[0])
        return mass

    def above(self, bound: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the three moments of the noise strictly above each bound, shape (3, bounds)."""
        reach = (self.moments.shape[1] - 2) // 2
        first = np.floor(bound / self.step) + 1 + reach
        return self.moments[:, np.clip(first, 0, 2 * reach + 1).astype(np.int64)]


def _expected_threshold(truth: CellPopulation, tails: _Tails, total: float, lower: float) -> float:
    """Solve Σ E[(y + Z)⁺] = total for θ: Newton's method from below, where the convex sum exceeds the total."""
    # θ grows with λ, and θ is at least what it would be if no cell were cut off: Newton starts from the larger.
    theta = max(lower, float(truth.cells @ truth.amounts - total) / float(truth.cells.sum()))
    for _ in range(_NEWTON_STEPS):
        y = truth.amounts - theta
        mass, first, _ = tails.above(-y)
        slope = float(truth.cells @ mass)
        excess = float(truth.cells @ (y * mass + first)) - total
        if slope <= 0 or excess <= _CLOSE * total:
            break
        theta += excess / slope
    return theta


def _squared_error(cells: CellPopulation, tails: _Tails, lambda_: float, theta: float) -> tuple[float, float]:
    """Evaluate the docstring's second sum, and how many cells stay above 0."""
    gamma, x = 1 - lambda_, cells.amounts
    mass, first, second = tails.above(theta - x)
    u = (lambda_ * x - theta) / gamma
    squared = u * u * mass + 2 * u * first / gamma + second / gamma**2 + x * x * (1 - mass)
    return float(cells.cells @ squared), float(cells.cells @ mass)
