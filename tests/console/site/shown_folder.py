"""A version's folder as the review site sees it."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from console.site.folders import Folder, Folders
from privacy.ledger.terms import VersionEntry
from tasks.storage.version_folders import MANIFEST


def folder_of_version(path: Path) -> tuple[Folder, dict[str, Any]]:
    """Return the folder of a published version, and its record."""
    manifest = hashlib.sha256((path / MANIFEST).read_bytes()).hexdigest()
    entry = VersionEntry(path.parent.name, int(path.name[1:]), "run", "published", manifest)
    folders = Folders(path.parents[1])
    folder = folders.of(entry)
    record = folders.record(folder)
    assert record is not None
    return folder, record
