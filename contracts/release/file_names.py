"""Names of files: the format that a suffix stands for, and what a name may be."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Final, Literal

from pydantic import AfterValidator

from contracts.reading.scalars import Label, Problem, refuse, show

Format = Literal["csv", "parquet", "duckdb", "sqlite"]
Files = Literal["csv", "parquet"]
SUFFIXES: Final[dict[str, Format]] = {
    ".csv": "csv",
    ".csv.gz": "csv",
    ".csv.zst": "csv",
    ".parquet": "parquet",
    ".duckdb": "duckdb",
    ".sqlite": "sqlite",
    ".sqlite3": "sqlite",
    ".db": "sqlite",
}
DATABASES: Final = ("duckdb", "sqlite", "postgresql")
"""Formats of which a source names one table of several."""
_UNSAFE_IN_FILE_NAME = re.compile(r"""[/\\<>:"|?*`$;&!'(){}\[\]~#%^]|^[.-]|\.$""")
"""What a path, a shell or an option begins with or consists of."""
_DEVICE = re.compile(r"(?i)(?:con|prn|aux|nul|(?:com|lpt)[0-9])(?:\..*)?")
"""Names that mean devices in Windows, whatever follows after a dot."""
_LONGEST_NAME = 120


def format_of_name(name: str) -> Format | None:
    """Return the format that a name's suffix stands for, or None for an unknown suffix."""
    return next((form for suffix, form in SUFFIXES.items() if name.lower().endswith(suffix)), None)


def unfit_name(name: str) -> str | None:
    """Say what a table's name may be, if this one may not name a file."""
    if _DEVICE.fullmatch(name):
        return "a name that is no device of Windows (con, prn, aux, nul, com1, lpt1 …)"
    if not _UNSAFE_IN_FILE_NAME.search(name) and len(name.encode()) <= _LONGEST_NAME:
        return None
    return (
        f"at most {_LONGEST_NAME} bytes, none of / \\ < > : \" | ? * ` $ ; & ! ' ( ) {{ }} [ ] ~ # % ^, "
        "no dot at either end and no hyphen in front"
    )


def _names_a_file(name: str) -> str:
    """Refuse a table's name that no file may have."""
    allowed = unfit_name(name)
    if allowed is not None:
        refuse([Problem(f"the table name {show(name)}", allowed, "give the table a `name:`, it names a file")])
    return name


TableName = Annotated[Label, AfterValidator(_names_a_file)]
"""The name of a table, and of its files."""


def repeated_names(names: Iterable[tuple[int, str]]) -> list[Problem]:
    """List the names of tables that stand twice, in any case of letters: some file systems tell none apart.

    Args:
        names: each with its table's place.
    """
    found, known = [], set[str]()
    for place, name in names:
        if name.casefold() in known:
            found.append(Problem(f"the name {name!r} again", "each name once", "rename one", (place, "name")))
        known.add(name.casefold())
    return found
