"""A version in one ZIP file: the published files and nothing else, the same bytes each time, and it verifies."""

from __future__ import annotations

import hashlib
import io
import zipfile
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from console.main import execute
from console.serve import make_site
from console.site.app import make_app
from console.site.asking import Site
from privacy.ledger.journal.signing import key_id
from tests.console.site.conftest import Shown, copied

ZIP = "/releases/adult-tables/v3/whole.zip"


def test_the_archive_holds_the_published_files_and_the_note_and_nothing_else(client: TestClient, site: Site) -> None:
    """Every byte is as the manifest says; the note names the key by its id, and has no key that one could trust."""
    answer = client.get(ZIP)
    assert answer.headers["content-disposition"] == 'attachment; filename="adult-tables-v3.zip"'
    listed = client.get("/api/releases/adult-tables/v3/files").json()["files"]
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        assert archive.testzip() is None
        assert set(archive.namelist()) == {"CHECK.txt", *(f"adult-tables/v3/{each['name']}" for each in listed)}
        for each in listed:
            content = archive.read(f"adult-tables/v3/{each['name']}")
            assert each["sha256"] in (None, hashlib.sha256(content).hexdigest())
        note = archive.read("CHECK.txt").decode()
    assert "    sudare verify adult-tables/v3 --key FILE\n" in note
    assert key_id(site.public_key) in note
    assert site.public_key not in note
    assert client.get(ZIP).content == answer.content


def test_the_command_of_the_note_verifies_what_was_unpacked(
    client: TestClient, shown: Shown, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In an empty folder, with the key from elsewhere."""
    with zipfile.ZipFile(io.BytesIO(client.get(ZIP).content)) as archive:
        archive.extractall(tmp_path)
        command = archive.read("CHECK.txt").decode().split("    sudare ")[1].splitlines()[0]
    monkeypatch.chdir(tmp_path)
    key = tmp_path / "publisher.pub"
    key.write_bytes((shown.workspace.private / "keys" / "signing.pub").read_bytes())
    assert execute(command.replace("FILE", str(key)).split()) == 0


def test_a_reader_that_has_it_is_not_sent_it_again_and_head_sends_nothing(client: TestClient) -> None:
    mark = client.get(ZIP).headers["etag"]
    assert client.get(ZIP, headers={"If-None-Match": mark}).status_code == 304
    head = client.head(ZIP)
    assert (head.status_code, head.content, head.headers["etag"]) == (200, b"", mark)
    assert client.get("/releases/adult-tables/v2/whole.zip").headers["etag"] != mark


def test_a_version_that_is_not_as_it_was_published_is_not_packed(shown: Shown, tmp_path: Path) -> None:
    """A file that is gone or longer is not found; one with other bytes breaks off before the archive is whole."""
    workspace = copied(shown.workspace, tmp_path / "w")
    client = TestClient(make_app(make_site(workspace, None)), base_url="http://localhost")
    table = workspace.releases / "adult-tables" / "v3" / "data" / "age.csv"
    table.chmod(0o644)
    content = table.read_bytes()
    table.write_bytes(content.replace(b"1", b"2", 1))
    with pytest.raises(FileNotFoundError, match=r"age\.csv is not as it was published"):
        client.get(ZIP)
    table.write_bytes(content + b"\n")
    assert client.get(ZIP).status_code == 404
    table.unlink()
    table.symlink_to(workspace.private / "keys" / "signing.key")
    assert client.get(ZIP).status_code == 404
    assert client.get("/releases/adult-tables/v9/whole.zip").status_code == 404
