"""Objects of an S3-compatible store: as a source, and as copies of versions.

A source is one object, or all below a prefix, in the state that was listed. They are copied into the run's private
folder first, each on condition that it still is what was listed, and read there: what is looked at is what is read.
The copies go when the snapshot is made.

Of a version no reader of a store ever sees a part:

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
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path, PurePosixPath
from threading import Lock
from typing import Final

from contracts.canonical import readable_json
from contracts.contract.contract import Contract
from contracts.errors import Finding, StoreRefuses
from contracts.release.source import Source
from sudare_lakes.addresses import S3Address
from sudare_lakes.object_store import ObjectStore, StoredObject
from tasks.storage.duckdb_session import trouble
from tasks.storage.manifest import MANIFEST, PROOF, digests_in
from tasks.storage.sinks.sink_kinds import SinkKind
from tasks.storage.sinks.version_copy import WholeVersion
from tasks.storage.sources.folder import FolderFile, parts_named
from tasks.storage.sources.lake_formats import ABOVE, check_plain
from tasks.storage.sources.source import Origin, SourceKind, checked, read_file, read_parts
from tasks.storage.sources.typed_rows import Reading, refuse, with_label
from tasks.storage.workspace.run_folder import FETCHED

AT_ONCE: Final = 8
"""Objects that are copied at the same time."""


@contextmanager
def objects_origin(source: Source, address: S3Address, contract: Contract) -> Iterator[Origin]:
    """Look at the object, or list those below the prefix.

    Raises:
        SourceUnreadable: there is none.
        StoreRefuses: the store does not let us in.
        StoreAway: the store does not answer.
    """
    store = ObjectStore(address, source.credentials, field="source.path")
    found = _list_keys(source, store)

    def reading(folder: Path, advance: Callable[[float], None]) -> Reading:
        parts = _fetched(source, store, found, folder / FETCHED, advance)
        if source.files is None:
            near = with_label(lambda: read_file(source, parts[0].path, contract), parts[0].path, source.name)
            return checked(near.told_as(parts[0].path, source.name), source, contract)
        return checked(read_parts(source.name, parts, source, contract), source, contract)

    yield Origin(_marks(found), lambda: _marks(_list_keys(source, store)), reading, fetches=True)


def last_written(source: Source, address: S3Address) -> datetime | None:
    """Return when an object of a source was last written, by the store's clock; None where there is none.

    Raises:
        StoreRefuses, StoreAway: see `objects_origin`.
    """
    store = ObjectStore(address, source.credentials, field="source.path")
    if source.files is None:
        one = store.find(address.key)
        return None if one is None else one.written
    return max((each.written for each in _below(source, store)), default=None)


def _marks(found: list[StoredObject]) -> list[list[object]]:
    return [[each.key, each.size, each.etag] for each in found]


def _list_keys(source: Source, store: ObjectStore) -> list[StoredObject]:
    key = store.address.key
    if source.files is not None:
        found = _below(source, store)
        check_plain(source.name, (), _around(store, key))
        parts_named(source.name, source.files, [(Path(each.key), *_named(each, key)) for each in found])
        return found
    one = store.find(key)
    if one is None:
        remedy = "correct `path:`; for all objects below a prefix add `files: parquet` or `files: csv`"
        refuse(source.name, "source.path", "no such object", "an existing object", remedy)
    check_plain(source.name, (), _around(store, key))
    return [one]


def _around(store: ObjectStore, key: str) -> list[str]:
    """List what beside and above a key could tell of a table there, as `lake.around_of`."""
    above = ["".join(f"{part}/" for part in key.split("/")[:depth]) for depth in range(key.count("/") + 1)]
    return [each.key[len(at) :] for at in above for name in ABOVE for each in store.list(f"{at}{name}/")]


def _below(source: Source, store: ObjectStore) -> list[StoredObject]:
    """List the objects below the prefix that count, in the order of their keys."""
    key = store.address.key
    listed = sorted(store.list(f"{key}/"), key=lambda each: each.key.encode())
    check_plain(source.name, [each.key[len(key) + 1 :] for each in listed])
    return [each for each in listed if not each.key.endswith("/") and _counts(each.key[len(key) + 1 :])]


def _counts(relative: str) -> bool:
    """Pass over what begins with `_` or `.`, as in a folder."""
    return not any(
        part.startswith(".") or (part.startswith("_") and "=" not in part) for part in relative.split("/") if part
    )


def _named(stored: StoredObject, key: str) -> tuple[str, tuple[int | str, ...]]:
    """Return the key below the prefix, and what the object is; keys are unique, so none has a second name."""
    return stored.key[len(key) + 1 :], (stored.key, stored.etag)


def _fetched(
    source: Source, store: ObjectStore, found: list[StoredObject], folder: Path, advance: Callable[[float], None]
) -> tuple[FolderFile, ...]:
    """Copy the objects into a folder whose names keep the partitions and nothing else of the keys."""
    files = []
    for number, each in enumerate(found):
        relative = each.key[len(store.address.key) + 1 :] if source.files else each.key.rpartition("/")[2]
        above = [part for part in relative.split("/")[:-1] if "=" in part]
        ending = next(end for end in (".csv.gz", ".csv.zst", ".csv", ".parquet") if relative.lower().endswith(end))
        near = "/".join((f"{number:06d}", *above, f"part{ending}"))
        files.append((folder / near, f"{number:06d}/" + near.partition("/")[2], (each.key, each.etag)))
    if not copied_all(store, [(each, near) for each, (near, _, _) in zip(found, files, strict=True)], advance):
        found_now, remedy = "an object that changed while it was read", "run again when nothing writes there"
        refuse(source.name, "source.path", found_now, "objects at rest", remedy)
    if source.files is None:
        path = files[0][0]
        return (FolderFile(path, source.name, (), (), ()),)
    return parts_named(source.name, source.files, files)


def copied_all(
    store: ObjectStore, files: Sequence[tuple[StoredObject, Path]], advance: Callable[[float], None]
) -> bool:
    """Copy objects in the states in which they were listed, some at a time.

    Args:
        store: the store.
        files: the objects, and where each goes.
        advance: called with the fraction done.
    Returns:
        bool: False where one of them is gone, or another by now.
    Raises:
        SudareError: the disk is full.
        StoreRefuses, StoreAway: see `objects_origin`.
    """
    total, done, lock = max(sum(each.size for each, _ in files), 1), 0, Lock()

    def more(size: int) -> None:
        nonlocal done
        with lock:
            done += size
            advance(min(done / total, 1.0))

    with ThreadPoolExecutor(AT_ONCE, "objects") as pool:
        copies = [pool.submit(_copied, store, each, to, more) for each, to in files]
        try:
            return all(copy.result() for copy in copies)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _copied(store: ObjectStore, stored: StoredObject, path: Path, more: Callable[[int], None]) -> bool:
    """Copy one object; a disk that is full is the run's folder's fault."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return store.fetch(stored, path, more)
    except OSError as error:
        failed = trouble(error, path.parent, "copying the source")
    raise failed


SOURCE: Final = SourceKind(objects_origin, last_written)


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


SINK: Final = SinkKind(to_objects)
