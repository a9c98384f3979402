"""A tables version against the real rows: the exact count of every published cell. For the auditor alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from contracts.contract.column import Cells
from contracts.contract.contract import Contract
from contracts.domains.value_sql import identifier
from contracts.errors import Finding, Refused, SpecRefused
from contracts.release.tables.levels import Level, table_cells
from contracts.release.tables.product import TableSpec
from contracts.release.tables.range_cells import RangeCells
from privacy.evaluation.cells import EncodedRows
from privacy.evaluation.table_errors import CellErrors, PrivateTableErrors, PublishedCells, cell_errors
from privacy.private_table import PrivateTable
from tasks.records.strict_json import printable
from tasks.storage.duckdb_session import attempt, connect, trouble
from tasks.storage.progress import step
from tasks.verification.files.table_files import label_numbers
from tasks.verification.table_meaning import Meaning

_REMEDY = "sudare verify says what is wrong with this version"


def evaluate_tables(table: PrivateTable, path: Path, meaning: Meaning, *, memory_limit: str) -> PrivateTableErrors:
    """Compare every published table with the exact counts of a snapshot.

    Args:
        table: the snapshot.
        path: the version's folder.
        meaning: its contract, which encoded the snapshot, and its product.
        memory_limit: DuckDB's limit, such as "1GB" [text].
    Returns:
        Errors by name of the table, of a hierarchy its finest one; private.
    Raises:
        Refused: the snapshot is of another contract, or a table cannot be read.
    Privacy: nothing is drawn or charged, and the result must not be shown to anybody who may not see the rows.
    """
    contract = meaning.contract
    check_snapshot(table, contract)
    found_errors: dict[str, CellErrors] = {}
    with step("evaluate") as bar:
        for number, spec in enumerate(meaning.tables, 1):
            cells = table_cells(spec, contract)
            published = published_cells(path / "data" / f"{spec.name}.parquet", spec.columns, cells)
            found_errors[spec.name] = _errors(table, published, spec, cells, memory_limit)
            bar.advance(number / len(meaning.tables))
    return PrivateTableErrors(found_errors)


def check_snapshot(table: PrivateTable, contract: Contract) -> None:
    """Refuse a snapshot of another contract.

    Raises:
        Refused: its digest is another one.
    """
    if table.contract_digest != contract.digest:
        found, allowed = "another contract than the snapshot's", "the contract that encoded the snapshot"
        raise Refused([Finding(f"contract {contract.id}", "digest", found, allowed)])


def _errors(
    table: PrivateTable,
    published: PublishedCells,
    spec: TableSpec,
    cells: Contract | Level | RangeCells,
    memory_limit: str,
) -> CellErrors:
    """Count the exact rows of the cells of one table."""
    names = spec.columns
    found, rows = counted_codes(table, names, memory_limit)
    if isinstance(cells, Level):
        found = [np.asarray(cells.column(name).codes)[codes] for name, codes in zip(names, found, strict=True)]
    elif isinstance(cells, RangeCells):
        counts = np.zeros(cells.contract.shape(names), dtype=np.int64)
        np.add.at(counts, tuple(found), rows)
        rows = cells.added_up(counts)
        found = list(np.indices(rows.shape).reshape(len(names), -1))
        rows = rows.reshape(-1)
    return errors_of_cells(found, rows, published, names, cells)


def counted_codes(
    table: PrivateTable, names: Sequence[str], memory_limit: str
) -> tuple[list[NDArray[np.int64]], NDArray[np.int64]]:
    """Return the codes of some columns that rows of a snapshot have, and how many rows have them; private.

    Args:
        table: the snapshot.
        names: the columns; none for the number of all rows.
        memory_limit: DuckDB's limit, such as "1GB" [text].
    Returns:
        tuple: for each column its codes, shape (n,); the rows, int64, shape (n,).
    """
    chosen = ", ".join(map(identifier, names))
    query = f"SELECT {chosen}{', ' if names else ''}count(*) AS {identifier('number of rows')} FROM codes"
    query += f" GROUP BY {chosen}" if names else ""
    with connect(table.path, memory_limit=memory_limit, spill=table.path.parent / "spill", read_only=True) as session:
        counted = attempt(
            lambda: session.execute(query).fetchnumpy(), lambda error: trouble(error, table.path, "reading it")
        )
    rows = np.asarray(counted["number of rows"], dtype=np.int64)
    return [np.asarray(counted[name], dtype=np.int64) for name in names], rows


def errors_of_cells(
    codes: Sequence[NDArray[np.int64]],
    rows: NDArray[np.int64],
    published: PublishedCells,
    names: Sequence[str],
    cells: Cells,
) -> CellErrors:
    """Compare published cells with exact counts; private.

    Args:
        codes: of each column, in the codes of `cells`; several entries may be of one cell.
        rows: how many rows each has [rows].
        published: the published cells.
        names: the columns.
        cells: their labels.
    """
    shape = cells.shape(names)
    numbers = EncodedRows(tuple(names), shape, np.stack(codes, axis=1)).numbers(range(len(names)))
    exact: dict[int, int] = {}
    for number, own in zip(numbers.tolist(), rows.tolist(), strict=True):
        exact[number] = exact.get(number, 0) + own
    return cell_errors(
        exact,
        EncodedRows(tuple(names), shape, published.codes).numbers(range(len(names))),
        published,
        columns=tuple(names),
        labels=tuple(cells.column(name).labels for name in names),
        cells=cells.cells(names),
    )


def published_cells(file: Path, names: Sequence[str], cells: Cells) -> PublishedCells:
    """Read the published cells of one table."""
    try:
        if file.is_symlink() or file.parent.is_symlink():
            raise OSError("a symbolic link")
        table = pq.read_table(file, partitioning=None)
        codes = [label_numbers(table.column(name), cells.column(name).labels)[0] for name in names]
        counts = _numbers(table, "count")
        ends = [_numbers(table, end) for end in ("lower", "upper") if end in table.column_names]
    except (OSError, KeyError, pa.ArrowException) as error:
        found = printable(str(getattr(error, "strerror", None) or error))
        raise SpecRefused([Finding(printable(str(file)), "table", found, "a published table", _REMEDY)]) from None
    stacked = np.stack([np.asarray(each, dtype=np.int64) for each in codes], axis=1)
    if (stacked < 0).any():
        allowed = "labels of the contract"
        raise SpecRefused([Finding(printable(str(file)), "labels", "a label that is none", allowed, _REMEDY)])
    return PublishedCells(stacked, counts, np.stack(ends) if len(ends) == 2 else None)


def _numbers(table: pa.Table, name: str) -> NDArray[np.float64]:
    column = table.column(name).cast(pa.float64(), safe=False)
    return np.asarray(column.to_numpy(), dtype=np.float64)
