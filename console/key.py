"""`sudare key`: the publisher's key that versions are verified against."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from console.options import AsJson, At, workspace_at
from console.render import answer
from contracts.errors import Finding, SpecRefused
from tasks.settings import Workspace, user_folder
from tasks.workspace_keys import WorkspaceRefused

app = typer.Typer(help="Keys: whose versions you verify.", no_args_is_help=True)

File = Annotated[Path, typer.Argument(metavar="FILE", help="The publisher's public key, got another way.")]
Replace = Annotated[bool, typer.Option("--replace", help="Put it in the place of another key that is pinned.")]
User = Annotated[bool, typer.Option("--user", help="Pin it for all folders outside workspaces, even inside one.")]


@app.callback()
def keys() -> None:
    """Keep `key` a group of commands."""


@app.command("pin")
def pin(
    file: File, replace: Replace = False, user: User = False, workspace: At = None, as_json: AsJson = False
) -> None:
    """Keep a publisher's key, so that `sudare verify` needs no --key.

    It is kept for this workspace, or for you where there is none. A key that lies in a version folder is refused.

    Examples:

        sudare key pin publisher.pub
    """
    from privacy.ledger.signing import key_id
    from tasks.verification.keys import pin_key, read_public_key

    around = None if user else workspace_or_none(workspace)
    pinned = pin_key(file, user_folder() if around is None else around.keys, replace=replace)
    payload = {
        "key_id": key_id(read_public_key(pinned)),
        "pinned": str(pinned),
        "for": "this user" if around is None else "this workspace",
    }
    said = f"Pinned key {payload['key_id']} for {payload['for']}: {pinned}"
    answer(payload, lambda console: console.print(said), as_json=as_json)


def key_to_verify_with(named: Path | None, workspace: Path | None) -> Path:
    """Return the key file: the one named, else the workspace's pin, else its own, else (without one) the user's pin.

    Raises:
        SpecRefused: there is none of them.
    """
    from tasks.verification.keys import PIN

    if named is not None:
        return named
    around = workspace_or_none(workspace)
    if around is not None:
        return around.keys / PIN if (around.keys / PIN).exists() else around.public_key_file
    if (user_folder() / PIN).exists():
        return user_folder() / PIN
    found = "no key named, none pinned, and no workspace here that has one of its own"
    remedy = "get the publisher's public key, then: sudare key pin FILE, once; or add --key FILE"
    raise SpecRefused([Finding("the command", "--key", found, "the publisher's public key", remedy)])


def workspace_or_none(named: Path | None) -> Workspace | None:
    """Open the workspace that was named or the nearest one; None where none is near."""
    try:
        return workspace_at(named)
    except WorkspaceRefused as error:
        if named is not None or error.findings[0].field != "workspace":
            raise
        return None
