"""One mutation of a published version, and a version that is put back after each."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contracts.canonical import readable_json

MANIFEST, PROOF, RECORD = "MANIFEST.json", "PROOF.json", "record.json"


@dataclass(frozen=True)
class Mutation:
    """One change of a version folder.

    Args:
        kind: what sort of change it is.
        told: the change in words.
        apply: makes it in the folder.
        names: files of which a finding must name at least one.
    """

    kind: str
    told: str
    apply: Callable[[Path], object]
    names: frozenset[str]


class Pristine:
    """A version folder that can be put back after each mutation.

    Args:
        folder: the version, which is made writable.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for path in (folder, *folder.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        self.files = {
            path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
        }

    def restore(self) -> None:
        """Put every file back, and take away what was added."""
        for path in sorted(self.folder.rglob("*"), reverse=True):
            name = path.relative_to(self.folder).as_posix()
            if path.is_symlink() or (path.is_file() and name not in self.files):
                path.unlink()
            elif path.is_dir() and not any(each.startswith(f"{name}/") for each in self.files):
                shutil.rmtree(path)
        for name, content in self.files.items():
            path = self.folder / name
            if not path.is_file() or path.read_bytes() != content:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)


def proof_with(kind: str, told: str, proof: dict[str, Any], **changed: Any) -> Mutation:
    """Write the proof with some of its parts changed."""
    return written(kind, told, PROOF, readable_json({**proof, **changed}))


def written(kind: str, told: str, name: str, content: bytes) -> Mutation:
    """Write other bytes into a file."""
    return Mutation(kind, told, lambda folder: (folder / name).write_bytes(content), frozenset({name}))
