"""Who sees the auditor rendering: holders of a token, or whom a trusted proxy names; and nobody else by any way."""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient

from console.site.auditors import COOKIE, Auditors, AuditorsRefused, TrustedProxy, add_auditor
from privacy.evaluation.cells import EncodedRows
from privacy.evaluation.scores import compare
from tasks.evaluation.private_files import write_scores
from tests.console.site.conftest import Shown

WithAuditors = Callable[[Auditors], TestClient]
BASE = "/releases/adult-tables/v3"
RECORD = "record.auditor.json"


@pytest.fixture
def tokens(tmp_path: Path) -> tuple[Path, str]:
    file = tmp_path / "auditors.txt"
    return file, add_auditor(file, "mika")


@pytest.fixture(scope="module")
def private(shown: Shown) -> str:
    """A full record and scores of adult-tables v3 in the private folder; returns what must not be seen."""
    secret = "the exact count is 48842"
    folder = shown.workspace.records / "adult-tables" / "v3"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / RECORD).write_text(f'{{"secret": "{secret}"}}')
    (folder / "record.auditor.html").write_text(f"<!DOCTYPE html><title>x</title><p>{secret}</p>")
    rows = EncodedRows(("a", "b"), (2, 2), np.array([[0, 1], [1, 0], [1, 1]]))
    scores = compare(rows, rows, degrees=(1,), accuracies={})
    write_scores(scores, shown.workspace, release="adult-tables", version=3, at=datetime(2026, 1, 2, tzinfo=UTC))
    return secret


def logged_in(client: TestClient, token: str) -> str:
    """Log in; return the session's secret, which the client sends from now on."""
    answer = client.post("/login", data={"token": token}, headers={"Origin": "http://localhost"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/auditor")
    cookie = answer.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= {part.strip() for part in cookie.split(";")}
    return client.cookies[COOKIE]


def test_the_file_keeps_hashes_only_and_its_owner_alone_may_read_it(tokens: tuple[Path, str]) -> None:
    file, token = tokens
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert file.read_text() == f"mika {hashlib.sha256(token.encode()).hexdigest()}\n"
    assert len(token) >= 43  # 256 bits in base64
    with pytest.raises(AuditorsRefused, match="one token each"):
        add_auditor(file, "mika")
    with pytest.raises(AuditorsRefused, match="letters, digits"):
        add_auditor(file, "mika\nnobody")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o644])
def test_a_file_that_others_can_read_or_change_is_refused(tokens: tuple[Path, str], mode: int) -> None:
    tokens[0].chmod(mode)
    with pytest.raises(AuditorsRefused, match=r"chmod 600"):
        Auditors(tokens[0])


@pytest.mark.parametrize("line", ["mika", "mika 1234", f"mika {'g' * 64}", f"../x {'a' * 64}"])
def test_a_line_of_another_form_is_named(tmp_path: Path, line: str) -> None:
    file = tmp_path / "auditors.txt"
    file.write_text(f"# auditors\n{line}\n")
    file.chmod(0o600)
    with pytest.raises(AuditorsRefused, match=r"auditors.txt:2"):
        Auditors(file)


def test_a_token_opens_what_auditors_see(
    with_auditors: WithAuditors, tokens: tuple[Path, str], private: str, shown: Shown
) -> None:
    """Refused runs, sources, the full record in a sandbox, and scores; none of it may be stored on the way."""
    client = with_auditors(Auditors(tokens[0]))
    logged_in(client, tokens[1])
    page = client.get("/auditor")
    assert "secret-gate" in page.text
    assert page.headers["cache-control"] == "no-store"
    assert client.get("/api/journal", params={"kind": "gate_failed"}).json()["entries"][0]["says"]["release"]
    assert str(shown.place.adult) in client.get("/account", params={"name": "adult-1994"}).text
    tab = client.get(f"{BASE}/auditor").text
    assert f"{BASE}/auditor/record/{RECORD}" in tab
    record = client.get(f"{BASE}/auditor/record/{RECORD}")
    assert private in record.text
    assert record.headers["cache-control"] == "no-store"
    html = client.get(f"{BASE}/auditor/record/record.auditor.html")
    assert html.headers["content-security-policy"].startswith("sandbox")
    assert client.get(f"{BASE}/auditor/scores/20260102T000000Z/scores.json").json()["class"] == "private"
    assert client.get(f"{BASE}/auditor/scores/20260102T000000Z/scores.html").status_code == 200


@pytest.mark.services
def test_without_a_session_nothing_more_is_seen_than_where_nobody_is_an_auditor(
    with_auditors: WithAuditors, tokens: tuple[Path, str], private: str, client: TestClient
) -> None:
    """But for the link to the login, pages and answers are those of a site without auditors."""
    stranger = with_auditors(Auditors(tokens[0], TrustedProxy.read("X-Auditor", "10.1.2.3")))
    hidden = ("/auditor", "/api/auditor", f"{BASE}/auditor", f"{BASE}/auditor/record/{RECORD}")
    for path in (*hidden, f"{BASE}/auditor/scores/20260102T000000Z/scores.json"):
        for told in ({}, {"X-Auditor": "mika"}, {"Cookie": f"{COOKIE}=x"}, {"Authorization": f"Bearer {tokens[1]}"}):
            assert stranger.get(path, headers=told).status_code == 404, path
    for path in ("/journal", "/journal?kind=gate_failed", f"{BASE}", f"{BASE}/files", "/account?name=adult-1994"):
        ours, theirs = stranger.get(f"/api{path}"), client.get(f"/api{path}")
        assert _without_times(ours.json()) == _without_times(theirs.json()), path
        page = stranger.get(path).text.replace(' · <a href="/login">Auditors</a>', "")
        assert private not in page
        assert "auditor" not in page.lower()


def _without_times(told: dict[str, object]) -> dict[str, object]:
    return {key: value for key, value in told.items() if key not in ("verification", "forecast", "forecast_state")}


@pytest.mark.parametrize("token", ["", "x", "mika", "é", "a" * 5000, "x\x00"])
def test_a_wrong_token_opens_nothing(with_auditors: WithAuditors, tokens: tuple[Path, str], token: str) -> None:
    client = with_auditors(Auditors(tokens[0]))
    for wrong in (token, tokens[1] + token if token else tokens[1][:-1], tokens[0].read_text().split()[1]):
        answer = client.post("/login", data={"token": wrong})
        assert answer.status_code in (400, 403)
        assert "set-cookie" not in answer.headers
    assert client.get("/auditor").status_code == 404


def test_a_session_ends_by_leaving_and_when_the_line_is_deleted(
    with_auditors: WithAuditors, tokens: tuple[Path, str]
) -> None:
    file, token = tokens
    client = with_auditors(Auditors(file))
    secret = logged_in(client, token)
    kept = {"Cookie": f"{COOKIE}={secret}"}
    assert client.get("/auditor", headers=kept).status_code == 200
    assert client.post("/logout").status_code == 303
    client.cookies.clear()
    assert client.get("/auditor", headers=kept).status_code == 404
    kept = {"Cookie": f"{COOKIE}={logged_in(client, token)}"}
    client.cookies.clear()
    file.write_text("")
    assert client.get("/auditor", headers=kept).status_code == 404
    file.write_text(f"mika {hashlib.sha256(token.encode()).hexdigest()}\n")
    file.chmod(0o644)
    assert client.get("/auditor", headers=kept).status_code == 404


def test_another_site_can_log_nobody_in(with_auditors: WithAuditors, tokens: tuple[Path, str]) -> None:
    """Nor out: the cookie of the session is never sent from elsewhere (SameSite=Strict)."""
    client = with_auditors(Auditors(tokens[0]))
    for told in (
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site", "Origin": "http://testserver"},
        {"Sec-Fetch-Site": "same-site"},
    ):
        assert client.post("/login", data={"token": tokens[1]}, headers=told).status_code == 400


def test_a_proxy_s_header_is_believed_from_its_address_only(shown: Shown, with_auditors: WithAuditors) -> None:
    auditors = Auditors(None, TrustedProxy.read("X-Auditor", "10.1.2.3"))
    app = with_auditors(auditors).app
    for address, header, status in (
        ("10.1.2.3", "mika", 200),
        ("::ffff:10.1.2.3", "mika", 200),
        ("10.1.2.3", "", 404),
        ("10.1.2.3", "a b", 404),
        ("10.1.2.4", "mika", 404),
        ("testclient", "mika", 404),
    ):
        client = TestClient(app, base_url="http://localhost", client=(address, 5))
        assert client.get("/auditor", headers={"X-Auditor": header}).status_code == status, (address, header)
    forwarded = {"X-Auditor": "mika", "X-Forwarded-For": "10.1.2.3", "Forwarded": "for=10.1.2.3"}
    others, proxy = (
        TestClient(app, base_url="http://localhost", client=(address, 5)) for address in ("10.1.2.4", "10.1.2.3")
    )
    assert others.get("/auditor", headers=forwarded).status_code == 404
    assert proxy.get("/login").status_code == 404


def test_of_a_header_that_comes_twice_nobody_is_believed(with_auditors: WithAuditors) -> None:
    """The proxy appends its own to what a reader sent: neither is its word alone. Stores on the way are told."""
    app = with_auditors(Auditors(None, TrustedProxy.read("X-Auditor", "10.1.2.3"))).app
    client = TestClient(app, base_url="http://localhost", client=("10.1.2.3", 5))
    for names in (("mika", "eve"), ("mika", "mika"), ("mika", ""), ("", "mika")):
        twice = [("X-Auditor", name) for name in names]
        assert client.get("/auditor", headers=twice).status_code == 404, names
    answer = client.get("/auditor", headers=[("X-Auditor", "mika")])
    assert answer.status_code == 200
    for path in ("/", "/auditor", "/api/releases", f"{BASE}/files/record.json", "/nowhere"):
        assert client.get(path).headers["vary"] == "Cookie, x-auditor", path


def test_without_a_proxy_answers_vary_by_cookie_alone(with_auditors: WithAuditors, tokens: tuple[Path, str]) -> None:
    assert with_auditors(Auditors(tokens[0])).get("/").headers["vary"] == "Cookie"


@pytest.mark.parametrize(
    ("header", "address"), [("X Auditor", "10.1.2.3"), ("X-Auditor", "proxy.example"), ("", "::1")]
)
def test_terms_of_a_proxy_that_cannot_be_meant_are_refused(header: str, address: str) -> None:
    with pytest.raises(AuditorsRefused):
        TrustedProxy.read(header, address)


def test_no_key_of_a_private_file_leads_out_of_its_folder(
    with_auditors: WithAuditors, tokens: tuple[Path, str], private: str
) -> None:
    """Even an auditor gets only the files that are listed."""
    client = with_auditors(Auditors(tokens[0]))
    logged_in(client, tokens[1])
    for key in (
        "record/../../../../keys/signing.key",
        "record/%2e%2e/%2e%2e/%2e%2e/keys/signing.key",
        "scores/20260102T000000Z/../../keys/signing.key",
        "scores/..%2f..%2fkeys/signing.key",
        "record/",
        "",
        "record",
        "scores/20260102T000000Z/scores.json/x",
    ):
        assert client.get(f"{BASE}/auditor/{key}").status_code == 404, key
