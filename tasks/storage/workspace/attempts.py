"""How the last attempt at each release ended: a private note in the workspace, beside what the ledger says.

Whether a gate held and whether a source could be read are facts about the data, so the notes are private (mode 0600):
the error's kind and the names of its fields, never a value and never a message.
"""

from __future__ import annotations

import json
import os
import secrets
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from contracts.errors import Refused

BEGUN: Final = "begun"
PUBLISHED: Final = "published"


@dataclass(frozen=True)
class Attempt:
    """The last attempt at a release.

    Args:
        at: when it began or ended, UTC.
        ended: `begun` while it runs, or where it was killed; `published`; or the kind of the error that ended it.
        fields: what the error is about, by name.
        charge: status of the run's charge when it ended; None for no charge.
    """

    at: str
    ended: str
    fields: tuple[str, ...] = ()
    charge: str | None = None


def note_attempt(folder: Path, release: str, ended: str, *, error: BaseException | None, charge: str | None) -> None:
    """Write down how an attempt stands; it replaces the note of the one before, whole.

    Args:
        folder: the workspace's private folder of notes.
        release: name of the product.
        ended: see `Attempt`.
        error: what ended it, if an error did.
        charge: status of the run's charge.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    fields = tuple(sorted({finding.field for finding in error.findings})) if isinstance(error, Refused) else ()
    attempt = Attempt(datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), ended, fields, charge)
    partial = folder / f".{release}.{secrets.token_hex(4)}"
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(asdict(attempt), file)
    partial.replace(folder / f"{release}.json")


def last_attempt(folder: Path, release: str) -> Attempt | None:
    """Return the last attempt at a release; None where there was none, or its note cannot be read."""
    try:
        told = json.loads((folder / f"{release}.json").read_text(encoding="utf-8"))
        return Attempt(**{**told, "fields": tuple(told["fields"])})
    except (OSError, ValueError, TypeError, KeyError):
        return None
