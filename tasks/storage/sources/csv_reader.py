"""CSV files: the header, the delimiter, and DuckDB's reader with nothing left to guess.

Every column is read as text. An empty field, quoted or not, is null; empty lines are skipped. DuckDB forgives one
delimiter too many at the end of a line; anything else that does not fit the header stops the reading.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event

import duckdb
import pyarrow as pa

from contracts.domains.value_sql import literal
from contracts.errors import Finding, GateBroken
from tasks.storage.duckdb_session import one_file
from tasks.storage.sources.typed_rows import Reading, break_gate, refuse, require_file

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
    """Return the first bytes of the content."""
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
    """Split the header as a CSV record."""
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
