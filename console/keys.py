"""`sudare keys`: where the workspace's signing key lies, and how it is changed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from console.options import AsJson, At, workspace_at
from console.render import answer, print_facts
from privacy.ledger.journal.signing import Signer, key_id
from tasks.storage.workspace.environment import user_folder
from tasks.storage.workspace.keys import read_key, refusal
from tasks.storage.workspace.settings import FILE, Workspace
from tasks.verification.public_keys import remember_own

if TYPE_CHECKING:
    from privacy.ledger.journal.key_changes import SignedChange
    from tasks.storage.workspace.signing_keys import KeyPlace

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
    from tasks.storage.workspace.signer_settings import replace_signer
    from tasks.storage.workspace.signing_keys import KeyPlace, secret_for

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
    from tasks.storage.workspace.signing_keys import secret_for

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
    from tasks.storage.workspace.signing_keys import KeyPlace

    place = where.signing_place()
    values = {"file": str(file.absolute())}
    return KeyPlace("encrypted_file", values, place.keys, place.settings, place.environment, RECOVERY_SECRET)


def _recovery_key(where: Workspace, file: Path, name: str) -> Signer:
    from tasks.storage.workspace.signing_keys import open_key

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
