"""PyDP's sums and means without bounds: Google's library finds them in a noisy histogram of each cell.

Each row is its own privacy unit and is in one cell, so that every cell may have all of epsilon.
"""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd
import repeated_query
from pydp.algorithms.laplacian import BoundedMean, BoundedSum
from repeated_query import Ask, Cell, Grouped, Noisy

ALGORITHMS = {"sum": BoundedSum, "mean": BoundedMean}


def connect(table: Grouped) -> Ask:
    """Read the table once; values are cut to the declared bounds, as everybody's are."""
    frame = pd.read_parquet(table.path)
    values = frame.value.clip(table.low, table.high).astype(float)
    cells = {cell: values[(frame.region == cell[0]) & (frame.sex == cell[1])].tolist() for cell in table.cells}

    def answers(mode: str, epsilon: float, repeats: int) -> Iterator[dict[str, dict[Cell, float]]]:
        for _ in range(repeats):
            yield {mode: {cell: answer(mode, epsilon, rows) for cell, rows in cells.items()}}

    def ask(mode: str, epsilon: float, repeats: int) -> Noisy:
        return table.rows(answers(mode, epsilon, repeats))

    return ask


def answer(mode: str, epsilon: float, rows: list[float]) -> float:
    """Release one statistic of one cell; where no bounds are found, PyDP says so, and the answer is 0."""
    algorithm = ALGORITHMS[mode](epsilon=epsilon, dtype="float")
    try:
        return float(algorithm.quick_result(rows))
    except RuntimeError:
        return 0.0


repeated_query.main(connect, "python-dp")
