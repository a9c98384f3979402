"""Where a source comes from: what tells that it changed, and how it becomes a reading, whatever kind it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from contracts.contract.contract import Contract
from contracts.domains.value_sql import identifier
from contracts.errors import Finding, SourceUnreadable
from contracts.plug_ins import PlugInAway, find
from contracts.release.address import Address
from contracts.release.source import Source as Source_of_source_kinds
from contracts.release.spec import Source
from tasks.storage.sources.files import check_decimals, check_types, read_csv, read_duckdb, read_parquet, read_sqlite
from tasks.storage.sources.folder import FolderFile, read_folder
from tasks.storage.sources.typed_rows import Reading, check_columns, check_distinct


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


def checked(reading: Reading, source: Source, contract: Contract) -> Reading:
    """Return a reading whose columns are named once, and are the contract's where no select comes between."""
    check_distinct(reading, contract.source_columns)
    check_decimals(reading.where, reading.stored, source, contract)
    if source.select is None:
        check_columns(reading, reading.columns, contract.source_columns, unread=contract.left_out)
        check_types(reading.where, reading.stored, contract)
    return reading


def read_file(source: Source, path: Path, contract: Contract) -> Reading:
    """Look at one file by the source's format."""
    if source.format == "csv":
        return read_csv(path, delimiter=source.delimiter, expected=contract.source_columns)
    if source.format == "parquet":
        return read_parquet(path)
    if source.format == "duckdb":
        return read_duckdb(path, table=source.table or "")
    return read_sqlite(path, table=source.table or "")


def read_parts(
    where: object,
    parts: Sequence[FolderFile],
    source: Source,
    contract: Contract,
    *,
    stored_as: Mapping[str, str] | None = None,
) -> Reading:
    """Look at the files of a folder, which is here or was fetched.

    Args:
        where: the folder, for messages.
        parts: its files.
        source: the source.
        contract: the contract.
        stored_as: how all files call columns that the table calls otherwise, by the table's names.
    """
    inside = dict(stored_as or {})
    lower = {name.lower(): stored.lower() for name, stored in inside.items()}
    unit = () if contract.unit.column is None else (contract.unit.column,)
    ids = [*source.exact_columns(contract, unit), *(name.lower() for name in contract.left_out)]
    reading = read_folder(
        where,
        parts,
        source.files or "parquet",
        delimiter=source.delimiter,
        expected=[inside.get(name, name) for name in contract.source_columns],
        unit=([lower.get(name, name) for name in ids], contract.unit.numbers_up_to),
        types={lower.get(name, name): each for name, each in source.select_types(contract)[0].items()},
        columns={lower.get(name, name): each for name, each in source.read_as(contract).items()},
    )
    return _called(reading, inside) if inside else reading


def _called(reading: Reading, stored_as: Mapping[str, str]) -> Reading:
    """Return a reading whose columns have the table's names."""
    names = {stored: name for name, stored in stored_as.items()}
    lower = {stored.lower(): name.lower() for name, stored in stored_as.items()}
    listed = ", ".join(f"{identifier(stored)} AS {identifier(name)}" for stored, name in names.items())
    return replace(
        reading,
        columns=tuple(names.get(name, name) for name in reading.columns),
        relation=f"(SELECT * RENAME ({listed}) FROM {reading.relation})",
        stored={names.get(name, name): kind for name, kind in reading.stored.items()},
        floats=frozenset(names.get(name, name) for name in reading.floats),
        typed={lower.get(name, name): copy for name, copy in reading.typed.items()},
    )


def marks_of(parts: Sequence[FolderFile]) -> list[list[Any]]:
    """Return what changes when a file of a folder is written, comes or goes."""
    return [[str(part.path), *part.facts] for part in parts]


# --- What opens the source that an address names, by the address's kind; packages register more as `sudare.sources`.


GROUP: Final = "sudare.sources"
_BUILT_IN: Final = {"postgresql": "tasks.storage.sources.postgres.connection:TABLES"}


@dataclass(frozen=True)
class SourceKind:
    """How sources of one kind of address are read.

    Args:
        open: looks at a source, and returns its origin for as long as a block lasts.
        last_written: when a source was last written, None where it is not there; without it nothing waits for one.
    """

    open: Callable[[Source_of_source_kinds, Any, Contract], AbstractContextManager[Origin]]
    last_written: Callable[[Source_of_source_kinds, Any], datetime | None] | None = None


def source_kind(address: Address) -> SourceKind:
    """Return how a source at an address is read; only its own module is loaded.

    Raises:
        SourceUnreadable: nothing is registered for such addresses.
    """
    registered = find(GROUP, _BUILT_IN, address.kind)
    found, allowed = f"an address of kind {address.kind!r}", "one that sources have"
    remedy = "name a source of another kind, or install the package that reads this one"
    try:
        if registered is not None:
            kind: SourceKind = registered.load(SourceKind)
            return kind
    except PlugInAway as error:
        found, allowed, remedy = f"{found}, {error.found}", error.allowed, error.remedy
    raise SourceUnreadable([Finding(str(address), "source.path", found, allowed, remedy)])
