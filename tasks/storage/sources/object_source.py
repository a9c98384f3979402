"""Objects of an S3-compatible store as a source: one object, or all below a prefix, in the state that was listed.

They are copied into the run's private folder first, each on condition that it still is what was listed, and read
there: what is looked at is what is read. The copies go when the snapshot is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from threading import Lock
from typing import Final

from contracts.contract.contract import Contract
from contracts.release.s3_address import S3Address
from contracts.release.source import Source
from tasks.storage.duckdb_session import trouble
from tasks.storage.object_store import ObjectStore, StoredObject
from tasks.storage.sources.folder import FolderFile, parts_named
from tasks.storage.sources.lake_formats import ABOVE, check_plain
from tasks.storage.sources.origin import Origin, checked, read_file, read_parts
from tasks.storage.sources.source_kinds import SourceKind
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


OBJECTS: Final = SourceKind(objects_origin, last_written)
