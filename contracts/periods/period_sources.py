"""Names of sources whose rows are told apart by the day in a column: `NAME [by COLUMN]`.

How the day is read belongs to the name where the contract declares it: by another notation or time zone a row is of
another day, as by another column.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from contracts.contract.contract import Contract

_OPENS: Final = " [by "


def day_of_row(date_column: str, contract: Contract) -> str:
    """Return what tells the day of a row: the column, and its declared `format:` and `time_zone:`."""
    domain = next((column.domain for column in contract.columns if column.name == date_column), None)
    form, zone = (getattr(domain, key, None) for key in ("format", "time_zone"))
    return date_column + ("" if form is None else f" as {form}") + ("" if zone is None else f" in {zone}")


def divided_name(name: str, date_column: str | None) -> str:
    """Return the name of a source whose rows are told apart by the day in a column; its own name without one."""
    return name if date_column is None else f"{name}{_OPENS}{date_column}]"


def division_of(name: str) -> tuple[str, str] | None:
    """Return the source and the column of such a name; None for any other name."""
    source, opens, rest = name.rpartition(_OPENS)
    return (source, rest[:-1]) if opens and rest.endswith("]") else None


def is_divided(name: str) -> bool:
    """Say whether a name is one of a source whose rows are told apart by a column."""
    return division_of(name) is not None
