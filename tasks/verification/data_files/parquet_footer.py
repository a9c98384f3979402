"""What a Parquet file tells engines of its rows before they read them: engines skip rows by it, so it must be true.

Rows are compared by their values elsewhere. A footer whose largest value lies would still make an engine leave out
rows that stand in the file, and bytes that no reader looks at could carry anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from contracts.errors import Finding
from tasks.records.model.release_statement import Manifest
from tasks.records.strict_json import printable, shown
from tasks.verification.files.version_folder import OpenFiles, VersionFolder

OTHER_FOOTER: Final = "engines would skip rows of the file, or read others: do not use it"
_ENDS: Final = 8
_START: Final = 4


def check_footers(folder: VersionFolder, manifest: Manifest, sound: frozenset[str]) -> Iterator[Finding]:
    """Check the footer of each Parquet file of a version, in which nothing else was found to be wrong.

    Args:
        folder: the version.
        manifest: its files.
        sound: those whose checksum holds; others are named by other checks.
    """
    for name in sorted(name for name in manifest.files if name.endswith(".parquet") and name in sound):
        findings: list[Finding] = []
        data = OpenFiles(folder, manifest, sound).read(name, findings)
        yield from findings
        if data is None:
            continue
        try:
            yield from check_footer(data, where=printable(name))
        except (pa.ArrowException, OSError, ValueError, KeyError) as error:
            yield Finding(printable(name), "the file", printable(str(error)), "a whole Parquet file", OTHER_FOOTER)


def check_footer(data: bytes, *, where: str) -> Iterator[Finding]:
    """Compare the statistics of every column in every row group with its values, and account for all bytes.

    Args:
        data: bytes of a Parquet file whose columns, types, rows and unpacked size were checked.
        where: its name, printable.
    Yields:
        One finding a column at most, and one of bytes that belong to nothing.
    """
    with pq.ParquetFile(pa.BufferReader(data)) as file:
        known, end, rows = file.metadata, _START, 0
        wrong: set[str] = set()
        for group in range(known.num_row_groups):
            read, told = file.read_row_group(group), known.row_group(group)
            if read.num_rows != told.num_rows:
                yield Finding(
                    where, f"rows of group {group + 1}", str(told.num_rows), f"{read.num_rows}", OTHER_FOOTER
                )
            rows += read.num_rows
            leaves = _leaves(read)
            for place in range(told.num_columns):
                column = told.column(place)
                if not column.total_compressed_size:
                    continue  # no rows
                if _begins(column) != end or column.has_column_index or column.has_offset_index:
                    yield Finding(where, "layout", "bytes between columns", "columns one after another", OTHER_FOOTER)
                    return
                end += column.total_compressed_size
                # A column has one leaf, flat or in a list; its path cannot be cut, since a name may have a dot.
                name = read.column_names[place]
                if name not in wrong and not _is_true(column.statistics, leaves[name]):
                    wrong.add(name)
                    allowed = f"those of the values in row group {group + 1}"
                    yield Finding(where, f"statistics of column {shown(name)}", "others", allowed, OTHER_FOOTER)
        if end + known.serialized_size + _ENDS != len(data):
            yield Finding(where, "layout", "bytes beside the columns", "columns and a footer, no more", OTHER_FOOTER)
        if rows != known.num_rows:
            yield Finding(where, "rows", str(known.num_rows), f"{rows}, as there are", OTHER_FOOTER)


def _begins(column: Any) -> int:
    """Return where a column's bytes begin."""
    place: int = column.dictionary_page_offset if column.has_dictionary_page else column.data_page_offset
    return place


def _leaves(rows: Any) -> dict[str, Any]:
    """Return each column's values as they are written: lists laid end to end."""
    import pyarrow.compute as pc  # here, since it wraps hundreds of functions while it is loaded

    columns = {name: rows.column(name) for name in rows.column_names}
    return {
        name: pc.list_flatten(column) if pa.types.is_nested(column.type) else column
        for name, column in columns.items()
    }


def _is_true(told: Any, values: Any) -> bool:
    """Say whether statistics, as far as there are any, are those of the values."""
    import pyarrow.compute as pc

    if told is None:
        return True
    if told.has_null_count and told.null_count != values.null_count:
        return False
    if told.num_values != len(values) - values.null_count:
        return False
    if told.has_distinct_count and told.distinct_count != pc.count_distinct(values).as_py():
        return False
    if not told.has_min_max:
        return True
    if not pa.types.is_dictionary(values.type):
        return _has_ends(told, values)
    used = pc.unique(values).cast(values.type.value_type)
    return _has_ends(told, used) or _has_ends(told, _labels_as_arrow_counts(values, used))


def _labels_as_arrow_counts(values: Any, used: Any) -> Any:
    """Return the labels whose ends Arrow's writer may state instead of those of the labels that are used.

    It states those of all labels where as many different values occur as there are labels. It counts null as a value,
    so that one label may be unused: the ends are then too wide, which makes no engine leave out a row.
    """
    labels = values.unify_dictionaries().chunk(0).dictionary.cast(values.type.value_type)
    return labels if values.null_count and len(used) == len(labels) else used


def _has_ends(told: Any, values: Any) -> bool:
    """Say whether statistics state the smallest and the largest of some values."""
    import pyarrow.compute as pc

    ends = pc.min_max(values).as_py()
    return bool((told.min, told.max) == (ends["min"], ends["max"]))
