"""OpenDP's Polars queries: `dp.quantile` of declared candidates in one context, keys declared, exponential noise.

The query splits epsilon evenly over the quantiles. OpenDP asks for candidates: `even` has 1,025 or so at even
distances, as a tree of our usual resolution has leaves; `fine` the multiples of the largest power of ten that leaves
as many, which most values are. The better one counts. (All whole numbers took over ten seconds a repeat.)
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import opendp.prelude as dp
import polars as pl
import repeated_query
from repeated_query import Ask, Cell, Grouped, Noisy

dp.enable_features("contrib")
LONGEST = 1_000_000
"""A public bound on the rows of a cell, against overflow; it changes no noise here."""
EVEN = 1024


def connect(table: Grouped) -> Ask:
    """Read the table once."""
    frame = pl.read_parquet(table.path).lazy()
    margin = dp.polars.Margin(by=["region", "sex"], invariant="keys", max_length=LONGEST)

    def answers(mode: str, epsilon: float, repeats: int) -> Iterator[dict[str, dict[Cell, float]]]:
        context = dp.Context.compositor(
            data=frame,
            privacy_unit=dp.unit_of(contributions=1),
            privacy_loss=dp.loss_of(epsilon=epsilon),
            split_evenly_over=1,
            margins=[margin],
        )
        asked, _, how = mode.partition(" ")
        shares = repeated_query.SHARES[asked]
        width = table.high - table.low
        power = 10 ** max(0, math.floor(math.log10(width / EVEN) + 0.5))
        start, step = (-(-table.low // power) * power, power) if how == "fine" else (table.low, -(-width // EVEN))
        candidates = sorted({table.low, *range(start, table.high, step), table.high})
        value: Any = pl.col("value")
        wanted = [value.dp.quantile(share, candidates).alias(name) for name, share in shares.items()]
        query = context.query().group_by("region", "sex").agg(wanted)
        print(query.summarize())
        measurement = query.resolve()
        for _ in range(repeats):
            found = measurement(frame).collect().to_dicts()
            yield {name: {(row["region"], row["sex"]): row[name] for row in found} for name in shares}

    def ask(mode: str, epsilon: float, repeats: int) -> Noisy:
        return table.rows(answers(mode, epsilon, repeats))

    return ask


repeated_query.main(connect, "opendp", "polars")
