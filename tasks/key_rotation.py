"""Change the signing key: make the next one, have the journal say so, then use it.

Order, and each step is durable before the next begins:
    1. the next key is made, where sudare.toml says (`[next_signer]`), or as the present one was
    2. the journal says that it follows; the note is signed by both keys, or by the recovery key and the next one
    3. signing.pub is the next one's public half, and `[signer]` of sudare.toml leads to it
    4. KEYS.json of the store lists all changes
A command that was killed anywhere goes on where it stopped when it is given again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Final

from contracts.canonical import readable_json
from privacy.ledger.journal.key_changes import SignedChange, signed_change
from privacy.ledger.journal.signing import Signer
from privacy.ledger.ledger import Ledger
from tasks.storage.manifest import PROOF, version_folder, write_changes, write_whole
from tasks.storage.workspace.keys import (
    KeyPlace,
    WorkspaceRefused,
    close_key,
    kind_of,
    open_key,
    refusal,
    replace_signer,
    secret_for,
)
from tasks.storage.workspace.settings import FILE, Workspace

logger = logging.getLogger(__name__)

Ask = Callable[[str], str]
_SUFFIX: Final = {"file": "key", "encrypted_file": "pem"}


def rotate_key(workspace: Workspace, ask: Ask | None = None) -> SignedChange:
    """Change to the next signing key; both sign the change.

    Args:
        workspace: whose key.
        ask: asks a person for a passphrase or PIN.
    Returns:
        SignedChange: as the journal has it.
    Raises:
        WorkspaceRefused: one of the keys cannot be opened or made; nothing was changed.
        LedgerRefusal: the key was changed before.
    """
    name = _stated(workspace).partition("+")[0]
    _refuse_environment(workspace)
    present = Signer(open_key(workspace.signing_place(), ask), name)
    with closing(_ledger(workspace)) as ledger:
        following, place = _next_key(workspace, ledger, present.public_key, name, ask)
        both = (present, following)
        made = ledger.change_key(
            "rotated", present.public_key, following.public_key, lambda change: signed_change(change, both)
        )
        _use(workspace, ledger, following.public_key, place)
    logger.info("the signing key was changed (%d)", made.change.number)
    return made


def revoke_key(workspace: Workspace, recovery: Signer | None, ask: Ask | None = None) -> SignedChange:
    """Say that others may have the signing key, and change to the next one.

    Args:
        workspace: whose key.
        recovery: the recovery key; without it the signing key itself signs, and no checker follows to the next key.
        ask: asks a person for a passphrase or PIN.
    Raises:
        WorkspaceRefused: a key cannot be opened or made, or the recovery key has another name.
    """
    key = _stated(workspace)
    name = key.partition("+")[0]
    _refuse_environment(workspace)
    by = recovery or Signer(open_key(workspace.signing_place(), ask), name)
    with closing(_ledger(workspace)) as ledger:
        last = ledger.key_changes()[-1:]
        if last and last[0].change.kind == "revoked" and last[0].change.successor == key:
            return last[0]
        following, place = _next_key(workspace, ledger, key, name, ask)
        signers = (by, following)
        made = ledger.change_key("revoked", key, following.public_key, lambda change: signed_change(change, signers))
        _use(workspace, ledger, following.public_key, place)
    logger.info("the signing key was revoked (%d)", made.change.number)
    return made


def prove_again(workspace: Workspace, signer: Signer) -> list[Path]:
    """Write a fresh PROOF.json, under the present key, for every version of the store that the journal has.

    All else of a version stays as it is. Only a version whose proof a revoked key signed needs this.

    Returns:
        list[Path]: the proofs.
    """
    written = []
    with closing(workspace.open_ledger()) as ledger:
        for version in ledger.versions():
            file = version_folder(workspace.releases, version.release, version.number) / PROOF
            if version.status != "allocated" and file.is_file():
                write_whole(file, readable_json(ledger.prove(version.run_key, signer)), mode=0o444)
                written.append(file)
    return written


def _stated(workspace: Workspace) -> str:
    try:
        return workspace.public_key_file.read_text(encoding="utf-8").strip()
    except OSError:
        raise refusal(
            str(workspace.public_key_file), "public key", "nothing", "the public half", "restore it"
        ) from None


def _ledger(workspace: Workspace) -> Ledger:
    """Open the ledger without a signer: while a change is not finished, sudare.toml and signing.pub may differ."""
    return Ledger(workspace.ledger_url, draws=workspace.draws)


def _refuse_environment(workspace: Workspace) -> None:
    environment = workspace.signing_place().environment
    told = [name for name in ("SUDARE_SIGNING_KEY", "SUDARE_SIGNING_KEY_FILE") if environment.get(name)]
    if told:
        allowed = "a key that sudare.toml names: another one in the environment would be used instead"
        raise refusal("the environment", told[0], "a key", allowed, f"unset {told[0]}, then give the command again")


def _next_key(workspace: Workspace, ledger: Ledger, key: str, name: str, ask: Ask | None) -> tuple[Signer, KeyPlace]:
    """Make the next key, or open the one that an interrupted change made."""
    place = _next_place(workspace, 2 + len([each for each in ledger.key_changes() if each.change.key != key]))
    kind = kind_of(place)
    secret = secret_for(place, ask) if kind.secret else None
    try:
        made = kind.open_key(place, secret)
    except WorkspaceRefused as refused:
        if refused.findings[0].field in {"PIN", "passphrase", "signer.library", "signer.token"}:
            raise
        made = kind.create_key(place, secret)
    following = Signer(made, name)
    if following.public_key == key:
        where, allowed = str(place.settings), "another key than the present one"
        raise refusal(where, "next_signer", "the present key", allowed, "name another key under [next_signer]")
    return following, place


def _next_place(workspace: Workspace, number: int) -> KeyPlace:
    """Return where the next key belongs: as `[next_signer]` says, else a file beside the present one."""
    if workspace.values.get("next_signer.kind"):
        return workspace.signing_place("next_signer")
    place = workspace.signing_place()
    if place.kind not in _SUFFIX:
        allowed = "a table [next_signer] that names the next key, with the same keys as [signer]"
        raise refusal(str(place.settings), "next_signer", "nothing", allowed, "write it, then give the command again")
    return replace(place, values={"file": f"signing-{number}.{_SUFFIX[place.kind]}"})


def _use(workspace: Workspace, ledger: Ledger, public_key: str, place: KeyPlace) -> None:
    """Have the workspace sign with the next key, and list the changes for checkers."""
    write_whole(workspace.public_key_file, f"{public_key}\n".encode(), mode=0o644)
    told = {"kind": place.kind, **place.values}
    replace_signer(workspace.root / FILE, told | {"secret_env": place.secret_env})
    close_key(workspace.signing_place())
    write_changes(workspace.releases, [each.note.to_bytes().decode() for each in ledger.key_changes()])
