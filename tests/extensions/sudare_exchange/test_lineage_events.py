"""Lineage events of runs, against a real HTTP server on loopback: what they say, and that they stop no release."""

import json
import os
import socket
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import jsonschema
import pytest

from benchmarks.orchestration import release_plainly
from contracts.errors import GateBroken, SourceUnreadable, SpecRefused
from flows.observers import observed
from flows.request import Request, read_request
from privacy.ledger.entries import BudgetExceeded
from sudare_exchange import lineage as sending
from sudare_exchange.lineage import dataset_name
from tasks.storage.workspace.settings import Workspace
from tests.console.conftest import Place, Typed
from tests.tasks.records.descriptions.outside_schemas import RUN_EVENT
from tests.worlds.ports import port_of_its_own

Events = list[dict[str, Any]]


@dataclass
class Collector:
    """What an OpenLineage server got."""

    url: str
    answer: int = 200
    events: Events = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    tokens: list[str | None] = field(default_factory=list)


@pytest.fixture
def collector() -> Iterator[Collector]:
    got = Collector("")

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.paths.append(self.path)
            got.tokens.append(self.headers["Authorization"])
            got.events.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(got.answer)
            self.send_header("Location", "http://127.0.0.1:9/elsewhere")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            return None

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    got.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield got
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(autouse=True)
def _no_lineage_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("OPENLINEAGE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture(scope="module")
def version(shared: Place) -> Path:
    release_plainly(shared.spec("told"), shared.workspace.root)
    return shared.workspace.releases / "told" / "v1"


def _asked(place: Place) -> tuple[Request, Workspace]:
    return read_request(place.adult / "told.yaml"), Workspace.open(place.workspace.root)


@contextmanager
def _settings(place: Place, *lines: str) -> Iterator[None]:
    """Write `[lineage]` into the workspace's settings inside the block."""
    file = place.workspace.root / "sudare.toml"
    before = file.read_text()
    file.write_text("\n".join(["[lineage]", *lines]))
    yield
    file.write_text(before)


def _run(place: Place, version: Path) -> Request:
    request, workspace = _asked(place)
    published: Any = SimpleNamespace(folder=str(version))
    observed(request, workspace, (), 0, lambda: published)
    return request


@pytest.mark.services
def test_start_and_complete_reach_a_server(
    shared: Place, version: Path, collector: Collector, monkeypatch: pytest.MonkeyPatch
):
    """Two events with one run id, in OpenLineage's form."""
    monkeypatch.setenv("OPENLINEAGE_URL", collector.url + "/")
    monkeypatch.setenv("OPENLINEAGE_API_KEY", "a-token")
    monkeypatch.setenv("OPENLINEAGE_NAMESPACE", "office")
    _run(shared, version)
    start, complete = collector.events
    assert (start["eventType"], complete["eventType"]) == ("START", "COMPLETE")
    assert start["run"]["runId"] == complete["run"]["runId"]
    assert collector.paths == ["/api/v1/lineage"] * 2
    assert collector.tokens == ["Bearer a-token"] * 2
    for event in collector.events:
        jsonschema.validate(event, RUN_EVENT)
        assert event["eventTime"].endswith(":00:00.000Z"), "how long a run takes may depend on the rows"
        assert (event["job"]["namespace"], event["job"]["name"]) == ("office", "told")
        (source,) = event["inputs"]
        assert (source["namespace"], source["name"]) == ("sudare:contract", "adult.adult")
        assert {"name": "education", "type": "string"} in [
            {key: part for key, part in each.items() if key != "description"}
            for each in source["facets"]["schema"]["fields"]
        ]
    published = json.loads((version / "lineage.json").read_bytes())
    assert complete["outputs"] == published["outputs"]
    assert complete["inputs"][0]["inputFacets"] == published["inputs"][0]["inputFacets"]
    facet = complete["run"]["facets"]["sudare_version"]
    assert (facet["runId"], facet["version"]) == (published["run"]["runId"], "v1")


def _raise(error: BaseException) -> NoReturn:
    raise error


class _Telling(SpecRefused):
    """A class of somebody's own below a public one."""


@pytest.mark.services
def test_a_failure_is_told_by_one_word_unless_its_class_is_public(
    shared: Place, version: Path, collector: Collector, monkeypatch: pytest.MonkeyPatch
):
    """A broken gate looks like an unreadable source, an interruption and a bug; no text. The error itself goes on."""
    monkeypatch.setenv("OPENLINEAGE_URL", collector.url)
    request, workspace = _asked(shared)
    silent = (GateBroken([]), SourceUnreadable([]), ValueError("a row says 4711"), KeyboardInterrupt("4711"))
    public = (BudgetExceeded("adult-1994", 1, 0, []), SpecRefused([]))
    for error in (*silent, _Telling([]), *public):
        with pytest.raises(type(error)):
            observed(request, workspace, (), 0, partial(_raise, error))
    told = [event for event in collector.events if event["eventType"] == "FAIL"]
    assert [event["run"]["facets"]["errorMessage"]["message"] for event in told] == [
        *["refused"] * 5,
        *("BudgetExceeded", "SpecRefused"),
    ]
    assert len({json.dumps(_timeless(event), sort_keys=True) for event in told[:5]}) == 1
    assert all(
        set(event["run"]["facets"]["errorMessage"]) <= {"_producer", "_schemaURL", "message", "programmingLanguage"}
        for event in told
    )
    assert "4711" not in json.dumps(collector.events)
    assert all(event["outputs"] == [] for event in told)
    jsonschema.validate(told[0], RUN_EVENT)


def _timeless(event: dict[str, Any]) -> dict[str, Any]:
    """Leave out what differs between any two runs."""
    return {**event, "eventTime": "", "run": {**event["run"], "runId": ""}}


@pytest.mark.services
def test_no_event_holds_what_is_private(
    shared: Place, version: Path, collector: Collector, monkeypatch: pytest.MonkeyPatch
):
    """Not the number of rows, not where the source lies, no key, no outcome of a check that is no gate."""
    monkeypatch.setenv("OPENLINEAGE_URL", collector.url)
    request = _run(shared, version)
    text = json.dumps(collector.events)
    assert "48842" not in text
    assert "48,842" not in text
    assert str(request.spec.source.path.parent) not in text
    assert str(shared.workspace.root) not in text
    assert "nulls:" not in text
    for event in collector.events:
        for source in event["inputs"]:
            assert not {"dataQualityMetrics", "inputStatistics"} & set(source.get("inputFacets", {}))


def test_events_are_appended_to_a_file_and_may_name_the_source(shared: Place, version: Path):
    """`file` is relative to the workspace; the source's path is named only where that is asked for."""
    file = shared.workspace.root / "told" / "lineage.ndjson"
    with _settings(shared, 'file = "told/lineage.ndjson"'):
        _run(shared, version)
        assert "symlinks" not in file.read_text()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with _settings(shared, 'file = "told/lineage.ndjson"', 'source_path = "yes"', 'namespace = "x"'):
        request = _run(shared, version)
    events = [json.loads(line) for line in file.read_text().splitlines()]
    assert [event["eventType"] for event in events] == ["START", "COMPLETE"] * 2
    for event in events[2:]:
        (named,) = event["inputs"][0]["facets"]["symlinks"]["identifiers"]
        assert named["name"] == request.spec.source.name
        assert event["job"]["namespace"] == "x"


@pytest.mark.parametrize(
    ("source", "namespace", "name"),
    [
        ("/data/shop.duckdb::orders", "file", "/data/shop.duckdb::orders"),
        (
            "postgresql://db.example.org:5432/shop::public.orders",
            "postgresql://db.example.org:5432",
            "shop::public.orders",
        ),
        ("postgresql:///shop?host=/run::public.orders", "postgresql://", "shop?host=/run::public.orders"),
        ("s3+https://store.example.org/bucket/a.parquet", "s3+https://store.example.org", "bucket/a.parquet"),
    ],
)
def test_a_source_is_named_by_its_server_and_what_it_is_there(source: str, namespace: str, name: str):
    assert dataset_name(source) == {"namespace": namespace, "name": name}


@pytest.mark.services
def test_nothing_that_goes_wrong_with_events_stops_a_run(
    shared: Place,
    version: Path,
    collector: Collector,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
):
    """Nobody there, an error, a redirect (not followed), no address, a silent server, a file that cannot be."""
    monkeypatch.setattr(sending, "TIMEOUT", 0.5)
    monkeypatch.setenv("OPENLINEAGE_API_KEY", "a-token")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        urls = [
            f"http://127.0.0.1:{port_of_its_own()}",
            f"http://127.0.0.1:{silent.getsockname()[1]}",
            "file:" + "///dev/null",
            "http://[",
            "nonsense",
        ]
        for url in urls:
            monkeypatch.setenv("OPENLINEAGE_URL", url)
            caplog.clear()
            _run(shared, version)
            assert [record.levelname for record in caplog.records] == ["WARNING"] * 2, url
            assert url not in caplog.text
            assert "a-token" not in caplog.text
    monkeypatch.setattr(sending, "TIMEOUT", 60)
    monkeypatch.setenv("OPENLINEAGE_URL", collector.url)
    for answer in (503, 401, 302):
        collector.answer = answer
        caplog.clear()
        _run(shared, version)
        assert "was not delivered (HTTPError)" in caplog.text
    monkeypatch.delenv("OPENLINEAGE_URL")
    with _settings(shared, 'file = "sudare.toml/below"'):
        caplog.clear()
        _run(shared, version)
        assert len(caplog.records) == 2


@pytest.mark.services
def test_nobody_is_told_where_nobody_asked(
    shared: Place, version: Path, collector: Collector, monkeypatch: pytest.MonkeyPatch
):
    """By default there is no target; OPENLINEAGE_DISABLED wins over all others."""
    assert not Workspace.open(shared.workspace.root).lineage.is_configured
    monkeypatch.setenv("OPENLINEAGE_URL", collector.url)
    monkeypatch.setenv("OPENLINEAGE_DISABLED", "true")
    _run(shared, version)
    assert collector.events == []
    assert "a-token" not in repr(Workspace.open(shared.workspace.root).lineage)


@pytest.mark.services
def test_a_version_whose_event_cannot_be_read_is_told_without_files(
    shared: Place, version: Path, collector: Collector, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    """A folder that was damaged, or is gone."""
    monkeypatch.setenv("OPENLINEAGE_URL", collector.url)
    (tmp_path / "lineage.json").write_text('{"run": 1}')
    for folder in (tmp_path, tmp_path / "none"):
        _run(shared, folder)
        assert collector.events[-1]["eventType"] == "COMPLETE"
        assert collector.events[-1]["outputs"] == []


@pytest.mark.usefixtures("served")
def test_a_real_run_tells_its_start_and_its_end_once(
    shared: Place, collector: Collector, typed: Typed, monkeypatch: pytest.MonkeyPatch
):
    """`sudare run` with the flow inside it; then a run that is refused before the data."""
    monkeypatch.setenv("OPENLINEAGE_URL", collector.url)
    spec = shared.spec("told-live", ("epsilon: 1.0", "epsilon: 0.5"))
    said = typed("run", str(spec), at=shared.workspace)
    assert said.code == 0, said.err
    assert [event["eventType"] for event in collector.events] == ["START", "COMPLETE"]
    assert collector.events[1]["outputs"][0]["name"].startswith("told-live/v1/data/")
    collector.events.clear()
    refused = shared.spec("told-refused", ("epsilon: 1.0", "epsilon: 100.0"))
    assert typed("run", str(refused), at=shared.workspace).code == 4
    assert [event["eventType"] for event in collector.events] == ["START", "FAIL"]
    assert collector.events[1]["run"]["facets"]["errorMessage"]["message"] == "BudgetExceeded"
