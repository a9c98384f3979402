"""A public file about places, CSV or Parquet, as a table of texts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from contracts.release.spine.place_faults import PlaceFault, PlacesRefused


def read_texts(path: Path, columns: Sequence[str]) -> Any:
    """Read some columns as texts.

    Args:
        path: a CSV file with a header, or a Parquet file.
        columns: that it must have.
    Returns:
        pyarrow.Table: these columns, in one piece, empty where a value is missing.
    Raises:
        PlacesRefused: no such file, none that can be read, or a column that it lacks.
    """
    import pyarrow as pa

    try:
        return _read(path, columns)
    except FileNotFoundError:
        remedy = "write it beside the spec, a line a place, or correct its name in the spec"
        raise PlacesRefused(
            [PlaceFault(None, f"no file {path.name}", "a CSV or Parquet file", remedy, "file")]
        ) from None
    except (OSError, pa.ArrowException, ValueError) as error:
        remedy = f"write a CSV or Parquet file with the columns {', '.join(columns)}"
        raise PlacesRefused([PlaceFault(None, str(error).splitlines()[0][:200], "a readable file", remedy)]) from None


def _read(path: Path, columns: Sequence[str]) -> Any:
    import pyarrow as pa
    import pyarrow.csv as pc
    import pyarrow.parquet as pq

    if path.suffix == ".parquet":
        table = pq.read_table(path)
    else:
        header = path.open(encoding="utf-8-sig").readline().strip().split(",")
        texts = {name.strip('"'): pa.string() for name in header}
        table = pc.read_csv(path, convert_options=pc.ConvertOptions(column_types=texts, strings_can_be_null=False))
    missing = [name for name in columns if name not in table.column_names]
    if missing:
        allowed, remedy = f"the columns {', '.join(columns)}", "add it, or correct its name in file or spec"
        found = f"no column {missing[0]!r}, of {', '.join(table.column_names[:12])}"
        raise PlacesRefused([PlaceFault(1, found, allowed, remedy, missing[0])])
    texts = {name: table.column(name).cast(pa.string()).fill_null("") for name in columns}
    return pa.table({name: column.combine_chunks() for name, column in texts.items()})
