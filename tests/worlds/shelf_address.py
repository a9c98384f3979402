"""A kind of source and of sink that no part of the tree knows: a shelf, a folder behind a card. A package has it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from contracts.contract.contract import Contract
from contracts.errors import Finding, SourceUnreadable
from contracts.reading.scalars import Problem, refuse
from contracts.release.address import CONTROL, Address
from contracts.release.source import Source
from tasks.storage.credentials import credentials_of
from tasks.storage.sinks.sink_kinds import SinkKind
from tasks.storage.sinks.version_copy import WholeVersion
from tasks.storage.sources.files import read_csv
from tasks.storage.sources.source import Origin, SourceKind, checked


@dataclass(frozen=True)
class ShelfAddress(Address):
    kind: ClassVar[str] = "shelf"

    folder: Path

    @classmethod
    def read(cls, scheme: str, rest: str, written: str) -> ShelfAddress:
        if not rest.startswith("/") or CONTROL.search(rest):
            refuse([Problem("a shelf without a folder", "shelf:///FOLDER", "write the whole path")])
        return cls(Path(rest).resolve())

    def __str__(self) -> str:
        return f"shelf://{self.folder}"

    def table_format(self, files: str | None) -> str:
        return "csv"


@contextmanager
def opened(source: Source, address: ShelfAddress, contract: Contract) -> Iterator[Origin]:
    if credentials_of(source.credentials, ("card",), str(address)) != {"card": "7"}:
        raise SourceUnreadable([Finding(str(address), "source.credentials", "another card", "the card", "ask")])
    path = address.folder / "rows.csv"

    def marks() -> object:
        return path.stat().st_mtime_ns

    reading = checked(read_csv(path, delimiter=source.delimiter, expected=contract.source_columns), source, contract)
    yield Origin(marks(), marks, lambda _folder, _advance: reading)


def copied(
    version: WholeVersion,
    address: ShelfAddress,
    credentials: str | None,
    *,
    newest: bool,
    advance: Callable[[float], None],
) -> str:
    place = address.folder / version.release / f"v{version.number}"
    shutil.copytree(version.folder, place, dirs_exist_ok=True)
    advance(1.0)
    return str(place)


SOURCE = SourceKind(opened)
SINK = SinkKind(copied)
