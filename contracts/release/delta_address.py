"""The address of a Delta table in a folder of this machine, as it is now or as it once was.

delta:///FOLDER                         the newest version
delta:///FOLDER?version=12              that version
delta:///FOLDER?at=2026-01-31T00:00Z    the last version that was there at that instant
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar
from urllib.parse import parse_qsl, unquote

from contracts.message import message
from contracts.reading.scalars import Problem, refuse, show
from contracts.release.address import CONTROL, Address


@dataclass(frozen=True)
class DeltaAddress(Address):
    """A Delta table.

    Args:
        folder: the folder that holds `_delta_log`, links followed.
        version: which version is read; None for the newest, or the one that `at` tells.
        at: the instant whose version is read, or None.
    """

    kind: ClassVar[str] = "delta"
    options: ClassVar[frozenset[str]] = frozenset({"version", "at"})
    gate: ClassVar[str | None] = message(
        "the files of the Delta table's version are there, can be read to their last rows, have the same columns and "
        "the same fields in records, and no two files of a partition have the same bytes"
    )

    folder: Path
    version: int | None = None
    at: datetime | None = None

    @classmethod
    def read(cls, scheme: str, rest: str, written: str) -> DeltaAddress:
        """Read the address of a table and, behind a `?`, which of its versions is meant."""
        place, _, options = rest.partition("?")
        place = unquote(place)
        if not place.startswith("/") or CONTROL.search(place):
            refuse([Problem("a Delta table without a folder", "delta:///FOLDER", "write the whole path")])
        asked = parse_qsl(options, keep_blank_values=True)
        if len(asked) > 1:
            refuse([Problem("more than one version", "`?version=` or `?at=`, or neither", "drop one of them")])
        chosen = dict(asked)
        return cls(Path(place).resolve(), _version(chosen.get("version")), _instant(chosen.get("at")))

    def __str__(self) -> str:
        """The address, with the version that is meant."""
        if self.version is not None:
            return f"{self._table}?version={self.version}"
        return self._table if self.at is None else f"{self._table}?at={self.at.isoformat()}"

    @property
    def _table(self) -> str:
        return f"delta://{self.folder}"

    def source_name(self, table: str | None, *, folder: bool) -> str:
        """All versions of a table are of the same people."""
        return self._table

    def table_format(self, files: str | None) -> str | None:
        """Return the kind's own format."""
        return "delta"

    def misplaced(self, files: str | None) -> Problem | None:
        """Refuse what says a second time what the files are."""
        if files is None:
            return None
        return Problem("`files` for a Delta table", "`files` for folders", "drop it", ("files",))


def _version(written: str | None) -> int | None:
    if written is None:
        return None
    if not written.isdecimal() or not written.isascii() or len(written) > 18:
        refuse([Problem(f"the version {show(written)}", "a whole number from 0", "correct `?version=`")])
    return int(written)


def _instant(written: str | None) -> datetime | None:
    if written is None:
        return None
    try:
        read = datetime.fromisoformat(written)
    except ValueError:
        read = None
    if read is None or read.tzinfo is None:
        allowed = "an instant with its offset from UTC, such as 2026-01-31T00:00:00Z"
        refuse([Problem(f"the instant {show(written)}", allowed, "correct `?at=`")])
    return read.astimezone(UTC)
