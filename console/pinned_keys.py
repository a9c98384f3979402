"""`sudare key`: the publisher's key that versions are verified against."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from console.options import AsJson, At, workspace_at
from console.render import answer
from contracts.errors import Finding, SpecRefused
from privacy.ledger.journal.signing import key_id
from tasks.storage.workspace.environment import is_workspace_configured, user_folder
from tasks.storage.workspace.keys import WorkspaceRefused, create_signing_key
from tasks.storage.workspace.settings import Workspace
from tasks.verification.public_keys import PIN, RECOVERY_PIN, is_own, pin_key, pin_policy, read_public_key

KeyFile = Annotated[Path, typer.Argument(metavar="FILE", help="The publisher's public key, got another way.")]
Replace = Annotated[bool, typer.Option("--replace", help="Put it in the place of another key that is pinned.")]
Recovery = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="The publisher's recovery key: only it leads on from a key that was stolen."),
]
PinnedPolicy = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="A policy (tlog-policy): whose cosignatures each version has to have."),
]
User = Annotated[bool, typer.Option("--user", help="Pin it for all folders outside workspaces, even inside one.")]


def pin(
    file: KeyFile,
    replace: Replace = False,
    user: User = False,
    recovery: Recovery = None,
    witnesses: PinnedPolicy = None,
    workspace: At = None,
    as_json: AsJson = False,
) -> None:
    """Keep a publisher's key, so that `sudare verify` needs no --key.

    It is kept for this workspace, or for you where there is none. A key that lies in a version folder is refused.

    Examples:

        sudare keys pin publisher.pub

        sudare keys pin publisher.pub --recovery recovery.pub
    """
    around = None if user else workspace_or_none(workspace)
    folder = user_folder() if around is None else around.keys
    pinned = pin_key(file, folder, replace=replace)
    if recovery is not None:
        pin_key(recovery, folder, replace=replace, name=RECOVERY_PIN)
    if witnesses is not None:
        pin_policy(witnesses, folder)
    payload = {
        "key_id": key_id(read_public_key(pinned)),
        "pinned": str(pinned),
        "for": "this user" if around is None else "this workspace",
    }
    said = f"Pinned key {payload['key_id']} for {payload['for']}: {pinned}"
    answer(payload, lambda console: console.print(said), as_json=as_json)


def new(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Where the secret half goes; the public one is FILE.pub.")
    ],
    name: Annotated[str | None, typer.Option("--name", help="Whose key it is: no spaces, no plus.")] = None,
    as_json: AsJson = False,
) -> None:
    """Make a signing key, for approvals. Only you can read the secret half; give away the public one.

    Examples:

        sudare keys new board.key --name office.example/board
    """
    half = create_signing_key(file, name)
    payload = {"key_id": key_id(half), "secret": str(file), "public": f"{file}.pub", "key": half}
    said = f"Key {payload['key_id']}: secret half {file}, public half {payload['public']}"
    answer(payload, lambda console: console.print(said), as_json=as_json)


@dataclass(frozen=True)
class KeyChoice:
    """The key that versions are verified against.

    Args:
        file: where it stands.
        whose: what it is, in words.
        since: when it was pinned (UTC, to the minute); None for a key that is no pin.
        passed_over: another key that lies nearer and was not used, in words; empty where there is none.
    """

    file: Path
    whose: str
    since: str | None = None
    passed_over: str = ""


def key_to_verify_with(named: Path | None, workspace: Path | None) -> KeyChoice:
    """Choose the key: the one named; that of a workspace named; the user's pin; that of the user's workspace around.

    A workspace that was only found around the command may be a stranger's download. So the user's own pin wins over
    whatever lies there; that the two differ is said. Without a pin, the key of a workspace that was only found counts
    if this user made the workspace (`sudare init`). Of a workspace, its pin comes before its own key.

    Raises:
        SpecRefused: there is none of them.
    """
    if named is not None:
        return KeyChoice(named, "the key file that you named")
    own, asked = user_folder() / PIN, workspace is not None or is_workspace_configured()
    around = workspace_or_none(workspace)
    nearer = None if around is None else _of_workspace(around, named=asked)
    if nearer is not None and asked:
        return _other_than(own, nearer, "your own pin")
    if own.exists():
        pinned = KeyChoice(own, "your own pin", _since(own))
        return pinned if nearer is None else _other_than(nearer.file, pinned, nearer.whose)
    if around is not None and nearer is not None:
        if _is_users_own(around):
            return nearer
        found = f"no key named, none pinned, and the workspace around you ({around.root}) is none that you made here"
        remedy = (
            "a download may bring a key of its own: get the publisher's, then: sudare keys pin FILE --user; "
            f"or, if the workspace is yours: --workspace {around.root}"
        )
        raise SpecRefused([Finding("the command", "--key", found, "the publisher's public key", remedy)])
    found = "no key named, none pinned, and no workspace here that has one of its own"
    remedy = "get the publisher's public key, then: sudare keys pin FILE, once; or add --key FILE"
    raise SpecRefused([Finding("the command", "--key", found, "the publisher's public key", remedy)])


def _is_users_own(around: Workspace) -> bool:
    """Say whether this user made the workspace here."""
    try:
        return is_own(read_public_key(around.public_key_file), around.root, user_folder())
    except SpecRefused:
        return False


def _of_workspace(around: Workspace, *, named: bool) -> KeyChoice:
    what = "the workspace that you named" if named else "the workspace around you"
    pin = around.keys / PIN
    if pin.exists():
        return KeyChoice(pin, f"the pin of {what}", _since(pin))
    return KeyChoice(around.public_key_file, f"the own key of {what}")


def _other_than(file: Path, chosen: KeyChoice, whose: str) -> KeyChoice:
    """Say that another key lies in a file, where one does."""
    if not file.exists():
        return chosen
    try:
        other = read_public_key(file)
    except SpecRefused:
        return replace(chosen, passed_over=f"{whose} ({file}) cannot be read as a key")
    if other == read_public_key(chosen.file):
        return chosen
    told = (
        f"{whose} is another key, {key_id(other)} ({file}); it was not used. If it is the publisher's: --key {file}"
    )
    return replace(chosen, passed_over=told)


def _since(pin: Path) -> str:
    """Say when a pin was written."""
    return datetime.fromtimestamp(pin.stat().st_mtime, UTC).strftime("%Y-%m-%d %H:%M UTC")


def workspace_or_none(named: Path | None) -> Workspace | None:
    """Open the workspace that was named or the nearest one; None where none is near."""
    try:
        return workspace_at(named)
    except WorkspaceRefused as error:
        if named is not None or error.findings[0].field != "workspace":
            raise
        return None
