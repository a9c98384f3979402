"""`sudare doctor`: whether this machine and this workspace can release."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Final

import typer
from rich.console import Console
from rich.text import Text

from console.examination import examine, nearest_workspace
from console.options import AsJson, At
from console.render import answer

WRONG: Final = 1
_MARKS: Final = {"good": ("✓", "green"), "notable": ("·", "yellow"), "wrong": ("✗", "bold red")}


def doctor(workspace: At = None, as_json: AsJson = False) -> None:
    """Look whether this machine and workspace can release: software, clock, disk, keys, ledger, Prefect, workers.

    It reads no row and changes nothing. Exit 1 where something is wrong, with what to do about it.

    Examples:

        sudare doctor

        sudare doctor --workspace /srv/releases --json
    """
    observations = list(examine(nearest_workspace(workspace), now=datetime.now(UTC)))

    def people(console: Console) -> None:
        width = max(len(seen.matter) for seen in observations)
        for seen in observations:
            mark, style = _MARKS[seen.health]
            console.print(Text(f"{mark} ", style=style) + Text(f"{seen.matter:<{width}}  {seen.found}", "default"))
            if seen.remedy:
                console.print(Text(f"{' ' * (width + 4)}{seen.remedy}", style="green"))

    answer({"observations": [asdict(seen) for seen in observations]}, people, as_json=as_json)
    if any(seen.health == "wrong" for seen in observations):
        raise typer.Exit(WRONG)
