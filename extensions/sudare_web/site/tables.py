"""The first rows of a published Parquet file."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any, Final

from console.published_folders import Folder

PREVIEWED_ROWS: Final = 50
PREVIEWED_COLUMNS: Final = 40
LARGEST: Final = 256 << 20


@dataclass(frozen=True)
class Preview:
    """The beginning of a table.

    Args:
        file: its name.
        rows: how many rows it has.
        columns: names of the columns shown.
        more_columns: how many are not shown.
        cells: the first rows, as texts.
        numbers: which columns hold numbers.
    """

    file: str
    rows: int
    columns: tuple[str, ...]
    more_columns: int
    cells: tuple[tuple[str, ...], ...]
    numbers: tuple[bool, ...]


def preview(folder: Folder, name: str) -> Preview | None:
    """Read the first rows of a listed Parquet file; None where it cannot be read as it was published."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if folder.files[name].bytes > LARGEST:
        return None
    try:
        file = pq.ParquetFile(io.BytesIO(folder.read(name)))
        names = file.schema_arrow.names[:PREVIEWED_COLUMNS]
        batches = file.iter_batches(batch_size=PREVIEWED_ROWS, columns=names)
        head = pa.Table.from_batches([next(batches)]) if file.metadata.num_rows else None
    except (OSError, pa.ArrowException, StopIteration):
        return None
    kinds = [file.schema_arrow.field(each).type for each in names]
    numbers = tuple(pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in kinds)
    columns = [] if head is None else [head.column(each).to_pylist() for each in names]
    cells = tuple(tuple(_text(value) for value in row) for row in zip(*columns, strict=True))
    more = len(file.schema_arrow.names) - len(names)
    return Preview(name, file.metadata.num_rows, tuple(names), more, cells, numbers)


def _text(value: Any) -> str:
    """Write a cell; nothing for a null."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.6g}" if isinstance(value, float) else str(value)[:200]
