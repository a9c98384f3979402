"""OpenDP's Polars queries: `dp.len`, `dp.sum` and `dp.mean` in one context, keys declared, integer Laplace noise.

The query splits epsilon evenly over what it adds noise to: a mean is a sum and a length, half each; count, sum and
mean together are four parts. So `derived` asks for the length and the sum alone. One resolved measurement is called
once a repeat; each call draws anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import opendp.prelude as dp
import polars as pl
import repeated_query
from repeated_query import Ask, Cell, Grouped, Noisy

dp.enable_features("contrib")
LONGEST = 1_000_000
"""A public bound on the rows of a cell, against overflow; it changes no noise here."""


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
        query = context.query().group_by("region", "sex").agg(expressions(mode, table))
        print(query.summarize())
        measurement = query.resolve()
        for _ in range(repeats):
            found = measurement(frame).collect().to_dicts()
            yield {name: {(row["region"], row["sex"]): row[name] for row in found} for name in statistics(mode)}

    def ask(mode: str, epsilon: float, repeats: int) -> Noisy:
        noisy = table.rows(answers(mode, epsilon, repeats))
        return repeated_query.ratio(noisy) if mode == "derived" else noisy

    return ask


def statistics(mode: str) -> tuple[str, ...]:
    """Return the statistics that a mode asks for."""
    return {"together": ("count", "sum", "mean"), "derived": ("count", "sum")}.get(mode, (mode,))


def expressions(mode: str, table: Grouped) -> list[Any]:
    """Return the query's expressions."""
    value: Any = pl.col("value")
    bounds = table.low, table.high
    known = {
        "count": dp.len(signed=True).alias("count"),
        "sum": value.dp.sum(bounds).alias("sum"),
        "mean": value.dp.mean(bounds).alias("mean"),
    }
    return [known[name] for name in statistics(mode)]


repeated_query.main(connect, "opendp", "polars")
