"""An engine that counts: sent SQL, it answers whole numbers; what it says of an error goes no further.

`Engine` is one session of any engine, `EngineProcess` one whose engine is a process of its own on this machine.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import IO, Any, ClassVar, Final

from contracts.domains.statements import ValueKind
from sudare_engines.portable_sql import Dialect
from tasks.storage.source_engine import EngineFailed
from tasks.storage.workspace.environment import environment_for_engines

UNCHARGED: Final = "no noise was drawn for this, and a charge that was reserved is kept"


class Engine(ABC):
    """One session of an engine, for as long as a run lasts."""

    name: ClassVar[str]
    dialect: ClassVar[Dialect]
    remedy: ClassVar[str]
    """What to look at where it answers what is no count."""

    @staticmethod
    @abstractmethod
    def kind_of(written: str) -> ValueKind | None:
        """Return the kind of one of the engine's types, or None."""

    @staticmethod
    @abstractmethod
    def hash_sql(columns: Sequence[str], relation: str) -> str:
        """Write the SELECT of the number of rows and of 8 keyed sums over all rows of the stage.

        Args:
            columns: the stage's columns.
            relation: the stage, joined with the row of keys.
        """

    @abstractmethod
    def query(self, sql: str) -> list[list[Any]]:
        """Return the rows of a SELECT, which are counts.

        Raises:
            EngineFailed: it did not answer.
        """

    @abstractmethod
    def close(self) -> None:
        """End the session and whatever it started; twice is as good as once."""


_PATIENCE_SECONDS: Final = 20.0


class EngineProcess(Engine):
    """One session of an engine in a process of its own, for as long as a run lasts.

    Args:
        command: the program and its arguments.
        folder: the run's private folder: the engine's log, and what it spills, stay there.
        environment: variables of the process, beside those that every engine gets.
        lock: descriptor of the lock on that folder, which the process keeps: where the run is killed, the engine may
            go on writing, and no other run gets the folder before it has ended. None where nobody else could get it.
    Raises:
        OSError: the program cannot be run.
    """

    log_name: ClassVar[str]

    def __init__(
        self, command: Sequence[str], folder: Path, *, environment: Mapping[str, str], lock: int | None
    ) -> None:
        self._log = folder / self.log_name
        self._lock = Lock()
        descriptor = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            self._process: subprocess.Popen[str] = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=descriptor,
                cwd=scratch_of(folder),
                env={**environment_for_engines(), **environment},
                text=True,
                encoding="utf-8",
                start_new_session=True,
                umask=0o077,
                pass_fds=() if lock is None else (lock,),
            )
        finally:
            os.close(descriptor)

    def ask(self, what: str, **arguments: Any) -> Any:
        """Send one request and return the answer.

        Raises:
            EngineFailed: the class of Spark's error and where its private log is, or that the process has ended.
        """
        with self._lock:
            requests, answers = self._pipes()
            try:
                requests.write(json.dumps({"do": what, **arguments}) + "\n")
                requests.flush()
                line = answers.readline()
            except (OSError, ValueError):
                line = ""
        told = json.loads(line) if line else {"error": "the process ended"}
        if "error" in told:
            raise EngineFailed(f"{self.name}, {what}: {told['error']}; {UNCHARGED}. Private details: {self._log}")
        return told.get("answer", told)

    def query(self, sql: str) -> list[list[Any]]:
        """Return the rows of a SELECT, which are counts."""
        rows: list[list[Any]] = self.ask("query", sql=sql)
        return rows

    def close(self) -> None:
        """End the process and whatever it started; twice is as good as once."""
        for pipe in self._pipes():
            try:
                pipe.close()
            except OSError:
                continue
        try:
            self._process.wait(_PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _pipes(self) -> tuple[IO[str], IO[str]]:
        if self._process.stdin is None or self._process.stdout is None:
            raise ValueError("the worker was started without pipes")
        return self._process.stdin, self._process.stdout


def scratch_of(folder: Path) -> Path:
    """Return the folder in a run's private one for what an engine writes, made for its owner alone."""
    scratch = folder / "spill"
    scratch.mkdir(mode=0o700, exist_ok=True)
    return scratch
