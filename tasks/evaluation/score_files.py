"""The files of an evaluation and the name of their folder: `adult-synthetic-v1-20260304T050607Z`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

NUMBERS: Final = "scores.json"
PAGE: Final = "scores.html"
_LONGEST: Final = 64
_FOLDER: Final = re.compile(
    rf"(?P<release>[A-Za-z0-9-]{{0,{_LONGEST}}})-v(?P<version>\d{{1,9}})-(?P<at>\d{{8}}T\d{{6}}Z)"
)


@dataclass(frozen=True)
class ScoreFiles:
    """Where scores were written.

    Args:
        numbers: JSON.
        page: HTML, with pictures.
    """

    numbers: Path
    page: Path

    @classmethod
    def below(cls, folder: Path) -> ScoreFiles:
        """Return the files of a folder of scores."""
        return cls(folder / NUMBERS, folder / PAGE)


@dataclass(frozen=True)
class Evaluated:
    """What a folder of scores is named after.

    Args:
        release, version: what was evaluated.
        at: when, as the folder's name writes it.
    """

    release: str
    version: int
    at: str

    @classmethod
    def of(cls, release: str, version: int, at: datetime) -> Evaluated:
        """Name an evaluation; a stranger may have written the release's name, so only its plain letters are taken."""
        plain = "".join(letter for letter in release if letter.isascii() and (letter.isalnum() or letter == "-"))
        return cls(plain[:_LONGEST], version, f"{at:%Y%m%dT%H%M%SZ}")

    @classmethod
    def read(cls, name: str) -> Evaluated | None:
        """Read the name of a folder; None for another name."""
        found = _FOLDER.fullmatch(name)
        return None if found is None else cls(found["release"], int(found["version"]), found["at"])

    @property
    def folder(self) -> str:
        """The folder's name."""
        return f"{self.release}-v{self.version}-{self.at}"
