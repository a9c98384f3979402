"""Who is told of a run's steps: `[telemetry]` of sudare.toml, or the variables that OpenTelemetry's programs know.

| variable | means | in sudare.toml |
|---|---|---|
| OTEL_EXPORTER_OTLP_TRACES_ENDPOINT | a collector of traces, by OTLP over HTTP | `traces` |
| OTEL_EXPORTER_OTLP_ENDPOINT | the same, `/v1/traces` below it | |
| OTEL_EXPORTER_OTLP_HEADERS | headers with a token; never in a file | |
| OTEL_SDK_DISABLED | `true`: no trace at all | |
| | a file to which each event is appended as a line of JSON | `log` |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class TelemetryTarget:
    """Who is told.

    Args:
        log: the file to which events are appended, or None.
        traces: where traces are posted, or None.
    """

    log: Path | None = None
    traces: str | None = None

    @property
    def is_configured(self) -> bool:
        """Whether there is anybody to tell."""
        return self.log is not None or self.traces is not None


def telemetry_target(root: Path, values: Mapping[str, str], environment: Mapping[str, str]) -> TelemetryTarget:
    """Read who is told.

    Args:
        root: the workspace; a relative file is meant from there.
        values: the settings of sudare.toml by `table.key`.
        environment: the environment variables, which win.
    """
    below = environment.get("OTEL_EXPORTER_OTLP_ENDPOINT")
    traces = environment.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") or (below and f"{below.rstrip('/')}/v1/traces")
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        traces, values = None, {**values, "telemetry.traces": ""}
    log = values.get("telemetry.log")
    return TelemetryTarget(root / log if log else None, traces or values.get("telemetry.traces") or None)
