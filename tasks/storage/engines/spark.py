"""A Spark worker: a process beside ours that is sent SQL and answers counts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from typing import IO, Any, Final

from contracts.errors import Finding
from privacy.counting_engine import CountsUnavailable
from tasks.storage.engines import spark_worker
from tasks.storage.engines.spark_trust import EngineNotTrusted, refused_handshake, start_of, weaknesses
from tasks.storage.workspace.settings import environment_for_engines
from tasks.storage.workspace.spark_settings import SparkSettings

LOG: Final = "spark.private.log"
UNCHARGED: Final = "no noise was drawn, and a charge that was reserved is kept"
_PATIENCE_SECONDS: Final = 20.0


class EngineFailed(CountsUnavailable):
    """Spark did not do what it was asked for; its own words may quote rows and are in a private file."""


class SparkWorker:
    """One Spark session in a process of its own, for as long as a run lasts.

    Args:
        settings: where Spark is.
        folder: the run's private folder: Spark's log, and what it spills, stay there.
        held: descriptor of the lock on that folder, which the worker keeps: where the run is killed, Spark may go on
            writing, and no other run gets the folder before it has ended. None where nobody else could get it.
    Raises:
        EngineFailed: no session could be started.
        EngineNotTrusted: Spark is on other machines, and its session is not authenticated and encrypted.
        SourceUnreadable: there are no credentials of the name that the settings say.
    """

    def __init__(self, settings: SparkSettings, folder: Path, *, lock: int | None = None) -> None:
        self._log = folder / LOG
        self._lock = Lock()
        scratch = folder / "spill"
        scratch.mkdir(mode=0o700, exist_ok=True)
        python = settings.python
        start = start_of(settings, scratch)
        descriptor = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            self._process: subprocess.Popen[str] = subprocess.Popen(
                [str(python), "-I", spark_worker.__file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=descriptor,
                cwd=scratch,
                env={**environment_for_engines(), **start.environment},
                text=True,
                encoding="utf-8",
                start_new_session=True,
                umask=0o077,
                pass_fds=() if lock is None else (lock,),
            )
        except OSError as error:
            allowed, remedy = "the Python of an environment with pyspark", "correct `spark.python` in sudare.toml"
            found = Finding("workspace", "spark.python", error.strerror or "not to be run", allowed, remedy)
            raise EngineFailed(str(found)) from None
        finally:
            os.close(descriptor)
        try:
            self._start(settings, start.request)
        except BaseException:
            self.close()
            raise

    def _start(self, settings: SparkSettings, request: Mapping[str, Any]) -> None:
        """Start the session, and let nothing else be asked before it has said how it is guarded."""
        told = self.ask("start", **request)
        if "refused" in told:
            raise refused_handshake(settings, told["refused"])
        found = [] if settings.kind == "local" else weaknesses(settings, told)
        if found:
            raise EngineNotTrusted(found)

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
            raise EngineFailed(f"Spark, {what}: {told['error']}; {UNCHARGED}. Private details: {self._log}")
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
