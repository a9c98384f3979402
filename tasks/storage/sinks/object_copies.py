"""Versions in an S3-compatible store, where no reader ever sees a part of one.

    PREFIX/RELEASE/v3/data/age.parquet ...     written first, each only if nobody wrote it before
    PREFIX/RELEASE/v3/PROOF.json               then
    PREFIX/RELEASE/v3/MANIFEST.json            last: from here on the version is there
    PREFIX/RELEASE/latest.json                 {"manifest": "sha256", "version": 3}: moves to higher numbers only

Readers go by the manifest: a version without one is not there; what the manifest does not name is not part of it; and
a file is taken only if its digest is the manifest's. So it does not matter at which request a writer was cut off, nor
how many write the same version at once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Final

from contracts.canonical import readable_json
from contracts.errors import Finding
from contracts.release.s3_address import S3Address
from tasks.storage.object_store import ObjectStore, StoreRefuses
from tasks.storage.sinks.sink_kinds import SinkKind
from tasks.storage.sinks.version_copy import WholeVersion
from tasks.storage.version_folders import MANIFEST, PROOF, digests_in

LATEST = "latest.json"
TRIES = 10


def to_objects(
    version: WholeVersion,
    address: S3Address,
    credentials: str | None,
    *,
    newest: bool,
    advance: Callable[[float], None] = lambda fraction: None,
) -> str:
    """Write a version; what is there already from an earlier attempt is left as it is.

    Args:
        version: the version.
        address: bucket and prefix.
        credentials: their name, or None.
        newest: whether `latest.json` may point to it.
        advance: called with the fraction done.
    Returns:
        str: the address of the version.
    Raises:
        StoreRefuses: the place is taken by other bytes, or the store does not let us in.
        StoreAway: the store does not answer; running again goes on.
    """
    store = ObjectStore(address, credentials, field="publish.to")
    base = _base(address, version.release)
    names = (*version.files, PROOF, MANIFEST)
    for number, name in enumerate(names, start=1):
        store.put_new(f"{base}/v{version.number}/{name}", version.folder / name)
        advance(number / (len(names) + 1))
    if newest:
        _move_latest(store, f"{base}/{LATEST}", version)
    return f"{str(address).rstrip('/')}/{version.release}/v{version.number}"


def _base(address: S3Address, release: str) -> str:
    return f"{address.key}/{release}" if address.key else release


def _move_latest(store: ObjectStore, key: str, version: WholeVersion) -> None:
    """Point `latest.json` at the version, unless it points to a later one; another writer's move is looked at."""
    content = readable_json({"version": version.number, "manifest": version.digest})
    for _ in range(TRIES):
        there = store.read(key)
        if there is not None and _number(there[0]) >= version.number:
            return
        if store.replace(key, content, None if there is None else there[1]):
            return
    found, remedy = f"{LATEST}, which others move all the time", "run again: it goes on where this stopped"
    raise StoreRefuses([Finding(str(store.address), "publish.to", found, "one writer at a time", remedy)])


def _number(content: bytes) -> int:
    try:
        return int(json.loads(content)["version"])
    except (ValueError, KeyError, TypeError):
        return 0


def read_version(
    address: S3Address, credentials: str | None, release: str, number: int | None, to: Path
) -> tuple[int, Path]:
    """Copy a version out of a store into a new folder, by the reader's rules.

    Args:
        address: bucket and prefix that versions were published to.
        credentials: their name, or None.
        release: name of the product.
        number: which version; the latest without it.
        to: the folder to make; nothing may be there.
    Returns:
        The number, and the folder: whole, with manifest and proof. Its signature is for `sudare verify` to check.
    Raises:
        StoreRefuses: no such version, or objects that are not those of its manifest.
    """
    store = ObjectStore(address, credentials, field="release")
    base = _base(address, release)
    wanted = _latest(store, base) if number is None else (number, None)
    there = None if wanted is None else store.read(f"{base}/v{wanted[0]}/{MANIFEST}")
    if wanted is None or there is None:
        raise _refusal(store, "no such version", "a version that was published there")
    manifest = there[0]
    if wanted[1] not in (None, hashlib.sha256(manifest).hexdigest()):
        raise _refusal(store, f"a manifest that is not the one of {LATEST}", "the published objects, unchanged")
    files = _files(store, manifest)
    to.mkdir(parents=True)
    (to / MANIFEST).write_bytes(manifest)
    for name, digest in {**files, PROOF: None}.items():
        _take(store, f"{base}/v{wanted[0]}/{name}", to / name, digest)
    return wanted[0], to


def _latest(store: ObjectStore, base: str) -> tuple[int, str | None] | None:
    there = store.read(f"{base}/{LATEST}")
    if there is None or _number(there[0]) < 1:
        return None
    return _number(there[0]), json.loads(there[0]).get("manifest")


def _files(store: ObjectStore, manifest: bytes) -> dict[str, str]:
    """Return the digests by name; a name that would leave the folder is refused."""
    try:
        files = digests_in(manifest)
    except ValueError:
        files = {"..": ""}
    if any(PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts for name in files):
        raise _refusal(store, "a manifest that cannot be followed", "a manifest of Sudare")
    return files


def _take(store: ObjectStore, key: str, path: Path, digest: str | None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    good = store.download(key, path)
    if good and digest is not None:
        with path.open("rb") as file:
            good = hashlib.file_digest(file, "sha256").hexdigest() == digest
    if not good:
        raise _refusal(store, "objects that are not those of the manifest", "the published objects, unchanged")


def _refusal(store: ObjectStore, found: str, allowed: str) -> StoreRefuses:
    remedy = "list the releases there, or publish again"
    return StoreRefuses([Finding(str(store.address), "version", found, allowed, remedy)])


OBJECTS: Final = SinkKind(to_objects)
