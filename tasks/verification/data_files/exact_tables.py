"""A dense table whose file is, byte for byte, the one that this code writes of its values.

Of such a file nothing else is left to check: labels, their order, row groups, statistics of the footer, compression
and metadata are ours. So it is read once, for its values, and written once, into a digest. Any other file, such as
one of another Arrow, takes the way of all files: what it says is compared piece by piece.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from contracts.contract.column import Cells
from tasks.records.files.tidy_tables import Tidy
from tasks.verification.files.table_files import (
    UNREADABLE,
    ColumnArrays,
    Types,
    check_form,
    check_weight,
    open_parquet,
)


def exact_values(
    data: bytes, *, sha256: str, cells: Cells, clique: Sequence[str], values: Types, marks: Mapping[str, str]
) -> ColumnArrays | None:
    """Return the values of a file that is written exactly as this code writes them.

    Args:
        data: bytes of a Parquet file.
        sha256: their digest (hex).
        cells: gives the labels.
        clique: the columns of labels.
        values: Arrow type of each column after these.
        marks: what the file says of where it comes from.
    Returns:
        By column, one value a row; None where the file is another, or cannot be read.
    """
    try:
        with open_parquet(data, clique) as file:
            rows = cells.cells(clique)
            form = check_form(file.schema_arrow, file.metadata.num_rows, "", clique, values, expected=(rows, ""))
            if form or check_weight(data, file.metadata, "", cells, clique, values, rows=rows):
                return None
            found = _read(file, values, rows)
    except UNREADABLE:
        return None
    if found is None or Tidy(cells, tuple(clique), found).digest(marks) != sha256:
        return None
    return found


def _read(file: pa.parquet.ParquetFile, values: Types, rows: int) -> ColumnArrays | None:
    """Read columns of numbers, one row group after the other; None where a value is missing."""
    found = {name: np.empty(rows, dtype=np.dtype(kind)) for name, kind in values.items()}
    start = 0
    for group in range(file.num_row_groups):
        table = file.read_row_group(group, columns=list(values))
        for name, array in found.items():
            column = table.column(name)
            if column.null_count or start + len(column) > rows:
                return None
            array[start : start + len(column)] = column.to_numpy()
        start += table.num_rows
    return found if start == rows else None
