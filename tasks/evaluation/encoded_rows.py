"""Rows as codes of the contract's columns, from a snapshot or from a Parquet file of made-up rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from contracts.contract.contract import Contract
from contracts.errors import Finding, Refused, SpecRefused
from contracts.sql.encoding import encode_select
from privacy.evaluation.cells import EncodedRows
from tasks.storage.duckdb_session import attempt, connect, one_file, trouble

if TYPE_CHECKING:
    import duckdb


def refuse_pictures(contract: Contract, names: Sequence[str], where: str, remedy: str) -> None:
    """Refuse columns of pictures: they have no cells to compare.

    Raises:
        SpecRefused: there is one.
    """
    pictures = contract.pictures(names)
    if pictures:
        found, allowed = f"{pictures[0]!r}, a column of pictures", "columns of single values"
        raise SpecRefused([Finding(where, "columns", found, allowed, remedy)])


def encoded_rows(
    synthetic: Path, contract: Contract, names: tuple[str, ...], spill: Path, memory_limit: str
) -> EncodedRows:
    """Encode made-up rows as the real ones were."""
    with connect(None, memory_limit=memory_limit, spill=spill) as connection:
        source = f"read_parquet({one_file(synthetic)})"
        described = attempt(
            lambda: connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall(),
            lambda error: trouble(error, synthetic, "reading it"),
        )
        present = [str(name) for name, *_ in described]
        encoded = encode_select(contract, columns_present=present, relation=source, names=names)
        return fetched_rows(connection, encoded, contract, names, synthetic)


def fetched_rows(
    connection: duckdb.DuckDBPyConnection, query: str, contract: Contract, names: tuple[str, ...], where: Path
) -> EncodedRows:
    """Fetch codes; refuse an empty table."""
    found = attempt(lambda: connection.execute(query).fetchnumpy(), lambda error: trouble(error, where, "reading it"))
    codes = np.stack([np.asarray(found[name]) for name in names], axis=1)
    if not len(codes):
        raise Refused([Finding(str(where), "rows", "none", "at least one row to compare")])
    return EncodedRows(names, contract.shape(names), codes)
