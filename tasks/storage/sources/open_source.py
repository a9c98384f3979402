"""Open a source of any kind: a file, the files of a folder, objects of a store, a table of a server."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Final

from contracts.contract.contract import Contract
from contracts.release.address import Address
from contracts.release.source import Source
from tasks.storage.sources.folder import parts_of
from tasks.storage.sources.lake_formats import around_of, check_plain
from tasks.storage.sources.source import Origin, checked, marks_of, read_file, read_parts, source_kind

SIDECARS: Final = (".wal", "-wal", "-journal")


def open_source(source: Source, contract: Contract) -> AbstractContextManager[Origin]:
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
    if isinstance(source.path, Address):
        return source_kind(source.path).open(source, source.path, contract)
    if source.files is not None:
        return nullcontext(_folder(source, source.path, contract))
    return nullcontext(_file(source, source.path, contract))


def _file(source: Source, path: Path, contract: Contract) -> Origin:
    """A file, and what a database keeps beside it."""
    check_plain(path, (), around_of(path.resolve()))
    files = [path, *(path.with_name(path.name + end) for end in SIDECARS)]
    reading = checked(read_file(source, path, contract), source, contract)
    whole = path if source.format == "parquet" and source.select is None else None

    def marks() -> object:
        return [_facts(each) for each in files]

    return Origin(marks(), marks, lambda _folder, _advance: reading, fixed_lists=whole)


def _folder(source: Source, path: Path, contract: Contract) -> Origin:
    """The files of a folder; one that is new, gone or written meanwhile is a change."""
    if source.files is None:
        raise ValueError("a folder needs the format of its files")
    form, parts = source.files, parts_of(path, source.files)
    reading = checked(read_parts(path, parts, source, contract), source, contract)
    return Origin(marks_of(parts), lambda: marks_of(parts_of(path, form)), lambda _folder, _advance: reading)


def _facts(path: Path) -> Sequence[Any]:
    """Return what changes when a file is written; an empty sidecar is as good as none."""
    if not path.exists():
        return []
    seen = path.stat()
    return [seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns] if seen.st_size else []
