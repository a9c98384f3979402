"""OpenDP's Polars queries: keys by `dp.len` with a threshold, people and values by `dp.n_unique`, Laplace noise.

Keys that nobody declared are published where their noisy length passes the threshold that delta asks for; OpenDP has
no query that asks for keys alone. People and values have the sensitivity of all rows of a person.
"""

from __future__ import annotations

from typing import Any

import opendp.prelude as dp
import polars as pl
import rows_of_people
from rows_of_people import Question

dp.enable_features("contrib")
LONGEST = 10_000_000
"""A public bound on the rows of a table or a cell, against overflow; it changes no noise here."""


def ask(question: Question) -> list[list[float]]:
    """Build the query once and draw it anew for each repeat; keys are asked for anew each time."""
    frame = pl.read_parquet(question.data).lazy()
    if question.mode == "keys_counts":
        drawn = (_query(question, frame).release().collect() for _ in range(question.repeats))
        return [[float(found.height)] for found in drawn]
    query = _query(question, frame)
    print(query.summarize())
    measurement = query.resolve()
    drawn = (measurement(frame).collect().sort("key") for _ in range(question.repeats))
    return [[float(each) for each in found["found"]] for found in drawn]


def _query(question: Question, frame: pl.LazyFrame) -> Any:
    """Return a query of a context of its own."""
    declared: dict[str, Any] = {"by": ["key"], "invariant": "keys"} if question.cells else {}
    loss: dict[str, float] = {"delta": question.delta} if question.delta else {}
    context = dp.Context.compositor(
        data=frame,
        privacy_unit=dp.unit_of(contributions=question.rows_per_person),
        privacy_loss=dp.loss_of(epsilon=question.epsilon, **loss),
        split_evenly_over=1,
        margins=[dp.polars.Margin(max_length=LONGEST, **declared)],
    )
    person: Any = pl.col("person")
    value: Any = pl.col("value")
    found = {"units": person.dp.n_unique, "values": value.dp.n_unique, "keys_counts": dp.len}[question.mode]()
    return context.query().group_by("key").agg(found.alias("found"))


rows_of_people.main(ask, "opendp", "polars")
