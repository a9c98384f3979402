"""KEYS.json of a release store: all changes of the signing key, for checkers of versions older than a change."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from time import time
from typing import Final

from contracts.canonical import readable_json
from tasks.storage.version_folders import KEYS

_HOUR: Final = 3600
_OTHERS: Final = 0o004
KEYS_SCHEMA: Final = "sudare-keys/1"


def write_changes(store: Path, notes: Sequence[str]) -> None:
    """List the changes of the key in a store, for checkers of versions that are older than a change."""
    if store.is_dir() and notes:
        write_whole(store / KEYS, readable_json({"schema": KEYS_SCHEMA, "keys": list(notes)}), mode=0o644)


def write_whole(path: Path, content: bytes, *, mode: int) -> None:
    """Write a file that appears whole or stays as it was; times of public ones, and of their folder, are hours."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    with partial.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    partial.chmod(mode)
    partial.replace(path)
    if mode & _OTHERS:
        hour = int(time()) // _HOUR * _HOUR
        for each in (path, path.parent):
            os.utime(each, (hour, hour))
