"""The site's doors: hosts, the address readers meet it under, half-open requests and HEAD."""

import socket
import time

import pytest
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient

from contracts.errors import SpecRefused
from sudare_web.serve import make_site
from sudare_web.site import server
from sudare_web.site.app import make_app
from sudare_web.site.asking import Site
from sudare_web.site.public_address import PublicAddress, is_our_host
from tests.console.conftest import Typed
from tests.extensions.sudare_web.site.conftest import Served, Shown, serving

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
):
    assert is_our_host(public, listening=listening, host=host) is known


def test_a_name_that_somebody_points_at_this_machine_reads_nothing(site: Site):
    """DNS rebinding: also static files, also for two hosts."""
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
    return make_site(shown.workspace)


@pytest.mark.services
def test_every_page_answers_head_like_get_without_a_body(served_site: Site):
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
def test_half_open_requests_are_closed_in_time(served_site: Site, monkeypatch: pytest.MonkeyPatch):
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


ADDRESS = "https://review.example.org"


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        (ADDRESS, ADDRESS),
        ("https://Review.Example.org:443/", ADDRESS),
        ("https://review.example.org:8443", "https://review.example.org:8443"),
        ("https://[2001:DB8::1]", "https://[2001:db8::1]"),
    ],
)
def test_an_origin_is_written_as_browsers_tell_it(url: str, origin: str):
    assert PublicAddress.read(url).origin == origin


@pytest.mark.parametrize(
    "url",
    [
        *("", "review.example.org", "http://review.example.org", "https://", "https://a b.example", "https://[::1"),
        *(f"{ADDRESS}/below", f"{ADDRESS}?a=1", f"{ADDRESS}#a", "https://mika@review.example.org", f"{ADDRESS}:x"),
    ],
)
def test_what_no_browser_would_tell_is_refused(url: str):
    with pytest.raises(SpecRefused, match="--public-url"):
        PublicAddress.read(url)


def test_the_command_refuses_it_and_says_what_is_allowed(shown: Shown, typed: Typed):
    said = typed("serve", "--public-url", "http://review.example.org", at=shown.workspace)
    said.assert_ended(2, "such as https://review.example.org")
