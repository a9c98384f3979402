"""Retention of what is private: which snapshots and drawn noise may go, and their removal.

A snapshot of confidential rows goes where no charge needs it. Drawn noise goes where its version is published and
whole in the store. Neither goes that an open or reserved charge, or a run that can be resumed, still needs. The
records for auditors, the keys and the ledger are never looked at.

Removal is crash-safe: what goes is first written into `.sudare/retention.log`, then renamed at once, then deleted.
What a crash leaves renamed is deleted by the next removal. Without its folder of draws no run is ever drawn again:
the ledger refuses a folder with another identity.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Final, Literal

from contracts.canonical import digest
from contracts.errors import SudareError
from privacy.ledger.draw_files import sync_folder
from privacy.ledger.ledger import Ledger
from privacy.ledger.terms import Charge, ChargeRequest, VersionEntry
from tasks.storage.manifest import version_folder
from tasks.storage.sinks.version_copy import VersionBroken, whole_version
from tasks.storage.workspace.run_folder import FETCHED, SNAPSHOT_STEM, SPILL, RunBusy, hold, is_locked, run_name
from tasks.storage.workspace.settings import FILE, Workspace, read_days

LOG: Final = "retention.log"
_REMOVED: Final = ".removed-"
Kind = Literal["snapshot", "draws"]


@dataclass(frozen=True)
class RetentionPolicy:
    """How long what is private is kept.

    Args:
        snapshots: of confidential rows, since they were written [days]; None for ever.
        draws: drawn noise, since its version was published [days]; None for ever.
    """

    snapshots: int | None
    draws: int | None

    def days(self, kind: Kind) -> int | None:
        """Return how long a kind is kept [days]."""
        return self.snapshots if kind == "snapshot" else self.draws


@dataclass(frozen=True)
class Holding:
    """A snapshot or the draws of a run, and whether it may go.

    Args:
        kind: which of the two.
        folder: the run's private folder, or its folder of draws.
        since: when it was written or published.
        goes: whether it is to be removed.
        because: why it goes or stays, in words; public.
    """

    kind: Kind
    folder: Path
    since: datetime
    goes: bool
    because: str


def policy_of(workspace: Workspace) -> RetentionPolicy:
    """Return what sudare.toml says under `[retention]`.

    Raises:
        WorkspaceRefused: a value is no number of days.
    """
    file, values = workspace.root / FILE, workspace.values
    return RetentionPolicy(read_days(file, values, "retention.snapshots"), read_days(file, values, "retention.draws"))


class Retention:
    """What a workspace holds of the two kinds, as ledger and store stand now.

    Args:
        workspace: whose folders are looked at.
        ledger: says which charges are open and what was published.
        policy: how long each kind is kept.
        now: the time.
        stores: release stores where versions lie, beside the workspace's own.
        held: name of the run's folder that this process holds itself.
    """

    def __init__(
        self,
        workspace: Workspace,
        ledger: Ledger,
        policy: RetentionPolicy,
        *,
        now: datetime,
        stores: Sequence[Path] = (),
        held: str | None = None,
    ) -> None:
        self._workspace, self._ledger, self._policy, self._now = workspace, ledger, policy, now
        self._held = held
        self._stores = (workspace.releases, *stores)

    def holdings(self) -> Iterator[Holding]:
        """Yield each snapshot and each run's draws, in the order of their names. Changes nothing."""
        for folder in _folders(self._workspace.runs):
            files = _rows_in(folder)
            if files:
                yield self._snapshot(folder, files)
        for folder in _folders(self._workspace.draws):
            yield self._draws(folder)

    @cached_property
    def _charges(self) -> dict[str, Charge]:
        accounts = [state.terms.name for state in self._ledger.accounts()]  # a charge takes from one at least
        return {each.request.run_key: each for name in accounts for each in self._ledger.charges(account=name)}

    @cached_property
    def _needed(self) -> dict[str, str]:
        """Why a charge still needs the snapshot in a run's folder, by the folder's name."""
        return {
            _folder_name(each.request): why
            for each in self._charges.values()
            if (why := self._unfinished(each)) is not None
        }

    @cached_property
    def _published(self) -> dict[str, datetime]:
        """In which hour each run's version was published."""
        entries = (entry for entry in self._ledger.journal() if entry.kind == "version_published")
        return {str(entry.body["run_key"]): datetime.fromisoformat(entry.at) for entry in entries}

    def _unfinished(self, charge: Charge) -> str | None:
        """Say why a run may still go on; None where it is finished."""
        if charge.status in ("reserved", "opened"):
            return f"its charge is {charge.status} and not published: the run may go on"
        if charge.status == "published" and not self._in_a_store(charge.request.run_key):
            return "its version is not whole in a release store that was looked at (--store)"
        return None

    def _in_a_store(self, run_key: str) -> bool:
        """Say whether every file of a run's version is as its manifest, and the manifest as the journal, has it."""
        version = next(each for each in self._ledger.versions() if each.run_key == run_key)
        return any(_is_whole(store, version) for store in self._stores)

    def _snapshot(self, folder: Path, files: Sequence[Path]) -> Holding:
        since = datetime.fromtimestamp(max(file.lstat().st_mtime for file in files), UTC)
        why = self._busy(folder.name) or self._needed.get(folder.name)
        return self._judged("snapshot", folder, since, why, "no charge needs it")

    def _draws(self, folder: Path) -> Holding:
        charge = self._charges.get(folder.name)
        if charge is None or charge.status == "returned":
            why: str | None = "no charge of this ledger that was published"
        else:
            why = self._busy(_folder_name(charge.request)) or self._unfinished(charge)
        since = self._published.get(folder.name, self._now)
        return self._judged("draws", folder, since, why, "its version is published and whole")

    def _busy(self, name: str) -> str | None:
        """Say that another process works in a run's folder; None where none does."""
        return "a run holds it now" if name != self._held and is_locked(self._workspace.runs, name) else None

    def _judged(self, kind: Kind, folder: Path, since: datetime, needed: str | None, free: str) -> Holding:
        """Decide by need first, then by age."""
        days = self._policy.days(kind)
        if needed is not None:
            return Holding(kind, folder, since, False, needed)
        if days is None:
            return Holding(kind, folder, since, False, "kept for ever: no number of days is set")
        old = self._now - since >= timedelta(days=days)
        return Holding(kind, folder, since, old, f"{free}, {'past' if old else 'within'} {days} days")

    def remove(self, holding: Holding) -> bool:
        """Remove what a holding is of, if it still goes once its run is held; say whether it went.

        Raises:
            SudareError: the disk refused; what was not renamed is still whole.
        """
        if not holding.goes:
            return False
        name = self._run_of(holding)
        try:
            with (
                hold(self._workspace.runs, name, keep_snapshot=True),
                closing(self._workspace.open_ledger()) as ledger,
            ):
                held = Retention(
                    self._workspace, ledger, self._policy, now=self._now, stores=self._stores[1:], held=name
                )
                again = next((each for each in held.holdings() if each.folder == holding.folder), None)
                if again is None or not again.goes:
                    return False
                self._note(again)
                _take_away(_rows_in(holding.folder) if holding.kind == "snapshot" else [holding.folder])
                return True
        except RunBusy:
            return False
        except OSError as error:
            found = error.strerror or type(error).__name__
            raise SudareError(f"{holding.folder}: it cannot be removed ({found}); check the permissions") from error

    def _run_of(self, holding: Holding) -> str:
        """Return the name of the run's folder that a holding belongs to."""
        if holding.kind == "snapshot":
            return holding.folder.name
        return _folder_name(self._charges[holding.folder.name].request)

    def finish(self) -> None:
        """Delete what an interrupted removal has renamed already."""
        for around in (self._workspace.draws, *_folders(self._workspace.runs)):
            for left in around.glob(f"{_REMOVED}*") if around.is_dir() else ():
                _delete(left)

    def _note(self, holding: Holding) -> None:
        """Write durably what goes, before it goes; private, mode 0600."""
        line = {
            "at": f"{self._now:%Y-%m-%dT%H:%M:%SZ}",
            "removed": holding.kind,
            "of": holding.folder.name,
            "because": holding.because,
        }
        descriptor = os.open(self._workspace.private / LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(descriptor, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
            file.flush()
            os.fsync(file.fileno())


def _folder_name(request: ChargeRequest) -> str:
    """Return the name of the private folder of a charge's run (`ReleaseSpec.run_digest`)."""
    spec = request.spec_digest
    return run_name(request.release, spec if request.due is None else digest({"spec": spec, "due": request.due}))


def _folders(around: Path) -> list[Path]:
    if not around.is_dir():
        return []
    return sorted(each for each in around.iterdir() if each.is_dir() and not each.name.startswith("."))


def _rows_in(folder: Path) -> list[Path]:
    """Return what holds confidential rows in a run's private folder: its snapshot, spilled and fetched files."""
    around = (folder / SPILL, folder / FETCHED)
    return [*sorted(folder.glob(f"{SNAPSHOT_STEM}*")), *(each for each in around if each.exists())]


def _is_whole(store: Path, version: VersionEntry) -> bool:
    folder = version_folder(store, version.release, version.number)
    try:
        whole_version(folder, version.release, version.number, version.manifest)
    except VersionBroken:
        return False
    return True


def _take_away(paths: Sequence[Path]) -> None:
    """Rename all of it, durably, and only then delete: no run finds half of it."""
    moved = [path.rename(path.with_name(f"{_REMOVED}{path.name}")) for path in paths]
    for around in {path.parent for path in paths}:
        sync_folder(around)
    for path in moved:
        _delete(path)


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
