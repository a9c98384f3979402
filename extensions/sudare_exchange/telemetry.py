"""What operators are told of a run: a log of events in JSON, and an OpenTelemetry trace of its steps.

A run is told when it is let go on, and again when it has ended. Steps are told of a run that published, or that spec
and ledger alone refused. Of any other end neither log nor trace says where it was: the step that a run ends in is the
outcome of a check. Events are public and tell the hour alone. A span says when a step ran, which may depend on the
rows, so a trace is for those who operate the workspace; its attributes are public. What goes wrong is a warning.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from contracts.canonical import canonical_json
from flows.observers import Observer
from flows.outcome import Outcome
from flows.request import Request
from tasks.storage.progress import StepTime
from tasks.storage.workspace.keys import refusal
from tasks.storage.workspace.settings import FILE, Workspace

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter


_SDK: Final = "opentelemetry.exporter"


class Telemetry(Observer):
    """Tells of one run, in lines of a log and in a trace."""

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

    @classmethod
    def is_wanted(cls, workspace: Workspace) -> bool:
        """Say whether `[telemetry]` or a variable of OpenTelemetry's names anybody."""
        return workspace.telemetry.is_configured

    @classmethod
    def check(cls, workspace: Workspace) -> None:
        """Refuse traces where the packages for them are not installed.

        Raises:
            WorkspaceRefused: the extra is missing.
        """
        if workspace.telemetry.traces is not None and find_spec(_SDK) is None:
            found = "traces, and opentelemetry-sdk is not installed here"
            allowed = "an installation with the extra telemetry"
            remedy = 'pip install "sudare[telemetry]", or drop the setting; nothing was charged'
            raise refusal(str(workspace.root / FILE), "telemetry.traces", found, allowed, remedy)

    def begin(self) -> None:
        """Tell that the run goes on."""
        self._event("run.started")

    def end(self, outcome: Outcome, steps: Sequence[StepTime]) -> None:
        """Tell what was published, and the steps."""
        self._end("run.ended", _stated(outcome), steps, failed=None)

    def fail(self, word: str, steps: Sequence[StepTime], *, timed: bool) -> None:
        """Tell that the run ended without a version."""
        self._end("run.failed", {"error": word}, steps, failed=word, timed=timed)

    def _event(self, name: str, **facts: Any) -> None:
        """Append a line to the log, in one write, so that lines of several processes do not mix."""
        if self._target.log is None:
            return
        at = f"{datetime.now(UTC):%Y-%m-%dT%H:00:00Z}"  # how long a run takes may depend on the rows
        try:
            _append(self._target.log, canonical_json({"at": at, "event": name, **self._run, **facts}) + b"\n")
        except OSError as error:
            logger.warning("telemetry: the event %s was not written (%s)", name, type(error).__name__)

    def _end(
        self, name: str, facts: dict[str, Any], steps: Sequence[StepTime], *, failed: str | None, timed: bool = True
    ) -> None:
        """Tell the steps and the end; untimed, not how long it took: that would say which check failed."""
        for step in steps:
            self._event("step.ended", step=step.name)
        self._event(name, **facts)
        if self._target.traces is not None:
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


logger = logging.getLogger(__name__)

TIMEOUT: Final = 5.0
Attributes = Mapping[str, str | int | bool]


def send_trace(
    url: str, run: StepTime, steps: Sequence[StepTime], attributes: Attributes, *, failed: str | None
) -> bool:
    """Post a run and its steps as one trace.

    Args:
        url: the collector's address for traces.
        run: name and times of the whole run.
        steps: its steps, in the order in which they ended.
        attributes: of the run; public.
        failed: the word for its error, or None.
    Returns:
        bool: whether the collector took it. What failed is logged without addresses or texts of others.
    """
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    from opentelemetry.trace import Status, StatusCode, set_span_in_context

    spans = InMemorySpanExporter()
    provider = TracerProvider(resource=Resource({"service.name": "sudare"}), shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(spans))
    tracer = provider.get_tracer("sudare")
    root = tracer.start_span(run.name, start_time=run.began, attributes=dict(attributes))
    for step in steps:
        inner = tracer.start_span(step.name, context=set_span_in_context(root), start_time=step.began)
        inner.end(step.ended)
    if failed is not None:
        root.set_status(Status(StatusCode.ERROR, failed))
    root.end(run.ended)
    try:
        taken = _exporter(url).export(spans.get_finished_spans()) is SpanExportResult.SUCCESS
    except (OSError, ValueError):
        taken = False
    if not taken:
        logger.warning("telemetry: the trace was not delivered")
    return taken


def _exporter(url: str) -> SpanExporter:
    """Return an exporter that follows no redirect, which would carry a token to somebody else."""
    import requests
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)  # its warnings quote the address
    session = requests.Session()
    session.max_redirects = 0
    return OTLPSpanExporter(endpoint=url, timeout=TIMEOUT, session=session)
