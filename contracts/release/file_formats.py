"""Formats of files, by the suffixes of their names."""

from __future__ import annotations

from typing import Final, Literal

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


def format_of_name(name: str) -> Format | None:
    """Return the format that a name's suffix stands for, or None for an unknown suffix."""
    return next((form for suffix, form in SUFFIXES.items() if name.lower().endswith(suffix)), None)
