"""Runs: `sudare run` in a process of its own, which goes on whoever closes the page, or ends the studio.

What a run says goes to private files of the workspace. A later studio finds it there. The process holds a lock as
long as it lives, so that no number of a process has to be believed.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

from contracts.errors import Finding, Refused
from sudare_web.studio.processes import SUDARE, answer_in, findings_in
from tasks.storage.workspace.run_folder import is_locked
from tasks.storage.workspace.settings import Workspace

_FOLDER: Final = "studio"
_LINE: Final = re.compile(r"^([✓✗·!]) (.+) ([0-9.]+) s$", re.MULTILINE)
_LONGEST: Final = 1_000_000
_MOST_KNOWN: Final = 50


class RunRefused(Refused):
    """A run cannot be started."""


@dataclass(frozen=True)
class RunState:
    """How a run stands.

    Args:
        spec: the file that it runs.
        command: what was typed.
        running: whether its process lives.
        began: when it was started [seconds since 1970].
        steps: the steps that have ended: name, seconds, and ✓, ✗, or · where a terminal alone is told.
        answer: what it answered at its end; empty before.
        expected: how long it should take [seconds]; 0 where nobody knows.
    """

    spec: str
    command: str
    running: bool
    began: float
    steps: tuple[tuple[str, str, str], ...]
    answer: dict[str, Any]
    expected: float = 0.0

    def since(self, now: float) -> int:
        """Return how long it has been running [whole seconds], by the clock of this machine."""
        return max(0, round(now - self.began))

    def left(self, now: float) -> int | None:
        """Return about how long it still takes [whole seconds]; None where nobody knows, or it took longer."""
        rest = self.began + self.expected - now
        return round(rest) if self.expected and rest >= 0 else None

    @property
    def version(self) -> tuple[str, int] | None:
        """Release and number of the version that it made, once it has."""
        release, number = self.answer.get("release"), self.answer.get("version")
        return (release, number) if isinstance(release, str) and isinstance(number, int) else None

    @property
    def findings(self) -> list[dict[str, str]]:
        """What it was refused for."""
        return findings_in(self.answer)


class Runs:
    """The run of a workspace that the studio started last.

    Args:
        workspace: in whose private folder its files lie.
        folder: where commands are typed.
    """

    def __init__(self, workspace: Workspace, folder: Path) -> None:
        self._workspace, self._folder = workspace, folder
        self._here = workspace.private / _FOLDER
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def start(self, spec: Path, options: tuple[str, ...], seconds: float = 0.0) -> None:
        """Start `sudare run` on a spec.

        Args:
            spec: its file.
            options: further options of the command.
            seconds: that it takes by its plan on an idle machine; the time of its last run here is known better.
        Raises:
            RunRefused: a run is going on, or the workspace cannot be written.
        """
        with self._lock:
            try:
                self._here.mkdir(mode=0o700, exist_ok=True)
                lock = os.open(self._here / "lock", os.O_RDWR | os.O_CREAT, 0o600)
            except OSError as error:
                raise _unwritable(self._here, error) from None
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._started(spec, options, lock, seconds)
            except BlockingIOError:
                found, remedy = "a run that goes on", "wait until it has ended"
                raise RunRefused([Finding("studio", "run", found, "one run at a time", remedy)]) from None
            except OSError as error:
                raise _unwritable(self._here, error) from None
            finally:
                os.close(lock)  # the process has it still

    def state(self) -> RunState | None:
        """Say how the last run stands; None where there is none."""
        if self._process is not None:
            self._process.poll()
        with self._lock:  # a look at the lock takes it for a moment, which a start would take for a run
            running = is_locked(self._here.parent, self._here.name)
        return self._read(running=running)

    def _read(self, *, running: bool) -> RunState | None:
        try:
            about = json.loads((self._here / "run.json").read_text(encoding="utf-8"))
            spec, command, began = str(about["spec"]), str(about["command"]), float(about["began"])
            expected = float(about.get("expected", 0))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None
        out, err, see = _said(self._here / "run.out"), _said(self._here / "run.err"), f"see {self._here / 'run.err'}"
        steps = tuple((name, seconds, mark) for mark, name, seconds in _LINE.findall(err))
        return RunState(spec, command, running, began, steps, {} if running else answer_in(out, see=see), expected)

    def _durations(self) -> dict[str, float]:
        """Return how long the last whole run of each spec took; a run is over when it has written its answer."""
        before = self._read(running=False)
        if before is None:
            return {}
        try:
            about = json.loads((self._here / "run.json").read_text(encoding="utf-8"))
            known = {str(name): float(took) for name, took in about.get("durations", {}).items()}
            ended = (self._here / "run.out").stat().st_mtime
        except (OSError, ValueError, TypeError, AttributeError):
            return {}
        if before.version is not None and not before.answer.get("repeated") and ended > before.began:
            known = {**known, before.spec: round(ended - before.began, 1)}
        return dict(list(known.items())[-_MOST_KNOWN:])

    def _started(self, spec: Path, options: tuple[str, ...], lock: int, seconds: float) -> None:
        words = ["run", str(spec), "--workspace", str(self._workspace.root), *options]
        known = self._durations()
        about = {
            "spec": str(spec),
            "command": " ".join(["sudare", *words]),
            "began": time.time(),
            "expected": known.get(str(spec), seconds * slowdown()),
            "durations": known,
        }
        with _private(self._here / "run.json") as file:
            file.write(json.dumps(about).encode())
        with _private(self._here / "run.out") as out, _private(self._here / "run.err") as err:
            self._process = subprocess.Popen(
                [*SUDARE, *words, "--json"],
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                pass_fds=(lock,),
                start_new_session=True,
            )


def slowdown() -> float:
    """Return how many processes wait for each processor of this machine now, at least 1."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def _private(path: Path) -> BinaryIO:
    """Open an empty file for the operator alone."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb")


def _said(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_LONGEST).decode("utf-8", "replace")
    except OSError:
        return ""


def _unwritable(folder: Path, error: OSError) -> RunRefused:
    found, allowed = error.strerror or type(error).__name__, "a workspace that can be written"
    return RunRefused([Finding(str(folder), "run", found, allowed, "give write access; nothing was charged")])
