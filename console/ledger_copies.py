"""`sudare budget backup` and `restore`: the whole ledger in one file, and back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from console.balance import JournalBroken, Proofs
from console.options import AsJson, At, workspace_at
from console.render import answer
from privacy.ledger.backup import dump
from privacy.ledger.backup import restore as fill
from privacy.ledger.books import forget_marks
from privacy.ledger.replay.fold import SignedCheckpoint
from tasks.checkpoints import proofs_in, published_checkpoints
from tasks.storage.workspace.settings import FILE, Workspace
from tasks.verification.public_keys import read_public_key

CopyFile = Annotated[Path, typer.Argument(metavar="FILE", help="The copy.")]


def backup(file: CopyFile, workspace: At = None, as_json: AsJson = False) -> None:
    """Copy the ledger into a new file: one committed state, whichever database it is in.

    The file tells which releases were made of which sources: keep it like
    the ledger. Copy the workspace's other files before it, and .sudare/draws after it.

    Examples:

        sudare budget backup /backups/ledger-2026-10-05.ndjson
    """
    entries = dump(workspace_at(workspace).ledger_url, file)
    told = f"{entries} journal entries are in {file}"
    answer({"file": str(file), "entries": entries}, lambda console: console.print(told), as_json=as_json)


def restore(file: CopyFile, proof: Proofs = None, workspace: At = None, as_json: AsJson = False) -> None:
    """Fill an empty ledger (SQLite or PostgreSQL) with a copy, once the copy is checked.

    A copy that does not know of a version in the release store (or of one
    whose PROOF.json is named) is refused: it would let its charge be spent again.

    Examples:

        sudare budget restore /backups/ledger-2026-10-05.ndjson

        sudare budget restore /backups/ledger-2026-10-05.ndjson --proof archive/v7/PROOF.json
    """
    where = workspace_at(workspace)
    key, published = _seen(where, proof or [])
    entries = fill(file, where.ledger_url, public_key=key, published=published)
    forget_marks(where.draws)
    told = f"{entries} journal entries are restored; now: sudare budget history --verify"
    left = where.private / "ledger.sqlite"
    moved = left.exists() and not where.ledger_url.endswith(str(left))
    if moved:
        told += f"\nThe old ledger is still there, and could be spent again: name the new one in {where.root / FILE} "
        told += f"([ledger] url), then remove {left}, and its -wal and -shm"
    payload = {"file": str(file), "entries": entries, "published_checkpoints": len(published)}
    payload |= {"old_ledger": str(left)} if moved else {}
    answer(payload, lambda console: console.print(told, soft_wrap=True), as_json=as_json)


def _seen(workspace: Workspace, proofs: list[Path]) -> tuple[str | None, list[SignedCheckpoint]]:
    """Return the public key, if there is one, and what published versions have seen of the ledger.

    Raises:
        JournalBroken: a proof cannot be read, or another key signed it.
    """
    found = [*proofs_in(workspace.releases), *proofs]
    if not found and not workspace.public_key_file.is_file():
        return None, []
    key = read_public_key(workspace.public_key_file)
    published, findings = published_checkpoints(found, public_key=key)
    if findings:
        raise JournalBroken(findings)
    return key, published
