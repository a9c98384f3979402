"""Exact marginals of many cliques in one scan of the encoded rows.

The columns that the cliques name are fetched once, in batches of small integers; each batch adds to every marginal by
one histogram of its cell numbers. A marginal with more cells than a batch has rows would be touched anew by every
batch, so that it is grouped by the database instead; and so are a few marginals, since the fetching costs as much as
some twenty groupings. Which way is faster was measured (benchmarks/counts.py, benchmarks/platform.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from privacy.private_table import PrivateTable

if TYPE_CHECKING:
    import duckdb

ColumnNames = tuple[str, ...]
Shapes = Mapping[ColumnNames, tuple[int, ...]]
"""Cells along each column, by clique."""

SPILL: Final = "spill"
"""Folder beside the snapshot for what does not fit into memory; it goes with the snapshot."""

BATCH_ROWS: Final = 1 << 18
"""Rows fetched at a time: one batch's cell numbers take 2 MiB."""

FEW: Final = 16
"""So many marginals are grouped one by one; beyond, histograms are quicker."""

ARRAY_BITS: Final = 16
"""DuckDB groups into an array, without hashing, where the groups' numbers have so many bits."""


def count_marginals(
    path: Path, shapes: Shapes, *, threads: int, schema: str = "main"
) -> dict[ColumnNames, NDArray[np.int64]]:
    """Count the marginals of all cliques over their full declared domains; private, for handles alone.

    Args:
        path: the snapshot file, with its table `codes`.
        shapes: cells along each column, by clique; the empty clique is the total.
        threads: threads that DuckDB may use.
        schema: of the file, in which `codes` are the rows of the base; or `PARENTS`.
    Returns:
        Counts by clique, int64, in the clique's shape, row-major [rows].
    Privacy: exact counts; nothing of them may leave but through a grant.
    """
    import duckdb  # here, so that looking at a budget does not load it

    cells = {clique: prod(shape) for clique, shape in shapes.items()}
    small = [clique for clique in shapes if clique and cells[clique] <= BATCH_ROWS]
    with duckdb.connect(str(path), read_only=True, config=settings(path, threads)) as connection:
        connection.execute(f"SET perfect_ht_threshold = {ARRAY_BITS}")
        connection.execute(f"USE {schema}")
        count = _by_columns if len(small) <= FEW else _histograms
        counts = count(connection, {clique: shapes[clique] for clique in small})
        for clique in shapes:
            if clique not in counts:
                numbers, rows = _grouped(connection, clique, shapes[clique])
                counts[clique] = np.zeros(cells[clique], dtype=np.int64)
                counts[clique][numbers] = rows
    return {clique: counts[clique].reshape(shape) for clique, shape in shapes.items()}


def count_populated(
    path: Path, clique: ColumnNames, shape: tuple[int, ...], *, threads: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Count the populated cells of one marginal; private, for handles alone.

    Returns:
        Row-major cell numbers, ascending, and their counts, both int64.
    """
    import duckdb  # as above

    with duckdb.connect(str(path), read_only=True, config=settings(path, threads)) as connection:
        numbers, rows = _grouped(connection, clique, shape)
    order = np.argsort(numbers)
    return numbers[order], rows[order]


def whole_columns(table: PrivateTable, query: str, threads: int) -> list[NDArray[np.int64]]:
    """Return the columns of a scan of all rows, all of whole numbers; private, for handles alone.

    Args:
        table: the snapshot, here or in an engine.
        query: a SELECT over its table `codes`, in which quoted names are those of its columns and no others.
        threads: threads that DuckDB may use.
    """
    if table.engine is not None:
        return table.engine.whole_columns(query)
    import duckdb  # as above

    with duckdb.connect(str(table.path), read_only=True, config=settings(table.path, threads)) as connection:
        found = connection.execute(query).to_arrow_table()
    return [np.asarray(column.to_numpy(), dtype=np.int64) for column in found.columns]


def spread_out(cells: NDArray[np.int64], values: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Give every cell its value, 0 where no row is."""
    spread = np.zeros(size, dtype=np.int64)
    spread[cells] = values
    return spread


def settings(path: Path, threads: int) -> dict[str, str | bool | int | float | list[str]]:
    """Keep what does not fit into memory where the run's folder is cleaned when the run ends."""
    return {"threads": threads, "temp_directory": str(path.parent / SPILL)}


def _by_columns(connection: duckdb.DuckDBPyConnection, shapes: Shapes) -> dict[ColumnNames, NDArray[np.int64]]:
    """Group by the columns of each clique, one clique after the other."""
    counts = {}
    for clique, shape in shapes.items():
        names = ", ".join(map(quoted, clique))
        found = connection.execute(f"SELECT count(*), {names} FROM codes GROUP BY {names}").to_arrow_table()
        rows, *codes = (column.to_numpy() for column in found.columns)
        counts[clique] = np.zeros(prod(shape), dtype=np.int64)
        counts[clique][_cell_numbers(dict(zip(clique, codes, strict=True)), clique, shape)] = rows
    return counts


def _histograms(connection: duckdb.DuckDBPyConnection, shapes: Shapes) -> dict[ColumnNames, NDArray[np.int64]]:
    """Add up, batch by batch, the histograms of the cell numbers of all cliques."""
    counts = {clique: np.zeros(prod(shape), dtype=np.int64) for clique, shape in shapes.items()}
    for batch in _batches(connection, sorted({name for clique in shapes for name in clique})):
        for clique, shape in shapes.items():
            counts[clique] += np.bincount(_cell_numbers(batch, clique, shape), minlength=prod(shape))
    return counts


def _batches(
    connection: duckdb.DuckDBPyConnection, names: Sequence[str]
) -> Iterator[dict[str, NDArray[np.unsignedinteger]]]:
    """Fetch the codes of the columns, a batch of rows at a time."""
    if not names:
        return
    query = f"SELECT {', '.join(map(quoted, names))} FROM codes"
    for batch in connection.execute(query).to_arrow_reader(BATCH_ROWS):
        yield {name: codes.to_numpy(zero_copy_only=True) for name, codes in zip(names, batch.columns, strict=True)}


def _cell_numbers(
    batch: Mapping[str, NDArray[np.unsignedinteger]], clique: ColumnNames, shape: tuple[int, ...]
) -> NDArray[np.intp]:
    """Return the row-major number of each row's cell."""
    numbers = batch[clique[0]].astype(np.intp)
    for name, size in zip(clique[1:], shape[1:], strict=True):
        numbers *= size
        numbers += batch[name]
    return numbers


def _grouped(
    connection: duckdb.DuckDBPyConnection, clique: ColumnNames, shape: tuple[int, ...]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the cell numbers and counts of the populated cells of one marginal, by a GROUP BY."""
    query = f"SELECT {cell_sql(clique, shape)} AS cell, count(*)::BIGINT AS rows FROM codes GROUP BY cell"
    found = connection.execute(query).fetchnumpy()
    return np.asarray(found["cell"], dtype=np.int64), np.asarray(found["rows"], dtype=np.int64)


def cell_sql(clique: ColumnNames, shape: tuple[int, ...]) -> str:
    """Write SQL for the row-major number of a row's cell."""
    terms, stride = [], prod(shape)
    for name, size in zip(clique, shape, strict=True):
        stride //= size
        terms.append(f"{quoted(name)}::BIGINT * {stride}")
    return " + ".join(terms) if terms else "0::BIGINT"


def quoted(name: str) -> str:
    """Write a name for SQL."""
    return '"' + name.replace('"', '""') + '"'
