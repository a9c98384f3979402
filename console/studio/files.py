"""Contract and spec in their folder: read as they stand, and written only over the text that the page had read."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from contracts.errors import Finding, Refused
from contracts.reading.yaml_lines import shown

LARGEST: Final = 2_000_000
_SUFFIXES: Final = (".yaml", ".yml")
_TABLES: Final = (".csv", ".parquet", ".duckdb", ".sav", ".dta")
_MOST_NAMED: Final = 200


class FileRefused(Refused):
    """A file of the page cannot be read or written."""


class FileChanged(Refused):
    """A file is not what the page had read: somebody else, or another tab, wrote it meanwhile.

    Args:
        path: the file.
        text: what stands there now.
    """

    def __init__(self, path: Path, text: str) -> None:
        self.text, self.digest = text, digest_of(text)
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
        inside = path.is_relative_to(self.path) and path.resolve().is_relative_to(self.path.resolve())
        if "\0" in name or not inside or path.suffix not in _SUFFIXES:
            allowed, remedy = f"a YAML file below {self.path}", "start the studio in the folder of the spec"
            raise FileRefused([Finding("the page", "file", repr(name[:200]), allowed, remedy)])
        return path

    def read(self, name: str) -> FileText:
        """Read a file; one that is not there is empty.

        Raises:
            FileRefused: it is too large, no text, or cannot be read.
        """
        path = self.file(name)
        found = ""
        try:
            content = path.read_bytes()[: LARGEST + 1]
            text = content.decode("utf-8-sig")
            found = "a larger file" if len(content) > LARGEST else ""
        except FileNotFoundError:
            return FileText(path, "")
        except UnicodeDecodeError:
            found = "bytes that are no UTF-8 text"
        except OSError as error:
            found = error.strerror or type(error).__name__
        if found:
            raise FileRefused([Finding(shown(path), "file", found, f"a text of at most {LARGEST:,} bytes")])
        return FileText(path, text, digest_of(text))

    def write(self, wanted: FileText) -> str:
        """Write a text over the one that the page had read; return what names it now.

        Raises:
            FileChanged: the file holds another text.
            FileRefused: it cannot be written.
        """
        now = self.read(str(wanted.path.relative_to(self.path)))
        if now.text != wanted.text:
            if now.digest != wanted.digest:
                raise FileChanged(wanted.path, now.text)
            _replace(wanted)
        return digest_of(wanted.text)

    def specs(self) -> list[str]:
        """Name the YAML files that begin like a release spec."""
        return [name for name in self._named(_SUFFIXES) if "release" in _top_keys(self.path / name)]

    def tables(self) -> list[str]:
        """Name the files that may hold rows, by their names alone."""
        return self._named(_TABLES)

    def _named(self, suffixes: tuple[str, ...]) -> list[str]:
        try:
            found = sorted(each.name for each in os.scandir(self.path) if each.name.endswith(suffixes))
        except OSError:
            found = []
        return found[:_MOST_NAMED]


def _top_keys(path: Path) -> Iterator[str]:
    """Yield the keys at the top of a YAML file, as far as they are seen without parsing it."""
    try:
        text = path.read_bytes()[:LARGEST].decode("utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return
    yield from (line.partition(":")[0] for line in text.splitlines() if line[:1].isalpha())


def _replace(wanted: FileText) -> None:
    """Write the whole text beside its place first, so that an interruption leaves one or the other."""
    aside = wanted.path.with_name(f".{wanted.path.name}.partial")
    try:
        aside.write_bytes(wanted.text.encode("utf-8"))
        aside.replace(wanted.path)
    except (OSError, UnicodeEncodeError) as error:
        found = getattr(error, "strerror", None) or "characters that are no text"
        remedy = "give write access, or start the studio in a folder that can be written"
        allowed = "a file that can be written"
        raise FileRefused([Finding(shown(wanted.path), "file", found, allowed, remedy)]) from None
