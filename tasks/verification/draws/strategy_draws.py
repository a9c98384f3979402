"""How far the worst neighbour moves strategies over ordered columns, derived anew: cell by cell, pair by pair.

A row in plain cells a and ordered cell o adds  ⊗ (d e_a - 1) ⊗ L(o). Two rows that differ in the plain columns S have
vectors with the inner product  Π_S (-d) Π_other d (d - 1)  times that of L(o) and L(o').
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contracts.contract.contract import Contract
from privacy.marginals.ordered.strategies import RangeStrategy


def worst_strategies(residuals: Sequence[object], contract: Contract) -> int:
    """Return the squared norm of what the worst neighbour moves: the worst pair of ordered cells, or one cell alone.

    Of each residual the plain columns in which two rows differ are those that move it most.
    """
    strategies = [each for each in residuals if isinstance(each, RangeStrategy)]
    columns = {name for each in strategies for name in each.residual.resolved}
    ordered = [column.name for column in contract.columns if column.name in columns]
    cells = list(product(*(range(contract.column(name).size) for name in ordered)))
    absent, moved = np.zeros(len(cells), object), np.zeros((len(cells), len(cells)), object)
    for each in strategies:
        inner, place = _inner_products(each), _places(each, ordered, cells)
        norms = [size * (size - 1) for size in each.residual.shape]
        alone = prod(norms)
        factors = [
            prod(chosen) for chosen in product(*([n, -d] for n, d in zip(norms, each.residual.shape, strict=True)))
        ]
        own = np.diagonal(inner)[place] * alone
        between = inner[np.ix_(place, place)]
        absent += own
        moved += own[:, None] + own + np.max([-2 * factor * between for factor in set(factors)], axis=0)
    worst = int(absent.max())
    if contract.adjacency == "replace_one":
        worst = max(worst, int(moved.max()))
    return contract.unit.max_rows_per_unit**2 * worst


def _inner_products(strategy: RangeStrategy) -> NDArray[Any]:
    """Return the inner product of the columns of L, pair by pair, as whole numbers of any size."""
    columns = [[int(number) for number in column] for column in strategy.matrix.T]
    found = np.zeros((len(columns), len(columns)), object)
    for left, right in product(range(len(columns)), repeat=2):
        if left <= right:
            # L is upper triangular: below its diagonal there is nothing to add up.
            known = sum(a * b for a, b in zip(columns[left][: left + 1], columns[right], strict=False))
            found[left, right] = found[right, left] = known
    return found


def _places(strategy: RangeStrategy, ordered: Sequence[str], cells: Sequence[tuple[int, ...]]) -> NDArray[np.int64]:
    """Return the resolved cell of each cell of all ordered columns."""
    residual, found = strategy.residual, []
    for cell in cells:
        number = 0
        for name, size in zip(residual.resolved, residual.sizes, strict=True):
            number = number * size + cell[ordered.index(name)]
        found.append(number)
    return np.array(found, dtype=np.int64)
