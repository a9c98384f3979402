"""Versions in tables that keep their own log, in a folder of this machine; what a commit is, each kind says.

    FOLDER/RELEASE/data_age/           a table for each Parquet file of data/ and measurements/
    FOLDER/RELEASE/version/            a table of the version's files: file, sha256, table, content

A version is one commit to each table. The Parquet files are the published ones, byte for byte, so their digests are
the manifest's. The commit to `version` comes last: without it the version is not there. Every commit names release,
version and the manifest's SHA-256. It replaces what the newest state shows; earlier versions stay, by time travel.
Nothing that was written is ever changed: each file appears whole, and only where none of its name was.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tempfile import NamedTemporaryFile
from typing import Final, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from contracts.errors import Finding
from contracts.release.lake_address import LakeAddress
from privacy.ledger.draw_files import sync_folder
from tasks.storage.object_store import StoreAway, StoreRefuses
from tasks.storage.sinks.version_copy import WholeVersion, whole_version
from tasks.storage.version_folders import MANIFEST, PROOF, digests_in

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


class LakeTables(Protocol):
    """One kind of such tables."""

    def commits(self, folder: Path) -> list[Commit]:
        """Return the commits of versions to a table, in their order; those of others are none of them."""

    def commit(self, folder: Path, version: WholeVersion, name: str, earlier: list[Commit]) -> Commit:
        """Commit a file that lies in the table's folder; it replaces the one of the commit before."""

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
        address: the folder of the releases' tables.
        credentials: none are needed.
        newest: a commit shows the version that it is of, so that they go up.
        advance: called with the fraction done.
    Returns:
        str: the table of the version's files, at its commit.
    Raises:
        StoreRefuses: another version, or a later one, is there.
        StoreAway: the disk refused; running again goes on.
    """
    if address.store is not None:
        allowed, remedy = (
            f"{address.kind}:///FOLDER",
            "publish to a folder of this machine, or to s3:// as plain files",
        )
        raise _refusal(address, "a table in a store, which is only read", allowed, remedy)
    if address.number is not None or address.at is not None or address.metadata is not None:
        allowed, remedy = f"{address.kind}:///FOLDER", "name the folder alone"
        raise _refusal(address, "an address of one version", allowed, remedy)
    base = address.folder / version.release
    known = {name: _table_name(name) for name in version.files if _is_table(tables, version, name)}
    try:
        for number, (name, table) in enumerate(known.items(), start=1):
            _commit(tables, address, base / table, version, version.folder / name)
            advance(number / (len(known) + 1))
        with NamedTemporaryFile(suffix=".parquet") as listed:
            pq.write_table(_files_of(version, known), listed.name, store_schema=False)
            made = _commit(tables, address, base / VERSION, version, Path(listed.name))
        _to_hours(base)
    except OSError as error:
        raise StoreAway(
            f"{address}: it cannot be written ({error.strerror or type(error).__name__}). The version is not visible "
            "there: make room or give write access, then run again."
        ) from error
    return f"{address.kind}://{base / VERSION}?{address.number_key}={made.place}"


def read_version(
    tables: LakeTables, address: LakeAddress, release: str, number: int | None, to: Path
) -> WholeVersion:
    """Copy a version out of its tables into a new folder, which `sudare verify` checks.

    Args:
        tables: the kind of tables.
        address: the folder that versions were published to.
        release: name of the product.
        number: which version; the newest without it.
        to: the folder to make; nothing may be there.
    Returns:
        The version, whole: each file has the digest that the manifest states, and that the commit names.
    Raises:
        StoreRefuses: no such version.
        VersionBroken: a file is missing, or is not the one that was published.
    """
    base = address.folder / release
    commits = [each for each in tables.commits(base / VERSION) if number in (None, each.version)]
    if not commits:
        raise _refusal(address, "no such version", "a version that was published there", "list the commits there")
    wanted = commits[-1]
    to.mkdir(parents=True)
    for row in pq.read_table(base / VERSION / wanted.added[0]).to_pylist():
        if PurePosixPath(row["file"]).is_absolute() or ".." in PurePosixPath(row["file"]).parts:
            continue  # a manifest that names it is broken by its absence
        path = to / row["file"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(row["content"] if row["table"] is None else _bytes_of(tables, base / row["table"], wanted))
    return whole_version(to, release, wanted.version, wanted.manifest)


def _bytes_of(tables: LakeTables, table: Path, wanted: Commit) -> bytes:
    """Return the file that a version's commit added to a table; nothing where it is not there."""
    of = [
        each for each in tables.commits(table) if (each.version, each.manifest) == (wanted.version, wanted.manifest)
    ]
    path = table / of[-1].added[0] if of else None
    return path.read_bytes() if path is not None and path.is_file() else b""


def _commit(tables: LakeTables, address: LakeAddress, folder: Path, version: WholeVersion, file: Path) -> Commit:
    """Commit a version's file to a table, unless it was; the file first, then what names it."""
    earlier = tables.commits(folder)
    for each in earlier:
        if each.version == version.number and each.manifest == version.digest:
            return each
        if each.version >= version.number:
            other = " with another content" if each.version == version.number else ""
            found = f"{folder.name}, which holds version {each.version}{other}"
            raise _refusal(address, found, "versions that go up, each of one content", "name another folder")
    name = f"data/v{version.number}-{version.digest[:16]}.parquet"
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    put(folder / name, file.read_bytes())
    return tables.commit(folder, version, name, earlier)


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


def put(path: Path, content: bytes) -> None:
    """Write a file that appears whole and takes no other's place; the same content is found and left.

    Raises:
        FileExistsError: another content is there.
    """
    with NamedTemporaryFile(dir=path.parent, prefix=".", suffix=".partial") as file:
        file.write(content)
        file.flush()
        os.fchmod(file.fileno(), 0o644)
        os.fsync(file.fileno())
        try:
            os.link(file.name, path)
        except FileExistsError:
            if path.read_bytes() != content:
                raise
    sync_folder(path.parent)


def _refusal(address: LakeAddress, found: str, allowed: str, remedy: str) -> StoreRefuses:
    return StoreRefuses([Finding(str(address), "publish.to", found, allowed, remedy)])
