"""A run's private folder: held by one process at a time, and cleaned when the run ends.

The lock is the kernel's (`flock`), so a process that dies, however it dies, lets go of it. The snapshot goes when the
run ends; it stays when the charge was opened and the release is not published yet, because only on the same snapshot
can the same run go on.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Final, Literal, TypeVar

from contracts.errors import Finding, GateBroken, Refused, SudareError
from privacy.ledger.entries import DrawsGone
from tasks.storage.workspace.keys import refusal

if TYPE_CHECKING:
    from privacy.counting_engine import CountingEngine
    from privacy.ledger.ledger import Ledger


ERROR_LOG = "error.private.log"
SNAPSHOT_STEM = "snapshot"
SPILL, FETCHED = "spill", "fetched"
_LOOKS, _LOOK_SECONDS = 4, 0.05


ResultT = TypeVar("ResultT")


class RunBusy(Refused):
    """Another process is running the same release spec."""

    exit_code = 1


class UnexpectedError(SudareError):
    """Something failed that should not: a bug of ours. Only the type of the original error is told.

    Args:
        kind: name of the original error's type.
        log: private log with the original error and its traceback; None where no disk could be written.
    """

    def __init__(self, kind: str, log: Path | None) -> None:
        self.kind = kind
        self.log = log
        details = (
            "No disk could be written, so that its details are lost" if log is None else f"Private details: {log}"
        )
        super().__init__(f"unexpected {kind}: this is a bug of Sudare. {details}")


def now_to_the_second() -> str:
    """Return the time (ISO 8601, UTC)."""
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"


@dataclass
class RunFolder:
    """The private folder of the runs of one spec, while this process holds it.

    Args:
        path: the folder, mode 0700.
        keep_snapshot: whether the snapshot outlives the run.
        charge: how the run's charge stands, of `CHARGE_STATES`: as the ledger said when the steps ended, or of an
            earlier attempt; None for no charge.
        refusal: the gate that stopped the run, in the words for whoever ran it.
        of_period: whether the release is one of a period; which of its gates broke is not told to Prefect.
        resources: what ends with the run.
        began: when this process took the folder (ISO 8601, UTC, to the second); private.
        lock: descriptor that holds the folder, also for a process that is started with it and outlives this one.
    """

    path: Path
    keep_snapshot: bool = False
    charge: str | None = None
    refusal: GateBroken | None = None
    of_period: bool = False
    began: str = field(default_factory=now_to_the_second)
    resources: ExitStack = field(default_factory=ExitStack)
    lock: int | None = None

    @property
    def error_log(self) -> Path:
        """Where the traceback of an unexpected error goes; it may hold private values."""
        return self.path / ERROR_LOG

    @property
    def resumable(self) -> bool:
        """Whether the run goes on only on the same snapshot: it is charged and not published."""
        return self.charge not in (None, "returned", LOST, COMPLETE)

    def close_with(self, engine: CountingEngine | None) -> None:
        """End with the run the engine that counts its snapshot; None where it is counted here."""
        if engine is not None:
            self.resources.callback(engine.close)

    @contextmanager
    def charge_seen(self, ledger: Ledger, run_key: str) -> Iterator[None]:
        """Note, however the block ends, how the charge of a run stands in the ledger."""
        gone = False
        try:
            yield
        except DrawsGone:
            gone = True
            raise
        finally:
            self.charge = "opened"  # what may be charged keeps its snapshot where the ledger does not answer now
            charge = ledger.charge(run_key)
            self.charge = LOST if gone else None if charge is None else charge.status


LOST: Final = "lost"
"""Of a charge that was spent before and cannot be gone on with."""
COMPLETE: Final = "complete"
"""Of a charge whose version is whole in the store; at most a copy of it is missing."""
_ENTERED: Final = "its charge is spent and the version is entered; the same command goes on and pays no more"
CHARGE_STATES: Final = {
    None: "nothing was charged; running the same command starts again",
    "returned": "nothing is charged; running the same command starts again",
    "reserved": "its charge is reserved and nothing was drawn; running the same command goes on with that charge",
    "opened": "its charge is spent and stays spent; the same command on the same rows goes on and pays no more",
    "published": _ENTERED,
    COMPLETE: _ENTERED,
    LOST: "nothing more was charged; what an earlier attempt spent stays spent",
}
"""How a charge stands, and what running again does, in a line."""


def run_name(release: str, run_digest: str) -> str:
    """Return the name of the folder of a spec's runs; another text of the spec, or another due date, is another."""
    return f"{release}-{run_digest[:24]}"


@contextmanager
def hold(runs: Path, name: str, *, keep_snapshot: bool, of_period: bool = False) -> Iterator[RunFolder]:
    """Hold the folder of a run inside the block.

    Args:
        runs: the workspace's folder of runs.
        name: see `run_name`.
        keep_snapshot: whether the snapshot outlives the run.
        of_period: whether the release is one of a period.
    Yields:
        RunFolder: made when it is missing.
    Raises:
        RunBusy: a process holds it, this one or another.
        WorkspaceRefused: the folder of runs cannot be written.
    """
    path = runs / name
    require_writable(runs)
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = _lock(path)
    folder = RunFolder(path, keep_snapshot, of_period=of_period, lock=descriptor)
    try:
        yield folder
    finally:
        try:
            folder.resources.close()
            if not (keep_snapshot or folder.resumable):
                _discard_snapshot(path)
        finally:
            os.close(descriptor)


def is_locked(runs: Path, name: str) -> bool:
    """Say whether a process holds the lock of a run's folder now. It is taken for a moment."""
    try:
        descriptor = os.open(runs / name / "lock", os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def sheltered(action: Callable[[], ResultT], log: Callable[[], Path]) -> ResultT:
    """Do something; let our own errors pass, and replace any other by one without its text.

    Args:
        action: what to do.
        log: says, when it is needed, which file takes the traceback (mode 0600).
    Returns:
        What the action returned.
    Raises:
        UnexpectedError: in place of any exception that is not ours; the original is not even its context.
    Privacy: an error of a library may quote a row, so neither the terminal nor the orchestrator may see it.
    """
    try:
        return action()
    except SudareError:
        raise
    except Exception as error:  # noqa: BLE001 - what is not ours may say anything
        unexpected = UnexpectedError(type(error).__name__, _write_private_traceback(error, log))
    raise unexpected


def _write_private_traceback(error: BaseException, log: Callable[[], Path]) -> Path | None:
    """Write the traceback into the log; where that is on a read-only disk, into a private file of the system's."""
    for place in (log, _elsewhere):
        try:
            path = place()
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            with os.fdopen(descriptor, "a", encoding="utf-8") as file:
                file.write(f"--- {now_to_the_second()}\n")
                file.writelines(traceback.format_exception(error))
            return path
        except OSError:  # what is raised here would carry the original along, to whoever reads the terminal
            continue
    return None


def _elsewhere() -> Path:
    descriptor, name = tempfile.mkstemp(prefix="sudare-error-", suffix=".private.log")
    os.close(descriptor)
    return Path(name)


def require_writable(folder: Path) -> None:
    """Refuse a workspace that cannot be written, before anything else is begun.

    Args:
        folder: its private folder.
    Raises:
        WorkspaceRefused: it lies on a read-only disk, or its user may not write there; nothing was charged.
    """
    if folder.is_dir() and not os.access(folder, os.W_OK | os.X_OK):
        found, allowed = "a folder that cannot be written, such as on a read-only disk", "a workspace that can"
        remedy = "nothing was charged: give write access to it, or make one elsewhere: sudare init DIR"
        raise refusal(str(folder), "workspace", found, allowed, remedy)


def _discard_snapshot(path: Path) -> None:
    """Remove the snapshot, whole or partial, and what was spilled; DuckDB is not asked, it may be what has failed."""
    for file in path.glob(f"{SNAPSHOT_STEM}*"):
        if file.is_dir():
            shutil.rmtree(file, ignore_errors=True)
        else:
            file.unlink(missing_ok=True)
    for name in (SPILL, FETCHED):
        shutil.rmtree(path / name, ignore_errors=True)


def _take(descriptor: int) -> None:
    """Take the lock; somebody who only looks whether it is held has it for an instant."""
    for _ in range(_LOOKS):
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sleep(_LOOK_SECONDS)
    return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _lock(path: Path) -> int:
    descriptor = os.open(path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        _take(descriptor)
    except BlockingIOError as error:
        holder = os.read(descriptor, 20).decode("ascii", errors="replace").strip()
        os.close(descriptor)
        found = f"a run of it by process {holder}" if holder else "a run of it by another process"
        remedy = "wait until it has ended; running the command again then resumes it, or says that it is published"
        raise RunBusy(
            [Finding(str(path), "this release spec", found, "one run of a spec at a time", remedy)]
        ) from error
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, str(os.getpid()).encode(), 0)
    return descriptor


# --- Which scheduled runs have a process that lives.


Sign = Literal["lives", "died", "no sign"]


@contextmanager
def alive(folder: Path, name: str) -> Iterator[None]:
    """Show inside the block that this process works at something.

    Args:
        folder: a private folder that all workers share.
        name: of what it works at.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / name
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)


def note_end(folder: Path, name: str, said: str, code: int) -> None:
    """Note how something ended, for whoever started its process.

    Args:
        folder: as of `alive`.
        name: of what ended.
        said: in a line; public things only.
        code: the exit code that it stands for.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    partial = folder / f".{name}.end"
    partial.write_text(f"{code} {said}", encoding="utf-8")
    partial.replace(folder / f"{name}.end")


def take_end(folder: Path, name: str) -> tuple[str, int] | None:
    """Return what was noted of an end, and its exit code, and forget it; None where nothing was."""
    path = folder / f"{name}.end"
    try:
        code, _, said = path.read_text(encoding="utf-8").partition(" ")
        path.unlink()
        return said, int(code)
    except (OSError, ValueError):
        return None


def sign_of_life(folder: Path, name: str) -> Sign:
    """Say whether a process works at something, or did and died before its end; no sign, if none began."""
    try:
        descriptor = os.open(folder / name, os.O_RDWR)
    except OSError:
        return "no sign"
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return "lives"
    finally:
        os.close(descriptor)
    return "died"


@contextmanager
def only_one(folder: Path, name: str) -> Iterator[bool]:
    """Yield whether this process alone is inside the block now."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(folder / name, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        yield False
    else:
        yield True
    finally:
        os.close(descriptor)


# --- How the last attempt at each release ended.


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
