"""Folders whose files are not the table: a log beside them says which rows count, or a writer did not finish.

Read as files, a Delta, Iceberg or Hudi table gives back the rows that were deleted and, of one that was rewritten,
each earlier state: one person would stand in more rows than the contract says. The names alone tell it: of the
folder, of what lies below, and of the folders above, since a part of such a table is no table either.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from contracts.plug_ins import absent_extension
from contracts.release.address import GROUP
from tasks.storage.sources.typed_rows import refuse

_OF_A_NAME: Final = (
    (re.compile(r"_delta_log"), "a Delta table"),
    (re.compile(r"\.hoodie|\.hoodie_partition_metadata"), "a Hudi table"),
    (re.compile(r"_spark_metadata"), "the output of a Spark stream"),
    (re.compile(r"ducklake-.*\.parquet"), "a DuckLake table"),
    (re.compile(r"(base|delta|delete_delta)_[0-9]{5,}(_[0-9]+)*(_v[0-9]+)?"), "a Hive table with transactions"),
    (re.compile(r"_temporary|\.spark-staging-.*|\.hive-staging.*"), "files of a writer that did not finish"),
)
_OF_A_PATH: Final = (
    (
        re.compile(r"(.*/)?metadata/([^/]*\.metadata\.json(\.gz)?|[^/]*\.gz\.metadata\.json|version-hint\.text)"),
        "an Iceberg table",
    ),
    (re.compile(r"(.*/)?(snapshot/snapshot-[0-9]+|manifest/manifest-[^/]*)"), "a Paimon table"),
)
_ADDRESSES: Final = {"a Delta table": "delta", "an Iceberg table": "iceberg"}
ABOVE: Final = ("_delta_log", ".hoodie", "_spark_metadata", "metadata", "snapshot")
"""What lies beside the files of a table, or above them."""
_COMMIT: Final = re.compile(r"_(started|committed)_([0-9]+)")


def check_plain(where: object, paths: Iterable[str], around: Iterable[str] = ()) -> None:
    """Refuse files that a log beside them, or a writer that did not finish, makes something else than the table.

    Args:
        where: the folder or file, for messages.
        paths: what lies below the folder, hidden names too, parts divided by `/`.
        around: the same of what stands in the folders above.
    Raises:
        SourceUnreadable: by the names alone.
    """
    below = list(paths)
    for path in (*below, *around):
        kind = _kind(path)
        if kind is not None:
            _refuse(where, kind)
    marks = {(found[1], found[2]) for path in below if (found := _COMMIT.fullmatch(path.rpartition("/")[2]))}
    committed = {number for word, number in marks if word == "committed"}
    if {number for word, number in marks if word == "started"} - committed:
        _refuse(where, "files of a writer that did not finish")
    if len(committed) > 1:
        _refuse(where, "files of several transactions, of which some may have been replaced")


def _kind(path: str) -> str | None:
    """Say what a name tells of the files around it, or None."""
    parts = path.split("/")
    named = (kind for pattern, kind in _OF_A_NAME if any(pattern.fullmatch(part) for part in parts))
    return next(named, None) or next((kind for pattern, kind in _OF_A_PATH if pattern.fullmatch(path)), None)


def _refuse(where: object, kind: str) -> None:
    allowed = "files that together are the table; here rows that were deleted or rewritten would come back"
    remedy = "write the table as it is now to plain files in a folder of their own, and name that folder"
    if kind in _ADDRESSES:
        scheme, address = _ADDRESSES[kind], str(where).rstrip("/")
        table = f"{scheme}+{address}" if "://" in address else f"{scheme}:///FOLDER"
        extension = absent_extension(GROUP, scheme)
        needed = "" if extension is None else f", which needs the extension {extension}, which is not installed"
        remedy = f"name it as a table: `path: {table}`, without `files:`{needed}"
    refuse(where, "source.path", kind, allowed, remedy)


def check_plain_folder(folder: Path) -> None:
    """Refuse a local folder, or the folder of a file, as `check_plain` does."""
    check_plain(folder, _below(folder), around_of(folder))


def around_of(path: Path) -> list[str]:
    """List what in the folders above a path could tell of a table there: names beside it, and theirs."""
    found = []
    for above in dict.fromkeys((*path.absolute().parents, *path.resolve().parents)):  # a link may lead below a table
        for name in ABOVE:
            if (above / name).is_dir():
                found += [name, *(f"{name}/{entry}" for entry in _names(above / name))]
    return found


def _below(folder: Path) -> list[str]:
    """List all paths below a folder; links are named and not followed."""
    found = []
    for root, folders, files in os.walk(folder):
        at = Path(root).relative_to(folder).as_posix()
        found += [name if at == "." else f"{at}/{name}" for name in (*folders, *files)]
    return found


def _names(folder: Path) -> Sequence[str]:
    try:
        return [entry.name for entry in os.scandir(folder)]
    except OSError:
        return ()
