"""A folder of Parquet or CSV files: one table, whose files have the same columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Final

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from contracts.code_sql import identifier, literal, number_sql
from contracts.errors import Finding, GateBroken, SudareError
from contracts.source import Files
from tasks.duckdb_session import one_file
from tasks.source.folder import HIVE_NULL, Part, check_different, drift
from tasks.source.read_csv import read_csv
from tasks.source.read_tables import damaged, read_parquet
from tasks.source.reading import MANY, Reading, refuse, told_as

_FILE: Final = "\x01file"
"""The name under which DuckDB tells the file of a row; no column of a table has it."""


def read_folder(
    where: object, parts: Sequence[Part], form: Files, *, delimiter: str | None, expected: Sequence[str]
) -> Reading:
    """Look at the files of a folder and prepare their reading, file after file in the order of their paths.

    Args:
        where: the folder, for messages.
        parts: its files, at least one.
        form: the format that they have.
        delimiter: as for `read_csv`.
        expected: the names of the contract's columns.
    Returns:
        The reading: the columns of the files, then those of the partitions, as text.
    Raises:
        SourceUnreadable: a file is not what its name says, or a column stands in the files and in their paths.
        GateBroken: the columns of the files differ, or two files are the same.
    """
    check_different(parts)
    readings = [_one(part, form, delimiter, expected) for part in parts]
    first = readings[0]
    findings = [
        drift(part, reading.columns, first.columns, named=reading.named and first.named)
        for part, reading in zip(parts, readings, strict=True)
        if set(reading.columns) != set(first.columns) or (form == "csv" and reading.columns != first.columns)
    ]
    if findings:
        raise GateBroken(findings[:MANY])
    keys = [name for name, _ in parts[0].partition]
    twice = [name for name in keys if name.casefold() in {column.casefold() for column in first.columns}]
    if twice:
        found = f"the column {twice[0]!r} in the files and in their paths"
        refuse(where, "files", found, "each column in one place", "drop it from the files, or rename the folders")
    columns = (*first.columns, *keys)
    if form == "parquet":
        return replace(_parquet(where, parts, columns), stored=_stored(readings))
    return _csv(where, parts, readings, columns)


def _one(part: Part, form: Files, delimiter: str | None, expected: Sequence[str]) -> Reading:
    """Look at one file."""
    keys = {name for name, _ in part.partition}
    inside = [name for name in expected if name not in keys]
    if form == "parquet":
        return told_as(lambda: read_parquet(part.path), part.path, part.label)
    return told_as(lambda: read_csv(part.path, delimiter=delimiter, expected=inside), part.path, part.label)


def _stored(readings: Sequence[Reading]) -> dict[str, str]:
    """Return what columns hold in all files alike; DuckDB widens the others to a common type."""
    first = readings[0].stored
    return {name: kind for name, kind in first.items() if all(each.stored.get(name) == kind for each in readings)}


def _csv(where: object, parts: Sequence[Part], readings: Sequence[Reading], columns: tuple[str, ...]) -> Reading:
    """Read CSV files one after the other, each with its own errors."""
    made = []
    for part, reading in zip(parts, readings, strict=True):
        values = ", ".join(
            f"{'NULL' if value is None else literal(value)}::VARCHAR AS {identifier(name)}"
            for name, value in part.partition
        )
        relation = f"(SELECT *, {values} FROM {reading.relation})" if values else reading.relation
        told = reading.told_as(part.path, part.label)
        made.append(replace(told, where=str(where), columns=columns, relation=relation))
    return replace(made[0], more=tuple(made[1:]))


def _parquet(where: object, parts: Sequence[Part], columns: tuple[str, ...]) -> Reading:
    """Read Parquet files, fitting their types to each other; partitions come out of the paths."""
    _check_types(where, parts)
    inside = columns[: len(columns) - len(parts[0].partition)]
    schemas = [pq.read_schema(part.path) for part in parts]
    common = {name: _common(schema.field(name).type for schema in schemas) for name in inside}
    alike = groupby(zip(parts, schemas, strict=True), key=lambda each: [str(each[1].field(n).type) for n in inside])
    reads = [_read([part for part, _ in group], inside, common) for _, group in alike]
    relation = f"({' UNION ALL '.join(reads)})"

    def explain(error: duckdb.Error) -> SudareError | None:
        """Tell the number of the file that DuckDB names, else the folder; a name of a file could hold a value."""
        labels = [part.label for part in parts if f'"{part.path}"' in str(error)]
        return damaged(error, labels[0] if len(labels) == 1 else where, "Parquet")

    return Reading(str(where), columns, True, relation, explain=explain)


def _read(parts: Sequence[Part], inside: Sequence[str], common: Mapping[str, str | None]) -> str:
    """Write the SELECT that reads files whose columns are stored alike."""
    files = ", ".join(one_file(part.path) for part in parts)
    options = f"union_by_name = true, filename = {literal(_FILE)}, hive_partitioning = false"
    pieces = []
    for raw, kind in ((identifier(name), common[name]) for name in inside):
        number = number_sql(raw) if kind == "DOUBLE" else f"CAST({raw} AS {kind})"
        pieces.append(raw if kind is None else f"{number} AS {raw}")
    for (name, _), place in zip(parts[0].partition, parts[0].places, strict=True):
        part = f"string_split({identifier(_FILE)}, '/')[{place}]"
        value = f"nullif(substr({part}, strpos({part}, '=') + 1), {literal(HIVE_NULL)})"
        pieces.append(f"url_decode({value}) AS {identifier(name)}")
    return f"SELECT {', '.join(pieces)} FROM read_parquet([{files}], {options})"


def _common(kinds: Iterable[pa.DataType]) -> str | None:
    """Return the type of which a column's numbers are made where files store it differently, so that none changes.

    DuckDB's common type would round them: a whole number beside 4-byte floats becomes one of these.
    """
    different = {kind for kind in kinds if not pa.types.is_null(kind)}
    if len(different) < 2 or any(_kind(kind) != "numbers" for kind in different):
        return None
    return "HUGEINT" if all(pa.types.is_integer(kind) for kind in different) else "DOUBLE"


def _check_types(where: object, parts: Sequence[Part]) -> None:
    """Refuse a column that is of another kind in a later file; numbers of any width go together."""
    known: dict[str, str] = {}
    findings = []
    for part in parts:
        for field in pq.read_schema(part.path):
            kind = _kind(field.type)
            first = known.setdefault(field.name, kind) if kind else kind
            if kind != first:
                found = f"column {field.name!r} with {kind}, where earlier files have {first}"
                remedy = "deliver all files alike, or read old and new ones as two sources"
                findings.append(Finding(part.label, "columns", found, "one kind of values a column", remedy))
    if findings:
        raise GateBroken(findings[:MANY])


def _kind(kind: pa.DataType) -> str:
    """Name what a column holds; "" for one that holds missing values only, which goes with anything."""
    if pa.types.is_dictionary(kind):
        return _kind(kind.value_type)
    if pa.types.is_null(kind):
        return ""
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "numbers"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return "texts"
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return "timestamps with a time zone"
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return "dates"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return f"lists of {_kind(kind.value_type)}"
    return str(kind)
