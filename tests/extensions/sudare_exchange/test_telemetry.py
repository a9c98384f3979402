"""What operators are told of runs, in lines of JSON and traces to a real receiver of OTLP; nothing private."""

import json
import os
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tasks.storage.workspace.settings import Workspace
from tests.console.conftest import Place, Typed

pytestmark = pytest.mark.usefixtures("served")
PLANTED = "xanthippe-4711"
"""A value that no other text holds."""
FACTS = {"run", "release", "product", "contract", "account"}
PUBLISHED = {"version", "status", "repeated", "epsilon", "delta", "remaining"}


@dataclass
class Receiver:
    url: str = ""
    answer: int = 200
    bodies: list[bytes] = field(default_factory=list)
    requests: list[tuple[str, str | None]] = field(default_factory=list)

    @property
    def spans(self) -> list[Span]:
        [resource] = ExportTraceServiceRequest.FromString(self.bodies[-1]).resource_spans
        return [span for scope in resource.scope_spans for span in scope.spans]


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    got = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.requests.append((self.path, self.headers["Authorization"]))
            got.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(got.answer)
            self.send_header("Location", f"{got.url}/elsewhere")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            return None

    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    got.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield got
    server.shutdown()
    thread.join()
    server.server_close()


@contextmanager
def told(place: Place, *lines: str) -> Iterator[Workspace]:
    """Write `[telemetry]` into the workspace's settings inside the block."""
    file = place.workspace.root / "sudare.toml"
    before = file.read_text()
    file.write_text(before.replace("[telemetry]", "\n".join(["[telemetry]", *lines])))
    yield Workspace.open(place.workspace.root)
    file.write_text(before)


@pytest.fixture
def planted(shared: Place) -> Callable[..., Path]:
    """Write a spec over rows of which one holds the planted value, where no domain has it."""

    def spec(name: str, *changes: tuple[str, str]) -> Path:
        rows = pl.read_parquet(shared.adult / "adult.parquet")
        column = pl.col("education")
        marked = pl.when(pl.int_range(pl.len()) == 0).then(pl.lit(PLANTED)).otherwise(column).alias("education")
        copy = shared.adult / f"{name}.parquet"
        rows.with_columns(marked).write_parquet(copy)
        bind = ("budget", "bind", str(copy), "--population", "adults", "--block", "1994")
        assert shared.type(*bind).code == 0
        return shared.spec(
            name, ("path: adult.parquet", f"path: {copy.name}"), ("epsilon: 1.0", "epsilon: 0.1"), *changes
        )

    return spec


def events(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def attributes(span: Span) -> dict[str, Any]:
    values = ((each.key, each.value) for each in span.attributes)
    return {key: getattr(value, value.WhichOneof("value")) for key, value in values}


def test_a_run_is_told_as_lines_and_as_one_trace_of_its_steps(
    shared: Place, receiver: Receiver, planted: Callable[..., Path], typed: Typed, monkeypatch: pytest.MonkeyPatch
):
    """Its steps lie inside the run, the token goes to the collector alone, and no planted value goes anywhere."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20a-token")
    spec = planted("lines")
    with told(shared, 'log = "told/events.ndjson"', f'traces = "{receiver.url}/v1/traces"') as workspace:
        said = typed("run", str(spec), "--json", at=workspace)
    assert said.code == 0, said.err
    assert receiver.requests == [("/v1/traces", "Bearer a-token")]
    [root] = [span for span in receiver.spans if not span.parent_span_id]
    steps = [span for span in receiver.spans if span.parent_span_id]
    assert {"ingest", "validate", "measure", "report", "publish"} <= {span.name for span in steps}
    for step in steps:
        assert (step.trace_id, step.parent_span_id) == (root.trace_id, root.span_id)
        assert root.start_time_unix_nano <= step.start_time_unix_nano <= step.end_time_unix_nano
        assert step.end_time_unix_nano <= root.end_time_unix_nano
        assert (attributes(step), len(step.events)) == ({}, 0)
    assert set(attributes(root)) == {f"sudare.{name}" for name in FACTS | PUBLISHED}
    assert attributes(root)["sudare.remaining"] == said.json["remaining"]
    file = shared.workspace.root / "told" / "events.ndjson"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    lines = events(file)
    assert [lines[0]["event"], lines[-1]["event"]] == ["run.started", "run.ended"]
    assert {line["event"] for line in lines[1:-1]} == {"step.ended"}
    assert [line["step"] for line in lines[1:-1]] == [span.name for span in receiver.spans if span.parent_span_id]
    assert all(line["at"].endswith(":00:00Z") for line in lines), "how long a step takes may depend on the rows"
    assert set(lines[-1]) == {"at", "event"} | FACTS | PUBLISHED
    assert_public(shared, receiver, file)


def assert_public(place: Place, receiver: Receiver, file: Path) -> None:
    """Hold all that was told against what is private: values, the number of rows, folders, the mark of the rows."""
    [key] = {path.name for path in place.workspace.draws.glob("lines-*")}
    everything = b"\n".join([file.read_bytes(), *receiver.bodies])
    private = (PLANTED, "48842", str(place.workspace.root), str(place.adult), "adult.parquet", "a-token", key)
    assert [word for word in private if word.encode() in everything] == []


def test_a_gate_that_breaks_and_a_source_that_is_not_there_look_alike(
    shared: Place, receiver: Receiver, planted: Callable[..., Path], typed: Typed
):
    """Neither log nor trace says in which step a run ended; what spec and ledger alone decide is named."""
    broken = planted("gate")
    pl.read_parquet(shared.adult / "gate.parquet").drop("education").write_parquet(shared.adult / "gate.parquet")
    gone = planted("gone")
    (shared.adult / "gone.parquet").unlink()
    dear = shared.spec("dear", ("epsilon: 1.0", "epsilon: 100.0"))
    file = shared.workspace.root / "failures.ndjson"
    with told(shared, 'log = "failures.ndjson"', f'traces = "{receiver.url}/v1/traces"') as workspace:
        codes = [typed("run", str(spec), at=workspace).code for spec in (broken, gone, dear)]
    assert codes == [3, 2, 4]
    ended = [line for line in events(file) if line["event"] == "run.failed"]
    assert [line["error"] for line in ended] == ["refused", "refused", "BudgetExceeded"]
    assert [line.get("step") for line in events(file) if line["release"] in ("gate", "gone")] == [None] * 4
    spans = [
        ExportTraceServiceRequest.FromString(body).resource_spans[0].scope_spans[0].spans for body in receiver.bodies
    ]
    assert [len(each) for each in spans[:2]] == [1, 1]
    lengths = [each[-1].end_time_unix_nano - each[-1].start_time_unix_nano for each in spans]
    assert lengths[:2] == [0, 0], "how long a run took until a check ended it says which check it was"
    assert lengths[2] > 0
    assert [each[-1].status.message for each in spans] == ["refused", "refused", "BudgetExceeded"]
    assert PLANTED.encode() not in b"".join([file.read_bytes(), *receiver.bodies])


def test_what_goes_wrong_with_telemetry_stops_no_run(
    shared: Place, receiver: Receiver, typed: Typed, caplog: pytest.LogCaptureFixture
):
    """A redirect is not followed; a file that cannot be written is a warning; no address is quoted."""
    receiver.answer = 302
    spec = shared.spec("undaunted", ("epsilon: 1.0", "epsilon: 0.1"))
    with told(shared, 'log = "sudare.toml/below"', f'traces = "{receiver.url}/v1/traces"') as workspace:
        assert typed("run", str(spec), at=workspace).code == 0
    assert [path for path, _ in receiver.requests] == ["/v1/traces"]
    assert "the trace was not delivered" in caplog.text
    assert "was not written (FileExistsError)" in caplog.text
    assert receiver.url not in caplog.text


def test_nobody_is_told_where_nobody_asked(shared: Place, receiver: Receiver, monkeypatch: pytest.MonkeyPatch):
    assert not Workspace.open(shared.workspace.root).telemetry.is_configured
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url + "/")
    assert Workspace.open(shared.workspace.root).telemetry.traces == f"{receiver.url}/v1/traces"
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    assert not Workspace.open(shared.workspace.root).telemetry.is_configured


def test_traces_without_their_packages_are_refused_before_anything(
    shared: Place, receiver: Receiver, typed: Typed, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("sudare_exchange.telemetry.find_spec", lambda name: None)
    with told(shared, f'traces = "{receiver.url}"') as workspace:
        said = typed("run", str(shared.spec("unequipped")), at=workspace)
    assert said.code == 2
    assert "telemetry.traces" in said.err
    assert "sudare[telemetry]" in said.err
    assert receiver.bodies == []
