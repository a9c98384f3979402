"""How far one privacy unit moves a marginal, and the noise that hides it (DESIGN law 4)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import assert_never

from contracts.contract.contract import Adjacency
from privacy.accounting.calibrate import gaussian_sigma_squared, laplace_inverse_scale
from privacy.accounting.events import CountNoise, DiscreteGaussian, DiscreteLaplace


@dataclass(frozen=True)
class LaplaceNoise:
    """Ask for discrete Laplace noise that costs `epsilon` (pure DP)."""

    epsilon: Fraction


@dataclass(frozen=True)
class GaussianNoise:
    """Ask for discrete Gaussian noise that costs `rho` (zCDP)."""

    rho: Fraction


Noise = LaplaceNoise | GaussianNoise


def marginal_moves(adjacency: Adjacency, rows_per_unit: int) -> tuple[int, ...]:
    """Return the worst change that one privacy unit makes to a marginal, cell by cell.

    add_remove: k rows appear in one cell (L1 k, L2 k). replace_one: k rows leave one cell and k enter another
    (L1 2k, L2 √2·k). Why no other change is worse: docs/derivations.md.
    """
    return (rows_per_unit,) if adjacency == "add_remove" else (rows_per_unit, rows_per_unit)


def noise_event(noise: Noise, *, adjacency: Adjacency, rows_per_unit: int) -> CountNoise:
    """Return the event of adding `noise` to a marginal, its scale calibrated to the derived sensitivity.

    Source: DESIGN law 4; scale = L1 / ε (discrete Laplace), σ² = L2² / (2ρ) (discrete Gaussian).
    """
    return moved_noise(noise, marginal_moves(adjacency, rows_per_unit))


def moved_noise(noise: Noise, moves: tuple[int, ...]) -> CountNoise:
    """Return the event of adding `noise` to numbers that one unit moves by `moves` at worst."""
    match noise:
        case LaplaceNoise(epsilon):
            return DiscreteLaplace(laplace_inverse_scale(epsilon, moves), moves)
        case GaussianNoise(rho):
            return DiscreteGaussian(gaussian_sigma_squared(rho, moves), moves)
        case _:
            assert_never(noise)
