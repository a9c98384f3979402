"""`sudare init`: make a workspace."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from console.output import AsJson, answer, print_facts
from flows.prefect_runs.server import begin_database
from privacy.ledger.journal.signing import key_id
from tasks.storage.workspace.environment import user_folder
from tasks.storage.workspace.settings import Workspace
from tasks.verification.keys import remember_own

NewFolder = Annotated[Path, typer.Argument(metavar="DIR", help="Where to make it; this folder without it.")]

KeyName = Annotated[
    str | None, typer.Option("--name", help="Name of the key and its journal, such as statistics.example/journal.")
]


def init(directory: NewFolder = Path(), name: KeyName = None, as_json: AsJson = False) -> None:
    """Make a workspace: settings, ledger, keys and release store.

    Examples:

        sudare init

        sudare init /srv/releases --name statistics.example/journal
    """
    workspace, public_key, noted = make_workspace(directory, name=name)
    payload = {
        "workspace": str(workspace.root),
        "releases": str(workspace.releases),
        "public_key": public_key,
        "public_key_file": str(workspace.public_key_file),
        "key_id": key_id(public_key),
        "noted_as_yours": noted,
    }

    def people(console: Console) -> None:
        console.print(f"A workspace is ready in {workspace.root}")
        print_facts(
            console,
            [
                ("releases", str(workspace.releases)),
                ("public key", f"{workspace.public_key_file}  (give it to those who verify)"),
                ("private", f"{workspace.private}  (keep a copy of keys/ in a safe place)"),
                *([] if noted else [("verify", f"with --workspace: {user_folder()} cannot be written")]),
                ("next", "sudare budget open --help, then sudare plan SPEC"),
            ],
        )

    answer(payload, people, as_json=as_json)


def make_workspace(directory: Path, *, name: str | None = None) -> tuple[Workspace, str, bool]:
    """Make a workspace with an empty ledger; return it, its public key, and whether the key was noted as one's own.

    Raises:
        WorkspaceRefused: there is one already, or the folder cannot be written.
    """
    workspace = Workspace.create(directory, name=name)
    workspace.open_ledger().close()
    if workspace.prefect_api_url is None:
        begin_database(workspace.prefect_home)
    public_key = workspace.public_key_file.read_text(encoding="utf-8").strip()
    try:
        remember_own(public_key, workspace.root, user_folder())
    except OSError:
        return workspace, public_key, False
    return workspace, public_key, True
