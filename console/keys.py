"""`sudare keys`: where the workspace's signing key lies, and how it is changed."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from console.options import AsJson, At, workspace_at
from console.render import answer, print_facts
from privacy.ledger.journal.signing import Signer, key_id
from tasks.storage.workspace.keys import read_key, refusal
from tasks.storage.workspace.settings import FILE, Workspace

SecretFrom = Annotated[
    str, typer.Option("--secret-env", help="The environment variable with the passphrase; asked for without it.")
]


def opened_signer(where: Workspace) -> Signer | None:
    """Open the signing key of a workspace for this process, and ask for its passphrase or PIN at a terminal.

    Returns:
        Signer: the key; None where it is a file, which is read when it is needed.
    Raises:
        WorkspaceRefused: it cannot be opened; nothing has begun.
    """
    return None if where.key_is_at_hand else where.signer(_ask if _person_is_there() else None)


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


def _person_is_there() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _ask(what: str) -> str:
    return str(typer.prompt(what, hide_input=True, err=True))


def _ask_twice(what: str) -> str:
    return str(typer.prompt(what, hide_input=True, confirmation_prompt=True, err=True))
