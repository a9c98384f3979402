"""The source of linked tables: a folder with a file for each table, or a database with all of them.

    source:
      path: data/                                            one place, and one name in the ledger
      tables: {household: household.parquet, person: person.csv}
      base: person                                           each row that is released is one of this table

The ledger binds the place, whatever files and base a spec takes from it: a charge on one is a charge on all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

from contracts.reading.scalars import Problem
from contracts.release.file_names import DATABASES, format_of_name

_TABLES = "tables"
_ALONE = ("table", "files", "select", "types", "credentials", "by", "engine")
"""Keys of a source that is one table."""


class LinkedPlace(Protocol):
    """The keys of a source that say where linked tables are."""

    @property
    def path(self) -> Any:
        """The folder or the database."""

    @property
    def tables(self) -> dict[str, str] | None:
        """The file of each table, or its name in the database."""

    @property
    def base(self) -> str | None:
        """The table whose rows are released."""

    @property
    def delimiter(self) -> str | None:
        """The character between the fields of a CSV."""


def linked_form(source: LinkedPlace) -> str:
    """Return the formats of the files, or of the database, as a record names them: "tables: csv, parquet"."""
    forms = {format_of_name(name) or "" for name in _files(source).values()}
    return f"{_TABLES}: {', '.join(sorted(forms))}"


def stored_formats(form: str) -> tuple[str, ...]:
    """Return the formats that the format of linked tables names; none for that of any other source."""
    kind, colon, formats = form.partition(": ")
    return tuple(formats.split(", ")) if colon and kind == _TABLES else ()


def _files(source: LinkedPlace) -> Mapping[str, str]:
    """Return the file that each table lies in."""
    tables = source.tables or {}
    if not isinstance(source.path, Path):
        return {}
    database = format_of_name(source.path.name) in DATABASES
    return {name: source.path.name if database else file for name, file in tables.items()}


def place_problems(source: LinkedPlace) -> Iterator[Problem]:
    """Yield what is wrong with the keys of a source of linked tables."""
    tables, path = source.tables, source.path
    if tables is None or source.base is None:
        missing = "tables" if tables is None else "base"
        remedy = "name each table's file" if tables is None else "name the table whose rows are released"
        yield Problem(f"linked tables without `{missing}`", "`tables` and `base`", f"add `{missing}:`; {remedy}")
        return
    for key in _ALONE:
        if getattr(source, key) is not None:
            yield Problem(f"`{key}` beside `tables`", "`path`, `tables`, `base` and `delimiter`", "drop it", (key,))
    if not isinstance(path, Path):
        remedy = "copy the tables into a folder"
        yield Problem("`tables` at an address", "a folder, or a DuckDB or SQLite file", remedy, ("path",))
        return
    form = format_of_name(path.name)
    if form in DATABASES:
        if source.delimiter is not None:
            yield Problem(f"`delimiter` for {form}", "`delimiter` for CSV", "drop it", ("delimiter",))
        yield from _shared(tables, tables)
        return
    if form is not None:
        remedy = "name the folder that holds a file for each table"
        yield Problem(f"a {form} file", "a folder, or a DuckDB or SQLite file", remedy, ("path",))
        return
    yield from _file_problems(tables, csv_delimiter=source.delimiter is not None)


def _file_problems(tables: dict[str, str], *, csv_delimiter: bool) -> Iterator[Problem]:
    """Each table has a file of its own, below the folder, in a format that one reads."""
    plain = {name: str(PurePosixPath(file)) for name, file in tables.items()}
    for name, file in plain.items():
        at = (_TABLES, name)
        if PurePosixPath(file).is_absolute() or ".." in PurePosixPath(file).parts:
            remedy = "put it into the folder: the ledger knows the tables by that one place"
            yield Problem(repr(file), "a file below the folder of `path`", remedy, at)
        elif format_of_name(file) not in ("csv", "parquet"):
            remedy = "convert it, or put all tables into a DuckDB or SQLite file and name that as `path`"
            yield Problem(f"the suffix of {file!r}", "a CSV or Parquet file", remedy, at)
    if csv_delimiter and "csv" not in {format_of_name(file) for file in plain.values()}:
        yield Problem("`delimiter` without a CSV file", "`delimiter` for CSV", "drop it", ("delimiter",))
    yield from _shared(tables, plain)


def _shared(tables: dict[str, str], places: dict[str, str]) -> Iterator[Problem]:
    """No two tables are the same rows."""
    for place, number in Counter(places.values()).items():
        if number > 1:
            names = [name for name in tables if places[name] == place]
            remedy = "name each table's own"
            yield Problem(f"{place!r} for {' and '.join(names)}", "one table each", remedy, (_TABLES, names[1]))
