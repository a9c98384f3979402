"""How far one privacy unit moves a marginal, and the noise that hides it (DESIGN law 4)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Final, Literal, assert_never

from privacy.accounting.events import (
    CountNoise,
    DiscreteGaussian,
    DiscreteLaplace,
    gaussian_sigma_squared,
    laplace_inverse_scale,
)

if TYPE_CHECKING:
    from contracts.contract.contract import Adjacency


@dataclass(frozen=True)
class LaplaceNoise:
    """Ask for discrete Laplace noise that costs `epsilon` (pure DP)."""

    epsilon: Fraction


@dataclass(frozen=True)
class GaussianNoise:
    """Ask for discrete Gaussian noise that costs `rho` (zCDP)."""

    rho: Fraction


Noise = LaplaceNoise | GaussianNoise
NoiseKind = Literal["laplace", "gaussian"]
LONGEST_MOVES: Final = 4096
"""Cells that an event lists as moved, at most."""


def marginal_moves(adjacency: Adjacency, rows_per_unit: int) -> tuple[int, ...]:
    """Return the worst change that one privacy unit makes to a marginal, cell by cell.

    add_remove: k rows appear in one cell (L1 k, L2 k). replace_one: k rows leave one cell and k enter another
    (L1 2k, L2 √2·k). Why no other change is worse: docs/derivations.md.
    """
    return (rows_per_unit,) if adjacency == "add_remove" else (rows_per_unit, rows_per_unit)


def distinct_moves(
    adjacency: Adjacency, rows_per_unit: int, *, most_per_cell: int | None, cells: int | None
) -> tuple[int, ...]:
    """Return the worst change that one privacy unit makes to a distinct count, cell by cell.

    Each row adds at most one to one cell: L1 is at most k, or 2k under replace_one. No cell changes by more than
    `most_per_cell`, and there are `cells` of them. The worst fills one cell after the other: losses are convex in how
    far a cell moves. A change of more than 4,096 cells is listed as a worse one of fewer
    (docs/derivations.md, section 2).

    Args:
        adjacency: the relation between neighbours.
        rows_per_unit: k, the rows of one unit at most.
        most_per_cell: by how much one unit changes one cell at most; None where its rows alone bound it.
        cells: how many cells there are; None where nobody knows before, or where it shall not matter.
    """
    most = rows_per_unit if most_per_cell is None else min(rows_per_unit, most_per_cell)
    total = rows_per_unit if adjacency == "add_remove" else 2 * rows_per_unit
    total = total if cells is None else min(total, cells * most)
    most = max(most, -(-total // LONGEST_MOVES))
    whole, rest = divmod(total, most)
    return (most,) * whole + ((rest,) if rest else ())


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
