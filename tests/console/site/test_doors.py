"""The site's doors: hosts, half-open requests, HEAD, failed logins, and what is written down of auditors."""

from __future__ import annotations

import json
import socket
import stat
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient

from console.serve import make_site
from console.site import server
from console.site.access_log import MOST_FAILURES, WINDOW_SECONDS, AccessLog
from console.site.app import make_app
from console.site.asking import Site
from console.site.auditors import Auditors, TrustedProxy, add_auditor
from console.site.public_address import PublicAddress, is_our_host
from tests.console.site.conftest import Served, Shown, serving

PUBLIC = PublicAddress("https://review.example.org")


@pytest.mark.parametrize(
    ("host", "listening", "public", "known"),
    [
        ("localhost:8350", "127.0.0.1", None, True),
        ("127.0.0.1:8350", "127.0.0.1", None, True),
        ("127.8.9.1", "127.0.0.1", None, True),
        ("[::1]:8350", "::1", None, True),
        ("evil.example", "127.0.0.1", None, False),
        ("evil.example:8350", "127.0.0.1", PUBLIC, False),
        ("localhost.evil.example", "127.0.0.1", None, False),
        ("127.0.0.1.evil.example", "127.0.0.1", None, False),
        ("192.0.2.7:8350", "127.0.0.1", None, False),
        ("192.0.2.7:8350", "192.0.2.7", None, True),
        ("192.0.2.7:8350", "0.0.0.0", None, True),
        ("[2001:db8::1]:8350", "::", None, True),
        ("evil.example", "0.0.0.0", None, False),
        ("review.example.org", "0.0.0.0", PUBLIC, True),
        ("REVIEW.example.org:443", "127.0.0.1", PUBLIC, True),
        ("statistics.internal", "statistics.internal", None, True),
        ("", "127.0.0.1", None, False),
        (None, "127.0.0.1", None, False),
        ("mika@localhost", "127.0.0.1", None, False),
        ("localhost/below", "127.0.0.1", None, False),
        ("localhost:99999", "127.0.0.1", None, False),
        ("[::1", "127.0.0.1", None, False),
    ],
)
def test_a_host_is_the_site_s_or_is_refused(
    host: str | None, listening: str, public: PublicAddress | None, known: bool
) -> None:
    assert is_our_host(public, listening=listening, host=host) is known


def test_a_name_that_somebody_points_at_this_machine_reads_nothing(site: Site) -> None:
    """DNS rebinding: also pages that a trusted proxy's header would open, also static files, also for two hosts."""
    app = make_app(site)
    for path in ("/", "/api/releases", "/api/accounts", "/static/site.css", "/health", "/nowhere"):
        answer = TestClient(app, base_url="http://evil.example:8350").get(path)
        assert answer.status_code == 421, path
        assert "--public-url" in answer.text
        assert answer.headers["content-security-policy"]
    twice = [("Host", "localhost"), ("Host", "evil.example")]
    assert TestClient(app, base_url="http://localhost").get("/", headers=twice).status_code == 421


@pytest.fixture
def served_site(shown: Shown) -> Site:
    """A site of one test: a server that stops closes its site, and all tests share the other one."""
    return make_site(shown.workspace, None)


@pytest.mark.services
def test_every_page_answers_head_like_get_without_a_body(served_site: Site) -> None:
    """Every route that can be read has it; what is sent has no body."""
    app = make_app(served_site)
    reading = [route for route in app.routes if isinstance(route, APIRoute) and "GET" in (route.methods or ())]
    assert len(reading) > 20
    assert all("HEAD" in (route.methods or ()) for route in reading)
    with serving(served_site) as served:
        for path in ("/", "/api/releases", "/accounts", "/journal", "/robots.txt"):
            head = exchanged(served, f"HEAD {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            got = exchanged(served, f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200")
            assert head.endswith(b"\r\n\r\n")
            assert not got.endswith(b"\r\n\r\n")


def exchanged(served: Served, sent: str) -> bytes:
    """Send bytes to the site and read until it closes the connection."""
    with opened(served) as connection:
        connection.sendall(sent.encode())
        return b"".join(iter(lambda: connection.recv(1 << 16), b""))


def opened(served: Served) -> socket.socket:
    host, port = served.url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=120)


@pytest.mark.services
def test_half_open_requests_are_closed_in_time(served_site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing sent, a head in drops, a second head on a connection that was answered; a whole one is served."""
    monkeypatch.setattr(server, "REQUEST_SECONDS", 1.0)
    answered = "GET /robots.txt HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with serving(served_site) as served:
        for first in ("", "GET / HTTP/1.1\r\nHost: loc", answered + "GET / HTTP/1.1\r\n"):
            began, got = time.monotonic(), b""  # before the site begins to wait
            with opened(served) as connection:
                connection.sendall(first.encode())
                while piece := dripped(connection, drip=bool(first)):
                    got += piece
                assert 0.9 < time.monotonic() - began < 60
                assert got.count(b"HTTP/1.1 200") == first.count("\r\n\r\n")
        with opened(served) as patient:
            for _ in range(3):  # slow between requests is no fault: that is what idle connections are for
                patient.sendall(answered.encode())
                got = b""
                while not got.endswith(b"Disallow: /\n"):
                    piece = patient.recv(1 << 16)
                    assert piece
                    got += piece
                assert got.startswith(b"HTTP/1.1 200")
                time.sleep(0.6)


def dripped(connection: socket.socket, *, drip: bool) -> bytes:
    """Send one more byte of a head now and then, and return what comes; nothing once the site has closed."""
    connection.settimeout(0.2)
    while True:
        try:
            return connection.recv(1 << 16)
        except TimeoutError:
            if drip:
                try:
                    connection.sendall(b"x")
                except OSError:
                    return b""
        except ConnectionResetError:
            return b""


WithAuditors = Callable[[Auditors], TestClient]


def test_logins_and_what_auditors_read_are_written_down(
    shown: Shown, with_auditors: WithAuditors, tmp_path: Path
) -> None:
    """One private line each: who, from where, what. No token stands in it."""
    folder = shown.workspace.records / "adult-tables" / "v2"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "record.auditor.json").write_text("{}")
    token = add_auditor(tmp_path / "auditors.txt", "mika")
    client = with_auditors(Auditors(tmp_path / "auditors.txt", TrustedProxy.read("X-Auditor", "10.1.2.3")))
    path = "/releases/adult-tables/v2/auditor/record/record.auditor.json"
    assert client.get(path).status_code == 404
    assert client.post("/login", data={"token": "wrong"}).status_code == 403
    assert client.post("/login", data={"token": token}).status_code == 303
    assert client.get(path).status_code == 200
    assert client.post("/logout").status_code == 303
    log = shown.workspace.private / "site-access.log"
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    lines = [json.loads(line) for line in log.read_text().splitlines()][-4:]
    assert [line["event"] for line in lines] == ["login_failed", "login", "read", "logout"]
    assert [line.get("auditor") for line in lines] == [None, "mika", "mika", "mika"]
    assert lines[2]["path"] == path
    assert token not in log.read_text()


def test_wrong_tokens_are_limited_and_lock_nobody_out(with_auditors: WithAuditors, tmp_path: Path) -> None:
    token = add_auditor(tmp_path / "auditors.txt", "mika")
    client = with_auditors(Auditors(tmp_path / "auditors.txt"))
    answers = [
        client.post("/login", data={"token": f"wrong {turn}"}).status_code for turn in range(MOST_FAILURES + 3)
    ]
    assert answers == [403] * MOST_FAILURES + [429] * 3
    assert client.post("/login", data={"token": token}).status_code == 303


def test_the_limit_is_of_an_address_and_of_a_minute(tmp_path: Path) -> None:
    """Beyond it nothing more is written, so that nobody can fill the disk."""
    now = [0.0]
    log = AccessLog(tmp_path / "log", clock=lambda: now[0])
    assert [log.failed("192.0.2.1") for _ in range(MOST_FAILURES + 2)] == [False] * MOST_FAILURES + [True] * 2
    assert not log.failed("192.0.2.2")
    now[0] = WINDOW_SECONDS + 1
    assert not log.failed("192.0.2.1")
    assert len((tmp_path / "log").read_text().splitlines()) == MOST_FAILURES + 2
