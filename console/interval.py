"""`sudare interval`: the count of any sum of cells of a version, with its 95 % interval."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from console.output import AsJson, answer

PlaceVersion = Annotated[
    Path, typer.Argument(metavar="VERSION_DIR", help="The folder of a version of counts by place.")
]
SumConditions = Annotated[
    str, typer.Option("--where", metavar="CONDITIONS", help="Levels and columns with labels; all rows without it.")
]


def interval(version_dir: PlaceVersion, where: SumConditions = "", as_json: AsJson = False) -> None:
    """Give the count of any sum of cells of counts by place, with its 95 % interval.

    It is computed from what the version publishes: the noisy counts of all levels. No row is read, and
    nothing is charged. Each file that is used must have the SHA-256 that MANIFEST.json states. The manifest's
    signature is not checked: first type sudare verify VERSION_DIR.

    `and` joins conditions, | joins labels. Places are named by their level, labels by their column.

    Examples:

        sudare interval releases/people-by-place/v1 --where "region=13 and sex=F"

        sudare interval releases/people-by-place/v1 --where "city=13101|13102 and age=0 to 19" --json
    """
    from tasks.products.spine.spine_intervals import published_spine  # arrays, which help does without
    from tasks.verification.files.folder import open_version

    found = published_spine(open_version(version_dir)).interval(where)
    payload = {"where": where, "confidence": 0.95, **asdict(found)}

    def people(console: Console) -> None:
        console.print(f"{found.count:,} rows, with 95 % from {found.lower:,} to {found.upper:,}")
        console.print(f"places: {found.places:,}; cells of each: {found.cells:,}; deviation {found.deviation:.4g}")
        console.print("For a sum that was chosen beforehand. To check the version: sudare verify")

    answer(payload, people, as_json=as_json)
