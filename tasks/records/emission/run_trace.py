"""The trace of a run for an OpenTelemetry collector (OTLP over HTTP); what goes wrong is a warning and stops nothing.

A span says when a step ran. How long that took may depend on the rows, so a trace is for those who operate the
workspace. Its attributes are public: what the spec declares, and what was published.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from tasks.storage.progress import StepTime

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

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
