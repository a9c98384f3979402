"""`sudare interval`: the count of any sum of cells of a version, with its 95 % interval."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from console.options import AsJson
from console.render import answer

if TYPE_CHECKING:
    from tasks.products.adaptive.adaptive_intervals import GroupSum
    from tasks.products.spine.spine_intervals import SumInterval

PlaceVersion = Annotated[
    Path,
    typer.Argument(metavar="VERSION_DIR", help="The folder of a version of counts by place, or of adaptive tables."),
]
SumConditions = Annotated[
    str,
    typer.Option("--where", metavar="CONDITIONS", help="Levels and columns with labels; all rows without it."),
]


def interval(version_dir: PlaceVersion, where: SumConditions = "", as_json: AsJson = False) -> None:
    """Give the count of any sum of cells of counts by place or of adaptive tables, with its 95 % interval.

    It is computed from what the version publishes: the noisy counts of all levels. No row is read, and
    nothing is charged. Each file that is used must have the SHA-256 that MANIFEST.json states. The manifest's
    signature is not checked: first type sudare verify VERSION_DIR.

    `and` joins conditions, | joins labels. Places are named by their level, labels by their column. Of an
    adaptive table whole groups are added up from their noisy totals, cells from the counts at their levels.

    Examples:

        sudare interval releases/people-by-place/v1 --where "region=13 and sex=F"

        sudare interval releases/people-by-place/v1 --where "city=13101|13102 and age=0 to 19" --json
    """
    from tasks.products.version_records import kind_of  # arrays, which help does without
    from tasks.verification.files.version_folder import open_version

    folder = open_version(version_dir)
    found, words = (_of_groups if kind_of(folder) == "adaptive" else _of_places)(folder, where)
    payload = {"where": where, "confidence": 0.95, **asdict(found)}

    def people(console: Console) -> None:
        console.print(f"{found.count:,} rows, with 95 % from {found.lower:,} to {found.upper:,}")
        console.print(f"{words}; deviation {found.deviation:.4g}")
        console.print("For a sum that was chosen beforehand. To check the version: sudare verify")

    answer(payload, people, as_json=as_json)


def _of_places(folder: Path, where: str) -> tuple[SumInterval, str]:
    from tasks.products.spine.spine_intervals import published_spine

    found = published_spine(folder).interval(where)
    return found, f"places: {found.places:,}; cells of each: {found.cells:,}"


def _of_groups(folder: Path, where: str) -> tuple[GroupSum, str]:
    from tasks.products.adaptive.adaptive_intervals import group_sum

    found = group_sum(folder, where)
    return found, f"table {found.table}; groups: {found.groups:,}; noisy counts: {found.numbers:,}"
