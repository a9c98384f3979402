"""What the studio answers to texts and files that a page of its own would not send, or that somebody put there."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from fastapi.testclient import TestClient
from httpx import Response

from sudare_web.studio.app import Studio
from tests.extensions.sudare_web.studio.test_yaml_text import bomb

pytestmark = pytest.mark.timeout(250)


def sent(client: TestClient, path: str, body: Any) -> Response:
    return client.post(path, content=json.dumps(body), headers={"Content-Type": "application/json"})


def test_a_save_of_two_texts_writes_both_or_neither(client: TestClient, studio: Studio):
    """The second is refused, for somebody wrote it meanwhile: the first is as it was, and the page is told which."""
    folder = studio.folder.path
    before = {name: (folder / name).read_text() for name in ("tables.yaml", "adult.odcs.yaml")}
    texts = [
        {"name": name, "text": text + "# more\n", "digest": hashlib.sha256(text.encode()).hexdigest()}
        for name, text in before.items()
    ]
    refused = sent(client, "/studio/save", [texts[0], {**texts[1], "digest": "0"}])
    assert (refused.status_code, refused.json()["place"]) == (409, 1)
    assert refused.json()["theirs"]["text"] == before["adult.odcs.yaml"]
    assert {name: (folder / name).read_text() for name in before} == before
    saved = sent(client, "/studio/save", texts)
    assert saved.json() == [hashlib.sha256(each["text"].encode()).hexdigest() for each in texts]
    assert {name: (folder / name).read_text() for name in before} == {
        name: f"{before[name]}# more\n" for name in before
    }


def test_a_pipe_keeps_no_page_waiting(client: TestClient, studio: Studio):
    """In the folder, opened by its name, or named by a spec as its contract, saved or not."""
    folder = studio.folder.path
    os.mkfifo(folder / "pipe.yaml")
    os.mkfifo(folder.parent / "beside.yaml")
    (folder / "zero.yaml").symlink_to("/dev/zero")
    spec = (folder / "tables.yaml").read_text()
    for number, contract in enumerate(("pipe.yaml", "../beside.yaml", "zero.yaml", "/dev/zero")):
        text = spec.replace("adult.odcs.yaml", contract)
        assert text != spec
        (folder / f"bad-{number}.yaml").write_text(text)
        answer = client.get("/studio", params={"spec": f"bad-{number}.yaml"})
        assert (answer.status_code, "no regular file" in answer.text) == (200, True), contract
        looked = sent(client, "/studio/look", {"spec": {"name": "bad.yaml", "text": text}})
        assert looked.json()["ready"] is False
    listed = client.get("/studio")
    assert (listed.status_code, "pipe.yaml" in listed.text) == (200, False)
    assert client.get("/studio", params={"spec": "pipe.yaml"}).status_code == 400


def test_a_name_that_is_no_text_breaks_no_page(client: TestClient, studio: Studio, tmp_path: Path):
    """On the disk, in what is sent, and beside a file that is not there."""
    (studio.folder.path / os.fsdecode(b"adult.odcz\xff.yaml")).write_text("release: a\n")
    assert client.get("/studio").status_code == 200
    spec = (studio.folder.path / "tables.yaml").read_text().replace("adult.odcs.yaml", "adult.odcz.yaml")
    assert sent(client, "/studio/look", {"spec": {"name": "bad.yaml", "text": spec}}).json()["ready"] is False
    for body in ([{"name": "\ud800.yaml", "text": "a"}], [{"name": "a.yaml", "text": "\ud800"}], {"x": 1}):
        answer = sent(client, "/studio/save", body)
        assert (answer.status_code, "what its page sends" in answer.json()["findings"]) == (400, True)


def test_the_page_of_a_spec_shows_its_plan(client: TestClient):
    """What the form shows of it: chances, and the interval of each table."""
    shown = client.get("/studio", params={"spec": "tables.yaml"})
    assert shown.status_code == 200
    assert "right at most 74 times out of 100" in shown.text
    assert "±9" in shown.text


@pytest.mark.long
def test_a_text_without_end_has_no_form_and_no_plan(client: TestClient):
    """Aliases that multiply, typed into the editor."""
    looked = sent(client, "/studio/look", {"spec": {"name": "bad.yaml", "text": bomb()}})
    assert looked.json()["ready"] is False


@pytest.mark.services
def test_a_draft_takes_a_codebook_of_the_folder_and_no_other_file(client: TestClient, studio: Studio):
    """Labels come from it. The table itself, a file elsewhere, or one that is not there is refused by name."""
    folder = studio.folder.path
    (folder / "visits.csv").write_text("sex,ward\nF,surgery\n")
    (folder / "book.csv").write_text("column,values\nsex,F=female; M=male\nward,surgery; maternity\n")
    begun = {"release": "visits", "table": "visits.csv"}
    for book in ("visits.csv", "../book.csv", "nothing.json", "/etc/passwd"):
        refused = sent(client, "/studio/new", {**begun, "codebook": book})
        assert (refused.status_code, "codebook" in refused.json()["findings"]) == (400, True), book
    assert not (folder / "visits.contract.yaml").exists()
    drafted = sent(client, "/studio/new", {**begun, "codebook": "book.csv"})
    assert drafted.json() == {"spec": "visits.yaml"}
    assert "F: female" in (folder / "visits.contract.yaml").read_text()


@pytest.mark.services
def test_a_spec_names_the_mark_between_fields_that_is_no_comma(client: TestClient, studio: Studio):
    """The first line tells it to the draft; a run would else take the whole line for one column."""
    (studio.folder.path / "visits.csv").write_text("sex;ward\nF;surgery\n")
    assert sent(client, "/studio/new", {"release": "visits", "table": "visits.csv"}).status_code == 200
    tree = yaml.safe_load((studio.folder.path / "visits.yaml").read_text())
    assert tree["source"] == {"path": "visits.csv", "delimiter": ";"}
