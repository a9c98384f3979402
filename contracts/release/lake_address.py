"""The addresses of tables that keep their own log: as they are, or as they were.

delta:///FOLDER, iceberg:///FOLDER              the newest version, in a folder of this machine
delta+s3://BUCKET/KEY, iceberg+s3://BUCKET/KEY  the same below a prefix of Amazon S3
delta+s3+https://HOST[:PORT]/BUCKET/KEY         of another store that speaks S3; s3+http on this machine only
delta:///FOLDER?version=12                      that version of a Delta table
iceberg:///FOLDER?snapshot=3055729675574597004  that snapshot of an Iceberg table
...?at=2026-01-31T00:00:00Z                     the last one that was there at that instant
iceberg:///FOLDER/metadata/NAME.metadata.json   as that metadata file has it, where a catalogue says which one counts
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar, Final, Self
from urllib.parse import parse_qsl, unquote

from contracts.message import message
from contracts.reading.scalars import Problem, refuse, show
from contracts.release.address import CONTROL, Address
from contracts.release.s3_address import S3Address

METADATA: Final = ".metadata.json"
METADATA_FOLDER: Final = "metadata"


@dataclass(frozen=True)
class LakeAddress(Address):
    """A table with a log of its own.

    Args:
        folder: the table's folder, links followed; in a store, the path of bucket and key.
        number: which version is read; None for the newest, or the one that `at` tells.
        at: the instant whose version is read, or None.
        metadata: the metadata file that is read, below the folder, or None for the newest.
        store: the bucket and the prefix of keys of a table in a store; None for a folder of this machine.
    """

    number_key: ClassVar[str]
    """How a version is called behind the `?`."""
    folder: Path
    number: int | None = None
    at: datetime | None = None
    metadata: str | None = None
    store: S3Address | None = None

    @classmethod
    def read(cls, scheme: str, rest: str, written: str) -> Self:
        """Read the address of a table and, behind a `?`, which of its versions is meant."""
        place, _, options = rest.partition("?")
        store = S3Address.read(inner, place, written) if (inner := scheme.partition("+")[2]) else None
        folder, metadata = cls.split(cls._local(place) if store is None else Path("/", store.bucket, store.key))
        if store is not None:
            store = replace(store, key="/".join(folder.parts[2:]))
            if not store.key:
                refuse([Problem("a whole bucket", f"{scheme}://BUCKET/KEY", "name the folder of the table")])
        asked = parse_qsl(options, keep_blank_values=True)
        if len(asked) > 1:
            allowed = f"`?{cls.number_key}=` or `?at=`, or neither"
            refuse([Problem("more than one version", allowed, "drop one of them")])
        chosen = dict(asked)
        number, at = number_asked(cls.number_key, chosen.get(cls.number_key)), instant_asked(chosen.get("at"))
        return cls(folder, number, at, metadata, store)

    @classmethod
    def _local(cls, place: str) -> Path:
        place = unquote(place)
        if not place.startswith("/") or CONTROL.search(place):
            found, allowed = f"a {cls.kind} table without a folder", f"{cls.kind}:///FOLDER"
            refuse([Problem(found, allowed, "write the whole path")])
        return Path(place).resolve()

    @classmethod
    def split(cls, path: Path) -> tuple[Path, str | None]:
        """Return the table's folder of a path and, below it, the metadata file that the path is, or None."""
        return path, None

    def __str__(self) -> str:
        """The address, with the version that is meant."""
        place = self._table if self.metadata is None else f"{self._table}/{self.metadata}"
        if self.number is not None:
            return f"{place}?{self.number_key}={self.number}"
        return place if self.at is None else f"{place}?at={self.at.isoformat()}"

    @property
    def _table(self) -> str:
        return f"{self.kind}://{self.folder}" if self.store is None else f"{self.kind}+{self.store}"

    @property
    def takes_credentials(self) -> bool:  # type: ignore[override]
        """A store asks for them, a folder of this machine for none."""
        return self.store is not None

    def source_name(self, table: str | None, *, folder: bool) -> str:
        """All versions of a table are of the same people."""
        return self._table

    def table_format(self, files: str | None) -> str | None:
        """Return the kind's own format."""
        return self.kind

    def misplaced(self, files: str | None) -> Problem | None:
        """Refuse what says a second time what the files are."""
        if files is None:
            return None
        return Problem(f"`files` for a {self.kind} table", "`files` for folders", "drop it", ("files",))


@dataclass(frozen=True)
class DeltaAddress(LakeAddress):
    """A Delta table: the folder that holds `_delta_log`."""

    kind: ClassVar[str] = "delta"
    number_key: ClassVar[str] = "version"
    options: ClassVar[frozenset[str]] = frozenset({"version", "at"})
    gate: ClassVar[str | None] = message(
        "the Delta table's version has at least one file and no deletion vectors, and its files are there, can be "
        "read to their last rows, have the same columns and the same fields in records, and no two files of a "
        "partition have the same bytes"
    )


@dataclass(frozen=True)
class IcebergAddress(LakeAddress):
    """An Iceberg table: the folder that holds `metadata`, or one file there whose name ends with `.metadata.json`."""

    kind: ClassVar[str] = "iceberg"
    number_key: ClassVar[str] = "snapshot"
    options: ClassVar[frozenset[str]] = frozenset({"snapshot", "at"})
    package: ClassVar[tuple[str, str] | None] = ("pyiceberg", "iceberg")
    gate: ClassVar[str | None] = message(
        "the Iceberg table's snapshot has at least one file and no row-level deletes, and its files are there, can "
        "be read to their last rows, have the same columns and the same fields in records, and no two files have the "
        "same bytes"
    )

    @classmethod
    def split(cls, path: Path) -> tuple[Path, str | None]:
        """Return the table's folder of a path and, below it, the metadata file that the path is, or None."""
        if not path.name.endswith(METADATA):
            return path, None
        if path.parent.name != METADATA_FOLDER:
            allowed = f"{cls.kind}:///FOLDER/metadata/NAME{METADATA}"
            refuse([Problem("a metadata file outside a folder `metadata`", allowed, "write the whole path")])
        return path.parent.parent, f"{METADATA_FOLDER}/{path.name}"


def number_asked(key: str, written: str | None) -> int | None:
    """Read the number of a version behind a `?`, under its key."""
    if written is None:
        return None
    if not written.isdecimal() or not written.isascii() or len(written) > 19:
        allowed = "a whole number from 0"
        refuse([Problem(f"the {key} {show(written)}", allowed, f"correct `?{key}=`")])
    return int(written)


def instant_asked(written: str | None) -> datetime | None:
    """Read the instant behind `?at=`."""
    if written is None:
        return None
    try:
        read = datetime.fromisoformat(written)
    except ValueError:
        read = None
    if read is None or read.tzinfo is None:
        allowed = "an instant with its offset from UTC, such as 2026-01-31T00:00:00Z"
        refuse([Problem(f"the instant {show(written)}", allowed, "correct `?at=`")])
    return read.astimezone(UTC)
