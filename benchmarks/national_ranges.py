"""Ranges of ordered columns: how far what is measured is over the least, which is computed here again.

    python -m benchmarks.national_ranges

The least is that of the Gaussian matrix mechanism for one column of n cells: the dual of the semidefinite program, by
a fixed point of its own over floats, without blocks, whole numbers or the code of the tree. Its gap to its own primal
stands beside it. Of tables with other columns the bound is the plan's own.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final

import numpy as np

from benchmarks.results import Row, Setting, machine, write
from contracts.release.tables.hierarchy import QueryKind
from contracts.release.tables.range_cells import ranges_of
from privacy.arrays import Floats
from privacy.marginals.ordered.design import RangeTable, RangeWorkload, best_design, indicators
from privacy.marginals.ordered.strategies import answer_variances, strategies_of, strategy_moves

MOST: Final = 1.01
CELLS: Final = 100
KINDS: Final[tuple[QueryKind, ...]] = ("prefix", "range", "hierarchy")


def main() -> None:
    """Measure, and write results/national_ranges.json."""
    base: dict[str, Setting] = {**machine("numpy"), "cells": CELLS}
    rows = []
    for kind in KINDS:
        bound, gap = least(kind)
        rows.append(
            _row(f"{CELLS} cells, {kind}: sum of variances over the least", measured(kind) / bound, base, gap)
        )
    crossed = over_bound(crossed_workload())
    rows.append(_row("sex x prefixes of age, education x age, age ranges: sum over the bound", crossed, base, 1.0))
    write("national_ranges", rows)


def least(kind: QueryKind) -> tuple[float, float]:
    """Return a bound below the sum of variances of every strategy of sensitivity one, and what reaches it over it."""
    queries = indicators(ranges_of(kind, CELLS), CELLS)
    gram, weights = queries.T @ queries, np.full(CELLS, 1 / CELLS)
    bound, reached = 0.0, np.inf
    for _ in range(400):
        root = _root(np.sqrt(weights)[:, None] * gram * np.sqrt(weights))
        loads = np.diagonal(root) / weights
        bound, reached = max(bound, float(np.trace(root)) ** 2), min(reached, float(np.trace(root) * loads.max()))
        weights = weights * loads / (weights * loads).sum()
    return bound, reached / bound


def _root(matrix: Floats) -> Floats:
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T)


def measured(kind: QueryKind) -> float:
    """Return the sum of variances of what the plan measures, in whole numbers, at a sensitivity of one."""
    table = RangeTable((), (("age", ranges_of(kind, CELLS)),), Fraction(1))
    workload = RangeWorkload((), (("age", CELLS),), (table,))
    return _objective(workload)[0]


def crossed_workload() -> RangeWorkload:
    """Prefixes of age by sex, cells of age by education, and all ranges of age."""
    kinds: tuple[QueryKind, ...] = ("prefix", "identity", "range")
    asked = [("age", ranges_of(kind, CELLS)) for kind in kinds]
    columns: tuple[tuple[str, ...], ...] = (("sex",), ("education",), ())
    tables = [RangeTable(own, (each,), Fraction(1)) for own, each in zip(columns, asked, strict=True)]
    return RangeWorkload((("sex", 2), ("education", 16)), (("age", CELLS),), tuple(tables))


def over_bound(workload: RangeWorkload) -> float:
    """Return the sum of variances over the plan's own bound."""
    found, bound = _objective(workload)
    return found / bound


def _objective(workload: RangeWorkload) -> tuple[float, float]:
    design = best_design(workload, adjacency="add_remove", worst=False)
    strategies = strategies_of(workload.residuals, design)
    norm = Fraction(sum(move**2 for move in strategy_moves(strategies, "add_remove", 1)))
    total = 0.0
    for table in workload.tables:
        cells = np.prod([workload.sizes[name] for name in table.columns], initial=1)
        total += float(cells * answer_variances(table, workload, strategies, norm).sum())
    return total, design.bound


def _row(what: str, ratio: float, base: dict[str, Setting], gap: float) -> Row:
    found = float(f"{ratio:.7g}")
    settings: dict[str, Setting] = {**base, "gap of the least": float(f"{gap:.6g}")}
    return Row(what, found, "ratio", MOST, found <= MOST, settings=settings)


if __name__ == "__main__":
    main()
