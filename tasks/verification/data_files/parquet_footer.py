"""What a Parquet file tells engines of its rows before they read them: engines skip rows by it, so it must be true.

Rows are compared by their values elsewhere. A footer whose largest value lies would still make an engine leave out
rows that stand in the file, and bytes that no reader looks at could carry anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from contracts.errors import Finding
from tasks.records.files.part_names import part_name, parts_among
from tasks.records.model.manifest import Manifest
from tasks.records.strict_json import printable, shown
from tasks.verification.files.folder import OpenFiles, VersionFolder
from tasks.verification.files.parquet_pages import unpacked_size
from tasks.verification.outcomes import RuleFindings

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


# --- Parts of a data file against the whole file, which other checks replay.


OTHER_PARTS: Final = "the parts are not the file's rows: use the whole file"
_SPARE_BYTES: Final = 2**16
_TIMES: Final = 2


def check_parts(
    folder: VersionFolder, manifest: Manifest, sound: frozenset[str], file_findings: RuleFindings
) -> RuleFindings:
    """Compare the parts of each data file with the row groups of the whole, one at a time.

    Args:
        folder: the version.
        manifest: its files.
        sound: those whose checksum holds.
        file_findings: what was found of the whole files, in which nothing is wrong.
    Returns:
        RuleFindings: the same, what is wrong with parts, and what could not be compared.
    """
    files, findings = OpenFiles(folder, manifest, sound), list(file_findings[0])
    for name in sorted(manifest.files):
        if name.startswith("data/") and name.endswith(".parquet") and name.count("/") == 1:
            findings += _check(name, parts_among(name, manifest.files), files)
    return findings, [*file_findings[1], *files.skipped]


def _check(name: str, parts: Sequence[str], files: OpenFiles) -> list[Finding]:
    findings: list[Finding] = []
    whole = files.read(name, findings) if parts else None
    if whole is None:
        return findings
    try:
        with pq.ParquetFile(pa.BufferReader(whole)) as file:
            groups = file.num_row_groups
            expected = [part_name(name, place) for place in range(max(1, groups))]
            if list(parts) != expected:
                found, allowed = f"{len(parts)} parts, {shown(parts[-1])} the last", f"part-00000 to {expected[-1]}"
                return [Finding(printable(name), "parts", found, allowed, OTHER_PARTS)]
            for place, part in enumerate(parts):
                data = files.read(part, findings)
                if data is not None:
                    findings += _compare(file, place if groups else None, data, printable(part))
    except (pa.ArrowException, OSError, ValueError) as error:
        findings.append(Finding(printable(name), "parts", printable(str(error)), "readable Parquet", OTHER_PARTS))
    return findings


def _compare(file: Any, group: int | None, data: bytes, where: str) -> list[Finding]:
    """Compare one part with a row group; its size is known before it is unpacked."""
    with pq.ParquetFile(pa.BufferReader(data)) as part:
        rows = 0 if group is None else file.metadata.row_group(group).num_rows
        if not part.schema_arrow.equals(file.schema_arrow, check_metadata=True):
            return [Finding(where, "columns", "others", "those of the whole file, with its marks", OTHER_PARTS)]
        if part.metadata.num_rows != rows or part.num_row_groups > 1:
            return [Finding(where, "rows", str(part.metadata.num_rows), f"{rows}, in one group", OTHER_PARTS)]
        if not rows:
            return []
        most = _TIMES * file.metadata.row_group(group).total_byte_size + _SPARE_BYTES
        unpacked = unpacked_size(data, part.metadata)
        if unpacked > most:
            return [Finding(where, "unpacked size", f"{unpacked} bytes", f"at most {most} bytes", OTHER_PARTS)]
        found, expected = part.read(), file.read_row_group(group)
        found.validate(full=True)
    for name in expected.column_names:
        if not _alike(_plain(found.column(name)), _plain(expected.column(name))):
            return [Finding(where, f"column {shown(name)}", "other values", "those of the whole file", OTHER_PARTS)]
    return []


def _alike(found: Any, expected: Any) -> bool:
    """Compare two columns; doubles by their bits, since 0 has two signs, which equal each other."""
    if not found.equals(expected):
        return False
    if not pa.types.is_floating(found.type):
        return True
    bits, others = (column.to_numpy(zero_copy_only=False).tobytes() for column in (found, expected))
    return bool(bits == others)


def _plain(column: Any) -> Any:
    """Return a column without dictionary, in one piece."""
    kind = column.type
    plain = column.cast(kind.value_type) if pa.types.is_dictionary(kind) else column
    return plain.combine_chunks()
