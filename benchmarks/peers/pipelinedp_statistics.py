"""PipelineDP over PyDP: `DPEngine.aggregate` with public partitions and Laplace noise.

A mean is a count and a sum of differences from the middle of the range, half of epsilon each, and it gives count and
sum with it, so that all three cost no more than the mean. A variance adds a sum of squared differences, a third of
epsilon each. Each row is its own privacy unit, so that the bounds on
contributions hold already, as the engine is told.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
import pipeline_dp
import repeated_query
from pipeline_dp import Metrics
from repeated_query import Ask, Cell, Grouped, Noisy

METRICS = {
    "sum": [Metrics.SUM],
    "mean": [Metrics.MEAN],
    "variance": [Metrics.VARIANCE],
    "together": [Metrics.COUNT, Metrics.SUM, Metrics.MEAN],
}


def connect(table: Grouped) -> Ask:
    """Read the table once."""
    frame = pd.read_parquet(table.path)
    rows = list(zip(zip(frame.region, frame.sex, strict=True), frame.value.tolist(), strict=True))

    def answers(mode: str, epsilon: float, repeats: int) -> Iterator[dict[str, dict[Cell, float]]]:
        for _ in range(repeats):
            found = aggregate(rows, table, mode, epsilon)
            names = next(iter(found.values()))._fields
            yield {name: {cell: getattr(values, name) for cell, values in found.items()} for name in names}

    def ask(mode: str, epsilon: float, repeats: int) -> Noisy:
        return table.rows(answers(mode, epsilon, repeats))

    return ask


def aggregate(rows: list[tuple[Cell, int]], table: Grouped, mode: str, epsilon: float) -> dict[Cell, Any]:
    """Run one query."""
    accountant = pipeline_dp.NaiveBudgetAccountant(total_epsilon=epsilon, total_delta=0)
    engine = pipeline_dp.DPEngine(accountant, pipeline_dp.LocalBackend())
    wanted = pipeline_dp.AggregateParams(
        metrics=METRICS[mode],
        noise_kind=pipeline_dp.NoiseKind.LAPLACE,
        max_partitions_contributed=1,
        max_contributions_per_partition=1,
        min_value=table.low,
        max_value=table.high,
        contribution_bounds_already_enforced=True,
    )
    extractors = pipeline_dp.DataExtractors(
        partition_extractor=lambda row: row[0], value_extractor=lambda row: row[1]
    )
    result = engine.aggregate(rows, wanted, extractors, public_partitions=list(table.cells))
    accountant.compute_budgets()
    return dict(result)


repeated_query.main(connect, "pipeline-dp", "python-dp", "numpy")
