"""LATEST.note of a release: which version is the newest, and until when that may be believed.

Written after each publication and withdrawal, and by `sudare releases refresh`, where sudare.toml says how long a
note is good for (`fresh_for` under `[publish]`). A schedule has to make it again before it is too old.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path

from contracts.errors import StoreUnwritable
from privacy.ledger.journal.notes import NONE_LEFT, LatestStatement, hour_of
from privacy.ledger.journal.signing import Signer
from privacy.ledger.ledger import Ledger
from tasks.storage.manifest import LATEST_NOTE, write_whole
from tasks.storage.workspace.settings import FILE, Workspace, read_days

logger = logging.getLogger(__name__)


def show_latest(workspace: Workspace, ledger: Ledger, release: str, store: Path) -> Path | None:
    """Write the note of a release, where the workspace makes notes.

    Args:
        workspace: says how long a note is good for, and has the key.
        ledger: knows which versions there are.
        release: its name.
        store: the release store.
    Returns:
        Path: the note; None where sudare.toml does not say how long one is good for, or nothing was published.
    Raises:
        WorkspaceRefused: the setting is no number of days.
        StoreUnwritable: versions are as they were; `sudare releases refresh` finishes it.
    """
    days = fresh_for(workspace)
    folder = store / release
    if days is None or not folder.is_dir():
        return None
    note = latest_of(ledger, workspace.signer(), release, now=datetime.now(UTC), days=days)
    try:
        write_whole(folder / LATEST_NOTE, note, mode=0o644)
    except OSError as error:
        raise StoreUnwritable.because(error, store) from error
    logger.info("the newest version of %s was stated for %d days", release, days)
    return folder / LATEST_NOTE


def latest_of(ledger: Ledger, signer: Signer, release: str, *, now: datetime, days: int) -> bytes:
    """Return the signed note: the newest version that was not withdrawn, and the size of the newest checkpoint.

    The journal itself may have grown by an entry that nobody may see before the next version, such as a failed gate.
    """
    standing = [each for each in ledger.versions(release) if each.status in ("published", "superseded")]
    newest = max(standing, key=lambda each: each.number, default=None)
    number, manifest = (0, NONE_LEFT) if newest is None else (newest.number, newest.manifest or NONE_LEFT)
    until = hour_of(now + timedelta(days=days))
    said = LatestStatement(release, number, manifest, ledger.signed_size(), hour_of(now), until)
    return signer.note(said.text).to_bytes()


def fresh_for(workspace: Workspace) -> int | None:
    """Return for how many days a note is good; None where the workspace makes none.

    Raises:
        WorkspaceRefused: it is written in another form.
    """
    return read_days(workspace.root / FILE, workspace.values, "publish.fresh_for")
