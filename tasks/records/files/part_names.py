"""How a data file is cut: into pieces as it is written, and into parts, files that hold its rows once more."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_PART: Final = re.compile(r"/part-(\d{5})\.parquet")
MOST_PARTS: Final = 100_000
PIECE = 1 << 20
"""Rows that are held in memory at once, and written as one row group."""


def part_name(data: str, place: int) -> str:
    """Return the name of a part: `data/age/part-00000.parquet` of data/age.parquet.

    Args:
        data: name of the whole file.
        place: which part, from 0.
    Raises:
        ValueError: more parts than five digits can number.
    """
    if not 0 <= place < MOST_PARTS:
        raise ValueError(f"a file has at most {MOST_PARTS} parts")
    return f"{data.removesuffix('.parquet')}/part-{place:05d}.parquet"


def parts_among(data: str, names: Iterable[str]) -> list[str]:
    """Return which of the names are those of parts of a file, in their order."""
    folder = data.removesuffix(".parquet")
    return sorted(name for name in names if name.startswith(folder) and _PART.fullmatch(name.removeprefix(folder)))
