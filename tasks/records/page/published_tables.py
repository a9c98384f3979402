"""The tables of a version, read from its files: what the pages draw comes from record.json and these alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from contracts.contract.cell_codes import cell_codes
from contracts.contract.contract import Contract
from contracts.contract.labels import DescribedCells
from contracts.release.tables.levels import table_cells
from contracts.release.tables.tables import RESIDUALS, TablesProduct, tables_of
from privacy.accounting.events import DiscreteGaussian, DiscreteLaplace, event_from_json
from privacy.marginals.count_noise import half_width
from privacy.table_plans.plan import CONFIDENCE, table_key
from privacy.table_plans.residual_plan import plan_of_draw
from tasks.records.groups.guarantee import noise_words
from tasks.records.values import Values

ReadFile = Callable[[str], bytes]
"""Returns the content of a file of the version by its path below the version's folder."""


@dataclass(frozen=True)
class PublishedTable:
    """A table of counts.

    Args:
        name: its name.
        columns: its columns.
        levels: names of its coarser resolutions.
        event: the noise of its draw.
        half_width: the noise lies within plus or minus this in 95 % of draws [units].
        draw: the record's entry of its draw, for people.
        processed: the record's entry of its post-processing, for people.
    """

    name: str
    columns: tuple[str, ...]
    levels: tuple[str, ...]
    event: DiscreteLaplace | DiscreteGaussian
    half_width: int
    draw: dict[str, Any]
    processed: dict[str, Any]


@dataclass(frozen=True)
class PublishedCounts(PublishedTable):
    """A table with a count for every cell; all arrays have the shape of the domain.

    Args:
        counts: refined counts [units]; 0 where a cell is suppressed.
        lower, upper: ends of the 95 % interval [units]; 0 where a cell is suppressed.
        noisy: noisy counts [units]; 0 where a cell is suppressed.
        suppressed: which cells are suppressed; None without a minimum-frequency rule.
    """

    counts: NDArray[Any]
    lower: NDArray[np.int64]
    upper: NDArray[np.int64]
    noisy: NDArray[np.int64]
    suppressed: NDArray[np.bool_] | None


@dataclass(frozen=True)
class PublishedList(PublishedTable):
    """A sparse table: the cells whose refined count is above 0, and those whose noisy count reached the threshold.

    Args:
        cells: size of the domain.
        codes: row-major numbers of the refined cells, ascending.
        counts, lower, upper: of the refined cells [units].
        noisy_codes, noisy: the listed noisy cells, ascending, and their noisy counts [units].
        threshold: least noisy count that is listed [units].
        absent_upper: upper end of the interval of a cell that is not listed [units].
    """

    cells: int
    codes: NDArray[np.int64]
    counts: NDArray[Any]
    lower: NDArray[np.int64]
    upper: NDArray[np.int64]
    noisy_codes: NDArray[np.int64]
    noisy: NDArray[np.int64]
    threshold: int
    absent_upper: int


def read_tables(
    replay: Mapping[str, Any], values: Values, contract: Contract, read: ReadFile
) -> Iterator[PublishedCounts | PublishedList]:
    """Read the tables of a version in the record's order.

    Args:
        replay: the record's part that says how tables were computed.
        values: the public record's values.
        contract: gives the labels and the order of the cells.
        read: reads the version's files.
    """
    drawn = {draw["key"]: draw for draw in replay["draws"]}
    draws = {draw["key"]: draw for draw in values["ledger.draws"]}
    if replay["product"].get("split") == RESIDUALS:
        drawn, draws = _derived(replay, draws[RESIDUALS], contract)
    processed = {entry["table"]: entry for entry in values["product.tables"]}
    own = published_cells(replay, contract)
    for table in replay["tables"]:
        key = table_key(table["name"])
        event = event_from_json(drawn[key]["event"])
        if not isinstance(event, DiscreteLaplace | DiscreteGaussian):
            raise TypeError(f"{key} is no draw of counts")
        stated: dict[str, Any] = {
            "name": table["name"],
            "columns": tuple(table["columns"]),
            "levels": tuple(level["name"] for level in table["levels"]),
            "event": event,
            "half_width": half_width(event, CONFIDENCE),
            "draw": draws[key],
            "processed": processed[table["name"]],
        }
        data, noisy = (pq.read_table(pa.BufferReader(read(table[part]))) for part in ("data", "measurements"))
        if table.get("listed") is None:
            yield PublishedCounts(**stated, **_dense(data, noisy, own[table["name"]].shape(stated["columns"])))
        else:
            listed = {**drawn[key]["listed"], "absent_upper": table["listed"]["absent_upper"]}
            yield PublishedList(**stated, **_sparse(data, noisy, contract, stated["columns"], listed))


def _derived(
    replay: Mapping[str, Any], draw: Mapping[str, Any], contract: Contract
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return of each table that follows from residuals what a draw of it would state, and what the record tells."""
    event = event_from_json(draw["event"])
    if not isinstance(event, DiscreteGaussian):
        raise TypeError("residuals have Gaussian noise")
    product = TablesProduct.model_validate(replay["product"])
    tables = tables_of(product, contract)
    plan = plan_of_draw(product, tables, contract, event)
    drawn, told = {}, {}
    for table in tables:
        noise, key = plan.table_noise(table), table_key(table.name)
        drawn[key] = {"event": noise.to_json()}
        width = half_width(noise, CONFIDENCE)
        words = {"columns": list(table.columns), "noise": noise_words(noise), "half_width_95": width}
        told[key] = {**draw, **words, "together": True}
    return drawn, told


def published_cells(replay: Mapping[str, Any], contract: Contract) -> dict[str, DescribedCells]:
    """Return the cells of each table of a version by its name: the contract's, or those of `bins`."""
    cells: dict[str, DescribedCells] = {table["name"]: contract for table in replay["tables"]}
    if any(table.get("bins") for table in replay["product"].get("tables", ()) if isinstance(table, dict)):
        tables = tables_of(TablesProduct.model_validate(replay["product"]), contract)
        cells |= {table.name: table_cells(table, contract) for table in tables}
    return cells


def _dense(data: pa.Table, noisy: pa.Table, shape: tuple[int, ...]) -> dict[str, Any]:
    gone = _numbers(data, "suppressed").reshape(shape) if "suppressed" in data.column_names else None
    return {
        "suppressed": gone,
        "counts": _numbers(data, "count").reshape(shape),
        "lower": _numbers(data, "lower").reshape(shape),
        "upper": _numbers(data, "upper").reshape(shape),
        "noisy": _numbers(noisy, "noisy").reshape(shape),
    }


def _sparse(
    data: pa.Table, noisy: pa.Table, contract: Contract, columns: tuple[str, ...], statement: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        "cells": statement["cells"],
        "threshold": statement["threshold"],
        "absent_upper": statement["absent_upper"],
        "codes": _codes(data, contract, columns),
        "noisy_codes": _codes(noisy, contract, columns),
        "noisy": _numbers(noisy, "noisy"),
        "counts": _numbers(data, "count"),
        "lower": _numbers(data, "lower"),
        "upper": _numbers(data, "upper"),
    }


def _numbers(table: pa.Table, name: str) -> NDArray[Any]:
    """Return a column as an array; what is missing, in a suppressed cell, is 0."""
    column = table.column(name)
    whole = pc.fill_null(column, pa.scalar(0, column.type)) if column.null_count else column
    return np.asarray(whole.to_numpy())


def _codes(table: pa.Table, contract: Contract, columns: tuple[str, ...]) -> NDArray[np.int64]:
    """Return the row-major number of each row's cell."""
    digits = []
    for name in columns:
        labels = pa.array(contract.column(name).labels, pa.string())
        found = pc.index_in(table.column(name).cast(pa.string()), value_set=labels)
        digits.append(np.asarray(found.to_numpy(), dtype=np.int64))
    return cell_codes(digits, contract.shape(columns))
