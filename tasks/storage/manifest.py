"""The folders of published versions: their path, their two outermost files, and whether a place lies inside one."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from time import time
from typing import Final

from contracts.canonical import readable_json
from privacy.ledger.journal.signing import plain_base64

MANIFEST = "MANIFEST.json"
PROOF = "PROOF.json"
KEYS = "KEYS.json"
"""Of a store, not of a version: the changes of the signing key."""
LATEST_NOTE = "LATEST.note"
"""Of a release, beside its versions: which one is the newest."""
_CHANGE: Final = b"sudare-key-change/"
_LARGEST: Final = 2**26
_SIGNS: Final = (MANIFEST, "record.json", "latest")


def version_folder(store: Path, release: str, number: int) -> Path:
    """Return where a version is published."""
    return store / release / f"v{number}"


def digests_in(manifest: bytes) -> dict[str, str]:
    """Return the SHA-256 (hex) of each file that a manifest states, by name; its signature is not checked.

    Raises:
        ValueError: it is no manifest.
    """
    try:
        statement = json.loads(plain_base64(json.loads(manifest)["payload"]))
        return {str(each["name"]): str(each["digest"]["sha256"]) for each in statement["subject"]}
    except (AttributeError, LookupError, TypeError, RecursionError) as error:
        raise ValueError("no statement about files in an envelope") from error


def published_around(path: Path) -> Path | None:
    """Return the folder of a release, of a version, or of one that is being written, in which a path lies.

    Args:
        path: a file that need not be there; links in front of it are followed too.
    Returns:
        The nearest such folder; None for a path outside.
    """
    above = dict.fromkeys((*path.absolute().parents, *path.resolve().parents))
    return next((folder for folder in above if _published(folder)), None)


def _published(folder: Path) -> bool:
    return folder.name.startswith(".staging-") or any((folder / sign).exists() for sign in _SIGNS)


def may_have_changes(folder: Path) -> bool:
    """Say whether changes of the signing key lie in a version, beside it or in its store: those are to be read."""
    if (folder.parent.parent / KEYS).is_file():
        return True
    for proof in (folder / PROOF, folder.parent / "latest" / PROOF):
        try:
            # a pipe in its place would be waited on for ever
            if not proof.is_file():
                continue
            with proof.open("rb") as file:
                if _CHANGE in file.read(_LARGEST):
                    return True
        except OSError:
            continue
    return False


# --- KEYS.json of a release store.


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
