"""Contract and spec in their folder: read as they stand, and written only over the texts that the page had read.

Only regular files are opened. A pipe would block whoever opens it, a device never ends, and a link leads elsewhere.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from contracts.drafting.codebooks.codebook import registered_suffixes
from contracts.errors import Finding, Refused
from contracts.reading.yaml_lines import shown

LARGEST: Final = 2_000_000
_SUFFIXES: Final = (".yaml", ".yml")
_TABLES: Final = (".csv", ".parquet", ".duckdb")
_MOST_NAMED: Final = 200


class FileRefused(Refused):
    """A file of the page cannot be read or written."""


class FileChanged(Refused):
    """A file is not what the page had read: somebody else, or another tab, wrote it meanwhile.

    Args:
        path: the file.
        text: what stands there now.
        place: of its text among those that were to be written, from 0.
    """

    def __init__(self, path: Path, text: str, place: int) -> None:
        self.text, self.digest, self.place = text, digest_of(text), place
        found = "another text than the one that this page had read; nothing was written"
        remedy = "compare the two, then take the file's text or write yours over it"
        super().__init__([Finding(shown(path), "file", found, "the text that was read", remedy)])


@dataclass(frozen=True)
class FileText:
    """A text of the page.

    Args:
        path: its file.
        text: what the editor holds.
        digest: SHA-256 of what was read from the file; empty for a file that was not there.
    """

    path: Path
    text: str
    digest: str = ""


def digest_of(text: str) -> str:
    """Return what names a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True)
class SpecFolder:
    """The folder that contracts and specs lie in; nothing outside of it is written.

    Args:
        path: absolute.
    """

    path: Path

    def file(self, name: str) -> Path:
        """Return the path of a YAML file of the folder.

        Raises:
            FileRefused: the name leads elsewhere, or is of no YAML file.
        """
        path = Path(os.path.normpath(self.path / name.replace("\0", "")))
        named = "\0" not in name and _is_text(name) and path.suffix in _SUFFIXES
        if not named or not path.is_relative_to(self.path) or not _leads_below(path, self.path):
            allowed, remedy = f"a YAML file below {self.path}", "start the studio in the folder of the spec"
            raise FileRefused([Finding("the page", "file", repr(name[:200]), allowed, remedy)])
        return path

    def read(self, name: str) -> FileText:
        """Read a file; one that is not there is empty.

        Raises:
            FileRefused: it is too large, no text, or cannot be read.
        """
        path = self.file(name)
        try:
            text = _text_in(path)
        except FileNotFoundError:
            return FileText(path, "")
        except UnicodeDecodeError:
            found = "bytes that are no UTF-8 text"
        except OSError as error:
            found = error.strerror or type(error).__name__
        else:
            return FileText(path, text, digest_of(text))
        raise FileRefused([Finding(shown(path), "file", found, f"a text of at most {LARGEST:,} bytes")])

    def write(self, *wanted: FileText) -> list[str]:
        """Write texts over those that the page had read, all or none; return what names each of them now.

        Raises:
            FileChanged: a file holds another text.
            FileRefused: one cannot be written, or two of the texts are for the same file.
        """
        if len({each.path for each in wanted}) < len(wanted):
            found, remedy = "two texts for the same file", "name another file as the contract of the spec"
            raise FileRefused([Finding(shown(wanted[0].path), "file", found, "a text for each file", remedy)])
        new = []
        for place, each in enumerate(wanted):
            now = self.read(str(each.path.relative_to(self.path)))
            if now.text != each.text:
                if now.digest != each.digest:
                    raise FileChanged(each.path, now.text, place)
                new.append(each)
        _replace(new)
        return [digest_of(each.text) for each in wanted]

    def specs(self) -> list[str]:
        """Name the YAML files that can be read and begin like a release spec."""
        return [name for name in self._named(_SUFFIXES) if "release" in _top_keys(self.path / name)]

    def tables(self) -> list[str]:
        """Name the files that may hold rows, by their names alone."""
        return self._named(_TABLES)

    def codebooks(self) -> list[str]:
        """Name the files that may be a codebook, by their names alone."""
        return self._named((".csv", *registered_suffixes()))

    def _named(self, suffixes: tuple[str, ...]) -> list[str]:
        try:
            names = (each.name for each in os.scandir(self.path))
            found = sorted(name for name in names if name.endswith(suffixes) and _is_text(name))
        except OSError:
            found = []
        return found[:_MOST_NAMED]


def _is_text(name: str) -> bool:
    """Say whether a name can be written on a page; a disk may hold bytes that are no text."""
    return not any("\ud800" <= letter <= "\udfff" for letter in name)


def _leads_below(path: Path, folder: Path) -> bool:
    """Say whether a path ends below a folder, its links followed."""
    try:
        return path.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError):  # links in a circle
        return False


def _text_in(path: Path) -> str:
    """Read a regular file, and no more of it than the page takes.

    Raises:
        OSError: it is no regular file, a larger one, or cannot be read.
        UnicodeDecodeError: it is no text.
    """
    if path.is_symlink():
        raise OSError(errno.ELOOP, "a link")
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(0, "no regular file")
        content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise OSError(0, "a larger file")
    return content.decode("utf-8-sig")


def _top_keys(path: Path) -> Iterator[str]:
    """Yield the keys at the top of a YAML file, as far as they are seen without parsing it."""
    try:
        text = _text_in(path)
    except (OSError, UnicodeDecodeError):
        return
    yield from (line.partition(":")[0] for line in text.splitlines() if line[:1].isalpha())


def _replace(wanted: Sequence[FileText]) -> None:
    """Write all texts beside their places before any of them takes its place."""
    aside: list[Path] = []
    try:
        for each in wanted:
            with _writable(each.path):
                aside.append(_written_aside(each))
        for each, written in zip(wanted, aside, strict=True):
            with _writable(each.path):
                written.replace(each.path)
    finally:
        for written in aside:
            written.unlink(missing_ok=True)


@contextmanager
def _writable(path: Path) -> Iterator[None]:
    """Say in words what keeps a file from being written."""
    try:
        yield
    except (OSError, UnicodeEncodeError) as error:
        found = getattr(error, "strerror", None) or "characters that are no text"
        remedy = "give write access, or start the studio in a folder that can be written"
        raise FileRefused([Finding(shown(path), "file", found, "a file that can be written", remedy)]) from None


def _written_aside(wanted: FileText) -> Path:
    """Write a text into a new file of a random name, which no link can wait under, with the mode of the old one."""
    content = wanted.text.encode("utf-8")
    aside = wanted.path.with_name(f".{secrets.token_hex(16)}.partial")
    try:
        mode = stat.S_IMODE(os.lstat(wanted.path).st_mode) & 0o777
    except FileNotFoundError:
        mode = None
    first = 0o666 if mode is None else 0o600
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, first)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if mode is not None:
                os.fchmod(descriptor, mode)
            file.write(content)
    except OSError:
        aside.unlink(missing_ok=True)
        raise
    return aside
