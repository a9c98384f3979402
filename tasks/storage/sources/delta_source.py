"""A Delta table as a source."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Final

from contracts.contract.contract import Contract
from contracts.release.lake_address import DeltaAddress
from contracts.release.source import Source
from tasks.storage.sources.delta_log import last_commit, read_version
from tasks.storage.sources.lake_place import lake_place
from tasks.storage.sources.lake_version import lake_origin
from tasks.storage.sources.origin import Origin
from tasks.storage.sources.source_kinds import SourceKind


@contextmanager
def delta_origin(source: Source, address: DeltaAddress, contract: Contract) -> Iterator[Origin]:
    """Look at a version of the table.

    Raises:
        SourceUnreadable: there is no such version, or none that can be read; a file of it is gone.
    """
    place = lake_place(address, source.credentials)
    version = read_version(source.name, place, number=address.number, at=address.at)
    yield lake_origin(source, contract, place, version, cleaner="VACUUM")


def last_written(source: Source, address: DeltaAddress) -> datetime | None:
    """Return when the newest version was written."""
    return last_commit(source.name, lake_place(address, source.credentials))


DELTA: Final = SourceKind(delta_origin, last_written)
