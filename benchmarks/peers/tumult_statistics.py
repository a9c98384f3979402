"""Tumult Analytics on Spark: a session under AddOneRow, one evaluation a statistic.

Each evaluation takes its own part of epsilon, so that count and sum take a half each, and the mean is their ratio
(`derived`): a mean of its own would leave a third for each, and have a larger error. To start Spark once for all
repeats, each row stands there once a repeat, and the repeat's number is one more key: adding a row still changes one
cell, so the noise is that of one query.
"""

from __future__ import annotations

import os
import sys
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import repeated_query
from pyspark.sql import SparkSession
from repeated_query import Ask, Grouped, Noisy
from tmlt.analytics import AddOneRow, KeySet, PureDPBudget, QueryBuilder, Session

PARTS = {"derived": ("count", "sum")}


def connect(table: Grouped) -> Ask:
    """Start Spark; a session is made once for all questions, with no limit of its own."""
    spark = started()
    frame = pd.read_parquet(table.path)
    sessions: dict[int, tuple[Any, Any]] = {}

    def opened(repeats: int) -> tuple[Any, Any]:
        numbers = pd.DataFrame({"repeat": range(repeats)})
        cells = pd.DataFrame(table.cells, columns=["region", "sex"]).merge(numbers, how="cross")
        rows = spark.createDataFrame(frame).crossJoin(spark.createDataFrame(numbers)).cache()
        session = Session.from_dataframe(PureDPBudget(float("inf")), "rows", rows, protected_change=AddOneRow())
        return session, KeySet.from_dataframe(spark.createDataFrame(cells))

    def ask(mode: str, epsilon: float, repeats: int) -> Noisy:
        session, keys = sessions.get(repeats) or sessions.setdefault(repeats, opened(repeats))
        names = PARTS.get(mode, (mode,))
        budget = PureDPBudget(epsilon / len(names))
        noisy = {}
        for name in names:
            found = (
                session.evaluate(built(name, keys, table), budget).toPandas().set_index(["repeat", "region", "sex"])
            )
            place = [(repeat, *cell) for repeat in range(repeats) for cell in table.cells]
            values = found[name].reindex(place).to_numpy(np.float64)
            noisy[name] = values.reshape(repeats, len(table.cells))
        return repeated_query.ratio(noisy) if mode == "derived" else noisy

    return ask


def built(name: str, keys: Any, table: Grouped) -> Any:
    """Return the query of one statistic."""
    grouped = QueryBuilder("rows").groupby(keys)
    if name == "count":
        return grouped.count(name=name)
    return (grouped.sum if name == "sum" else grouped.average)("value", table.low, table.high, name=name)


def started() -> SparkSession:
    """Start Spark on this machine; its warehouse is a folder that goes with the process."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    warehouse = TemporaryDirectory()
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.warehouse.dir", warehouse.name).config("spark.sql.shuffle.partitions", "4")
    session = builder.config("spark.driver.memory", "4g").getOrCreate()
    session._warehouse_folder = warehouse
    return session


repeated_query.main(connect, "tmlt.analytics", "tmlt.core", "pyspark")
