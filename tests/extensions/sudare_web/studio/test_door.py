"""Who gets into the studio: one browser, one time, under its own name, by its own pages."""

import http.server
import re
import threading
import urllib.request
from collections.abc import Iterator
from http.cookiejar import CookieJar
from pathlib import Path

import httpx
import pytest
from fastapi.testclient import TestClient
from playwright.sync_api import Browser

import sudare_web.site
from sudare_web.studio.app import Studio, make_app
from tests.extensions.sudare_web.studio.conftest import PORT, Open, opened
from tests.worlds.browsers import LONG

READ = ("/studio", "/studio?spec=tables.yaml", "/studio/run", "/", "/accounts", "/journal", "/api/releases")
WRITTEN = b'[{"name": "made.yaml", "text": "release: x"}]'


@pytest.fixture
def stranger(studio: Studio) -> TestClient:
    return TestClient(make_app(studio), base_url=f"http://127.0.0.1:{PORT}", follow_redirects=False)


def test_a_token_is_good_for_one_time(studio: Studio, stranger: TestClient):
    """The second use is refused in words, and a wrong token too; the first browser stays in."""
    start = f"{studio.keys.root}/studio"
    assert stranger.get(start).status_code == 403
    wrong = stranger.get("/enter", params={"token": "é" + studio.keys.token})
    assert (wrong.status_code, "This is not the token" in wrong.text) == (403, True)
    first = stranger.get("/enter", params={"token": studio.keys.token})
    assert first.status_code == 200
    cookie = first.headers["set-cookie"]
    assert cookie.startswith(f"sudare_studio_{PORT}=")
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert f"; Path={studio.keys.root};" in cookie
    again = TestClient(make_app(studio), base_url=f"http://127.0.0.1:{PORT}")
    second = again.get("/enter", params={"token": studio.keys.token})
    assert (second.status_code, "This address was used already" in second.text) == (403, True)
    assert "set-cookie" not in second.headers
    assert studio.keys.root not in second.text
    assert again.get(start).status_code == 403
    assert stranger.get(start).status_code == 200


@pytest.mark.parametrize("path", ["/studio", "/", "/accounts", "/studio/run", "/releases/a/v1/files/b", "/enter"])
@pytest.mark.parametrize(
    "host",
    ["evil.example", f"evil.example:{PORT}", "127.0.0.1", "127.0.0.1:1", f"[::1]:{PORT}", f"localhost:{PORT}", ""],
)
def test_no_other_name_is_answered(client: TestClient, path: str, host: str):
    """Not even with the session: a name that was pointed here, or another port; localhost may be ::1."""
    answer = client.get(path, headers={"Host": host})
    assert answer.status_code == 421
    assert "127.0.0.1 alone" in answer.text


def test_nothing_is_told_without_the_session(stranger: TestClient, studio: Studio):
    """The review site behind the same door included; a guessed cookie is none. Who knows the path has no session."""
    assert stranger.get("/enter", params={"token": studio.keys.token}).status_code == 200
    stranger.cookies.clear()
    for path in (*READ, "/static/site.css", "/health", "/enter"):
        for root in ("", studio.keys.root, f"{studio.keys.root}x"):
            assert (stranger.get(root + path).status_code, root + path) == (403, root + path)
    stranger.cookies.set(studio.keys.cookie, "x")
    assert stranger.get(f"{studio.keys.root}/studio").status_code == 403
    for way in ("../run", "%2e%2e/run", "../../accounts", "x", "/studio.js/x"):
        assert stranger.get(f"/studio/static/{way}").status_code == 403


def test_the_session_opens_nothing_but_what_lies_below_the_secret_path(studio: Studio, stranger: TestClient):
    """With the cookie at hand, as a thief would have it: each address without the path is refused, writes as well."""
    stranger.get("/enter", params={"token": studio.keys.token})
    [session] = [each.value for each in stranger.cookies.jar]
    sent = {"Cookie": f"{studio.keys.cookie}={session}", "Origin": f"http://127.0.0.1:{PORT}"}
    stranger.cookies.clear()
    for path in READ:
        assert stranger.get(path, headers=sent).status_code == 403
        assert stranger.get(studio.keys.root + path, headers=sent).status_code == 200
    sent["Content-Type"] = "application/json"
    assert stranger.post("/studio/save", content=WRITTEN, headers=sent).status_code == 403
    assert not (studio.folder.path / "made.yaml").exists()
    # another server of this machine puts a cookie of the same name beside ours
    sent["Cookie"] += f"; {studio.keys.cookie}=x"
    assert stranger.get(f"{studio.keys.root}/studio", headers=sent).status_code == 200


def test_every_link_stays_below_the_secret_path(client: TestClient, studio: Studio):
    """Of the studio's page and of the review site: what a reader can click, and what a form or a frame asks for."""
    sheets = {"/studio/static/studio.css", "/studio/static/studio.js"}
    for path in ("/studio", "/studio?spec=tables.yaml", "/", "/accounts", "/account?name=adult-1994", "/journal"):
        answer = client.get(path)
        assert answer.status_code == 200, path
        found = set(re.findall(r'(?:href|src|action|data-post|data-to)="(/[^"]*)"', answer.text)) - sheets
        assert found, path
        assert [each for each in found if not each.startswith(f"{studio.keys.root}/")] == [], path
        assert answer.headers["referrer-policy"] == "no-referrer"
    assert client.get("/journal?index=0").headers["location"] == f"{studio.keys.root}/journal/0"


def test_no_link_of_the_review_site_leaves_out_the_path_before_it():
    """In every template: a link begins with the root, with a call that adds it, or stays on the page."""
    begins = ("{{ root }}/", "{{ root }}{{ ", "{{ link(", "{{ in_language(", "{{ href }}", "#", "data:")
    found = [
        (each.name, link)
        for each in sorted((Path(sudare_web.site.__file__).parent / "templates").glob("*.j2"))
        for link in re.findall(r'(?:href|action|src)="(.{0,20})', each.read_text())
    ]
    assert len(found) > 40
    assert [each for each in found if not each[1].startswith(begins)] == []


class Thief(http.server.BaseHTTPRequestHandler):
    """A server on another port of 127.0.0.1: it keeps what it is sent."""

    sent: list[tuple[str, str | None, str | None]]

    def do_GET(self) -> None:
        self.sent.append((self.path, self.headers.get("Cookie"), self.headers.get("Referer")))
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<h1>hello</h1>")

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def thief() -> Iterator[tuple[str, list[tuple[str, str | None, str | None]]]]:
    kept: list[tuple[str, str | None, str | None]] = []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("OneThief", (Thief,), {"sent": kept}))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}", kept
    server.shutdown()
    server.server_close()
    thread.join(30)


def gets_nothing(made: Open, sent: list[tuple[str, str | None, str | None]], paths: tuple[str, ...]) -> None:
    """What the thief was sent opens no page, and writes no file, though it sets Host and Origin as it likes."""
    for _, cookie, referer in sent:
        assert made.studio.keys.cookie not in (cookie or "")
        assert made.studio.keys.root not in (referer or "")
    for cookie in {cookie or "" for _, cookie, _ in sent}:
        for path in paths:
            assert httpx.get(made.url + path, headers={"Cookie": cookie}).status_code == 403
        headers = {"Cookie": cookie, "Origin": made.url, "Content-Type": "application/json"}
        assert httpx.post(f"{made.url}/studio/save", content=WRITTEN, headers=headers).status_code == 403
    assert not (made.studio.folder.path / "made.yaml").exists()


@pytest.mark.services
def test_another_port_is_not_sent_the_session(
    thief: tuple[str, list[tuple[str, str | None, str | None]]], tmp_path: Path
):
    """Cookies know no ports; a cookie jar that is in the studio sends another server nothing of it."""
    elsewhere, sent = thief
    with opened(tmp_path, None) as made:
        browsing = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
        browsing.open(made.entrance, timeout=60).close()
        assert browsing.open(f"{made.root}/studio", timeout=60).status == 200
        for path in ("/", "/studio", "/s-", "/enter"):
            browsing.open(elsewhere + path, timeout=60).close()
        assert len(sent) == 4
        gets_nothing(made, sent, READ)
        # the jar does send it wherever the path is known: it is the path that keeps it
        browsing.open(elsewhere + made.studio.keys.root + "/x", timeout=60).close()
        assert made.studio.keys.cookie in (sent[-1][1] or "")


@pytest.mark.timeout(900)
def test_another_port_is_not_sent_the_session_by_chromium(
    browser: Browser, thief: tuple[str, list[tuple[str, str | None, str | None]]], tmp_path: Path
):
    """A link on a page of the studio, a page beside it, and what that page fetches: none carries it."""
    elsewhere, sent = thief
    with opened(tmp_path, None) as made:
        context = browser.new_context()
        context.set_default_timeout(LONG)
        page = context.new_page()
        page.goto(made.entrance)
        page.wait_for_url(f"{made.root}/studio")
        beside = context.new_page()
        beside.goto(f"{elsewhere}/beside")
        ask = "to => fetch(to, {mode: 'no-cors', credentials: 'include'}).then(() => 'told', () => 'nothing')"
        assert beside.evaluate(ask, f"{made.url}/studio") == "nothing"
        page.evaluate(
            """to => { const a = document.createElement('a'); a.href = to; a.textContent = 'x';
            document.body.append(a); a.click(); }""",
            f"{elsewhere}/followed",
        )
        page.wait_for_url(f"{elsewhere}/followed")
        assert {"/beside", "/followed"} <= {path for path, _, _ in sent}
        gets_nothing(made, sent, READ)
        context.close()


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": f"http://localhost:{PORT}"},
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/x-www-form-urlencoded"},
    ],
)
def test_what_another_page_sends_does_nothing(client: TestClient, studio: Studio, headers: dict[str, str]):
    """A form or script of another page has the cookie in vain: no file is written, no run started."""
    body = WRITTEN
    sent = {"Content-Type": "application/json", **headers}
    assert client.post("/studio/save", content=body, headers=sent).status_code == 403
    assert client.post("/studio/run", content=b'{"spec": "tables.yaml"}', headers=sent).status_code == 403
    assert client.post("/studio/workspace", content=b"{}", headers=sent).status_code == 403
    assert not (studio.folder.path / "made.yaml").exists()
    fine = client.post("/studio/save", content=body, headers={"Content-Type": "application/json"})
    assert (fine.status_code, (studio.folder.path / "made.yaml").read_text()) == (200, "release: x")


def test_every_answer_keeps_scripts_and_stores_out(client: TestClient):
    answer = client.get("/studio")
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'; script-src 'self'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert "script-src" not in client.get("/").headers["content-security-policy"]
