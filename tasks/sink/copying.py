"""The copy of a published version to another store: after it is whole here, and as often as it takes.

The journal knows a version when it is whole in the workspace's store. A copy changes nothing of that: it is made from
the published files alone, it is visible whole or not at all, and making it again goes on where it stopped.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contracts.address import PostgresAddress, read_address
from contracts.errors import Finding, Refused
from privacy.ledger.ledger import Ledger
from privacy.ledger.terms import VersionEntry
from tasks.progress import step
from tasks.publish import MANIFEST, PROOF, version_folder

logger = logging.getLogger(__name__)


class CopyRefused(Refused):
    """A version cannot be copied: it is not whole here, or another one has its place there."""

    exit_code = 1


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

    @property
    def content(self) -> dict[str, Any]:
        """The manifest, read."""
        read: dict[str, Any] = json.loads(self.manifest)
        return read


def whole_version(folder: Path, release: str, number: int, manifest: str | None) -> WholeVersion:
    """Check a version's files against its manifest, and that against the journal's entry.

    Args:
        folder: the version's folder.
        release: name of the product.
        number: the version.
        manifest: SHA-256 (hex) of the manifest, as the journal has it.
    Raises:
        CopyRefused: something is missing or was changed.
    """
    try:
        content = (folder / MANIFEST).read_bytes()
        files = json.loads(content)["files"]
        good = hashlib.sha256(content).hexdigest() == manifest and (folder / PROOF).is_file()
        good = good and all(_sha256(folder / name) == entry["sha256"] for name, entry in files.items())
    except (OSError, ValueError, KeyError):
        good = False
    if not good:
        remedy = "restore the folder from a copy; sudare verify says what is wrong with it"
        found, allowed = "another content than was published", "the published files, unchanged"
        raise CopyRefused([Finding(str(folder), "version", found, allowed, remedy)])
    return WholeVersion(folder, release, number, content, tuple(sorted(files)))


def copy_version(version: WholeVersion, to: str, credentials: str | None, *, newest: bool) -> str:
    """Copy a version to an address.

    Args:
        version: the version.
        to: `s3://BUCKET/PREFIX`, or `postgresql://HOST/DATABASE`.
        credentials: their name, or None for those that the environment gives any program.
        newest: whether `latest` there may point to it.
    Returns:
        str: where it is.
    Raises:
        StoreRefuses, CopyRefused: the store says no, or the place is taken by something else.
        StoreAway: the store does not answer; nothing half-written is visible.
    """
    address = read_address(to)
    with step("copy") as bar:
        where = _copier(address)(version, credentials, newest, bar.advance)
    logger.info("copied %s v%d", version.release, version.number)
    return where


def _copier(address: Any) -> Callable[[WholeVersion, str | None, bool, Callable[[float], None]], str]:
    if isinstance(address, PostgresAddress):
        from tasks.sink.tables import to_postgres

        return lambda version, credentials, _newest, advance: to_postgres(version, address, credentials, advance)
    from tasks.sink.objects import to_objects

    return lambda version, credentials, newest, advance: to_objects(
        version, address, credentials, newest=newest, advance=advance
    )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def copy_published(
    ledger: Ledger, store: Path, release: str, number: int | None, to: str, credentials: str | None
) -> tuple[VersionEntry, str]:
    """Copy a version that the journal says is published to an address.

    Args:
        ledger: knows what was published, withdrawn and superseded.
        store: the release store that holds it.
        release: name of the product.
        number: which version; the newest that is not withdrawn without it.
        to: the address.
        credentials: their name, or None.
    Returns:
        The version, and where its copy is.
    Raises:
        CopyRefused: no such version, or it was withdrawn, or it is not whole here.
        StoreRefuses, StoreAway: see `copy_version`.
    Privacy: released files only; nothing is drawn or charged.
    """
    known = [entry for entry in ledger.versions(release) if entry.status in ("published", "superseded")]
    wanted = known[-1:] if number is None else [entry for entry in known if entry.number == number]
    if not wanted:
        there = ", ".join(f"v{entry.number}" for entry in known) or "a published version (there is none)"
        found = release if number is None else f"{release} v{number}"
        remedy = "a version that was withdrawn is not copied any more"
        raise CopyRefused([Finding("the ledger", "version", found, there, remedy)])
    [entry] = wanted
    version = whole_version(version_folder(store, entry), entry.release, entry.number, entry.manifest)
    return entry, copy_version(version, to, credentials, newest=entry.status == "published")
