"""Weights under which the plan of the least weighted sum has the least largest variance, and a bound that shows it.

Where (one letter each; A a set of columns, B a table)
    w   weight of a table        s, p, f, d, ρ, k   as in `residual_shares`
    λ   one number a table, >= 0, that add up to one
    a   w p / Π_{B∖A} d²: what s of A adds to B's weighted variance in one cell, which all cells of B have alike

Minimise  max_B w Var(B) = max_B Σ_{A ⊆ B} a s  where  Σ_A p f / (2 s) = ρ / k².  For every λ

    max_B Σ_A a s  ≥  Σ_B λ Σ_A a s  ≥  h² k² / (2 ρ),      h(λ) = Σ_A √(p f Σ_{B ⊇ A} λ a),

the first since λ adds up to one, the second by Cauchy–Schwarz as for a sum. h is concave. Its slope in λ of B is half
of V(B) = Σ_A a √(p f / Σ λ a): B's weighted variance in the best plan for λ, in units of h k² / (2 ρ). So the
plan for λ is within  max V / h  of the least, and that is 1 at the best λ. The search multiplies each λ by (V / h)²
and stops where the ratio is below 1.0005. Any λ gives a bound that holds, so the search decides nothing else.
Under replace_one f is what a plan pays for its worst neighbour, part by part. The bound has the f of an average
neighbour in its place (`residual_shares.least_factors`).

The numbers of the search are sums, products, quotients and roots of 64-bit floats in a fixed order, each rounded
alike on every machine, so that a checker finds the same plan.
Source: Sion's minimax theorem for why the bound is reached; multiplicative steps as in optimal designs (Silvey,
Titterington, Torsney 1978), squared here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from math import prod
from typing import Final

import numpy as np

from contracts.contract.contract import Adjacency
from contracts.contract.impossible_cells import Clique
from privacy.arrays import Floats
from privacy.marginals.residual_shares import PAIRS, Workload, cost_factor, least_factors, subsets

GAP: Final = 1.0005
"""The search ends where the largest variance is within this factor of the bound."""
MOST_STEPS: Final = 2000
LEAST_BITS: Final = 10
"""Multipliers are at least two to this power: their rounding moves a largest variance in full, a sum hardly."""
_GRID: Final = 1 << 40


def worst_case_workload(workload: Workload, *, adjacency: Adjacency, total_is_public: bool) -> tuple[Workload, float]:
    """Return the workload whose least weighted sum has the least largest variance of the one that is given.

    Args:
        workload: tables with the weights that their variances are multiplied by.
        adjacency: the relation between neighbours, under which costs are.
        total_is_public: the number of rows is declared, so that it is not measured.
    Returns:
        tuple: the same tables with other weights; and the bound h² of the module, for weights as they are returned.
    Privacy: reads public parameters only.
    """
    paid = {
        columns: float(cost_factor([workload.sizes[name] for name in columns], adjacency))
        for columns in workload.gains()
    }
    if total_is_public:
        paid[()] = 0.0
    mixture = _TableSystem(workload, paid).search()
    grid = np.maximum(np.rint(mixture * _GRID), 1.0)
    cells = [prod(workload.sizes[name] for name in table) for table in workload.tables]
    parts = zip(grid, workload.weights, cells, strict=True)
    weights = tuple(Fraction(int(share)) * weight / n for share, weight, n in parts)
    choices = (least_factors(adjacency, each, total_is_public=total_is_public) for each in PAIRS)
    bounds = [
        _TableSystem(workload, {columns: moved if columns else came for columns in paid}).bound(grid / grid.sum())
        for moved, came in choices
    ]
    return replace(workload, weights=weights), max(bounds) ** 2


class _TableSystem:
    """The coefficients a, one for each table and each of its residuals; f is given by residual."""

    def __init__(self, workload: Workload, factors: Mapping[Clique, float]) -> None:
        place = {columns: number for number, columns in enumerate(workload.gains())}
        sizes = {name: float(cells) for name, cells in workload.cells}
        spreads = [prod(((sizes[name] - 1) / sizes[name] for name in columns), start=1.0) for columns in place]
        self._cost: Floats = np.array(
            [spread * factors[columns] for columns, spread in zip(place, spreads, strict=True)]
        )
        tables, parts, adds = [], [], []
        for number, (table, weight) in enumerate(zip(workload.tables, workload.weights, strict=True)):
            wide = tuple(name for name in sizes if name in table and sizes[name] > 1)
            for columns in subsets(wide):
                part = place[columns]
                tables.append(number)
                parts.append(part)
                apart = prod(sizes[name] for name in wide if name not in columns)
                adds.append(float(weight) * spreads[part] / apart**2)
        self._tables, self._parts = np.array(tables), np.array(parts)
        self._adds: Floats = np.array(adds)
        self._count = len(workload.tables)

    def search(self) -> Floats:
        """Return λ."""
        mixture: Floats = np.full(self._count, 1.0 / self._count)
        for _ in range(MOST_STEPS):
            height, worst = self._state(mixture)
            if height == 0 or worst.max() <= GAP * height:
                break
            mixture = mixture * (worst / height) * (worst / height)
            mixture = mixture / np.cumsum(mixture)[-1]
        return mixture

    def bound(self, mixture: Floats) -> float:
        """Return h."""
        return self._state(mixture)[0]

    def _state(self, mixture: Floats) -> tuple[float, Floats]:
        """Return h and V."""
        # bincount and cumsum add one number after the other, so that every machine rounds alike.
        gains = np.bincount(self._parts, mixture[self._tables] * self._adds, self._cost.size)
        roots = np.sqrt(self._cost * gains)
        slopes = np.sqrt(self._cost / np.where(gains > 0, gains, 1.0))
        worst = np.bincount(self._tables, self._adds * slopes[self._parts], self._count).astype(np.float64)
        return float(np.cumsum(roots)[-1]), worst
