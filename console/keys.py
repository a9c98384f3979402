"""`sudare keys`: where the workspace's signing key lies, and how it is changed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from console.output import AsJson, At, answer, print_facts, workspace_at
from contracts.errors import Finding, SpecRefused
from privacy.ledger.journal.signing import Signer, key_id
from tasks.storage.workspace.environment import is_workspace_configured, user_folder
from tasks.storage.workspace.keys import WorkspaceRefused, create_signing_key, read_key, refusal
from tasks.storage.workspace.settings import FILE, Workspace
from tasks.verification.keys import PIN, RECOVERY_PIN, is_own, pin_key, pin_policy, read_public_key, remember_own

if TYPE_CHECKING:
    from privacy.ledger.journal.key_changes import SignedChange
    from tasks.storage.workspace.keys import KeyPlace


SecretFrom = Annotated[
    str, typer.Option("--secret-env", help="The environment variable with the passphrase; asked for without it.")
]

RecoveryFile = Annotated[Path | None, typer.Option("--recovery", metavar="FILE", help="The recovery key (PEM).")]
NewRecoveryFile = Annotated[Path, typer.Argument(metavar="FILE", help="Where to write it, such as a stick.")]
RECOVERY_SECRET: Final = "SUDARE_RECOVERY_SECRET"
"""The environment variable with the passphrase of the recovery key, where nobody can be asked."""


def opened_signer(where: Workspace) -> Signer | None:
    """Open the signing key of a workspace for this process, and ask for its passphrase or PIN at a terminal.

    Returns:
        Signer: the key; None where it is a file, which is read when it is needed.
    Raises:
        WorkspaceRefused: it cannot be opened; nothing has begun.
    """
    return None if where.key_is_at_hand else where.signer(ask_for_secret())


def show(workspace: At = None, as_json: AsJson = False) -> None:
    """Open the signing key as a run would, sign a line with it, and say where it lies.

    Examples:

        sudare keys show
    """
    where = workspace_at(workspace)
    signer = opened_signer(where) or where.signer()
    signer.sign("trial", "a line that nobody keeps")
    place = where.signing_place()
    payload: dict[str, Any] = {
        "kind": place.kind,
        "key_id": key_id(signer.public_key),
        "public_key": signer.public_key,
        "public_key_file": str(where.public_key_file),
        "signs": True,
    }
    facts = [("kind", place.kind), *place.values.items(), ("public key", signer.public_key), ("signs", "yes")]
    answer(payload, lambda console: print_facts(console, facts), as_json=as_json)


def encrypt(workspace: At = None, secret_env: SecretFrom = "", as_json: AsJson = False) -> None:
    """Put the signing key of a file under a passphrase. The key stays the same.

    The encrypted file is written and read back, sudare.toml is told, and then the
    open file is removed. Copies of it in backups stay open: remove them too.

    Examples:

        sudare keys encrypt
    """
    from tasks.storage.workspace.encrypted_key import write_encrypted
    from tasks.storage.workspace.keys import KeyPlace, replace_signer, secret_for

    where = workspace_at(workspace)
    if not where.key_is_at_hand:
        kind = where.signing_place().kind
        raise refusal(str(where.root / FILE), "signer.kind", kind, "file", "its key is protected already")
    told = {"kind": "encrypted_file"} | ({"secret_env": secret_env} if secret_env else {})
    place = where.signing_place()
    closed = KeyPlace(
        "encrypted_file", {}, place.keys, place.settings, place.environment, secret_env or place.secret_env
    )
    where.signer()  # it is the key of the public half
    seed = read_key(where.key_file)
    file = write_encrypted(closed, seed, secret_for(closed, _ask_twice if _person_is_there() else None))
    replace_signer(where.root / FILE, told)
    where.key_file.unlink()
    said = f"The signing key is in {file}, under its passphrase. Without the passphrase nobody can sign again."
    answer({"file": str(file)}, lambda console: console.print(said, soft_wrap=True), as_json=as_json)


def rotate(workspace: At = None, as_json: AsJson = False) -> None:
    """Change to the next signing key. The present one signs the change, and the journal has it.

    The next key is made where `next_signer` of sudare.toml says; without that table, beside
    the present one. Versions from now on carry the change, so whoever pinned the present key
    is led on to the next. Delete the present key when you have no more use for it.

    Examples:

        sudare keys rotate
    """
    from tasks.key_rotation import rotate_key

    where = workspace_at(workspace)
    _tell_change(where, rotate_key(where, ask_for_secret()), as_json=as_json)


def revoke(recovery: RecoveryFile = None, workspace: At = None, as_json: AsJson = False) -> None:
    """Say that others may have the signing key, and change to the next one.

    With the recovery key, checkers who pinned it are led on to the next key. Without it the
    present key signs: checkers stop believing it, and have to ask you for the next one.

    Examples:

        sudare keys revoke --recovery /media/safe/recovery.pem
    """
    from tasks.key_rotation import revoke_key

    where = workspace_at(workspace)
    name = where.public_key_file.read_text(encoding="utf-8").partition("+")[0]
    by = None if recovery is None else _recovery_key(where, recovery, name)
    _tell_change(where, revoke_key(where, by, ask_for_secret()), as_json=as_json)


def recovery(file: NewRecoveryFile, workspace: At = None, as_json: AsJson = False) -> None:
    """Make a recovery key under a passphrase of its own, and its public half beside it.

    It signs nothing but a revocation. Keep it away from this machine, and give its public
    half to checkers with that of the signing key.

    Examples:

        sudare keys recovery /media/safe/recovery.pem
    """
    from tasks.storage.workspace.encrypted_key import create_key
    from tasks.storage.workspace.keys import secret_for

    where = workspace_at(workspace)
    place = _recovery_place(where, file)
    secret = secret_for(place, _ask_twice if _person_is_there() else None)
    name = where.public_key_file.read_text(encoding="utf-8").partition("+")[0]
    public = Signer(create_key(place, secret), name).public_key
    half = file.with_suffix(".pub")
    half.write_text(f"{public}\n", encoding="utf-8")
    said = f"Keep {file} away from this machine. Give {half} to those who verify: sudare keys pin ... --recovery FILE"
    payload = {"file": str(file), "public_key": public, "public_key_file": str(half)}
    answer(payload, lambda console: console.print(said, soft_wrap=True), as_json=as_json)


def reprove(workspace: At = None, as_json: AsJson = False) -> None:
    """Write PROOF.json of every published version again, under the present key.

    Needed after a revocation alone: what the revoked key proved counts no more. All other
    files stay as they are, and nothing is charged.

    Examples:

        sudare keys reprove
    """
    from tasks.key_rotation import prove_again

    where = workspace_at(workspace)
    proofs = prove_again(where, opened_signer(where) or where.signer())
    payload = {"proofs": [str(each) for each in proofs]}
    said = f"{len(proofs)} proofs were written again"
    answer(payload, lambda console: console.print(said), as_json=as_json)


def ask_for_secret() -> Callable[[str], str] | None:
    """Return how a person is asked for a passphrase or PIN; None where nobody is there."""
    return _ask if _person_is_there() else None


def _recovery_place(where: Workspace, file: Path) -> KeyPlace:
    from tasks.storage.workspace.keys import KeyPlace

    place = where.signing_place()
    values = {"file": str(file.absolute())}
    return KeyPlace("encrypted_file", values, place.keys, place.settings, place.environment, RECOVERY_SECRET)


def _recovery_key(where: Workspace, file: Path, name: str) -> Signer:
    from tasks.storage.workspace.keys import open_key

    ask = (lambda _: _ask("Passphrase of the recovery key")) if _person_is_there() else None
    return Signer(open_key(_recovery_place(where, file), ask), name)


def _tell_change(where: Workspace, made: SignedChange, *, as_json: bool) -> None:
    """Say what changed, and remember the next key as that of a workspace of this user's."""
    change = made.change
    remember_own(change.successor, where.root, user_folder())
    payload = {
        "number": change.number,
        "change": change.kind,
        "key_id": key_id(change.key),
        "successor": key_id(change.successor),
        "public_key": change.successor,
        "public_key_file": str(where.public_key_file),
        "at": change.at,
    }
    facts = [
        ("change", f"{change.number}, entered in the journal at {change.at}"),
        (change.kind, key_id(change.key)),
        ("signs from now on", f"{key_id(change.successor)}  ({where.public_key_file})"),
    ]
    answer(payload, lambda console: print_facts(console, facts), as_json=as_json)


def _person_is_there() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _ask(what: str) -> str:
    return str(typer.prompt(what, hide_input=True, err=True))


def _ask_twice(what: str) -> str:
    return str(typer.prompt(what, hide_input=True, confirmation_prompt=True, err=True))


# --- `sudare key`.


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
