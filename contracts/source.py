"""Where the confidential rows are: one file or database table, read by its suffix."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ValidationInfo, WithJsonSchema, field_validator, model_validator

from contracts.domain_terms import Frozen
from contracts.written import Label, Problem, Sql, listed, refuse, show

Format = Literal["csv", "parquet", "duckdb", "sqlite"]
SUFFIXES: dict[str, Format] = {
    ".csv": "csv",
    ".csv.gz": "csv",
    ".parquet": "parquet",
    ".duckdb": "duckdb",
    ".sqlite": "sqlite",
    ".sqlite3": "sqlite",
    ".db": "sqlite",
}
_DATABASES = ("duckdb", "sqlite")


def _check_path(value: Any) -> Any:
    """Refuse what is no path."""
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        refuse([Problem(show(value), "a path")])
    return value


def _check_folder(value: Any) -> Any:
    """Refuse what is no path of a folder."""
    if "://" in _check_path(value):
        refuse([Problem(show(value), "a path of a folder", "publish to a folder; addresses are not written to")])
    return value


def _resolve(value: Any, info: ValidationInfo) -> Any:
    """Resolve a path against the folder of the file that names it (the validation context's `folder`)."""
    if isinstance(value, Path):
        return value
    if "://" in _check_path(value):
        allowed = "a path of a file: " + ", ".join(SUFFIXES)
        refuse([Problem(show(value), allowed, "copy the table to a file; addresses are not read")])
    folder = (info.context or {}).get("folder", Path())
    return (Path(folder) / value).absolute()


FilePath = Annotated[Path, BeforeValidator(_resolve), WithJsonSchema({"type": "string", "minLength": 1})]
WrittenPath = Annotated[str, BeforeValidator(_check_folder), WithJsonSchema({"type": "string", "minLength": 1})]


def format_of(path: Path) -> Format | None:
    """Return the format that a file's suffix stands for, or None for an unknown suffix."""
    name = path.name.lower()
    return next((form for suffix, form in SUFFIXES.items() if name.endswith(suffix)), None)


class Source(Frozen):
    """One table: a CSV (plain or .gz) or Parquet file, or a table in a DuckDB or SQLite file.

    Args:
        path: the file, resolved against the folder of the spec.
        table: which table, in a database.
        select: a row-wise SELECT over the relation `source`; see `contracts.selection`.
        delimiter: the character between the fields of a CSV; where it is None, a comma is taken, and the reading
            stops with the right one named if the header fits the contract at another.
    """

    path: FilePath
    table: Label | None = None
    select: Sql | None = None
    delimiter: str | None = None

    @field_validator("path")
    @classmethod
    def _known_suffix(cls, path: Path) -> Path:
        if format_of(path) is None:
            refuse([Problem(f"the suffix of {path.name!r}", listed(tuple(SUFFIXES)), "rename or convert the file")])
        return path

    @field_validator("delimiter")
    @classmethod
    def _one_character(cls, delimiter: str | None) -> str | None:
        if delimiter is not None and (len(delimiter.encode()) != 1 or delimiter in '"\r\n\0'):
            refuse([Problem(show(delimiter), 'one ASCII character, such as "," or ";" or "\\t"')])
        return delimiter

    @model_validator(mode="after")
    def _keys_fit_format(self) -> Source:
        problems = []
        if self.format in _DATABASES and self.table is None:
            problems.append(Problem("a database without `table`", "the name of one table", "add `table:`"))
        if self.format not in _DATABASES and self.table is not None:
            remedy = "drop it: the file is the table"
            problems.append(Problem(f"`table` for a {self.format} file", "`table` for databases", remedy, ("table",)))
        if self.format != "csv" and self.delimiter is not None:
            found = f"`delimiter` for a {self.format} file"
            problems.append(Problem(found, "`delimiter` for CSV", "drop it", ("delimiter",)))
        if problems:
            refuse(problems)
        return self

    @property
    def format(self) -> Format:
        """The format that the suffix stands for; a .csv.gz is a csv."""
        form = format_of(self.path)
        if form is None:
            raise ValueError(f"unknown suffix: {self.path.name}")
        return form

    @property
    def name(self) -> str:
        """The canonical name that the ledger binds to a population: the real path, and the table after `::`."""
        return source_name(self.path, self.table)


def source_name(path: Path, table: str | None = None) -> str:
    """Return the canonical name of a source: its real path (links followed), with the table of a database."""
    real = str(path.resolve())
    return real if table is None else f"{real}::{table}"
