"""The keys of two linked tables of synthetic rows, as descriptions of their files state them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class KeyColumns:
    """The keys of one file.

    Args:
        primary: the column that tells its rows apart; None where there is none.
        foreign: a column that holds the key of another file's rows, that file without its suffix, and its column.
    """

    primary: str | None = None
    foreign: tuple[str, str, str] | None = None

    def meaning(self, column: str) -> str | None:
        """Say what a column of keys means; None for any other column."""
        if column == self.primary:
            return "Key of the row: a fresh number."
        if self.foreign is not None and column == self.foreign[0]:
            return f"Key of the row of {self.foreign[1]} that it belongs to."
        return None


def key_columns(replay: Mapping[str, Any], path: str) -> KeyColumns:
    """Return the keys of a file; none unless the version has two linked tables.

    Args:
        replay: the record's replay block.
        path: of the file, without its suffix.
    """
    rows = replay.get("rows")
    if not isinstance(rows, Mapping) or rows.get("parents") is None:
        return KeyColumns()
    parents = rows["parents"]
    above = str(parents["data"]).removesuffix(".parquet")
    if path == above:
        return KeyColumns(primary=parents["key"])
    if path == str(rows["data"]).removesuffix(".parquet"):
        return KeyColumns(foreign=(parents["child_key"], above, parents["key"]))
    return KeyColumns()
