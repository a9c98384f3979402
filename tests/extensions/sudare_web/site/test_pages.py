"""The pages for everybody: what they show, that they only read, and that nothing private or half-made is on them."""

import asyncio
import hashlib
import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from fastapi.testclient import TestClient

from privacy.ledger.entries import RUN_KINDS
from privacy.ledger.journal.merkle import root_from_proof
from sudare_web.serve import make_site
from sudare_web.site.app import make_app
from sudare_web.site.asking import Site
from sudare_web.site.guard import POLICY
from sudare_web.site.version import folder_of, people_of, verified
from tasks.records.page.language import languages, page_name
from tests.console.conftest import Place
from tests.console.test_statistics_plans import NAME, twice  # noqa: F401 - it is a fixture
from tests.extensions.sudare_web.site.conftest import REASON, SCRIPT, Shown, answered, copied

ACCOUNT = "adult-1994"
PAGES = (
    "/",
    "/?q=adult&status=published",
    "/releases/adult-tables",
    "/releases/adult-tables/v3",
    "/releases/adult-tables/v3/record",
    "/releases/adult-tables/v3/tables",
    "/releases/adult-tables/v3/files",
    "/releases/adult-tables/v3/verify",
    "/releases/adult-tables/compare?first=1&second=3",
    "/releases/adult-old/v1",
    "/accounts",
    f"/account?name={ACCOUNT}",
    "/journal",
    "/journal?kind=version_published",
    "/journal?release=adult-tables",
    f"/journal?account={ACCOUNT}&kind=noise_drawn",
    "/journal/0",
    "/journal/3",
    "/checkpoints",
    "/health",
)


class Outline(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def outline(html: str) -> Outline:
    read = Outline()
    read.feed(html)
    return read


@pytest.mark.services
@pytest.mark.parametrize("language", languages())
@pytest.mark.parametrize("path", PAGES)
def test_every_page_answers_in_each_language_with_one_heading_and_landmarks(
    client: TestClient, path: str, language: str
):
    """Each page has one h1, a main part, a labelled navigation, a title and its language; no script and no style."""
    answer = client.get(path, params={**_query(path), "lang": language})
    assert answer.status_code == 200, path
    page = outline(answer.text)
    assert [len(page.named(tag)) for tag in ("h1", "main", "title")] == [1, 1, 1]
    assert page.named("html") == [{"lang": language}]
    assert all("aria-label" in each for each in page.named("nav"))
    assert page.named("script") == page.named("style") == []
    assert [
        name for _, attributes in page.tags for name in attributes if name.startswith("on") or name == "style"
    ] == []
    fields = [each for tag in ("input", "select") for each in page.named(tag)]
    assert len(page.named("label")) >= len(fields)


def _query(path: str) -> dict[str, str]:
    return dict(part.split("=") for part in path.partition("?")[2].split("&") if part)


@pytest.mark.parametrize("path", PAGES)
def test_every_answer_carries_the_headers_and_no_reader_can_change_anything(client: TestClient, path: str):
    answer = client.get(path)
    assert answer.headers["content-security-policy"] == POLICY
    assert "script-src" not in POLICY
    assert POLICY.startswith("default-src 'none'; style-src 'self'; img-src 'self' data:;")
    assert "frame-ancestors 'none'" in POLICY
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        assert client.request(method, path).status_code == 405


@pytest.mark.long
def test_links_lead_somewhere(client: TestClient):
    """Every link of every page answers: nothing is 404 and nothing leads off the site."""
    found = {
        each["href"]
        for path in PAGES
        for each in outline(client.get(path).text).named("a")
        if each["href"] and not each["href"].startswith("#")
    }
    assert {"/accounts", "/journal", "/checkpoints"} <= found
    assert [href for href in found if href and not href.startswith("/")] == []
    assert [href for href in sorted(filter(None, found)) if client.get(href).status_code >= 400] == []


def test_text_of_a_contract_and_of_a_journal_entry_is_text(client: TestClient):
    """A contract's title and a withdrawal's reason that hold a script are shown with their angle brackets."""
    page = client.get("/releases/adult-old/v1").text
    assert SCRIPT not in page
    assert page.count("&lt;script&gt;") >= 2
    assert REASON in client.get("/api/releases/adult-old/v1").json()["journal"]["withdrawn"]["reason"]
    assert SCRIPT not in client.get("/journal").text


def test_a_search_that_is_shown_again_is_text(client: TestClient):
    answer = client.get("/", params={"q": f'"{SCRIPT}'})
    assert answer.status_code == 200
    assert "<script" not in answer.text


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"unit.unit": "row", "unit.adjacency": "add_remove"},
        {"unit.adjacency": "add_remove", "unit.unit": "row", "guarantee.largest_attribute": []},
        {
            **{"unit.adjacency": "add_remove", "unit.unit": "row", "guarantee.epsilon": "x", "guarantee.delta": "0"},
            "guarantee.largest_attribute": {"column": "a", "epsilon": "1", "delta": "0"},
        },
    ],
)
def test_a_record_that_says_no_loss_has_no_sentence_about_people(values: dict[str, Any]):
    """Whoever wrote the folder wrote the record; the page of it is shown all the same."""
    assert people_of(values) is None


def test_a_version_begins_with_the_sentence_of_its_record(client: TestClient):
    """The same words and numbers as in record.html, in each language."""
    for language in languages():
        page = client.get("/releases/adult-tables/v3", params={"lang": language}).text
        record = client.get(f"/releases/adult-tables/v3/files/{page_name(language)}").text
        [sentence], [own] = (re.findall(r'<p class="lede people">(.*?)</p>', each) for each in (page, record))
        assert re.sub(r"<[^>]+>", "", sentence) == re.sub(r"<[^>]+>", "", own)
        assert "100" in sentence


def test_a_version_is_shown_with_its_guarantee_its_cost_and_its_status(client: TestClient):
    told = client.get("/api/releases/adult-tables/v2").json()
    assert (told["facts"]["epsilon"], told["facts"]["account"], told["status"]) == ("0.5", ACCOUNT, "superseded")
    assert [table["name"] for table in told["tables"]] == [
        "education_x_income",
        "age",
        "marital-status_x_sex_x_income",
    ]
    assert 'href="/releases/adult-tables/v3">v3</a>' in client.get("/releases/adult-tables/v2").text


def test_every_file_is_served_as_it_was_published_and_nothing_else_is(client: TestClient, shown: Shown):
    """The bytes hash to what the page says; a path that is no listed name is not there, however it is written."""
    base = "/releases/adult-tables/v3"
    listed = client.get(f"/api{base}/files").json()["files"]
    assert {"MANIFEST.json", "PROOF.json", "record.html", "data/age.parquet"} <= {each["name"] for each in listed}
    for each in listed:
        answer = client.get(f"{base}/files/{each['name']}")
        assert answer.status_code == 200
        if each["sha256"] is not None:
            assert hashlib.sha256(answer.content).hexdigest() == each["sha256"]
            assert (
                client.get(
                    f"{base}/files/{each['name']}", headers={"If-None-Match": f'"{each["sha256"]}"'}
                ).status_code
                == 304
            )
    private = shown.workspace.private / "keys" / "signing.key"
    assert private.is_file()
    for name in _traversals():
        status, content = asyncio.run(sent_raw(client.app, f"{base}/files/{name}"))
        assert status == 404, name
        assert private.read_bytes() not in content


async def sent_raw(app: Any, path: str) -> tuple[int, bytes]:
    """Send a path as it is written: a client would tidy up its dots first."""
    scope = {"type": "http", "method": "GET", "path": unquote(path), "raw_path": path.encode(), "query_string": b""}
    scope |= {
        "headers": [(b"host", b"localhost")],
        "scheme": "http",
        "server": ("here", 80),
        "client": ("127.0.0.1", 1),
        "root_path": "",
    }
    messages: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        messages.append(message)

    await app(scope, receive, send)
    return messages[0]["status"], b"".join(message.get("body", b"") for message in messages[1:])


def _traversals() -> Iterator[str]:
    target = ".sudare/keys/signing.key"
    for dots in ("..", "%2e%2e", "%2e.", "..%2f..", "%252e%252e"):
        for depth in (1, 3, 4, 8):
            yield f"{dots}/" * depth + target
    yield from (
        "/etc/passwd",
        "%2fetc%2fpasswd",
        "data/../../../sudare.toml",
        "data%00",
        "record.json/",
        "data",
        ".",
        "./record.json",
    )
    yield from ("data/..%2f..%2f..%2f..%2fsudare.toml", "..\\..\\sudare.toml", "record.json%00.html")


def test_a_record_is_shown_in_a_sandbox_without_an_origin(client: TestClient):
    """The record's own page may style itself and show its pictures, and can do nothing else."""
    answer = client.get("/releases/adult-tables/v3/files/record.html")
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("sandbox allow-downloads; default-src 'none'")
    assert "script" not in policy
    [frame] = outline(client.get("/releases/adult-tables/v3/record").text).named("iframe")
    assert frame["sandbox"] == "allow-downloads"


@pytest.mark.services
def test_a_link_in_the_store_leads_nowhere(shown: Shown, tmp_path: Path):
    """Whoever can write into the store cannot make the site read another file: links are not followed."""
    workspace = copied(shown.workspace, tmp_path / "w")
    folder = workspace.releases / "adult-tables" / "v3"
    for name in ("record.json", "data/age.parquet"):
        (folder / name).unlink()
        (folder / name).symlink_to(workspace.private / "keys" / "signing.key")
    (workspace.releases / "adult-tables" / "v2" / "data").rename(tmp_path / "data")
    (workspace.releases / "adult-tables" / "v2" / "data").symlink_to(tmp_path / "data")
    client = TestClient(make_app(make_site(workspace)), base_url="http://localhost")
    assert client.get("/releases/adult-tables/v3/files/record.json").status_code == 404
    assert client.get("/releases/adult-tables/v3/files/data/age.parquet").status_code == 404
    assert client.get("/releases/adult-tables/v2/files/data/age.parquet").status_code == 404
    assert client.get("/releases/adult-tables/v3").status_code == 200


def test_a_manifest_that_is_not_the_published_one_hides_the_folder(shown: Shown, tmp_path: Path):
    workspace = copied(shown.workspace, tmp_path / "w")
    manifest = workspace.releases / "adult-tables" / "v3" / "MANIFEST.json"
    manifest.chmod(0o644)
    manifest.write_bytes(manifest.read_bytes() + b"\n")
    client = TestClient(make_app(make_site(workspace)), base_url="http://localhost")
    assert "not the one that was published" in client.get("/releases/adult-tables/v3").text
    assert client.get("/releases/adult-tables/v3/files/record.json").status_code == 404


def test_a_version_whose_folder_is_gone_is_named_and_nothing_of_it_is_offered(shown: Shown, tmp_path: Path):
    workspace = copied(shown.workspace, tmp_path / "w")
    (workspace.releases / "adult-tables" / "v3").rename(tmp_path / "elsewhere")
    client = TestClient(make_app(make_site(workspace)), base_url="http://localhost")
    page = client.get("/releases/adult-tables/v3")
    assert (page.status_code, client.get("/releases/adult-tables/v3/verify").status_code) == (200, 404)
    assert "not in this store" in page.text
    assert "not in this store" in client.get("/releases/adult-tables").text


def test_a_version_that_is_just_being_published_is_not_there_yet(shown: Shown, tmp_path: Path):
    """Between the journal's entry and the rename of its folder a reader sees the version before it, and no half."""
    workspace = copied(shown.workspace, tmp_path / "w")
    folder = workspace.releases / "adult-tables" / "v3"
    folder.rename(folder.with_name(".staging-v3"))
    client = TestClient(make_app(make_site(workspace)), base_url="http://localhost")
    assert client.get("/releases/adult-tables/v3").status_code == 404
    assert [each["version"] for each in client.get("/api/releases/adult-tables").json()["versions"]] == [2, 1]
    listed = {each["release"]: each for each in client.get("/api/releases").json()["releases"]}
    assert listed["adult-tables"]["newest"]["version"] == 2


def test_a_preview_is_the_beginning_of_the_table(client: TestClient):
    told = client.get("/api/releases/adult-tables/v3/tables", params={"file": "data/age.parquet"}).json()["preview"]
    assert told["columns"] == ["age", "count", "lower", "upper"]
    assert (told["rows"], len(told["cells"]), told["cells"][0][0]) == (15, 15, "17 to 19")
    assert client.get("/releases/adult-tables/v3/tables", params={"file": "record.json"}).status_code == 404


@pytest.mark.services
@pytest.mark.timeout(900)
def test_verification_is_live_and_notices_a_changed_file(shown: Shown, site: Site, tmp_path: Path):
    """An untouched version holds; one flipped byte later the same page says that it does not, and names the file."""
    good = answered(lambda: verified(site, folder_of(site, "adult-tables", 3)))
    assert (good.state, good.value["ok"]) == ("done", True)
    workspace = copied(shown.workspace, tmp_path / "w")
    other = make_site(workspace)
    client = TestClient(make_app(other), base_url="http://localhost")
    with client:
        table = workspace.releases / "adult-tables" / "v3" / "data" / "age.csv"
        table.chmod(0o644)
        table.write_bytes(table.read_bytes().replace(b"1", b"2", 1))
        answered(lambda: verified(other, folder_of(other, "adult-tables", 3)))
        page = client.get("/releases/adult-tables/v3/verify").text
    assert "At least one rule does not hold" in page
    assert "data/age.csv" in page


def test_comparing_shows_the_guarantees_the_contract_and_differences_with_intervals(client: TestClient):
    """The interval of a difference goes from end to end: upper minus lower, so that it holds in at least 90 %."""
    told = client.get("/api/releases/adult-tables/compare", params={"first": 1, "second": 3}).json()
    assert {"name": "epsilon", "first": "1", "second": "0.3"} in told["guarantee"]
    assert told["contract"] == []
    [age] = [each for each in told["tables"] if each["file"] == "data/age.parquet"]
    assert age["cells"] == 15
    for row in age["rows"]:
        assert row["difference"] == row["second"] - row["first"]
        assert row["low"] <= row["difference"] <= row["high"]
        assert row["moved"] == (row["low"] > 0 or row["high"] < 0)
    assert client.get("/releases/adult-tables/compare", params={"first": 1, "second": 9}).status_code == 404


def test_an_entry_s_proof_leads_to_the_signed_root(client: TestClient):
    """The proof of each entry under the last checkpoint, worked out again from what the page tells."""
    size = client.get("/api/journal").json()["size"]
    covered = 0
    for sequence in range(size):
        told = client.get(f"/api/journal/{sequence}").json()
        proof = told["proof"]
        if proof is None:
            continue
        covered += 1
        assert proof["holds"]
        assert proof["leads"]
        assert root_from_proof(told["hash"], sequence, proof["size"], proof["path"]) == proof["root"]
        assert hashlib.sha256(b"\0" + told["logged"].encode()).hexdigest() == told["hash"]
        if not told["sealed"]:
            committed = json.loads(told["logged"]).get("commitment")
            whole = hashlib.sha256(told["canonical"].encode()).hexdigest()
            assert committed == whole if committed else told["canonical"] == told["logged"]
    assert covered == client.get("/api/checkpoints").json()["checkpoints"][0]["size"]


def test_the_journal_is_found_by_kind_release_account_run_and_number(client: TestClient):
    def found(**asked: str) -> list[dict[str, Any]]:
        entries: list[dict[str, Any]] = client.get("/api/journal", params=asked).json()["entries"]
        return entries

    published = found(kind="version_published")
    assert [each["kind"] for each in published] == ["version_published"] * 4
    assert [each["sequence"] for each in published] == sorted((e["sequence"] for e in published), reverse=True)
    of_old = found(release="adult-old")
    assert {each["kind"] for each in of_old} >= {"charge_reserved", "noise_drawn", "version_withdrawn"}
    assert {each["says"].get("release", "adult-old") for each in of_old} == {"adult-old"}
    assert found(account=ACCOUNT, kind="account_opened") != []
    assert found(run=of_old[0]["says"]["run_key"]) == of_old
    assert found(release="nowhere") == []
    assert client.get("/journal", params={"index": "3"}).headers["location"] == "/journal/3"


def test_a_run_is_one_line_of_the_journal_that_opens(client: TestClient):
    """Each entry is there once: a run's inside its line, in any order of times, which are told to the hour."""
    told, page = client.get("/api/journal").json(), client.get("/journal").text
    story, shown = told["story"], list(told["entries"])
    kinds = {each["sequence"]: each["kind"] for each in shown}
    runs = [line for line in story if "run" in line]
    assert len(runs) == 4
    for line in runs:
        assert line["entries"] == sorted(line["entries"], reverse=True)
        assert {kinds[each] for each in line["entries"]} <= set(RUN_KINDS)
    assert sorted(each for line in story for each in line["entries"]) == sorted(kinds)
    assert page.count("<details>") == len(runs)
    for each in shown:
        assert page.count(f'href="/journal/{each["sequence"]}"') == 1
    assert all(each["at"].endswith(":00:00Z") for each in shown if not each["sealed"])
    alone = client.get("/api/journal", params={"kind": "noise_drawn"}).json()["story"]
    assert {len(line["entries"]) for line in alone} == {1}


def test_a_line_of_the_journal_says_what_a_run_claimed_and_took_in_plain_words(client: TestClient):
    """The share of the cap is that of the exact amounts, rounded up; a withdrawal quotes its reason as text."""
    told = client.get("/api/journal").json()["story"]
    [second] = [line for line in told if (line.get("release"), line.get("number")) == ("adult-tables", 2)]
    account = client.get("/api/account", params={"name": ACCOUNT}).json()
    [charge] = [each for each in account["charges"] if each["version"] == 2]
    exact = 100 * Decimal(charge["amount"]) / Decimal(account["cap"])
    assert 0 <= Decimal(second["share"].removesuffix(" %")) - exact < Decimal("0.1")
    assert (second["what"], second["epsilon"], second["draws"]) == ("published", "0.5", 3)
    page = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", client.get("/journal").text))
    assert (
        f"adult-tables v2 was published. It claims ε 0.5 and took {second['share']} of the cap of {ACCOUNT}." in page
    )
    assert "adult-old v1 was withdrawn: wrong reference year &lt;script&gt;" in page
    assert f"Account {ACCOUNT} was opened for adults, 1994: at most ε 3 at δ 1e-9 may ever be lost." in page


@pytest.mark.long
def test_what_is_private_is_not_even_hinted_at(client: TestClient, shown: Shown):
    """No page and no search tells of refused runs or sources."""
    source = str(shown.place.adult / "adult.parquet")
    everything = [*PAGES, *(f"/journal/{n}" for n in range(client.get("/api/journal").json()["size"]))]
    everything += ["/journal?kind=gate_failed", "/journal?kind=source_bound", f"/journal?run={source}"]
    for path in everything:
        for prefix in ("", "/api"):
            text = client.get(prefix + path).text.replace(f'value="{source}"', "").replace(json.dumps(source), "")
            for secret in (source, "secret-release", "secret-gate", "gate_failed", "uditor"):
                assert secret not in text or (secret == "gate_failed" and "kind=gate_failed" in path), (path, secret)


def test_a_sealed_entry_still_has_its_place_and_its_hash(client: TestClient):
    sealed = [each for each in client.get("/api/journal").json()["entries"] if each["sealed"]]
    assert len(sealed) == 2
    assert {each["kind"] for each in sealed} == {None}
    told = client.get(f"/api/journal/{sealed[0]['sequence']}").json()
    assert (told["entry"], told["canonical"]) == (None, None)
    assert re.fullmatch(r"[0-9a-f]{64}", told["hash"])
    assert client.get("/api/journal", params={"kind": "gate_failed"}).json()["entries"] == []


def test_the_language_is_kept_in_a_cookie(client: TestClient):
    for code in languages():
        cookie = client.get("/", params={"lang": code}).headers["set-cookie"]
        assert f"sudare_lang={code}" in cookie
        assert "HttpOnly" in cookie
        page = client.get("/accounts", headers={"Cookie": f"sudare_lang={code}"}).text
        assert f'lang="{code}"' in page.splitlines()[1]
    assert 'lang="en"' in client.get("/accounts", headers={"Cookie": "sudare_lang=xx"}).text.splitlines()[1]


def test_a_ledger_that_does_not_answer_is_told_in_words(shown: Shown, tmp_path: Path):
    """503 with words for people, and nothing of the database's own message."""
    workspace = copied(shown.workspace, tmp_path / "w")
    client = TestClient(make_app(make_site(workspace)), base_url="http://localhost")
    with closing(sqlite3.connect(workspace.private / "ledger.sqlite")) as ledger:
        ledger.execute("DROP TABLE journal_head")
    answer = client.get("/journal")
    assert answer.status_code == 503
    assert "does not answer" in answer.text
    assert str(tmp_path) not in answer.text


def test_answers_to_what_cannot_be_meant_are_words_too(client: TestClient):
    for path, status in (
        ("/nowhere", 404),
        ("/releases/Adult", 404),
        ("/releases/adult-tables/v9", 404),
        ("/releases/adult-tables/v-1", 404),
        ("/journal/99999999999999999999999", 404),
        ("/journal/-1", 404),
        ("/journal?before=x", 400),
        ("/?status=odd", 400),
        ("/account", 400),
        ("/journal?index=1e5", 400),
    ):
        answer = client.get(path)
        assert answer.status_code == status, path
        assert "<h1>" in answer.text


@pytest.mark.services
def test_the_site_lists_statistics_and_links_tables_and_noisy_numbers(twice: Place):  # noqa: F811
    site = make_site(twice.workspace)
    client = TestClient(make_app(site), base_url="http://localhost")
    with client:
        told = client.get(f"/api/releases/{NAME}/v2").json()["tables"]
        page = client.get(f"/releases/{NAME}/v2").text
        compared = client.get(f"/releases/{NAME}/compare", params={"first": 1, "second": 2}).text
        first = client.get(f"/releases/{NAME}/v2/tables", params={"file": told[0]["data"]}).text
    site.verifications.close()
    site.forecasts.close()
    site.view.close()
    assert [each["method"] for each in told] == ["count, mean_hours-per-week", "sum_capital-gain, mean_capital-gain"]
    assert [len(each["measurements"]) for each in told] == [1, 1]
    assert '<th scope="col">Statistics</th>' in page
    assert "Refined by" not in page
    assert "data/education.parquet · mean_capital-gain" in compared
    assert "near_zero" in first
