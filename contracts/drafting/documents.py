"""A sketch from a dbt properties file (`schema.yml`): models, seeds, snapshots and sources with their columns.

Read: `data_type`, `description`, the tests `accepted_values`, `not_null`, `unique` and `relationships` (under
`data_tests:` or `tests:`, with or without `arguments:`), `accepted_range` of dbt_utils, and `constraints`. Accepted
values and ranges are taken over as declared, to be checked. No test is run, and no table that one refers to is read.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, Final, get_args

from contracts.contract.column import LogicalType
from contracts.domains.notation import format_of_java
from contracts.drafting.sketch import (
    ROW_ID,
    ColumnSketch,
    DraftRefused,
    TableSketch,
    chosen,
    logical_type_of,
    refuse_draft,
)
from contracts.errors import Finding
from contracts.reading.scalars import is_not_plain, read_day, read_number
from contracts.reading.yaml_lines import Document, nearest_file, shown

_GROUPS = ("models", "seeds", "snapshots")
_RANGES = ("accepted_range", "expect_column_values_to_be_between")
_LIMITS = ("min_value", "max_value")
Test = tuple[str, dict[str, Any]]


def describes_dbt(document: Document) -> bool:
    """Say whether a file looks like a dbt properties file."""
    return any(group in (document.root.entries or {}) for group in (*_GROUPS, "sources"))


def sketch_of_dbt(document: Document, table: str | None) -> TableSketch:
    """Sketch one model, seed, snapshot or source table.

    Args:
        document: the properties file.
        table: its name; the only one without it.
    Raises:
        DraftRefused: there is no such table, or several and none is named.
    """
    where, tables = shown(document.path), list(_tables(document.text()))
    one = tables[chosen([str(each.get("name")) for each in tables], table, where=where)]
    read = [_column(entry, document.path.name) for entry in map(_entries, _items(one["columns"]))]
    description = _text(one.get("description"))
    return TableSketch(
        name=str(one.get("name")),
        columns=tuple(column for column, _ in read),
        origin=f"the dbt file {document.path.name}",
        description={} if description is None else {"purpose": description},
        hints=tuple(f"{column.name} {about}" for column, about in read if about),
    )


def _tables(tree: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every entry that lists columns."""
    listed = [each for group in _GROUPS for each in _items(tree.get(group))]
    listed += [each for source in _items(tree.get("sources")) for each in _items(_entries(source).get("tables"))]
    yield from (_entries(each) for each in listed if _items(_entries(each).get("columns")))


def _column(entry: dict[str, Any], file: str) -> tuple[ColumnSketch, str]:
    """Sketch a column; also say what its tests tell about whose rows these are, or ""."""
    name, stated, tests = str(entry.get("name")), _text(entry.get("data_type")), list(_tests(entry))
    logical = logical_type_of(stated)
    accepted = next((_items(given.get("values")) for test, given in tests if test == "accepted_values"), [])
    values = tuple(dict.fromkeys(value for value in accepted if isinstance(value, str)))
    bounds = _bounds(tests) if logical in ("integer", "number") and not values else None
    test = "accepted_values" if values else "accepted_range" if bounds else ""
    column = ColumnSketch(
        name=name,
        logical_type=logical,
        description=_text(entry.get("description")),
        values=values,
        bounds=bounds,
        origin=f"{file}, test {test} of {name}" if test else "",
        hints=tuple(_hints(stated, tests)),
    )
    return column, _about_units(tests)


def _tests(entry: dict[str, Any]) -> Iterator[Test]:
    """Every test and constraint of a column: its name without the package, and its arguments."""
    for test in [*_items(entry.get("data_tests")), *_items(entry.get("tests"))]:
        if isinstance(test, str):
            yield test.rpartition(".")[2], {}
        elif isinstance(test, dict):
            named = _text(test.get("test_name"))
            name, given = (named, test) if named else next(iter(test.items()), ("", {}))
            given = _entries(given)
            yield str(name).rpartition(".")[2], {**given, **_entries(given.get("arguments"))}
    for constraint in map(_entries, _items(entry.get("constraints"))):
        kind = str(constraint.get("type"))
        yield {"foreign_key": "relationships"}.get(kind, kind), constraint


def _bounds(tests: list[Test]) -> tuple[str, str] | None:
    for name, given in tests:
        if name in _RANGES and all(_text(given.get(key)) for key in _LIMITS):
            return str(given["min_value"]), str(given["max_value"])
    return None


def _hints(stated: str | None, tests: list[Test]) -> Iterator[str]:
    names = {name for name, _ in tests}
    if stated is not None and logical_type_of(stated) is None:
        yield f"Its type is {stated}, which a contract has no domain for: leave it out or convert it by `select:`."
    if "not_null" in names:
        yield "dbt tests that it is never null; a value that cannot be read is missing all the same."
    for name, given in tests:
        if name == "check" and _text(given.get("expression")):
            yield f"dbt checks: {given['expression']}"
    if names & {"unique", "primary_key"}:
        yield ROW_ID


def _about_units(tests: list[Test]) -> str:
    """Say what the tests of a column tell about whose rows these are."""
    names = {name for name, _ in tests}
    target = next((_target(given) for name, given in tests if name == "relationships"), None)
    if target is not None:
        return (
            f"refers to {target}: if one of them may have several rows here, they may be the unit; then write "
            f"kind: id and "
            "remove its domain."
        )
    return "is unique, so that it is the id of a row, not of somebody." if names & {"unique", "primary_key"} else ""


def _target(arguments: dict[str, Any]) -> str:
    fields = _text(arguments.get("field")) or ", ".join(map(str, _items(arguments.get("to_columns"))))
    return f"{arguments.get('to', 'another table')}{f', {fields}' if fields else ''}"


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value.strip() else None


def _entries(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


# --- The first line of a CSV file.


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


# --- A sketch from a data contract (Open Data Contract Standard 3) that says nothing about privacy yet.


_OURS = frozenset({"privacy", "domain"})
_HEADER = frozenset({"apiVersion", "kind", "id", "name", "version", "status", "description", "schema"})
_OF_TABLE = frozenset({"name", "properties", "customProperties", "logicalType", "physicalType"})
_OF_COLUMN = frozenset({"name", "logicalType", "description", "examples", "customProperties"})
_TYPES: tuple[LogicalType, ...] = get_args(LogicalType)


def sketch_of_contract(document: Document, table: str | None) -> TableSketch:
    """Sketch one table of a data contract.

    Args:
        document: the file.
        table: its name; the only one without it.
    Raises:
        DraftRefused: there is no such table, or several and none is named.
    """
    where, tree = shown(document.path), document.typed()
    tables = [_entries(each) for each in _items(tree.get("schema")) if _items(_entries(each).get("properties"))]
    one = tables[chosen([str(each.get("name")) for each in tables], table, where=where)]
    columns = tuple(_odcs_column(_entries(each)) for each in _items(one["properties"]))
    return TableSketch(
        name=str(one.get("name")),
        columns=columns,
        origin=f"the data contract {document.path.name}",
        identifier=_text(tree.get("id")),
        title=_text(tree.get("name")),
        description=_entries(tree.get("description")),
        hints=tuple(f"{column.name}: {hint}" for column in columns for hint in column.hints if hint == ROW_ID),
        kept={key: value for key, value in tree.items() if key not in _HEADER},
        kept_of_table={key: value for key, value in one.items() if key not in _OF_TABLE},
    )


def _odcs_column(entry: dict[str, Any]) -> ColumnSketch:
    stated = _text(entry.get("logicalType")) or _text(entry.get("physicalType"))
    logical = stated if stated in _TYPES else logical_type_of(stated)
    values, values_from = _values(entry)
    bounds = _odcs_bounds(entry) if logical in ("integer", "number", "date") and not values else None
    custom = [each for each in _items(entry.get("customProperties")) if _entries(each).get("property") not in _OURS]
    kept = {key: value for key, value in entry.items() if key not in _OF_COLUMN}
    return ColumnSketch(
        name=str(entry.get("name")),
        logical_type=logical,
        description=_text(entry.get("description")),
        values=values,
        bounds=bounds,
        form=_form(entry) if logical == "date" else None,
        origin=values_from if values else "logicalTypeOptions (minimum, maximum)" if bounds else "",
        hints=tuple(_odcs_hints(entry, stated, logical)),
        kept={**kept, **({"customProperties": custom} if custom else {})},
    )


def _values(entry: dict[str, Any]) -> tuple[tuple[str, ...], str]:
    """The categories that a property declares, and under which key."""
    listed = [each.get("value") if isinstance(each, dict) else each for each in _items(entry.get("enum"))]
    if listed:
        return _texts(listed), "`enum`"
    for rule in map(_entries, _items(entry.get("quality"))):
        valid = _items(_entries(rule.get("arguments")).get("validValues")) or _items(rule.get("validValues"))
        if valid:
            return _texts(valid), "the quality rule `validValues`"
    return (), ""


def _odcs_bounds(entry: dict[str, Any]) -> tuple[str, str] | None:
    options = _entries(entry.get("logicalTypeOptions"))
    low, high = options.get("minimum"), options.get("maximum")
    return None if low is None or high is None else (str(low), str(high))


def _form(entry: dict[str, Any]) -> str | None:
    """How texts write days, where the standard's `logicalTypeOptions.format` says another way than YYYY-MM-DD."""
    form = format_of_java(str(_entries(entry.get("logicalTypeOptions")).get("format")))
    return None if form == "%Y-%m-%d" else form


def _odcs_hints(entry: dict[str, Any], stated: str | None, logical: str | None) -> list[str]:
    hints = []
    if logical is None and stated is not None:
        hints.append(
            f"Its type is {stated}, which a contract has no domain for: leave it out or convert it by `select:`."
        )
    if entry.get("unique") is True or entry.get("primaryKey") is True:
        hints.append(ROW_ID)
    if _items(entry.get("relationships")):
        hints.append(
            "It refers to another table: if that is a table of people, this is their id (`unit`), not a category."
        )
    if _items(entry.get("examples")):
        hints.append("`examples` were not taken over: they may be values of real rows.")
    return hints


def _texts(values: list[Any]) -> tuple[str, ...]:
    """Write declared values as texts, each once; nulls go."""
    written = [str(value).lower() if isinstance(value, bool) else str(value) for value in values if value is not None]
    return tuple(dict.fromkeys(written))
