"""Where a source comes from: what tells that it changed, and how it becomes a reading, whatever kind it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from contracts.address import PostgresAddress, S3Address
from contracts.contract import Contract
from contracts.spec import Source
from tasks.source.folder import Part, parts_of
from tasks.source.lake import around_of, check_plain
from tasks.source.read_csv import read_csv
from tasks.source.read_folder import read_folder
from tasks.source.read_tables import read_duckdb, read_parquet, read_sqlite
from tasks.source.reading import Reading, check_columns, check_distinct
from tasks.source.retyped import check_types

SIDECARS: Final = (".wal", "-wal", "-journal")


@dataclass(frozen=True)
class Origin:
    """A source that was looked at.

    Args:
        first: what changes whenever it is written, as it was when it was looked at.
        marks: the same, looked at again.
        reading: prepares the reading, with a private folder for what has to be fetched first.
        live: whether these do not tell that rows changed: a database that others write to. What was read is one
            state of it; only a run that is charged already goes on with an earlier reading.
        fetches: whether `reading` copies the source into the private folder first.
        fixed_lists: the Parquet file that the whole source is, whose lists may be of fixed size.
    """

    first: object
    marks: Callable[[], object]
    reading: Callable[[Path, Callable[[float], None]], Reading]
    live: bool = False
    fetches: bool = False
    fixed_lists: Path | None = None


def origin_of(source: Source, contract: Contract) -> AbstractContextManager[Origin]:
    """Look at a source: is it there, is it what the spec says, has it the columns of the contract.

    Args:
        source: the source.
        contract: gives the names of the columns.
    Returns:
        The origin, as a context: a connection to a server lasts as long as the block.
    Raises:
        SourceUnreadable: it is not where or what the spec says, or the server does not let us in.
        GateBroken: it is empty or its columns have no proper names.
    """
    if isinstance(source.path, PostgresAddress):
        from tasks.source.postgres import postgres_origin

        return postgres_origin(source, source.path, lambda reading: checked(reading, source, contract))
    if isinstance(source.path, S3Address):
        from tasks.source.objects import objects_origin

        return nullcontext(objects_origin(source, source.path, contract))
    if source.files is not None:
        return nullcontext(_folder(source, source.path, contract))
    return nullcontext(_file(source, source.path, contract))


def checked(reading: Reading, source: Source, contract: Contract) -> Reading:
    """Return a reading whose columns are named once, and are the contract's where no select comes between."""
    check_distinct(reading, contract.source_columns)
    if source.select is None:
        check_columns(reading, reading.columns, contract.source_columns)
        check_types(reading.where, reading.stored, contract)
    return reading


def _file(source: Source, path: Path, contract: Contract) -> Origin:
    """A file, and what a database keeps beside it."""
    check_plain(path, (), around_of(path.resolve()))
    files = [path, *(path.with_name(path.name + end) for end in SIDECARS)]
    reading = checked(read_file(source, path, contract), source, contract)
    whole = path if source.format == "parquet" and source.select is None else None

    def marks() -> object:
        return [_facts(each) for each in files]

    return Origin(marks(), marks, lambda _folder, _advance: reading, fixed_lists=whole)


def read_file(source: Source, path: Path, contract: Contract) -> Reading:
    """Look at one file by the source's format."""
    if source.format == "csv":
        return read_csv(path, delimiter=source.delimiter, expected=contract.source_columns)
    if source.format == "parquet":
        return read_parquet(path)
    if source.format == "duckdb":
        return read_duckdb(path, table=source.table or "")
    return read_sqlite(path, table=source.table or "")


def _folder(source: Source, path: Path, contract: Contract) -> Origin:
    """The files of a folder; one that is new, gone or written meanwhile is a change."""
    if source.files is None:
        raise ValueError("a folder needs the format of its files")
    form, parts = source.files, parts_of(path, source.files)
    reading = checked(read_parts(path, parts, source, contract), source, contract)
    return Origin(marks_of(parts), lambda: marks_of(parts_of(path, form)), lambda _folder, _advance: reading)


def read_parts(where: object, parts: Sequence[Part], source: Source, contract: Contract) -> Reading:
    """Look at the files of a folder, which is here or was fetched."""
    return read_folder(
        where,
        parts,
        source.files or "parquet",
        delimiter=source.delimiter,
        expected=contract.source_columns,
        types=source.select_types(contract)[0],
        columns=source.read_as(contract),
    )


def marks_of(parts: Sequence[Part]) -> list[list[Any]]:
    """Return what changes when a file of a folder is written, comes or goes."""
    return [[str(part.path), *part.facts] for part in parts]


def _facts(path: Path) -> Sequence[Any]:
    """Return what changes when a file is written; an empty sidecar is as good as none."""
    if not path.exists():
        return []
    seen = path.stat()
    return [seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns] if seen.st_size else []
