"""The options that every command has."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tasks.settings import Workspace

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
At = Annotated[
    Path | None,
    typer.Option("--workspace", metavar="DIR", help="The workspace; found from this folder upwards without it."),
]
Spec = Annotated[Path, typer.Argument(metavar="SPEC", help="A release spec (YAML).")]


def workspace_at(folder: Path | None) -> Workspace:
    """Open the workspace that was named, or the nearest one."""
    return Workspace.open(folder) if folder is not None else Workspace.find(Path.cwd())
