"""A workspace with 10,000 published versions and a journal of a million entries, for the review site to be slow on.

The entries go through `Journal.append` itself, as in `_ledger_growth`; each run is a charge, an opening, 97 draws and
a publication. Half of the versions are of 25 releases with 200 versions each, the other half of one each.
Each version has a folder with a manifest of its own; the files in it are those of one real version, by hard links.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Final

from benchmarks._ledger_growth import Collected, GrownRun, enter
from benchmarks._ledger_places import ACCOUNT, make_ledger
from contracts.canonical import readable_json
from privacy.ledger.journal.merkle import root
from privacy.ledger.journal.notes import TreeHead
from privacy.ledger.journal.signing import Signer, enveloped, key_id
from privacy.ledger.store import schema
from privacy.ledger.store.database import Store, Transaction
from privacy.ledger.store.journal import Journal
from tasks.records.model.manifest import Manifest, manifest_of, stated_release
from tasks.storage.workspace.settings import Workspace

VERSIONS: Final = 10_000
ENTRIES: Final = 1_000_000
OFTEN: Final = 200  # versions of a release that is made again and again
_DRAWS: Final = 97  # with the charge, the opening and the publication: a hundred entries a run
_TOGETHER: Final = 200
_BEGINS: Final = datetime(2016, 1, 1, tzinfo=UTC)


def named(number: int, versions: int = VERSIONS) -> tuple[str, int]:
    """Return release and version of a run."""
    if number < versions // 2:
        return f"survey-{number // OFTEN:03d}", number % OFTEN + 1
    return f"single-{number:05d}", 1


def grow(workspace: Workspace, model: Path, *, versions: int = VERSIONS) -> None:
    """Fill a new workspace.

    Args:
        workspace: gets an account, and `versions` runs of a hundred entries each.
        model: folder of a published version, whose files all versions share.
        versions: how many.
    """
    make_ledger(workspace.ledger_url, workspace.private, epsilon=1_000)
    signer, ticks = workspace.signer(), count()
    journal = Journal(lambda: f"{_BEGINS + timedelta(minutes=5 * next(ticks)):%Y-%m-%dT%H:%M:%SZ}")
    with closing(workspace.open_ledger()) as ledger:
        account = ledger.account(ACCOUNT)
    stated = manifest_of(json.loads((model / "MANIFEST.json").read_bytes()))
    with closing(Store(workspace.ledger_url)) as store:
        for begin in range(0, versions, _TOGETHER):
            with store.writing() as transaction:
                collected = Collected()
                writing = replace(transaction, connection=collected)  # type: ignore[arg-type]
                for number in range(begin, min(begin + _TOGETHER, versions)):
                    release, version = named(number, versions)
                    manifest = _publish(workspace.releases / release / f"v{version}", model, stated, signer)
                    newest = named(number + 1, versions)[0] != release
                    run = GrownRun(f"grown-{number}", release, version, manifest, newest, _DRAWS)
                    account = enter(writing, collected, journal, run, account)
                    _checkpoint(writing, collected, signer, f"grown-{number}")
                collected.send(transaction.connection)


def _checkpoint(writing: Transaction, collected: Collected, signer: Signer, run_key: str) -> None:
    at = f"{_BEGINS + timedelta(minutes=5 * writing.size):%Y-%m-%dT%H:%M:%SZ}"
    head = TreeHead(signer.verifier.name, writing.size, root(writing.frontier))
    kept = {"size": head.size, "root": head.root, "at": at, "note": signer.note(head.text).to_bytes().decode()}
    kept |= {"run_key": run_key, "key_id": key_id(signer.public_key)}
    collected.execute(schema.checkpoints.insert(), kept)


def _publish(folder: Path, model: Path, stated: Manifest, signer: Signer) -> str:
    """Make a version's folder; return the SHA-256 of its manifest."""
    files = {name: each.model_dump() for name, each in stated.files.items()}
    for name in (*files, "PROOF.json"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        os.link(model / name, folder / name)
    told = {"release": folder.parent.name, "version": int(folder.name[1:])}
    content = readable_json(enveloped(stated_release(files, {**stated.predicate.model_dump(), **told}), signer))
    (folder / "MANIFEST.json").write_bytes(content)
    return hashlib.sha256(content).hexdigest()
