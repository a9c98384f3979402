"""A version in one ZIP file, as it was published, with the words of how to check it.

Inside a folder of the version's own path stand its published files and nothing else; beside that folder stands
`CHECK.txt`, which names the key and the command. The bytes are streamed and are the same each time. A file that is
not as it was published ends the stream before the archive is whole, so that no unpacker takes it for one.
"""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any, Final

from console.site.asking import NotThere, Site
from console.site.folders import Folder, ReleaseListing
from console.site.version import folder_of
from privacy.ledger.journal.signing import key_id
from tasks.records.page.language import LANGUAGES, language

NOTE: Final = "CHECK.txt"
_PIECE: Final = 1 << 18
_BEGAN: Final = (1980, 1, 1, 0, 0, 0)
"""The one time of all files: that of the disk tells when somebody copied them."""


class Spool(io.RawIOBase):
    """What a ZIP writer wrote since it was last emptied; it has no way back, so that nothing is kept."""

    def __init__(self) -> None:
        super().__init__()
        self._pieces: list[bytes] = []

    def writable(self) -> bool:
        """Say that it can be written into."""
        return True

    def write(self, piece: Any) -> int:
        """Take a piece."""
        self._pieces.append(bytes(piece))
        return len(piece)

    def taken(self) -> bytes:
        """Return what was written, and forget it."""
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)


def whole_version(site: Site, release: str, number: int) -> tuple[str, str, Iterator[bytes]]:
    """Return a version as a ZIP file: its name, its mark for caches, its bytes.

    Args:
        site: the site.
        release, number: which version.
    Raises:
        NotThere: there is no such version, or a file of it is missing or of another size.
    Privacy: published files only.
    """
    folder = folder_of(site, release, number)
    if not folder.is_readable or not all(_is_there(folder, listed) for listed in folder.files.values()):
        raise NotThere
    place, key = f"{release}/v{number}", key_id(site.public_key)
    texts = [
        language(code).text("zip.check", place=place, key=key, manifest=folder.entry.manifest) for code in LANGUAGES
    ]
    note = "\n\n".join(text.unescape() for text in texts) + "\n"
    proof = "".join(f"{size}" for name, size, _ in folder.fingerprint() if name == "PROOF.json")
    mark = hashlib.sha256(f"{folder.entry.manifest} {proof} {note}".encode()).hexdigest()
    return f"{release}-v{number}.zip", mark, _pieces(folder, place, note)


def _is_there(folder: Folder, listed: ReleaseListing) -> bool:
    if {"", ".", ".."} & {*listed.name.split("/")}:
        return False
    try:
        descriptor = folder.open(listed.name)
    except FileNotFoundError:
        return False
    size = os.fstat(descriptor).st_size
    os.close(descriptor)
    return size == listed.bytes


def _pieces(folder: Folder, place: str, note: str) -> Iterator[bytes]:
    spool = Spool()
    with zipfile.ZipFile(spool, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(_entry(NOTE), note.encode())
        for listed in folder.files.values():
            entry, seen = _entry(f"{place}/{listed.name}"), hashlib.sha256()
            with (
                os.fdopen(folder.open(listed.name), "rb") as file,
                archive.open(entry, "w", force_zip64=listed.bytes >= zipfile.ZIP64_LIMIT) as written,
            ):
                while piece := file.read(_PIECE):
                    seen.update(piece)
                    written.write(piece)
                    yield spool.taken()
            if listed.sha256 not in (None, seen.hexdigest()):
                raise FileNotFoundError(f"{listed.name} is not as it was published")
    yield spool.taken()


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(PurePosixPath(name).as_posix(), _BEGAN)
    entry.create_system, entry.external_attr = 3, 0o644 << 16
    return entry
