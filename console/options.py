"""The options that every command has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tasks.storage.workspace.settings import Workspace

if (
    TYPE_CHECKING
):  # `main` takes the workspace of this module to find the log of errors, and loads no SQLAlchemy for it
    from privacy.ledger.ledger import Ledger

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Exact = Annotated[
    bool, typer.Option("--exact", help="Also show losses in the account's own units, in which they add up.")
]
At = Annotated[
    Path | None,
    typer.Option("--workspace", metavar="DIR", help="The workspace; found from this folder upwards without it."),
]
Spec = Annotated[Path, typer.Argument(metavar="SPEC", help="A release spec (YAML).")]


def workspace_at(folder: Path | None) -> Workspace:
    """Open the workspace that was named, or the nearest one."""
    return Workspace.open(folder) if folder is not None else Workspace.find(Path.cwd())


@contextmanager
def ledger_at(folder: Path | None, *, create: bool = False) -> Iterator[Ledger]:
    """Open the ledger of the workspace that was named, or of the nearest one, inside the block."""
    ledger = workspace_at(folder).open_ledger(create=create)
    try:
        yield ledger
    finally:
        ledger.close()
