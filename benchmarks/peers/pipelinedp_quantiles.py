"""PipelineDP over PyDP: percentiles by its combiner of quantile trees, with public partitions and Laplace noise.

All percentiles of one query come of one tree. The engine makes a tree of each row and merges them, which takes
minutes a repeat; so its own combiner is called with all rows of a cell at once, and asked again for each repeat. Each
row is its own privacy unit.
"""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd
import pipeline_dp
import repeated_query
from pipeline_dp import Metrics, combiners
from repeated_query import Ask, Cell, Grouped, Noisy


def connect(table: Grouped) -> Ask:
    """Read the table once."""
    frame = pd.read_parquet(table.path)
    values = {cell: [float(each) for each in part.value] for cell, part in frame.groupby(["region", "sex"])}

    def answers(mode: str, epsilon: float, repeats: int) -> Iterator[dict[str, dict[Cell, float]]]:
        shares = repeated_query.SHARES[mode]
        combiner = combined(table, list(shares.values()), epsilon)
        trees = {cell: combiner.create_accumulator(values.get(cell, [])) for cell in table.cells}
        for _ in range(repeats):
            found = {cell: list(combiner.compute_metrics(tree).values()) for cell, tree in trees.items()}
            yield {name: {cell: each[place] for cell, each in found.items()} for place, name in enumerate(shares)}

    def ask(mode: str, epsilon: float, repeats: int) -> Noisy:
        return table.rows(answers(mode, epsilon, repeats))

    return ask


def combined(table: Grouped, shares: list[float], epsilon: float) -> combiners.QuantileCombiner:
    """Return the combiner that the engine would use."""
    wanted = pipeline_dp.AggregateParams(
        metrics=[Metrics.PERCENTILE(round(100 * share)) for share in shares],
        noise_kind=pipeline_dp.NoiseKind.LAPLACE,
        max_partitions_contributed=1,
        max_contributions_per_partition=1,
        min_value=table.low,
        max_value=table.high,
        contribution_bounds_already_enforced=True,
    )
    accountant = pipeline_dp.NaiveBudgetAccountant(total_epsilon=epsilon, total_delta=0)
    found = combiners.create_compound_combiner(wanted, accountant)
    accountant.compute_budgets()
    (made,) = [each for each in found._combiners if isinstance(each, combiners.QuantileCombiner)]
    return made


repeated_query.main(connect, "pipeline-dp", "python-dp", "numpy")
