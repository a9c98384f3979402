"""`sudare budget backup` and `restore`: the whole ledger in one file, and back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from console.options import AsJson, At, workspace_at
from console.render import answer

File = Annotated[Path, typer.Argument(metavar="FILE", help="The copy.")]


def backup(file: File, workspace: At = None, as_json: AsJson = False) -> None:
    """Copy the ledger into a new file: one committed state, whichever database it is in.

    The file tells which releases were made of which sources: keep it like
    the ledger. Copy the workspace's other files before the ledger, never after.

    Examples:

        sudare budget backup /backups/ledger-2026-10-05.ndjson
    """
    from privacy.ledger.backup import dump

    entries = dump(workspace_at(workspace).ledger_url, file)
    told = f"{entries} journal entries are in {file}"
    answer({"file": str(file), "entries": entries}, lambda console: console.print(told), as_json=as_json)


def restore(file: File, workspace: At = None, as_json: AsJson = False) -> None:
    """Fill an empty ledger (SQLite or PostgreSQL) with a copy, once the copy is checked.

    What was charged after the copy was made is forgotten: charge nothing
    before `sudare budget history --verify` holds against all versions.

    Examples:

        sudare budget restore /backups/ledger-2026-10-05.ndjson
    """
    from privacy.ledger.backup import restore as fill

    where = workspace_at(workspace)
    key = where.public_key_file.read_text(encoding="ascii").strip() if where.public_key_file.is_file() else None
    entries = fill(file, where.ledger_url, public_key=key)
    told = f"{entries} journal entries are restored; now: sudare budget history --verify"
    answer({"file": str(file), "entries": entries}, lambda console: console.print(told), as_json=as_json)
