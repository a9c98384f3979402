"""Versions in tables that keep their own log, on this machine or in a store; each kind says what a commit is.

    PLACE/RELEASE/data_age/            a table for each Parquet file of data/ and measurements/
    PLACE/RELEASE/version/             a table of the version's files: file, sha256, table, content

A version is one commit to each table. The Parquet files are the published ones, byte for byte, so their digests are
the manifest's. The commit to `version` comes last: without it the version is not there. Every commit names release,
version and the manifest's SHA-256. It replaces what the newest state shows; earlier versions stay, by time travel.
Nothing that was written is ever changed (`table_folders`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path, PurePosixPath
from tempfile import NamedTemporaryFile
from typing import Final, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from contracts.errors import Finding, StoreAway, StoreRefuses
from sudare_lakes.addresses import LakeAddress
from sudare_lakes.lake_place import TableFolder, table_folders
from tasks.storage.manifest import MANIFEST, PROOF, digests_in
from tasks.storage.sinks.version_copy import WholeVersion, whole_version

VERSION: Final = "version"
FOLDERS: Final = ("data/", "measurements/")
_FILES: Final = pa.schema(
    [
        pa.field("file", pa.string(), nullable=False),
        pa.field("sha256", pa.string()),
        pa.field("table", pa.string()),
        pa.field("content", pa.binary()),
    ]
)


@dataclass(frozen=True)
class Commit:
    """A commit of a version to one table.

    Args:
        place: what the table itself calls it: the number in a log, or the id of a snapshot.
        version: the version of the release.
        manifest: SHA-256 of the version's manifest.
        added: the files that it adds, from the table's folder.
    """

    place: int
    version: int
    manifest: str
    added: tuple[str, ...]


@dataclass(frozen=True)
class TableHistory:
    """What was committed to one table, as it was seen at one time.

    Args:
        number: of the newest log entry or metadata file, whoever wrote it; None of a table that is not there.
        commits: those of versions, in their order.
    """

    number: int | None
    commits: tuple[Commit, ...]


class LakeTables(Protocol):
    """One kind of such tables."""

    def history(self, folder: TableFolder) -> TableHistory:
        """Look at what was committed to a table."""

    def commit(self, folder: TableFolder, version: WholeVersion, name: str, file: Path, seen: TableHistory) -> Commit:
        """Commit a file that lies in the table's folder; it replaces the one of the commit before.

        Args:
            folder: the table's.
            version: whose file it is.
            name: the file's path in the table's folder.
            file: the same file on this machine.
            seen: the commit is the one after what was seen, and no other: else a version could be there twice.
        Raises:
            FileExistsError: another writer has made that commit.
        """

    def holds(self, schema: pa.Schema) -> bool:
        """Say whether the kind has a type for each column."""


def to_lake(
    tables: LakeTables,
    version: WholeVersion,
    address: LakeAddress,
    credentials: str | None,
    *,
    newest: bool = False,
    advance: Callable[[float], None] = lambda fraction: None,
) -> str:
    """Write a version; what is there already from an earlier attempt is left as it is.

    Args:
        tables: the kind of tables.
        version: the version.
        address: the folder or the prefix of the releases' tables.
        credentials: their name, or None; of a store alone.
        newest: a commit shows the version that it is of, so that they go up.
        advance: called with the fraction done.
    Returns:
        str: the table of the version's files, at its commit.
    Raises:
        StoreRefuses: another version, or a later one, is there; or the store does not let us in.
        StoreAway: disk or store refused, or another writer was first; running again goes on.
    """
    whole = replace(address, number=None, at=None, metadata=None)
    if whole != address:
        raise _refusal(address, "an address of one version", str(whole), "name the folder alone")
    folders = table_folders(address, credentials, version.release)
    known = {name: _table_name(name) for name in version.files if _is_table(tables, version, name)}
    try:
        for number, (name, table) in enumerate(known.items(), start=1):
            _commit(tables, address, folders(table), version, version.folder / name)
            advance(number / (len(known) + 1))
        with NamedTemporaryFile(suffix=".parquet") as listed:
            pq.write_table(_files_of(version, known), listed.name, store_schema=False)
            made = _commit(tables, address, folders(VERSION), version, Path(listed.name))
        if address.store is None:
            _to_hours(address.folder / version.release)
    except FileExistsError as error:
        raise StoreAway(
            f"{address}: another writer was first at {Path(str(error.filename or error)).name}. The version is not "
            "visible there: run again, which goes on where this stopped."
        ) from None
    except OSError as error:
        raise StoreAway(
            f"{address}: it cannot be written ({error.strerror or type(error).__name__}). The version is not visible "
            "there: make room or give write access, then run again."
        ) from error
    return f"{str(address).rstrip('/')}/{version.release}/{VERSION}?{address.number_key}={made.place}"


def read_version(
    tables: LakeTables,
    address: LakeAddress,
    release: str,
    number: int | None,
    to: Path,
    credentials: str | None = None,
) -> WholeVersion:
    """Copy a version out of its tables into a new folder, which `sudare verify` checks.

    Args:
        tables: the kind of tables.
        address: the folder that versions were published to.
        release: name of the product.
        number: which version; the newest without it.
        to: the folder to make; nothing may be there.
        credentials: their name, or None; of a store alone.
    Returns:
        The version, whole: each file has the digest that the manifest states, and that the commit names.
    Raises:
        StoreRefuses: no such version.
        VersionBroken: a file is missing, or is not the one that was published.
    """
    folders = table_folders(address, credentials, release)
    commits = [each for each in tables.history(folders(VERSION)).commits if number in (None, each.version)]
    if not commits:
        raise _refusal(address, "no such version", "a version that was published there", "list the commits there")
    wanted = commits[-1]
    to.mkdir(parents=True)
    listed = folders(VERSION).place.read(wanted.added[0])
    for row in pq.read_table(BytesIO(listed)).to_pylist():
        if PurePosixPath(row["file"]).is_absolute() or ".." in PurePosixPath(row["file"]).parts:
            continue  # a manifest that names it is broken by its absence
        path = to / row["file"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(row["content"] if row["table"] is None else _bytes_of(tables, folders(row["table"]), wanted))
    return whole_version(to, release, wanted.version, wanted.manifest)


def _bytes_of(tables: LakeTables, folder: TableFolder, wanted: Commit) -> bytes:
    """Return the file that a version's commit added to a table; nothing where it is not there."""
    commits = tables.history(folder).commits
    of = [each for each in commits if (each.version, each.manifest) == (wanted.version, wanted.manifest)]
    return folder.place.read(of[-1].added[0]) if of and folder.place.facts(of[-1].added[0]) is not None else b""


def _commit(
    tables: LakeTables, address: LakeAddress, folder: TableFolder, version: WholeVersion, file: Path
) -> Commit:
    """Commit a version's file to a table, unless it was; the file first, then what names it."""
    seen = tables.history(folder)
    for each in seen.commits:
        if each.version == version.number and each.manifest == version.digest:
            return each
        if each.version >= version.number:
            other = " with another content" if each.version == version.number else ""
            found = f"{folder.name}, which holds version {each.version}{other}"
            raise _refusal(address, found, "versions that go up, each of one content", "name another folder")
    name = f"data/v{version.number}-{version.digest[:16]}.parquet"
    folder.copy(name, file)
    return tables.commit(folder, version, name, file, seen)


def _to_hours(folder: Path) -> None:
    """Cut the times of files and folders to the hour, as those of a version in the store are."""
    for path in (*folder.rglob("*"), folder):
        hour = int(path.stat().st_mtime) // 3600 * 3600
        if path.stat().st_mtime_ns != hour * 10**9:
            os.utime(path, (hour, hour))


def said_by(version: WholeVersion) -> dict[str, str | int]:
    """Return what every commit of a version says of itself."""
    return {"release": version.release, "version": version.number, "manifest": version.digest}


def _is_table(tables: LakeTables, version: WholeVersion, name: str) -> bool:
    """Say whether a file is a table of its own: a whole Parquet file whose columns the kind has types for."""
    if not (name.startswith(FOLDERS) and name.endswith(".parquet")) or PurePosixPath(name).name.startswith("part-"):
        return False
    return tables.holds(pq.read_schema(version.folder / name))


def _table_name(name: str) -> str:
    return name.removesuffix(".parquet").replace("/", "_")


def _files_of(version: WholeVersion, tables: Mapping[str, str]) -> pa.Table:
    """Return the rows of the table of the version's files; those that are tables of their own are named."""
    stated = digests_in(version.manifest)
    rows = [
        {
            "file": name,
            "sha256": stated.get(name),
            "table": tables.get(name),
            "content": None if name in tables else (version.folder / name).read_bytes(),
        }
        for name in (*version.files, PROOF, MANIFEST)
    ]
    return pa.Table.from_pylist(rows, schema=_FILES)


def told(said: str | None) -> tuple[int, str] | None:
    """Read what a commit says of itself: version and manifest; None where it is none of ours."""
    try:
        words = json.loads(said or "")
        return int(words["version"]), str(words["manifest"])
    except (ValueError, KeyError, TypeError):
        return None


def _refusal(address: LakeAddress, found: str, allowed: str, remedy: str) -> StoreRefuses:
    return StoreRefuses([Finding(str(address), "publish.to", found, allowed, remedy)])
