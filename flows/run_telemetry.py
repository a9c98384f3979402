"""What operators are told of a run: a log of events in JSON, and a trace of its steps, where sudare.toml asks.

A run is told when it is let go on, and again when it has ended. Steps are told of a run that published, or that spec
and ledger alone refused. Of any other end neither log nor trace says where it was: the step that a run ends in is the
outcome of a check. Events are public and tell the hour alone; spans tell times, which are the operators' own.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from contracts.canonical import canonical_json
from flows.lineage_events import public_word
from flows.outcome import Outcome
from flows.request import Request
from tasks.storage.progress import StepTime
from tasks.storage.workspace.keys import refusal
from tasks.storage.workspace.settings import FILE, Workspace

logger = logging.getLogger(__name__)

_SDK: Final = "opentelemetry.exporter"


def check_telemetry(workspace: Workspace) -> None:
    """Refuse traces where the packages for them are not installed; nothing was read or charged.

    Raises:
        WorkspaceRefused: the extra is missing.
    """
    if workspace.telemetry.traces is not None and find_spec(_SDK) is None:
        found, allowed = (
            "traces, and opentelemetry-sdk is not installed here",
            "an installation with the extra telemetry",
        )
        remedy = 'pip install "sudare[telemetry]", or drop the setting; nothing was charged'
        raise refusal(str(workspace.root / FILE), "telemetry.traces", found, allowed, remedy)


@contextmanager
def telemetry_of(
    request: Request, workspace: Workspace, steps: Sequence[StepTime], began: int
) -> Iterator[Callable[[Outcome], None]]:
    """Tell that a run goes on when the block begins, and its end when it ends.

    Args:
        request: what is asked for.
        workspace: says who is told.
        steps: the steps that ended so far; more are added inside the block.
        began: when the run began [ns since 1970].
    Yields:
        A function that takes the outcome.
    Privacy: events and attributes hold declarations and what is published; of an error what lineage events tell.
    """
    target = workspace.telemetry
    ended: list[Outcome] = []
    if not target.is_configured:
        yield ended.append
        return
    told = _Telling(request, workspace, began)
    told.event("run.started")
    try:
        yield ended.append
    except BaseException as error:
        word, public = public_word(error)
        told.end("run.failed", {"error": word}, steps if public else (), failed=word, timed=public)
        raise
    told.end("run.ended", _stated(ended[-1]) if ended else {}, steps, failed=None)


class _Telling:
    """Tells of one run.

    Args:
        request: what is asked for.
        workspace: says who is told.
        began: when the run began [ns since 1970].
    """

    def __init__(self, request: Request, workspace: Workspace, began: int) -> None:
        spec, contract = request.spec, request.contract
        self._target, self._began = workspace.telemetry, began
        self._run = {
            "run": str(uuid4()),
            "release": spec.release,
            "product": spec.product.kind,
            "contract": f"{contract.id} {contract.version}",
            "account": spec.charge.account,
        }

    def event(self, name: str, **facts: Any) -> None:
        """Append a line to the log, in one write, so that lines of several processes do not mix."""
        if self._target.log is None:
            return
        at = f"{datetime.now(UTC):%Y-%m-%dT%H:00:00Z}"  # how long a run takes may depend on the rows
        try:
            _append(self._target.log, canonical_json({"at": at, "event": name, **self._run, **facts}) + b"\n")
        except OSError as error:
            logger.warning("telemetry: the event %s was not written (%s)", name, type(error).__name__)

    def end(
        self, name: str, facts: dict[str, Any], steps: Sequence[StepTime], *, failed: str | None, timed: bool = True
    ) -> None:
        """Tell the steps and the end; untimed, not how long it took: that would say which check failed."""
        for step in steps:
            self.event("step.ended", step=step.name)
        self.event(name, **facts)
        if self._target.traces is not None:
            from tasks.records.emission.run_trace import send_trace  # the packages of an extra

            whole = StepTime("release", self._began, time.time_ns() if timed else self._began)
            attributes = {f"sudare.{key}": value for key, value in {**self._run, **facts}.items()}
            send_trace(self._target.traces, whole, steps, attributes, failed=failed)


def _stated(outcome: Outcome) -> dict[str, str | int | bool]:
    """Return what was published, as a journal's reader knows it."""
    return {
        "version": outcome.version,
        "status": outcome.status,
        "repeated": outcome.repeated,
        "epsilon": outcome.epsilon,
        "delta": outcome.delta,
        "remaining": outcome.remaining,
    }


def _append(path: Path, line: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(descriptor, line)
    finally:
        os.close(descriptor)
