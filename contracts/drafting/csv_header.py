"""The first line of a CSV file: the names of its columns, and nothing behind them.

The file is read byte by byte, and the first byte after the header is never asked for: what stands there may be
somebody's. A header that looks like a row is refused and not shown.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, Final

from contracts.drafting.sketch import ColumnSketch, DraftRefused, TableSketch, refuse_draft
from contracts.errors import Finding
from contracts.reading.scalars import is_not_plain, read_day, read_number
from contracts.reading.yaml_lines import nearest_file, shown

LONGEST: Final = 2**20
DELIMITERS: Final = (",", ";", "\t", "|")
_PACKINGS: Final = {".gz": "gzip", ".zst": "zstd"}
_WIDE_MARKS: Final = (b"\xff\xfe", b"\xfe\xff")
_ADDRESS = re.compile(r"[^@\s]+@[^@\s]+\.[a-z]{2,}", re.IGNORECASE)
_NAMES_FIRST: Final = "put a line with the names of the columns first"
_MANY: Final = 12


def sketch_of_csv(path: Path, known: Collection[str] = ()) -> TableSketch:
    """Sketch a table from the header of a CSV file.

    Args:
        path: the file; `.gz` and `.zst` are unpacked as far as the first line needs.
        known: names that a codebook has; a header with half of them is surely one.
    Raises:
        DraftRefused: no such file, no header in UTF-8, or names that are empty, doubled or no names.
    Privacy: reads the first line, and of a plain file no byte behind it.
    """
    where = shown(path)
    header = _decoded(_first_record(path, where), where)
    delimiter = max(DELIMITERS, key=lambda mark: len(_split(header, mark)))
    names = [name.strip() for name in _split(header, delimiter)]
    sure = 2 * len(set(names) & set(known)) >= len(names)
    if not sure and any(_looks_like_a_value(name) for name in names):
        place = next(place for place, name in enumerate(names, start=1) if _looks_like_a_value(name))
        found = f"a first line whose field {place} looks like a value (not shown: without a header it is a row)"
        remedy = f"{_NAMES_FIRST}; if these are names, describe the columns by --codebook"
        refuse_draft(f"{where}:1", "header", found, "the names of the columns", remedy)
    _check(names, f"{where}:1")
    hints = () if delimiter == "," else (f"The fields are separated by {delimiter!r}: say `delimiter:` in the spec.",)
    columns = tuple(ColumnSketch(name, where=f"{where}:1") for name in names)
    return TableSketch(
        path.name.split(".")[0], columns, f"the first line of {path.name}", hints=hints, delimiter=delimiter
    )


def _first_record(path: Path, where: str) -> bytes:
    """Read up to the end of the first record, which may have line ends within quotes."""
    try:
        with _opened(path) as file:
            record = _record(lambda: bytes(file.read(1)))
        found = ""
    except OSError as error:
        record, found = b"", (error.strerror or "a file that cannot be read").lower()
    if not path.exists():
        refuse_draft(where, "--from", "no such file", "a CSV file", nearest_file(path))
    if found:
        refuse_draft(where, "--from", found, "a CSV file", "check the path, and that it is packed as its name says")
    if len(record) > LONGEST:
        refuse_draft(f"{where}:1", "header", f"more than {LONGEST:,} bytes", "one line of names", _NAMES_FIRST)
    if not record.strip():
        refuse_draft(f"{where}:1", "header", "an empty first line", "the names of the columns", _NAMES_FIRST)
    return record


def _opened(path: Path) -> Any:
    """Open the file so that nothing is read ahead of what is asked for."""
    packing = _PACKINGS.get(path.suffix.lower())
    if packing is None:
        return path.open("rb", buffering=0)
    import pyarrow as pa

    return pa.input_stream(str(path), compression=packing)


def _record(next_byte: Callable[[], bytes]) -> bytes:
    record, quoted = bytearray(), False
    while len(record) <= LONGEST:
        byte = next_byte()
        quoted ^= byte == b'"'
        if not byte or (byte in b"\r\n" and not quoted):
            break
        record += byte
    return bytes(record)


def _decoded(record: bytes, where: str) -> str:
    found = "UTF-16" if record[:2] in _WIDE_MARKS else ""
    try:
        text = record.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        text, found = "", found or f"the byte 0x{record[error.start]:02x} at offset {error.start}, which is not UTF-8"
    if found:
        remedy = "save the file as UTF-8, for example: iconv -f LATIN1 -t UTF-8 FILE > NEW_FILE"
        refuse_draft(f"{where}:1", "encoding", found, "UTF-8", remedy)
    return text


def _split(header: str, delimiter: str) -> list[str]:
    return next(csv.reader(io.StringIO(header, newline=""), delimiter=delimiter), [])


def _looks_like_a_value(name: str) -> bool:
    """Say whether a name is a number, a day or an address."""
    return read_number(name) is not None or read_day(name) is not None or _ADDRESS.fullmatch(name) is not None


def _check(names: list[str], where: str) -> None:
    """Refuse names that no contract can hold: empty, doubled, or with characters that cannot be seen."""
    findings, first = [], dict[str, int]()
    for place, name in enumerate(names, start=1):
        earlier = first.setdefault(name.casefold(), place)
        if not name:
            found, allowed = "an empty name", "a name for every column"
            findings.append(Finding(where, f"column {place}", found, allowed, "name it where the file is written"))
        elif is_not_plain(name):
            allowed = "a name on one line, without characters that cannot be seen"
            remedy = "rename it where the file is written"
            findings.append(Finding(where, f"column {place}", repr(name)[:80], allowed, remedy))
        elif earlier != place:
            found, remedy = f"{name!r} again, as in column {earlier}", "rename or drop one of the columns"
            allowed = "each name once; upper and lower case count as the same"
            findings.append(Finding(where, f"column {place}", found, allowed, remedy))
    if findings:
        raise DraftRefused(findings[:_MANY])
