"""Publish: a version becomes visible whole, or not at all (DESIGN law 6).

Order, and each step is durable before the next begins:
    1. the ledger gives the run its version number
    2. everything but PROOF.json is written into a staging folder; MANIFEST.json, last, covers and signs it; the
       folder is verified, with the proof that it would get
    3. the journal says that a version with this manifest is published
    4. PROOF.json proves that entry, under a signed checkpoint
    5. times of files are cut to the hour, the staging folder is renamed to the version's name: now readers see it
    6. `latest` is moved
A run that was killed anywhere goes on where it stopped: before 3 the staging is written again; after 3 the staged
files are the published ones and are only checked; after 5 only `latest` is left to do.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from contracts.canonical import readable_json
from contracts.errors import StoreUnwritable
from privacy.ledger.draw_files import sync_folder
from privacy.ledger.journal.signing import Signer, enveloped
from privacy.ledger.ledger import Ledger
from privacy.ledger.terms import VersionEntry
from tasks.records.model.manifest import RECORD, stated_predicate, stated_release
from tasks.storage.manifest import MANIFEST, PROOF, digests_in, version_folder, write_changes
from tasks.storage.progress import step

if TYPE_CHECKING:  # most workspaces ask nobody
    from tasks.storage.witnesses import Witnesses

logger = logging.getLogger(__name__)

StagedCheck = Callable[[Path, str, str], None]
"""Checks a staged folder, given the key of its manifest and that of the rehearsed proof in it."""


@dataclass(frozen=True)
class Publication:
    """A published version.

    Args:
        release: name of the product.
        number: the version.
        folder: where it is.
        run_key: the run that made it.
    """

    release: str
    number: int
    folder: Path
    run_key: str


def published(ledger: Ledger, run_key: str, store: Path) -> Publication | None:
    """Return the publication of a run if it is complete, so that a repeated run has nothing to do."""
    known = _entered(ledger, run_key)
    if known is None:
        return None
    folder = _folder(store, known)
    if _manifest_digest(folder) != known.manifest:
        return None
    if known.status != "withdrawn":
        _move_latest(folder)
    return Publication(known.release, known.number, folder, run_key)


def is_whole(ledger: Ledger, run_key: str, store: Path) -> bool:
    """Say whether the version of a run is entered in the journal, and readers see it or a later or withdrawn one.

    Args:
        ledger: knows what was entered.
        run_key: the run.
        store: the release store; only looked at.
    """
    known = _entered(ledger, run_key)
    if known is None or known.status != "published":
        return known is not None
    return _manifest_digest(_folder(store, known)) == known.manifest


def is_in_store(ledger: Ledger, run_key: str, store: Path) -> bool:
    """Say whether the folder of a run's published version is in the store, superseded or withdrawn as it may be."""
    known = _entered(ledger, run_key)
    return known is not None and _manifest_digest(_folder(store, known)) == known.manifest


def _folder(store: Path, version: VersionEntry) -> Path:
    return version_folder(store, version.release, version.number)


def _entered(ledger: Ledger, run_key: str) -> VersionEntry | None:
    """Return the version of a run, once the journal has it."""
    known = next((entry for entry in ledger.versions() if entry.run_key == run_key), None)
    return None if known is None or known.status == "allocated" else known


def probe_store(store: Path, release: str) -> None:
    """Before a charge, write, sync, rename and remove a file where versions of a release become visible.

    Raises:
        StoreUnwritable: one of these fails.
    """
    folder = store / release
    new = [each for each in (folder, *folder.parents) if not each.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".probe-", dir=folder) as made:
            _write_durably(Path(made) / "written", b"probe")
            Path(made, "written").rename(Path(made, "renamed"))
            sync_folder(Path(made))
    except OSError as error:
        raise StoreUnwritable.before_charge(error, folder) from error
    finally:
        with suppress(OSError):  # what is in use by now stays
            for each in new:
                each.rmdir()


def publish(
    ledger: Ledger,
    signer: Signer,
    run_key: str,
    store: Path,
    write: Callable[[Path, VersionEntry], None],
    witnesses: Witnesses | None = None,
    *,
    check: StagedCheck,
) -> Publication:
    """Publish a run's version.

    Args:
        ledger: the ledger.
        signer: signs the manifest and the checkpoint.
        run_key: the run; its grant must have drawn from the CSPRNG.
        store: the release store.
        write: writes the version's files into a folder (called only when they are not staged already).
        witnesses: who has to cosign the checkpoint before readers see the version.
        check: raises where the staged folder would not verify; nothing is entered or visible then.
    Returns:
        Publication: what readers now see.
    Raises:
        StoreUnwritable: the store cannot be written; the charge stays, nothing is visible, a second run resumes.
        TooFewWitnesses: the same, but the staged files wait.
        LedgerRefusal: seeded noise is never published.
    Privacy: publishes released values only; the charge was paid before they were drawn.
    """
    version = ledger.allocate_version(run_key)
    final = _folder(store, version)
    staging = final.parent / f".staging-v{version.number}"
    with step("publish") as bar:
        try:
            if final.exists():
                _refuse_another(ledger, run_key, final)
            else:
                if not _staged(ledger, staging, version):
                    _write_staging(staging, version, signer, write)
                    proof, key = ledger.rehearse(run_key, _sha256(staging / MANIFEST), signer.verifier.name)
                    (staging / PROOF).write_bytes(readable_json(proof))
                    check(staging, signer.public_key, key)
                bar.advance(0.6)
                at = _enter_and_prove(ledger, signer, run_key, staging, witnesses)
                _cut_times(staging, at)
                staging.rename(final)
                sync_folder(final.parent)
            _move_latest(final)
        except OSError as error:
            _discard_unentered(ledger, run_key, staging)
            raise StoreUnwritable.because(error, store) from error
        except BaseException:
            _discard_unentered(ledger, run_key, staging)
            raise
    logger.info("published %s v%d", version.release, version.number)
    return Publication(version.release, version.number, final, run_key)


def _write_staging(
    staging: Path, version: VersionEntry, signer: Signer, write: Callable[[Path, VersionEntry], None]
) -> None:
    if staging.exists():
        shutil.rmtree(staging)
    staging.mkdir(parents=True)
    write(staging, version)
    files = {}
    for path in sorted(staging.rglob("*")):
        if path.is_file():
            files[path.relative_to(staging).as_posix()] = {"sha256": _sha256(path), "bytes": path.stat().st_size}
            _make_durable(path)
    record = (staging / RECORD).read_bytes()
    predicate = stated_predicate(json.loads(record), hashlib.sha256(record).hexdigest())
    _write_durably(staging / MANIFEST, readable_json(enveloped(stated_release(files, predicate), signer)))
    for folder in [path for path in staging.rglob("*") if path.is_dir()]:
        sync_folder(folder)
    sync_folder(staging)


def _enter_and_prove(ledger: Ledger, signer: Signer, run_key: str, staging: Path, witnesses: Witnesses | None) -> str:
    """Enter and prove the publication, and have it cosigned; return its hour, as its entry has it."""
    manifest = _sha256(staging / MANIFEST)
    proof = ledger.publish(run_key, manifest, signer)
    if witnesses is not None:
        proof = witnesses.cosigned(ledger, lambda: ledger.publish(run_key, manifest, signer))
    _write_durably(staging / PROOF, readable_json(proof))
    sync_folder(staging)
    write_changes(staging.parent.parent, proof["keys"])
    return str(proof["entries"][-1]["entry"]["at"])


def _cut_times(staging: Path, at: str) -> None:
    """Give every file and folder the hour of the publication: copies and archives of a version carry their times."""
    seconds = datetime.fromisoformat(at).timestamp()
    for path in (*staging.rglob("*"), staging):
        os.utime(path, (seconds, seconds))


def _refuse_another(ledger: Ledger, run_key: str, final: Path) -> None:
    """Refuse a folder of this version's name that is not what this run published: it is somebody else's."""
    if _manifest_digest(final) != _entered_manifest(ledger, run_key):
        raise StoreUnwritable(
            f"{final} is there already and is not this run's: another workspace publishes into this store, or the "
            "ledger was restored from an older copy. Nothing there was changed; publish into another store."
        )


def _discard_unentered(ledger: Ledger, run_key: str, staging: Path) -> None:
    """Remove staged files, unless they are the ones that the journal names as published."""
    entered = _entered_manifest(ledger, run_key)
    if entered is None or _manifest_digest(staging) != entered:
        shutil.rmtree(staging, ignore_errors=True)


def _staged(ledger: Ledger, staging: Path, version: VersionEntry) -> bool:
    """Say whether the staging folder holds, whole, what the journal says is published."""
    entered = _entered_manifest(ledger, version.run_key)
    if entered is None or _manifest_digest(staging) != entered:
        return False
    files = digests_in((staging / MANIFEST).read_bytes())
    return all((staging / name).is_file() and _sha256(staging / name) == digest for name, digest in files.items())


def _entered_manifest(ledger: Ledger, run_key: str) -> str | None:
    return next((entry.manifest for entry in ledger.versions() if entry.run_key == run_key), None)


def _manifest_digest(staging: Path) -> str | None:
    manifest = staging / MANIFEST
    return _sha256(manifest) if manifest.is_file() else None


def _move_latest(folder: Path) -> None:
    """Point `latest` at the newest version, by an atomic rename."""
    link = folder.parent / "latest"
    current = link.readlink().name if link.is_symlink() else "v0"
    if int(current.removeprefix("v")) >= int(folder.name.removeprefix("v")):
        return
    fresh = folder.parent / f".latest-{folder.name}"
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(folder.name)
    fresh.replace(link)
    hour = folder.stat().st_mtime
    os.utime(link, (hour, hour), follow_symlinks=False)
    os.utime(folder.parent, (hour, hour))
    sync_folder(folder.parent)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write_durably(path: Path, content: bytes) -> None:
    path.unlink(missing_ok=True)
    path.write_bytes(content)
    _make_durable(path)


def _make_durable(path: Path) -> None:
    """Make a finished file read-only and durable: a published file never changes."""
    path.chmod(0o444)
    with path.open("rb") as file:
        os.fsync(file.fileno())
