"""Every route under made-up requests: nothing answers with a server error, and every answer carries the headers."""

import asyncio
import re
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sudare_web.serve import make_site
from sudare_web.site.app import make_app
from sudare_web.site.guard import POLICY, SANDBOXED
from sudare_web.site.tokens import Tokens
from tests.extensions.sudare_web.site.conftest import Shown
from tests.extensions.sudare_web.site.test_pages import sent_raw

REQUESTS = 500
PATHS = 300
METHODS = ("GET", "GET", "GET", "GET", "GET", "HEAD", "POST", "PUT", "OPTIONS", "\x01")
PLAIN = settings(deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
KNOWN = (
    "releases",
    "adult-tables",
    "adult-old",
    "v3",
    "v1",
    "files",
    "record",
    "tables",
    "verify",
    "compare",
    "metrics",
)
KNOWN += ("record.json", "data", "age.parquet", "journal", "account", "checkpoints", "api", "static", "..", "%2e")
VALUES = (
    "adult-tables",
    "adult-old",
    "adult-1994",
    "published",
    "noise_drawn",
    "gate_failed",
    "data/age.parquet",
    "ja",
)
VALUES += ("record.html", "0", "1", "3", "-1", "1e9", "0x1", str(2**62), str(2**70), "%", "_")
VALUES += ("", "null", "' OR 1=1 --", "<script>", "\x00", "\ud7ff", "٣", "a" * 300)

values = st.one_of(st.sampled_from(VALUES), st.integers().map(str), st.text(max_size=20))
pieces = st.one_of(
    st.sampled_from(KNOWN), st.text(max_size=12), st.binary(max_size=6).map(lambda raw: raw.decode("latin-1"))
)


def routes_of(app: FastAPI) -> list[APIRoute]:
    return [route for route in app.routes if isinstance(route, APIRoute)]


@pytest.fixture(scope="module")
def app(shown: Shown, tmp_path_factory: pytest.TempPathFactory) -> FastAPI:
    file = tmp_path_factory.mktemp("tokens") / "scrapers.txt"
    file.touch(mode=0o600)
    return make_app(make_site(shown.workspace, scrapers=Tokens(file)))


@st.composite
def requests(draw: st.DrawFn, routes: list[APIRoute]) -> tuple[str, str, dict[str, str]]:
    """Make up a request to one of the routes: method, address and headers."""
    route = draw(st.sampled_from(routes))
    path = re.sub(r"\{(\w+)(:path)?\}", lambda _: quote(draw(values).encode("utf-8", "replace")), route.path)
    names = [each.alias for each in route.dependant.query_params]
    told = {name: draw(values) for name in (*names, "lang") if draw(st.booleans())}
    query = urlencode(told, errors="replace")
    headers = {"Authorization": "Bearer x"} if draw(st.booleans()) else {}
    if draw(st.integers(0, 9)) == 0:
        headers["Cookie"] = quote(draw(values).encode("utf-8", "replace")) + "=x; sudare_lang=ja"
    return draw(st.sampled_from(METHODS)), f"{path}?{query}" if query else path, headers


def fuzz(app: FastAPI, most: int) -> dict[str, int]:
    """Send made-up requests to an app; return how often each kind of answer came, and how often it failed."""
    client = TestClient(
        app,
        base_url="http://localhost",
        client=("127.0.0.1", 1),
        raise_server_exceptions=False,
        follow_redirects=False,
    )
    seen: dict[str, int] = {}

    @settings(PLAIN, max_examples=most)
    @given(requests(routes_of(app)))
    def ask(asked: tuple[str, str, dict[str, str]]) -> None:
        method, address, headers = asked
        answer = client.request(method, address, headers=headers, content=b"token=x" if method == "POST" else None)
        policy = answer.headers.get("content-security-policy")
        kind = "failed" if answer.status_code >= 500 else str(answer.status_code // 100)
        kind = kind if policy in (POLICY, SANDBOXED) else f"{kind} without headers"
        seen[kind] = seen.get(kind, 0) + 1

    ask()
    return seen


@pytest.mark.long
def test_no_route_fails_under_made_up_requests(app: FastAPI):
    """500 requests over all routes; a good part of them reach a page."""
    assert len(routes_of(app)) > 30
    seen = fuzz(app, REQUESTS)
    assert set(seen) <= {"2", "3", "4"}, seen
    assert sum(seen.values()) >= REQUESTS // 2
    assert min(seen["2"], seen["4"]) > REQUESTS // 20


@pytest.mark.long
def test_the_fuzz_finds_a_route_that_fails():
    """The wrong case: a route that divides by a number that is asked for, and one that forgets the headers."""
    broken = FastAPI()
    broken.add_api_route("/number", lambda value: str(1 // (len(value) % 3)))
    seen = fuzz(broken, 100)
    assert seen["failed without headers"] > 0
    assert {kind for kind in seen if not kind.endswith("without headers")} == set()


@pytest.mark.long
def test_no_path_fails_however_it_is_put_together(app: FastAPI):
    """300 paths of known and of random pieces, sent as they are, without a client that tidies them up."""

    @settings(PLAIN, max_examples=PATHS)
    @given(st.lists(pieces, max_size=7))
    def ask(parts: list[str]) -> None:
        path = "/" + "/".join(parts).encode("utf-8", "replace").decode()
        status, _ = asyncio.run(sent_raw(app, path))
        assert status < 500, path

    ask()


def test_nothing_unexpected_was_written_down(app: FastAPI, shown: Shown):
    """The private log of unexpected errors is still not there after all of it."""
    log: Path = shown.workspace.private / "error.private.log"
    assert not log.exists(), log.read_text()[-2000:]
