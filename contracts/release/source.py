"""Where the confidential rows are: a file, a folder of files, or a table of a database, here or at an address."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Protocol

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    InstanceOf,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from contracts.contract.column import Column
from contracts.contract.contract import Contract
from contracts.domains.domain import Frozen
from contracts.errors import Finding, SpecRefused
from contracts.periods.time_blocks import day_of_row, divided_name
from contracts.plug_ins import PlugInAway
from contracts.reading.scalars import Label, Problem, Sql, refuse, show, word_list
from contracts.release.address import Address, is_address, read_address
from contracts.release.engine_kinds import EngineKind, EngineName, engine_kind
from contracts.release.product import DATABASES, SUFFIXES, Files, format_of_name
from contracts.sql import select as select_types
from contracts.sql.select import ValueType, select_tree

# --- The source of linked tables.


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


_CREDENTIALS = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


def _check_path(value: Any) -> Any:
    """Refuse what is no path."""
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        refuse([Problem(show(value), "a path")])
    return value


def _check_folder(value: Any) -> Any:
    """Refuse what is neither a path of a folder nor an address that can be read."""
    if is_address(_check_path(value)):
        read_address(value)
    return value


def _resolve(value: Any, info: ValidationInfo) -> Any:
    """Resolve a path against the folder of the file that names it (the validation context's `folder`)."""
    if isinstance(value, Path):
        return value
    if is_address(_check_path(value)):
        refuse([Problem("an address", "a path of a file", "copy it to a file")])
    folder = (info.context or {}).get("folder", Path())
    return (Path(folder) / value).absolute()


def _resolve_or_read(value: Any, info: ValidationInfo) -> Any:
    """Resolve a path, or read an address."""
    if isinstance(value, Address):
        return value
    return read_address(value) if isinstance(value, str) and is_address(value) else _resolve(value, info)


def _only_a_name(credentials: str) -> str:
    """Refuse what could be credentials rather than their name."""
    if not _CREDENTIALS.fullmatch(credentials) or len(credentials) > 40:
        allowed = "the name of credentials: at most 40 lower-case letters, digits and hyphens"
        remedy = "a spec holds no credentials: put them into the environment (docs/platform.md)"
        refuse([Problem("something else than a name", allowed, remedy)])
    return credentials


CredentialsName = Annotated[Label, AfterValidator(_only_a_name)]
_WRITTEN_AS_TEXT = WithJsonSchema({"type": "string", "minLength": 1})
FilePath = Annotated[Path, BeforeValidator(_resolve), _WRITTEN_AS_TEXT]
SourcePlace = Annotated[InstanceOf[Path] | InstanceOf[Address], BeforeValidator(_resolve_or_read), _WRITTEN_AS_TEXT]
WrittenPath = Annotated[str, BeforeValidator(_check_folder), _WRITTEN_AS_TEXT]


class Source(Frozen):
    """One table: a file, the files of one format in a folder, or a table of a database.

    Args:
        path: the file, folder or database: a path, resolved against the folder of the spec, or an address.
        table: which table, in a database; in PostgreSQL with its schema where that is not `public`.
        files: the format of the files, where the path is a folder.
        select: a row-wise SELECT over the relation `source`; see `contracts.sql.select`.
        types: the types of columns of the source in expressions of the select; see `contracts.sql.select`.
        delimiter: the character between the fields of a CSV; where it is None, a comma is taken, and the reading
            stops with the right one named if the header fits the contract at another.
        credentials: the name under which the environment keeps the credentials of an address; None for those that
            the environment gives any program (PGUSER, AWS_ACCESS_KEY_ID and the like).
        by: the column whose day says which period a row belongs to, in a spec with `period:`.
        engine: what counts the rows where they are, instead of a snapshot here: of Parquet; without `select` and
            `by`.
        tables: of linked tables, the file of each in the folder `path`, or its name in that database.
        base: of linked tables, the one whose rows are released; see `contracts.contract.linked`.
    """

    path: SourcePlace
    table: Label | None = None
    files: Files | None = None
    select: Sql | None = None
    types: dict[Label, ValueType] | None = None
    delimiter: str | None = None
    credentials: CredentialsName | None = None
    by: Label | None = None
    engine: EngineName | None = None
    tables: dict[Label, Label] | None = Field(default=None, exclude_if=lambda tables: tables is None)
    base: Label | None = Field(default=None, exclude_if=lambda base: base is None)

    @field_validator("delimiter")
    @classmethod
    def _one_character(cls, delimiter: str | None) -> str | None:
        if delimiter is not None and (len(delimiter.encode()) != 1 or delimiter in '"\r\n\0'):
            refuse([Problem(show(delimiter), 'one ASCII character, such as "," or ";" or "\\t"')])
        return delimiter

    @model_validator(mode="after")
    def _keys_fit_format(self) -> Source:
        linked = self.tables is not None or self.base is not None
        problems = list(place_problems(self) if linked else _misfits(self))
        if problems:
            refuse(problems)
        return self

    @property
    def format(self) -> str:
        """The format of the file or the files, or the kind of database; a .csv.gz is a csv."""
        form = self._format()
        if form is None:
            raise ValueError(f"unknown suffix: {self.path}")
        return form

    def _format(self) -> str | None:
        if self.tables is not None:
            return linked_form(self)
        if isinstance(self.path, Address):
            return self.path.table_format(self.files)
        return self.files or format_of_name(self.path.name)

    @property
    def name(self) -> str:
        """The canonical name that the ledger binds to a population: the same however the source is written."""
        return source_name(self.path, self.table, folder=self.files is not None)

    def bound_name(self, contract: Contract) -> str:
        """Return the name under which the ledger knows the people; by period, the column belongs to it."""
        return divided_name(self.name, None if self.by is None else day_of_row(self.by, contract))

    def select_types(self, contract: Contract) -> tuple[dict[str, ValueType], list[Problem]]:
        """Return the types of the columns that expressions of a checked select use, and problems below `source`."""
        if self.select is None:
            return {}, []
        return select_types.types_of(select_tree(self.select), self.types or {}, contract, date_column=self.by)

    def exact_columns(self, contract: Contract, outputs: Iterable[str]) -> dict[str, str]:
        """Return the columns of the source of which ids or keys are made, in lower case, and what each makes."""
        if self.select is None:
            return {name.lower(): name for name in outputs}
        node = select_tree(self.select)
        made = ((each, name) for name in outputs for each in set().union(*select_types.sources_of(node, name)))
        return {each.partition(".")[0]: name for each, name in made}

    def read_as(self, contract: Contract) -> dict[str, Column]:
        """Return how the contract reads columns of the source that reach it as they are, by names in lower case."""
        if self.select is None:
            return {column.name.lower(): column for column in contract.columns}
        return select_types.read_as(select_tree(self.select), contract)


def _misfits(source: Source) -> list[Problem]:
    """List the keys that do not fit the kind of source."""
    path, form = source.path, source._format()
    misplaced = path.misplaced(source.files) if isinstance(path, Address) else None
    if misplaced is not None:
        return [misplaced]
    if form is None:
        found = f"the suffix of {path.name!r}" if isinstance(path, Path) else "the suffix of the key"
        remedy = "rename or convert the file; for a folder of files add `files: parquet` or `files: csv`"
        return [Problem(found, word_list(tuple(SUFFIXES)), remedy, ("path",))]
    tables = path.has_tables if isinstance(path, Address) else form in DATABASES
    problems = []
    if tables and source.table is None:
        problems.append(Problem("a database without `table`", "the name of one table", "add `table:`"))
    if tables and isinstance(path, Address) and source.table is not None:
        problems += path.table_problems(source.table)
    if not tables and source.table is not None:
        remedy = "drop it: the file is the table"
        problems.append(Problem(f"`table` for a {form} file", "`table` for databases", remedy, ("table",)))
    if form != "csv" and source.delimiter is not None:
        problems.append(Problem(f"`delimiter` for a {form} file", "`delimiter` for CSV", "drop it", ("delimiter",)))
    if source.credentials is not None:
        problems += credentials_problems(path)
    if source.engine is not None:
        problems += _engine_problems(source.engine, path, form)
    if source.types is not None and source.select is None:
        problems.append(Problem("`types` without `select`", "`types` beside `select`", "drop it", ("types",)))
    for key in ("select", "by"):
        if source.engine is not None and getattr(source, key) is not None:
            remedy = "make a table of the rows that are meant, or drop `engine`"
            problems.append(Problem(f"`{key}` beside `engine`", "one of the two", remedy, (key,)))
    return problems


def _engine_problems(engine: str, path: Path | Address, form: str) -> list[Problem]:
    """Say what is wrong with an engine that cannot count this place."""
    try:
        engine_kind(engine, EngineKind)
    except PlugInAway as error:
        return [Problem(f"`engine: {engine}`, {error.found}", error.allowed, error.remedy, ("engine",))]
    if isinstance(path, Path) and form == "parquet":
        return []
    remedy = "store the table as Parquet, or drop it"
    return [Problem(f"`engine` for {form}", "`engine` for Parquet files", remedy, ("engine",))]


def credentials_problems(place: Path | Address) -> list[Problem]:
    """Say what is wrong with `credentials:` beside a place that needs none."""
    if isinstance(place, Address) and place.takes_credentials:
        return []
    what = f"{place.kind}://" if isinstance(place, Address) else "a path of this machine"
    found = f"`credentials` for {what}"
    allowed = "for an address that asks for them, such as a store or a server"
    return [Problem(found, allowed, "drop it", ("credentials",))]


def source_name(path: Path | Address, table: str | None = None, *, folder: bool = False) -> str:
    """Return the canonical name of a source, however it is written.

    Of a file or folder the real path (links followed), with the table of a database behind `::`; of an address what
    its kind makes of it.
    """
    if isinstance(path, Address):
        return path.source_name(table, folder=folder)
    real = str(path.resolve())
    return real if table is None else f"{real}::{table}"


def written_source_name(written: str) -> str:
    """Return the canonical name of what a person types: FILE, FILE::TABLE, a folder, or an address.

    Raises:
        SpecRefused: an address cannot be read; nothing of it is shown that could be a credential.
    """
    if not is_address(written):
        path, _, name = written.partition("::")
        return source_name(Path(path), name or None)
    place, double, table = written.rpartition("::")
    with_table = bool(double) and "/" in place.partition("://")[2] and "/" not in table
    address = _read_typed(place if with_table else written, "source")
    if address.has_tables and not with_table:
        found, allowed = "a database without a table", "ADDRESS::TABLE or ADDRESS::SCHEMA.TABLE"
        raise SpecRefused([Finding("the command", "source", found, allowed, "add the table")])
    problems = address.table_problems(table) if address.has_tables else []
    if problems:
        raise SpecRefused([Finding("the command", "source", p.found, p.allowed, p.remedy) for p in problems])
    return source_name(address, table if with_table else None, folder=written.endswith("/"))


def written_address(written: str, field: str, credentials: str | None = None) -> str:
    """Return an address that a person types, once it can be read.

    Args:
        written: what was typed.
        field: for what.
        credentials: the name of credentials that was typed beside it.
    Raises:
        SpecRefused: it cannot; nothing of it is shown that could be a credential. Or it takes no credentials.
    """
    if not is_address(written):
        found = Finding("the command", field, show(written), "an address: s3://... or postgresql://...", "correct it")
        raise SpecRefused([found])
    address = _read_typed(written, field)
    if credentials is not None and (wrong := credentials_problems(address)):
        raise SpecRefused([Finding("the command", "--credentials", p.found, p.allowed, p.remedy) for p in wrong])
    return written


def _read_typed(written: str, field: str) -> Address:
    try:
        return read_address(written)
    except PydanticCustomError as error:
        problems = (error.context or {}).get("problems", ())
    raise SpecRefused([Finding("the command", field, each.found, each.allowed, each.remedy) for each in problems])
