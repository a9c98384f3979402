"""A published version that is about to be copied: its files are those of its manifest, and that is the journal's."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from contracts.errors import Finding, Refused
from tasks.storage.manifest import MANIFEST, PROOF, digests_in


class VersionBroken(Refused):
    """The files of a published version are not those that were published."""

    exit_code = 5


@dataclass(frozen=True)
class WholeVersion:
    """A published version whose files are those of its manifest.

    Args:
        folder: where it is.
        release: name of the product.
        number: the version.
        manifest: the manifest, as it is written.
        files: its files, without manifest and proof, in the order of their names.
    """

    folder: Path
    release: str
    number: int
    manifest: bytes
    files: tuple[str, ...]

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of the manifest."""
        return hashlib.sha256(self.manifest).hexdigest()


def whole_version(folder: Path, release: str, number: int, manifest: str | None) -> WholeVersion:
    """Check a version's files against its manifest, and that against the journal's entry.

    Args:
        folder: the version's folder.
        release: name of the product.
        number: the version.
        manifest: SHA-256 (hex) of the manifest, as the journal has it.
    Raises:
        VersionBroken: something is missing or was changed.
    """
    try:
        content = (folder / MANIFEST).read_bytes()
        files = digests_in(content)
        good = hashlib.sha256(content).hexdigest() == manifest and (folder / PROOF).is_file()
        good = good and all(_sha256(folder / name) == digest for name, digest in files.items())
    except (OSError, ValueError, KeyError):
        good = False
    if not good:
        remedy = "restore the folder from a copy; sudare verify says what is wrong with it"
        found, allowed = "another content than was published", "the published files, unchanged"
        raise VersionBroken([Finding(str(folder), "version", found, allowed, remedy)])
    return WholeVersion(folder, release, number, content, tuple(sorted(files)))


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
