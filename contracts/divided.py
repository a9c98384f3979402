"""Names of sources whose rows are told apart by the day in a column: `NAME [by COLUMN]`."""

from __future__ import annotations

from typing import Final

_OPENS: Final = " [by "


def divided_name(name: str, by: str | None) -> str:
    """Return the name of a source whose rows are told apart by the day in a column; its own name without one."""
    return name if by is None else f"{name}{_OPENS}{by}]"


def division_of(name: str) -> tuple[str, str] | None:
    """Return the source and the column of such a name; None for any other name."""
    source, opens, rest = name.rpartition(_OPENS)
    return (source, rest[:-1]) if opens and rest.endswith("]") else None


def is_divided(name: str) -> bool:
    """Say whether a name is one of a source whose rows are told apart by a column."""
    return division_of(name) is not None
