"""Who gets into the studio: one browser, one time, under its own name, by its own pages."""

from __future__ import annotations

import pytest
from fastapi.testclient import TestClient

from console.studio.app import Studio, make_app
from tests.console.studio.conftest import PORT


@pytest.fixture
def stranger(studio: Studio) -> TestClient:
    return TestClient(make_app(studio), base_url=f"http://127.0.0.1:{PORT}", follow_redirects=False)


def test_a_token_is_good_for_one_time(studio: Studio, stranger: TestClient) -> None:
    """The second use is refused in words, and a wrong token too; the first browser stays in."""
    assert stranger.get("/studio").status_code == 403
    wrong = stranger.get("/enter", params={"token": "é" + studio.keys.token})
    assert (wrong.status_code, "This is not the token" in wrong.text) == (403, True)
    first = stranger.get("/enter", params={"token": studio.keys.token})
    assert first.status_code == 200
    cookie = first.headers["set-cookie"]
    assert cookie.startswith(f"sudare_studio_{PORT}=")
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    again = TestClient(make_app(studio), base_url=f"http://127.0.0.1:{PORT}")
    second = again.get("/enter", params={"token": studio.keys.token})
    assert (second.status_code, "This address was used already" in second.text) == (403, True)
    assert "set-cookie" not in second.headers
    assert again.get("/studio").status_code == 403
    assert stranger.get("/studio").status_code == 200
    assert again.get("/enter", params={"token": studio.keys.token, "lang": "ja"}).text.count("使用済み") == 1


@pytest.mark.parametrize("path", ["/studio", "/", "/accounts", "/studio/run", "/releases/a/v1/files/b", "/enter"])
@pytest.mark.parametrize(
    "host", ["evil.example", f"evil.example:{PORT}", "127.0.0.1", "127.0.0.1:1", f"[::1]:{PORT}", ""]
)
def test_no_other_name_is_answered(client: TestClient, path: str, host: str) -> None:
    """Not even with the session: a name that was pointed here, or another port."""
    answer = client.get(path, headers={"Host": host})
    assert answer.status_code == 421
    assert "127.0.0.1 and localhost" in answer.text


def test_nothing_is_told_without_the_session(stranger: TestClient, studio: Studio) -> None:
    """The review site behind the same door included; a guessed cookie is none."""
    for path in ("/studio", "/", "/accounts", "/journal", "/api/releases", "/static/site.css", "/health"):
        assert stranger.get(path).status_code == 403, path
    stranger.cookies.set(studio.keys.cookie, "x")
    assert stranger.get("/studio").status_code == 403


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
def test_what_another_page_sends_does_nothing(client: TestClient, studio: Studio, headers: dict[str, str]) -> None:
    """A form or script of another page has the cookie in vain: no file is written, no run started."""
    body = b'[{"name": "made.yaml", "text": "release: x"}]'
    sent = {"Content-Type": "application/json", **headers}
    assert client.post("/studio/save", content=body, headers=sent).status_code == 403
    assert client.post("/studio/run", content=b'{"spec": "tables.yaml"}', headers=sent).status_code == 403
    assert client.post("/studio/workspace", content=b"{}", headers=sent).status_code == 403
    assert not (studio.folder.path / "made.yaml").exists()
    fine = client.post("/studio/save", content=body, headers={"Content-Type": "application/json"})
    assert (fine.status_code, (studio.folder.path / "made.yaml").read_text()) == (200, "release: x")


def test_every_answer_keeps_scripts_and_stores_out(client: TestClient) -> None:
    answer = client.get("/studio")
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'; script-src 'self'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert "script-src" not in client.get("/").headers["content-security-policy"]
