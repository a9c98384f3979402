"""The address readers meet the site under: a login's cookie is Secure, and forms come from that address's pages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from fastapi.testclient import TestClient

from console.serve import make_site
from console.site.app import make_app
from console.site.auditors import COOKIE, Auditors, add_auditor
from console.site.public_address import PublicAddress
from contracts.errors import SpecRefused
from tests.console.conftest import Typed
from tests.console.site.conftest import Shown

PUBLIC = "https://review.example.org"
Reached = Callable[[str, str | None], TestClient]


@pytest.fixture
def token(tmp_path: Path) -> str:
    return add_auditor(tmp_path / "auditors.txt", "mika")


@pytest.fixture
def reached(shown: Shown, token: str, tmp_path: Path) -> Iterator[Reached]:
    """Reach a site at a Host, by plain HTTP as from a proxy; with or without a public address."""
    made = []

    def reach(host: str, public: str | None) -> TestClient:
        address = None if public is None else PublicAddress.read(public)
        listening = urlsplit(f"//{host}").hostname or ""
        site = make_site(shown.workspace, Auditors(tmp_path / "auditors.txt"), address, listening=listening)
        made.append(site)
        return TestClient(make_app(site), base_url=f"http://{host}", follow_redirects=False)

    yield reach
    for each in made:
        each.view.close()


def _secure(cookie: str) -> bool:
    assert cookie.startswith(f"{COOKIE}=")
    return "Secure" in [part.strip() for part in cookie.split(";")]


@pytest.mark.parametrize(
    ("host", "public", "secure"),
    [
        ("review.example.org", None, True),
        ("192.0.2.7:8350", None, True),
        ("localhost.example.org", None, True),
        ("127.0.0.1.example.org", None, True),
        ("[2001:db8::1]:8350", None, True),
        ("localhost", None, False),
        ("localhost:8350", None, False),
        ("127.0.0.1:8350", None, False),
        ("[::1]:8350", None, False),
        ("127.0.0.1:8350", PUBLIC, True),
        ("review.example.org", PUBLIC, True),
    ],
)
def test_a_login_s_cookie_is_secure_unless_the_browser_is_on_this_machine(
    reached: Reached, token: str, host: str, public: str | None, secure: bool
) -> None:
    """A proxy with TLS speaks plain HTTP to the site: the scheme that the site sees says nothing."""
    client = reached(host, public)
    answer = client.post("/login", data={"token": token})
    assert answer.status_code == 303
    assert _secure(answer.headers["set-cookie"]) is secure
    assert _secure(client.post("/logout").headers["set-cookie"]) is secure


def test_a_proxy_that_rewrites_host_keeps_nobody_from_logging_in(reached: Reached, token: str) -> None:
    """And pages of that other Host, or of any other site, do not log in."""
    client = reached("127.0.0.1:8350", PUBLIC)
    for origin, status in (
        (PUBLIC, 303),
        ("https://review.example.org:8443", 400),
        ("http://review.example.org", 400),
        ("http://127.0.0.1:8350", 400),
        ("https://evil.example", 400),
        ("null", 400),
        ("", 400),
    ):
        answer = client.post("/login", data={"token": token}, headers={"Origin": origin})
        assert answer.status_code == status, origin
    for told in (
        {"Origin": PUBLIC, "Sec-Fetch-Site": "cross-site"},
        {"Origin": "https://evil.example", "Sec-Fetch-Site": "same-origin"},
        {"Origin": "https://evil.example", "Sec-Fetch-Site": "none"},
    ):
        assert client.post("/login", data={"token": token}, headers=told).status_code == 400
        assert client.post("/logout", headers=told).status_code == 400


def test_without_a_public_address_forms_come_from_pages_of_the_host(reached: Reached, token: str) -> None:
    client = reached("review.example.org", None)
    for origin, status in (("https://review.example.org", 303), ("https://evil.example", 400)):
        assert client.post("/login", data={"token": token}, headers={"Origin": origin}).status_code == status


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        (PUBLIC, PUBLIC),
        ("https://Review.Example.org:443/", PUBLIC),
        ("https://review.example.org:8443", "https://review.example.org:8443"),
        ("https://[2001:DB8::1]", "https://[2001:db8::1]"),
    ],
)
def test_an_origin_is_written_as_browsers_tell_it(url: str, origin: str) -> None:
    assert PublicAddress.read(url).origin == origin


@pytest.mark.parametrize(
    "url",
    [
        *("", "review.example.org", "http://review.example.org", "https://", "https://a b.example", "https://[::1"),
        *(f"{PUBLIC}/below", f"{PUBLIC}?a=1", f"{PUBLIC}#a", "https://mika@review.example.org", f"{PUBLIC}:x"),
    ],
)
def test_what_no_browser_would_tell_is_refused(url: str) -> None:
    with pytest.raises(SpecRefused, match="--public-url"):
        PublicAddress.read(url)


def test_the_command_refuses_it_and_says_what_is_allowed(shown: Shown, typed: Typed) -> None:
    said = typed("serve", "--public-url", "http://review.example.org", at=shown.workspace)
    assert said.code == 2
    assert "such as https://review.example.org" in said.err
