"""From values to codes and back: encoding runs in DuckDB SQL on the way in, decoding on arrays on the way out.

A code is a cell of the column's declared domain (law 3). Nothing here fails because of one row: what lies outside
the bounds is clipped, and what is no value of the domain gets the declared code for it. `contracts.sql.code_sql`
says how a value is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import TYPE_CHECKING, Any

from contracts.contract.contract import (
    NULL_LABEL,
    CategoryDomain,
    Column,
    Contract,
    DateDomain,
    ImageDomain,
    IntegerDomain,
    MappingDomain,
)
from contracts.errors import ContractRefused, Finding
from contracts.reading.scalars import nearest
from contracts.sql.code_sql import code_sql, identifier, value_sql

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from numpy.typing import NDArray


def encode_select(
    contract: Contract, *, columns_present: Sequence[str], relation: str, names: Sequence[str] | None = None
) -> str:
    """Write the SELECT that encodes a relation, one column of codes for each column of the contract.

    Args:
        contract: the contract.
        columns_present: the names of the relation's columns, as they are written there.
        relation: SQL for the relation (a quoted name, or a subquery in parentheses).
        names: the columns of the contract that are wanted; None for all of them.
    Returns:
        SQL; its columns have the contract's names and order and the smallest unsigned type that fits. One row a row,
        in the same order. A text in a VARCHAR column and the same value in a typed column get the same code.
    Raises:
        ContractRefused: a column of the contract is not present.
    Privacy: the result is private, a function of each row alone.
    """
    present = set(columns_present)
    wanted = [column for column in contract.columns if names is None or column.name in names]
    missing = [column.name for column in wanted if column.name not in present]
    if missing:
        raise ContractRefused([_absent(contract, name, columns_present) for name in missing])
    values, codes = [], []
    for place, column in enumerate(wanted):
        raw = identifier(column.name)
        values += [f"{value_sql(column, raw)} AS v{place}", f"{raw} AS r{place}"]
        codes.append(f"{code_sql(column, f'v{place}', f'r{place}')} AS {raw}")
    return (
        "SELECT\n  " + ",\n  ".join(codes) + "\nFROM (\n  SELECT " + ",\n  ".join(values) + f"\n  FROM {relation}\n)"
    )


def _absent(contract: Contract, name: str, present: Sequence[str]) -> Finding:
    """Say that a column of the contract is not in the relation."""
    remedy = nearest(name, present) or "select it, or take it out of the contract"
    return Finding(f"contract {contract.id}", f"column {name}", "no such column in the source", f"{name!r}", remedy)


def decode(column: Column, codes: NDArray[np.integer[Any]], uniforms: NDArray[np.float64]) -> pl.Series:
    """Turn codes into values: categories into themselves, bins into a uniform draw inside the bin.

    Integers are drawn from the whole numbers of the bin, decimals from its interval, dates from the days of the
    period. Encoding the result gives the same codes again.

    Args:
        column: the column.
        codes: cells, each from 0 to `column.size` - 1.
        uniforms: one number in [0, 1) for each code; used for bins only.
    Returns:
        String, Int64, Float64 or Date; null where the code is the cell of nulls.
    Raises:
        ValueError: shapes differ, a code is no cell, a uniform is outside [0, 1), or the column holds pictures.
    Privacy: post-processing of released codes.
    """
    import numpy as np
    import polars as pl

    _check_arguments(column, codes, uniforms)
    domain = column.domain
    if isinstance(domain, CategoryDomain | MappingDomain):
        labels = [None if label == NULL_LABEL else label for label in column.labels]
        return pl.Series(column.name, labels, dtype=pl.String).gather(codes.astype(np.uint32))
    if isinstance(domain, ImageDomain):
        raise ValueError(f"column {column.name}: pictures have no bins to draw from")
    bins: list[tuple[Any, Any]] = list(domain.bins)
    is_null = codes >= len(bins)
    place = np.where(is_null, 0, codes)
    if isinstance(domain, DateDomain):
        bins = [(low.toordinal(), high.toordinal()) for low, high in bins]
    if isinstance(domain, IntegerDomain | DateDomain):
        lows, highs = (np.asarray(ends, dtype=np.int64)[place] for ends in zip(*bins, strict=True))
        whole = np.minimum(lows + np.floor(uniforms * (highs - lows + 1)).astype(np.int64), highs)
        if isinstance(domain, IntegerDomain):
            return _with_nulls(pl.Series(column.name, whole), is_null)
        days = pl.Series(column.name, whole - date(1970, 1, 1).toordinal(), dtype=pl.Int32)
        return _with_nulls(days.cast(pl.Date), is_null)
    starts, ends = (np.asarray([float(end) for end in side])[place] for side in zip(*bins, strict=True))
    below = np.where(place == len(bins) - 1, ends, np.nextafter(ends, starts))
    drawn = np.clip(starts + uniforms * (ends - starts), starts, below)
    return _with_nulls(pl.Series(column.name, drawn), is_null)


def _check_arguments(column: Column, codes: NDArray[np.integer[Any]], uniforms: NDArray[np.float64]) -> None:
    """Refuse codes that are no cells and numbers that are no uniforms."""
    if codes.shape != uniforms.shape or codes.ndim != 1:
        raise ValueError(
            f"column {column.name}: codes {codes.shape} and uniforms {uniforms.shape} must be equally long"
        )
    if codes.size and (codes.min() < 0 or codes.max() >= column.size):
        raise ValueError(f"column {column.name}: codes must lie between 0 and {column.size - 1}")
    if codes.size and not (uniforms.min() >= 0 and uniforms.max() < 1):
        raise ValueError(f"column {column.name}: uniforms must lie in [0, 1)")


def _with_nulls(values: pl.Series, is_null: NDArray[np.bool_]) -> pl.Series:
    """Put null where the mask is true."""
    import polars as pl

    if not is_null.any():
        return values
    return values.set(pl.Series(is_null), None)
