"""Parquet files and tables in DuckDB or SQLite files. Values keep their types; those of SQLite arrive as text."""

from __future__ import annotations

import csv
import gzip
import io
import re
import sqlite3
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Event
from typing import Final, NoReturn, TypeVar
from urllib.parse import quote

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from contracts.contract.contract import Column, Contract
from contracts.domains.statements import DAY, NESTED, TIME
from contracts.domains.value_sql import identifier, literal
from contracts.errors import Finding, GateBroken, SourceUnreadable, SudareError
from contracts.release.source import Source
from contracts.sql.encoding import encode_select
from tasks.storage.duckdb_session import attempt, is_storage, one_file
from tasks.storage.sources.typed_rows import MANY, Reading, break_gate, refuse, require_file

# --- CSV files.


DELIMITERS = (",", ";", "\t", "|", ":", " ")
HEADER_BYTES = 1 << 20
CHUNK_BYTES = 1 << 22
PACKINGS = {".gz": "gzip", ".zst": "zstd"}
PYARROW = {"none": None, "zstd": "zstd"}
MAGIC = {"gzip": b"\x1f\x8b", "zstd": b"\x28\xb5\x2f\xfd"}
# A thread parses a quarter of a buffer at a time. With DuckDB's default (32 MB) such a piece of a usual table is
# smaller than a row group, and pieces are copied together again, which doubles the cost of writing them.
BUFFER_BYTES = 64_000_000

LONG_LINE = f"a line of more than {BUFFER_BYTES:,} bytes (an open quote?)"
_LINE = re.compile(r"Invalid Input Error: CSV Error on Line: (\d+)\n")
_FIELDS = re.compile(r"Expected Number of Columns: \d+ Found: (\d+)")


def read_csv(path: Path, *, delimiter: str | None, expected: Sequence[str]) -> Reading:
    """Look at the header of a CSV file and prepare its reading.

    Args:
        path: the file.
        delimiter: one character between fields; None means a comma.
        expected: the names of the contract's columns.
    Returns:
        The reading, with the names of the header.
    Raises:
        SourceUnreadable: no such file, not compressed as its name says, or another delimiter than the spec says.
        GateBroken: the file is empty or its first line is not a header in UTF-8.
    """
    require_file(path)
    packing = PACKINGS.get(path.suffix.lower(), "none")
    header = _header(path, packing)
    given = delimiter or ","
    _check_delimiter(path, header, given, expected)
    columns = _split(header, given)
    return Reading(
        where=str(path),
        columns=columns,
        named=2 * len(set(columns) & set(expected)) >= len(expected),
        relation=_relation(path, columns, given, packing),
        explain=lambda error: _explain(error, path, len(columns), packing),
        broken=lambda stop: _broken_file(path, packing, stop),
    )


def _header(path: Path, packing: str) -> str:
    """Return the first record of the file as text."""
    start = _start(path, packing)
    if not start:
        break_gate(path, "header", "an empty file", "a header line and rows", "deliver the file again")
    record = b""
    for line in start.splitlines(keepends=True):
        record += line
        if record.count(b'"') % 2 == 0:
            break
    try:
        text = record.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        remedy = "write the file as UTF-8 (and name it .csv.gz if it is compressed)"
        break_gate(f"{path}:1", "encoding", "bytes that are not UTF-8 text", "UTF-8", remedy)
    if not text.strip():
        remedy = "put a line with the names of the columns first"
        break_gate(f"{path}:1", "header", "an empty first line", "the names of the columns", remedy)
    return text


def _start(path: Path, packing: str) -> bytes:
    with path.open("rb") as file:
        start = file.read(HEADER_BYTES)
    if packing == "none" or not start:
        return start
    with suppress(zlib.error, OSError):
        if packing == "gzip":
            return zlib.decompressobj(wbits=31).decompress(start, HEADER_BYTES)
        with pa.input_stream(path, compression=packing) as stream:
            return bytes(stream.read(HEADER_BYTES))
    if start.startswith(MAGIC[packing]):
        break_gate(path, packing, f"a damaged {packing} file", f"a whole {packing} file", "deliver the file again")
    remedy = "name it .csv if it is plain"
    refuse(path, "source.path", f"not a {packing} file", f"a CSV compressed with {packing}", remedy)


def _split(header: str, delimiter: str) -> tuple[str, ...]:
    return tuple(next(csv.reader([header], delimiter=delimiter), []))


def _check_delimiter(path: Path, header: str, delimiter: str, expected: Sequence[str]) -> None:
    """Refuse a delimiter at which the header does not split into the columns while it does so at another one."""
    known = {mark: len(set(_split(header, mark)) & set(expected)) for mark in (delimiter, *DELIMITERS)}
    best = max(known, key=lambda mark: known[mark])
    if known[best] == known[delimiter] == 0 and len(_split(header, delimiter)) == 1:
        best = max(DELIMITERS, key=lambda mark: len(_split(header, mark)))
        if len(_split(header, best)) == 1:
            return
    elif known[best] <= known[delimiter]:
        return
    found = f"the fields are separated by {best!r}"
    remedy = f'write `delimiter: "{best}"` in the spec, under `source:`'.replace("\t", r"\t")
    refuse(path, "source.delimiter", found, f"the delimiter of the spec, {delimiter!r}", remedy)


def _relation(path: Path, columns: Sequence[str], delimiter: str, packing: str) -> str:
    """Write the call of DuckDB's reader with every option given, so that it detects nothing by itself."""
    options = {
        "columns": "{" + ", ".join(f"{literal(name)}: 'VARCHAR'" for name in columns) + "}",
        "delim": literal(delimiter),
        "compression": literal(packing),
        "buffer_size": str(BUFFER_BYTES),
        "auto_detect": "false",
        "header": "true",
        "quote": literal('"'),
        "escape": literal('"'),
        "strict_mode": "true",
        "null_padding": "false",
        "ignore_errors": "false",
        "hive_partitioning": "false",
    }
    return f"read_csv({one_file(path)}, {', '.join(f'{name} = {value}' for name, value in options.items())})"


def _explain(error: duckdb.Error, path: Path, columns: int, packing: str) -> GateBroken | None:
    """Turn an error of DuckDB's CSV reader into a finding; only its kind, its line and a count of fields are used."""
    text = str(error)
    if isinstance(error, duckdb.InternalException) and (number := _line_that_is_no_text(path, packing)):
        # DuckDB 1.5 fails to name a text that is not UTF-8 where columns before it are not read.
        return _malformed(f"{path}:{number}", "encoding", "bytes that are not UTF-8 text", "UTF-8")
    if isinstance(error, duckdb.IOException) and str(path) in text:
        return _malformed(path, "source.path", "a file that the disk does not read to its end", "a readable file")
    line = _LINE.match(text)
    if line is None:
        if text.startswith("Not implemented Error: The Parallel CSV Reader"):
            return _malformed(path, "row", LONG_LINE, "shorter lines")
        if not text.startswith("Invalid Input Error: The CSV Parser state machine"):
            return None
        found = "line ends of several kinds (LF, CR LF, CR), or quotes out of place"
        return _malformed(
            path, "rows", found, "one kind of line end; quotes only around whole fields, doubled inside"
        )
    where = f"{path}:{line[1]}"
    last = text.rpartition("\nPossible fixes:")[0].rpartition("\n")[2]
    if fields := _FIELDS.fullmatch(last):
        return _malformed(where, "row", f"{fields[1]} fields", f"{columns} fields, as in the header")
    if "Invalid unicode" in text:
        return _malformed(where, "encoding", "bytes that are not UTF-8 text", "UTF-8")
    if "unterminated quote" in text:
        return _malformed(
            where, "row", "a quote that is not closed", "quotes only around whole fields, doubled inside"
        )
    if "Maximum line size" in text:
        return _malformed(where, "row", "a line that does not end (an open quote?)", "shorter lines")
    return _malformed(where, "row", "a row that cannot be read", f"{columns} fields, as in the header")


def _line_that_is_no_text(path: Path, packing: str) -> int | None:
    """Return the first line that is not UTF-8, counted from 1; None where all are, or the file cannot be read."""
    with suppress(OSError, EOFError, zlib.error):
        opened = path.open("rb") if packing == "none" else pa.input_stream(path, compression=packing)
        with opened as file:
            for number, line in enumerate(io.BufferedReader(file), start=1):
                try:
                    line.decode("utf-8")
                except UnicodeDecodeError:
                    return number
    return None


def _malformed(where: object, field: str, found: str, allowed: str) -> GateBroken:
    remedy = "correct the file at its origin, or deliver it again"
    if field == "encoding":
        remedy = "save the file as UTF-8, for example: iconv -f LATIN1 -t UTF-8 FILE > NEW_FILE"
    return GateBroken([Finding(str(where), field, found, allowed, remedy)])


def _broken_file(path: Path, packing: str, stop: Event) -> Finding | None:
    """Read the file to its end: DuckDB ends the table where a file is cut, and at a line above its buffer."""
    if packing == "none" and path.stat().st_size <= BUFFER_BYTES:
        return None
    try:
        with gzip.open(path) if packing == "gzip" else pa.input_stream(path, compression=PYARROW[packing]) as file:
            line = 0
            while not stop.is_set() and (chunk := file.read(CHUNK_BYTES)):
                end = max(chunk.rfind(b"\n"), chunk.rfind(b"\r"))
                line = line + len(chunk) if end < 0 else len(chunk) - end - 1
                if line > BUFFER_BYTES:
                    return _malformed(path, "row", LONG_LINE, "shorter lines").findings[0]
        return None
    except EOFError:
        found = "a file that ends too early"
    except (gzip.BadGzipFile, zlib.error):
        found = "a checksum that does not fit the content"
    except OSError as error:
        if packing in ("gzip", "none"):
            raise
        found = "a file that ends too early" if "Truncated" in str(error) else "content that cannot be unpacked"
    return Finding(str(path), packing, found, f"a whole {packing} file", "deliver the file again")


# --- A column that is stored as a kind of which the contract reads no value.


_WORDS: Final = {DAY: "dates", TIME: "timestamps", NESTED: "lists or records"}
FLOATS: Final = ("DOUBLE", "FLOAT")
LONG: Final = "LONG DECIMAL"
_OF_SQL: Final = {
    "DATE": DAY,
    "TIMESTAMP": TIME,
    "TIMESTAMP_S": TIME,
    "TIMESTAMP_MS": TIME,
    "TIMESTAMP_NS": TIME,
    "TIMESTAMP WITHOUT TIME ZONE": TIME,
    "TIMESTAMP WITH TIME ZONE": TIME,
}
_NESTED: Final = re.compile(r"(STRUCT|MAP|UNION)\(.*|.*\[[0-9]*\]|VARIANT", re.DOTALL | re.IGNORECASE)


def stored_as(columns: Mapping[str, str]) -> dict[str, str]:
    """Return what columns surely hold, by their types as SQL writes them; without those that could hold anything."""
    found = {name: NESTED if _NESTED.fullmatch(kind) else _OF_SQL.get(kind.upper()) for name, kind in columns.items()}
    return {name: kind for name, kind in found.items() if kind is not None}


def stored_in_arrow(schema: pa.Schema) -> dict[str, str]:
    """Return the same of a schema of Arrow, as a Parquet file has it."""
    found = {DAY: pa.types.is_date, TIME: pa.types.is_timestamp, NESTED: pa.types.is_nested}
    long = {each.name: LONG for each in schema if pa.types.is_decimal256(each.type) and each.type.precision > 38}
    return long | {field.name: kind for field in schema for kind, holds in found.items() if holds(field.type)}


def check_decimals(where: str, stored: Mapping[str, str], source: Source, contract: Contract) -> None:
    """Break the gate of decimals that DuckDB reads as doubles, or as other numbers, in columns that are read."""
    used = {*source.exact_columns(contract, contract.source_columns), *source.select_types(contract)[0]}
    found, allowed = "decimals of more than 38 digits, which cannot be read", "at most 38 digits"
    remedy = "store the column as whole numbers, as decimals of fewer digits, or as texts"
    long = [name for name, kind in stored.items() if kind == LONG and name.lower() in used]
    if long:
        raise GateBroken([Finding(where, f"column {name!r}", found, allowed, remedy) for name in long[:MANY]])


def check_types(where: str, stored: Mapping[str, str], contract: Contract) -> None:
    """Refuse columns of which no value that the contract declares can be read.

    Args:
        where: the source, for messages.
        stored: what columns surely hold, by name.
        contract: declares their values.
    Raises:
        GateBroken: with one finding a column.
    """
    findings = []
    for column in contract.columns:
        kind = stored.get(column.name)
        if kind is None or _fits(column, kind, contract):
            continue
        allowed = f"a type in which values of its domain can be written ({column.logical_type})"
        remedy = "deliver the column as before, map it with `select:`, or change the contract"
        field, found = f"column {column.name!r}", f"{_WORDS[kind]}, none of which is a value of its domain"
        findings.append(Finding(where, field, found, allowed, remedy))
    if findings:
        raise GateBroken(findings[:MANY])


def check_exact(
    where: str, floats: Collection[str], source: Source, contract: Contract, keys: Collection[str]
) -> None:
    """Refuse floating-point numbers as ids or keys, unless the contract says that none is too large to be exact.

    Args:
        where: the source, for messages.
        floats: its columns with values that are stored so.
        source: says what a select makes of them.
        contract: declares the unit.
        keys: columns of texts whose different values count.
    Raises:
        GateBroken: with one finding a column.
    """
    makes = source.exact_columns(contract, contract.exact(tuple(keys)))
    found = [(name, makes[name.lower()]) for name in floats if name.lower() in makes]
    unit = contract.unit.column
    blocks = {made: "the unit" if made == unit else f"the domain of {made}" for _, made in found}
    refuse_floats(where, [(name, blocks[made]) for name, made in found])


def refuse_floats(where: str, found: Collection[tuple[str, str]]) -> None:
    """Raise what `check_exact` raises, for columns and the blocks that can declare how large their numbers are."""
    findings = []
    for name, block in sorted(found):
        allowed = "whole numbers, decimals or texts, whose digits are exact: large ids would be one, and lose rows"
        remedy = (
            f"store the column as whole numbers (of pandas: Int64) or texts; or, if no id is above 10^15, declare "
            f"the largest: numbers_up_to: N in {block} (larger ones count as missing)"
        )
        findings.append(Finding(where, f"column {name!r}", "ids or keys as floating-point numbers", allowed, remedy))
    if findings:
        raise GateBroken(findings[:MANY])


def _fits(column: Column, kind: str, contract: Contract) -> bool:
    """Say whether some declared value means the same when it is written in a type."""
    texts = column.domain.category_texts
    if kind in column.domain.stored_kinds or kind == NESTED or not texts:
        return kind in column.domain.stored_kinds
    name = identifier(column.name)
    given = f"(VALUES {', '.join(f'({literal(text)})' for text in texts)}) AS t(x)"
    written = f"(SELECT TRY_CAST(x AS {kind}) AS {name}, x FROM {given})"
    with duckdb.connect() as connection:
        told, read = (
            connection.execute(
                encode_select(contract, columns_present=[column.name], relation=relation, names=[column.name])
            ).fetchall()
            for relation in (f"(SELECT x AS {name} FROM {given})", written)
        )
        there = connection.execute(f"SELECT {name} IS NOT NULL FROM {written}").fetchall()
    return any(is_there and one == other for one, other, (is_there,) in zip(told, read, there, strict=True))


ResultT = TypeVar("ResultT")

ORIGIN = "origin"
BATCH_ROWS = 50_000
DELIVERED = "delivered"


def read_parquet(path: Path) -> Reading:
    """Look at the schema of a Parquet file and prepare its reading.

    Raises:
        SourceUnreadable: no such file, or not Parquet.
    """
    require_file(path)
    try:
        with pq.ParquetFile(path) as file:
            schema, empty, floats = file.schema_arrow, file.metadata.num_rows == 0, _floats(file)
    except (pa.ArrowException, OSError):
        schema = None
    if schema is None:
        remedy = "deliver the file again, or name it by its format"
        refuse(path, "source.path", "not a Parquet file, or a damaged one", "a Parquet file", remedy)
    relation = f"read_parquet({one_file(path)}, hive_partitioning=false)"
    stored = {} if empty else stored_in_arrow(schema)
    explain = partial(damaged, where=path, kind="Parquet")
    return Reading(str(path), tuple(schema.names), True, relation, explain=explain, stored=stored, floats=floats)


def _floats(file: pq.ParquetFile) -> frozenset[str]:
    """Return the columns of floating-point numbers in which some row has a value, or may have one."""
    groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
    kinds = {field.name: getattr(field.type, "value_type", field.type) for field in file.schema_arrow}
    floats = (file.schema.column(place) for place in range(len(file.schema)))
    places = [
        (place, each.path)
        for place, each in enumerate(floats)
        if each.path in kinds and pa.types.is_floating(kinds[each.path])
    ]
    return frozenset(name for place, name in places if any(_has_values(group.column(place)) for group in groups))


def _has_values(part: pq.ColumnChunkMetaData) -> bool:
    known = part.statistics
    return not (known and known.has_null_count and known.null_count == part.num_values)


def read_duckdb(path: Path, *, table: str) -> Reading:
    """Look at a table of a DuckDB file and prepare its reading; the file is opened read-only.

    Args:
        path: the file.
        table: its name; with its schema ("survey.answers") where that is not `main`.
    Raises:
        SourceUnreadable: no such file, not DuckDB's, in use, or without such a table.
    """
    require_file(path)
    attach = f"ATTACH {literal(str(path))} AS {ORIGIN} (READ_ONLY)"
    with duckdb.connect(config={"autoinstall_known_extensions": False}) as probe:
        attempt(lambda: probe.execute(attach), lambda error: _not_duckdb(error, path))
        listed = "SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = ? ORDER BY ALL"
        there = {_qualified(*row): row for row in probe.execute(listed, [ORIGIN]).fetchall()}
        if table not in there:
            _no_table(path, table, list(there))
        schema, name = there[table]
        relation = ".".join(identifier(part) for part in (ORIGIN, schema, name))
        types = {row[0]: row[1] for row in probe.execute(f"DESCRIBE {relation}").fetchall()}
    coarse = [identifier(column) for column, kind in types.items() if kind in ("TIMESTAMP_S", "TIMESTAMP_MS")]
    if coarse:
        # Those out of the range of microseconds are missing values: DuckDB fails on them even in TRY_CAST.
        replaced = ", ".join(f"TRY(CAST({column} AS TIMESTAMP)) AS {column}" for column in coarse)
        relation = f"(SELECT * REPLACE ({replaced}) FROM {relation})"
    reading = Reading(f"{path}::{table}", tuple(types), True, relation, attach, stored=stored_as(types))
    reading = replace(reading, floats=frozenset(name for name, kind in types.items() if kind in FLOATS))
    return replace(reading, explain=lambda error: damaged(error, path, "DuckDB"))


def read_sqlite(path: Path, *, table: str) -> Reading:
    """Look at a table of an SQLite file and prepare its reading; the file is opened read-only.

    Raises:
        SourceUnreadable: no such file, not SQLite's, in use, or without such a table.
    """
    require_file(path)
    there, columns, found = _look(path, table)
    if found:
        allowed = "an SQLite database file that no other process writes to"
        refuse(path, "source.path", found, allowed, "wait for the other process, or deliver the file again")
    if table not in there:
        _no_table(path, table, there)
    reading = Reading(f"{path}::{table}", columns, True, DELIVERED)
    return replace(reading, batches=lambda: _sqlite_batches(path, table, reading))


def _look(path: Path, table: str) -> tuple[list[str], tuple[str, ...], str]:
    """Return the tables of an SQLite file, the columns of one of them, and what is wrong with the file, or ""."""
    listed = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite!_%' ESCAPE '!'"
    try:
        with closing(_sqlite(path)) as file:
            there = sorted(row[0] for row in file.execute(listed))
            columns = tuple(row[0] for row in file.execute("SELECT name FROM pragma_table_info(?)", [table]))
        return there, columns, ""
    except sqlite3.Error as error:
        busy = error.sqlite_errorcode in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
    return [], (), "in use by another process" if busy else "not an SQLite file, or a damaged one"


def _sqlite(path: Path) -> sqlite3.Connection:
    """Open an SQLite file read-only."""
    return sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=5.0)


def _sqlite_batches(path: Path, table: str, reading: Reading) -> Iterator[tuple[pa.RecordBatch, float]]:
    """Yield the rows of an SQLite table as Arrow batches of text, each with the fraction read so far."""
    named = ", ".join(identifier(name) for name in reading.columns)
    with closing(_sqlite(path)) as file:
        counted = _query(reading, lambda: file.execute(f"SELECT count(*) FROM {identifier(table)}").fetchall())
        cursor = _query(reading, lambda: file.execute(f"SELECT {named} FROM {identifier(table)}"))
        total, done = counted[0][0], 0
        while rows := _query(reading, lambda: cursor.fetchmany(BATCH_ROWS)):
            done += len(rows)
            columns = zip(*rows, strict=True)
            arrays = [pa.array([_text(value, reading) for value in column], pa.string()) for column in columns]
            yield pa.record_batch(arrays, names=list(reading.columns)), min(done / total, 1.0) if total else 1.0


def _query(reading: Reading, ask: Callable[[], ResultT]) -> ResultT:
    """Ask SQLite; its message about a text that it cannot decode quotes the text and goes no further."""
    try:
        return ask()
    except sqlite3.Error as error:
        undecoded = getattr(error, "sqlite_errorcode", None) is None
    if undecoded:
        break_gate(reading.where, "encoding", "bytes that are not UTF-8 text", "UTF-8", "correct the table")
    break_gate(reading.where, "rows", "a page that cannot be read", "a whole SQLite file", "deliver the file again")


def _text(value: object, reading: Reading) -> str | None:
    """Write a value of SQLite as text; numbers so that they read back as the same number, 1.0 as 1 is written."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bytes):
        remedy = "convert the column, or leave it out with `select:`"
        break_gate(reading.where, "rows", "binary data", "text, numbers and nulls", remedy)
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return repr(int(value))
    return repr(value)


def _qualified(schema: str, name: str) -> str:
    """Name a DuckDB table as a spec does."""
    return name if schema == "main" else f"{schema}.{name}"


def _no_table(path: Path, table: str, there: Sequence[str]) -> NoReturn:
    """Refuse a table name; the names of the tables are schema and may be shown. Views could join and aggregate."""
    more = f" and {len(there) - MANY} more" if len(there) > MANY else ""
    allowed = ", ".join(there[:MANY]) + more if there else "a table (the file has none)"
    remedy = "correct `source: table:` in the spec; a view is not taken, since its rows may join many people's"
    refuse(path, "source.table", f"no table {table!r}", allowed, remedy)


def _not_duckdb(error: duckdb.Error, path: Path) -> SudareError:
    """Say why a file cannot be opened as a DuckDB database."""
    if "Could not set lock" in str(error):
        remedy = "end the process that writes to it, or copy the table to a file of its own"
        return SourceUnreadable(
            [Finding(str(path), "source.path", "in use by another process", "a free file", remedy)]
        )
    allowed = "a DuckDB file that this version of DuckDB reads"
    finding = Finding(str(path), "source.path", "not a DuckDB file, or a damaged one", allowed, "deliver it again")
    return SourceUnreadable([finding])


def damaged(error: duckdb.Error, where: object, kind: str) -> SudareError | None:
    """Say that a file which opened well cannot be read to its end; errors about memory and disk are not its own."""
    if isinstance(error, duckdb.ConversionException) and "Could not convert Timestamp(" in str(error):
        found, allowed = "a timestamp that does not fit into microseconds", "timestamps up to 290,000 years from 1970"
        remedy = "deliver the file again, with a missing value in its place"
        return GateBroken([Finding(str(where), "rows", found, allowed, remedy)])
    if not isinstance(error, duckdb.IOException | duckdb.InvalidInputException | duckdb.SerializationException):
        return None
    if is_storage(error):
        return None
    return GateBroken(
        [Finding(str(where), "rows", f"damaged {kind} data", f"a whole {kind} file", "deliver it again")]
    )
