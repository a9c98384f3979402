"""`sudare verify` and `sudare keys pin` as strangers type them: what is no version, and whose key it is."""

import json
import os
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from privacy.ledger.journal.signing import Signer, key_id
from tasks.storage.workspace.settings import Workspace
from tasks.verification.keys import PIN, remember_own
from tasks.verification.outcomes import ALL_RULES, REPORT_SCHEMA, RULES
from tests.console.conftest import Said, Typed
from tests.tasks.verification.forgery import forge
from tests.worlds.tables import first
from tests.worlds.versions import SEED, Version, Worlds

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "schema" / "verify-report.schema.json").read_text())
OTHER = Signer(bytes(32))
OTHER_ID = key_id(OTHER.public_key)


@pytest.fixture(scope="module")
def town(worlds: Worlds) -> Version:
    return worlds.published(first())


@pytest.fixture
def here(town: Version, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder outside any workspace, with a version, its archive and its publisher's key; an empty home."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    version = town.copy(tmp_path / "town" / "v1")
    with zipfile.ZipFile(tmp_path / "v1.zip", "w") as archive:
        for name in version.files:
            archive.write(version.folder / name, name)
    (tmp_path / "key.pub").write_text(Signer(SEED).public_key + "\n")
    (tmp_path / "other.pub").write_text(OTHER.public_key + "\n")
    return tmp_path


def _refused(said: Said, found: str, remedy: str) -> None:
    """Exit 2, with words on standard error and no trace."""
    assert (said.code, said.out) == (2, "")
    assert f"found:   {found}" in said.err
    assert remedy in said.err
    assert "Traceback" not in said.err


@pytest.mark.parametrize(
    ("path", "found", "remedy"),
    [
        ("nothing", "No such file or directory", "name a version folder"),
        ("empty", "an empty folder", "nothing of it arrived yet"),
        ("home", "a folder without MANIFEST.json, PROOF.json, record.json", "if it is a copy, it is not finished"),
        ("v1.zip", "an archive (zip or tar) instead of a folder", "unpack it into a new folder"),
        ("key.pub", "a file", "name a version folder"),
        ("town", "the folder around a version", "name one version: town/v1"),
        ("town/v1/data", "a part of a version", "name the folder around it"),
        ("town/v1/record.json", "a file of a version", "name the folder that it lies in"),
        ("workspace", "a workspace", "RELEASE/vN"),
    ],
)
def test_a_path_that_is_no_version_is_refused_in_words(here: Path, typed: Typed, path: str, found: str, remedy: str):
    (here / "empty").mkdir()
    (here / "home").mkdir()
    (here / "home" / "note.txt").write_text("x")
    Workspace.create(here / "workspace")
    _refused(typed("verify", path, "--key", "key.pub"), found, remedy)
    told = typed("verify", path, "--key", "key.pub", "--json")
    assert (told.code, told.json["error"]["exit_code"]) == (2, 2)
    assert told.json["error"]["findings"][0]["found"] == found


def test_a_folder_of_several_versions_names_them(here: Path, typed: Typed):
    shutil.copytree(here / "town" / "v1", here / "town" / "v2")
    _refused(typed("verify", "town", "--key", "key.pub"), "a folder of 2 versions", "town/v1, town/v2")


def test_a_missing_key_is_refused_in_words(here: Path, typed: Typed):
    _refused(typed("verify", "town/v1"), "no key named, none pinned", "sudare keys pin FILE")
    _refused(typed("verify", "town/v1", "--key", "no.pub"), "No such file or directory", "from the publisher")
    _refused(typed("verify", "town/v1", "--key", "town/v1/PROOF.json"), "no key", "from the publisher")


def _of_a_newer_schema(folder: Path) -> None:
    forge(Version(folder, Signer(SEED)), record=lambda record: record.update(schema="sudare-record/9", more=1))


def _with_the_proof_of_another_workspace(folder: Path) -> None:
    other = folder.parent / "other"
    shutil.copytree(folder, other)
    forge(Version(other, OTHER))
    shutil.copy(other / "PROOF.json", folder / "PROOF.json")
    shutil.rmtree(other)


def _without_manifest(folder: Path) -> None:
    (folder / "MANIFEST.json").unlink()


def _half(folder: Path) -> None:
    (folder / "PROOF.json").unlink()
    shutil.rmtree(folder / "data")


def _cut(folder: Path) -> None:
    page = folder / "record.html"
    page.write_bytes(page.read_bytes()[:100])


def _being_downloaded(folder: Path) -> None:
    (folder / "record.html").rename(folder / "record.html.part")


def _no_json(folder: Path) -> None:
    (folder / "record.json").write_text("<html>404 Not Found</html>")


@pytest.mark.parametrize(
    ("spoil", "code", "where", "words"),
    [
        (_of_a_newer_schema, "record", "record.json", "sudare-record/9"),
        (_with_the_proof_of_another_workspace, "journal", "PROOF.json", "another key signed it"),
        (_without_manifest, "files", "MANIFEST.json", "the copy was not finished"),
        (_half, "files", "data/age_x_sex.parquet", "the copy was not finished"),
        (_cut, "contents", "record.html", "it was cut, or the copy was not finished"),
        (_being_downloaded, "files", "record.html.part", "a download that was not finished"),
        (_no_json, "record", "record.json", "line 1, column 1"),
    ],
)
def test_a_bad_version_is_a_finding_in_words_and_exit_5(
    here: Path, typed: Typed, spoil: Callable[[Path], None], code: str, where: str, words: str
):
    """For people on standard error; for programs a report that follows the committed schema."""
    spoil(here / "town" / "v1")
    said = typed("verify", "town/v1", "--key", "key.pub")
    said.assert_ended(5, where, words)
    assert "Traceback" not in said.err
    told = typed("verify", "town/v1", "--key", "key.pub", "--json")
    assert told.code == 5
    assert list(Draft202012Validator(SCHEMA).iter_errors(told.json)) == []
    assert not told.json["ok"]
    findings = [finding for check in told.json["checks"] for finding in check["findings"]]
    assert any((f["code"], f["where"]) == (code, where) and words in json.dumps(f) for f in findings)


def test_an_unknown_schema_is_one_finding_and_not_one_a_field(here: Path, typed: Typed):
    _of_a_newer_schema(here / "town" / "v1")
    told = typed("verify", "town/v1", "--key", "key.pub", "--json").json
    assert [f["field"] for check in told["checks"] for f in check["findings"]] == ["schema"]


def test_the_report_of_a_sound_version_follows_the_schema_in_docs(here: Path, typed: Typed):
    told = typed("verify", "town/v1", "--key", "key.pub", "--json")
    assert told.code == 0
    Draft202012Validator.check_schema(SCHEMA)
    assert list(Draft202012Validator(SCHEMA).iter_errors(told.json)) == []
    assert list(Draft202012Validator(SCHEMA).iter_errors(told.json | {"more": 1})) != []
    assert [check["code"] for check in told.json["checks"]] == [rule.code for rule in RULES]


def test_the_schema_in_docs_has_every_rule_and_every_field():
    """It is written by hand: a rule that is added to the code is missed there, and no object may lack a field."""
    properties = SCHEMA["properties"]
    check = properties["checks"]["items"]["properties"]
    codes = [rule.code for rule in ALL_RULES]
    assert properties["schema"] == {"const": REPORT_SCHEMA}
    assert check["rule"]["maximum"] == len(codes)
    assert check["code"]["enum"] == check["findings"]["items"]["properties"]["code"]["enum"] == codes
    for each in (SCHEMA, properties["key"], properties["checks"]["items"], check["findings"]["items"]):
        assert set(each["required"]) == set(each["properties"])
        assert each["additionalProperties"] is False


def test_a_pinned_key_need_not_be_named(here: Path, typed: Typed):
    """Outside a workspace it is the user's; the file is for its owner alone."""
    said = typed("keys", "pin", "key.pub", "--json")
    pin = here / "home" / ".config" / "sudare" / PIN
    assert (said.code, said.json["pinned"], said.json["for"]) == (0, str(pin), "this user")
    assert pin.stat().st_mode & 0o777 == 0o600
    assert typed("keys", "pin", "key.pub").code == 0
    assert typed("verify", "town/v1").code == 0
    assert typed("verify", "town/v1", "--key", "other.pub").code == 5


def test_another_key_is_pinned_only_when_asked(here: Path, typed: Typed):
    assert typed("keys", "pin", "key.pub").code == 0
    _refused(typed("keys", "pin", "other.pub"), f"key {key_id(Signer(SEED).public_key)}", "--replace")
    assert typed("verify", "town/v1").code == 0
    assert typed("keys", "pin", "other.pub", "--replace").code == 0
    assert typed("verify", "town/v1").code == 5


def test_a_key_that_came_with_a_version_is_not_pinned(here: Path, typed: Typed):
    shutil.copy("key.pub", "town/v1/data/key.pub")
    _refused(typed("keys", "pin", "town/v1/data/key.pub"), "a file inside", "from the publisher's site")
    _refused(typed("keys", "pin", "v1.zip"), "no key", "from the publisher")


def test_a_workspace_has_a_pin_of_its_own(here: Path, typed: Typed):
    """Its own key is used until another is pinned for it; the user's pin does not count there."""
    workspace = Workspace.create(here / "workspace")
    assert typed("keys", "pin", "key.pub").code == 0
    assert typed("verify", "town/v1", at=workspace).code == 5
    said = typed("keys", "pin", "key.pub", "--json", at=workspace)
    assert (said.json["pinned"], said.json["for"]) == (str(workspace.keys / PIN), "this workspace")
    assert typed("verify", "town/v1", at=workspace).code == 0
    assert typed("keys", "pin", "other.pub", "--user", "--replace", at=workspace).code == 0
    assert typed("verify", "town/v1", at=workspace).code == 0
    assert typed("verify", "town/v1").code == 5


def _stranger(here: Path) -> Path:
    """A download that looks like a workspace: its own key, and a version that is signed with it."""
    workspace = Workspace.create(here / "download")
    forged = workspace.releases / "town" / "v1"
    shutil.copytree(here / "town" / "v1", forged)
    forge(Version(forged, OTHER))
    (workspace.keys / "signing.pub").chmod(0o600)
    (workspace.keys / "signing.pub").write_text(OTHER.public_key + "\n")
    return forged


def test_your_own_pin_wins_over_the_key_that_a_download_brings(
    here: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch
):
    forged, honest = _stranger(here), here / "town" / "v1"
    monkeypatch.chdir(here / "download")
    _refused(
        typed("verify", str(forged)), "no key named, none pinned, and the workspace around you", "sudare keys pin"
    )
    assert typed("keys", "pin", str(here / "key.pub"), "--user").code == 0
    said = typed("verify", str(forged))
    assert said.code == 5
    assert "does NOT hold under key" in said.out
    assert "your own pin, pinned since 2" in said.out
    assert f"! TWO KEYS: the own key of the workspace around you is another key, {OTHER_ID}" in said.out
    assert "it was not used" in said.out
    told = typed("verify", str(honest), "--json")
    assert told.code == 0
    assert (told.json["key"]["whose"], told.json["key"]["pinned_since"][:1]) == ("your own pin", "2")
    assert OTHER_ID in told.json["key"]["passed_over"]
    (here / "download" / ".sudare" / "keys" / PIN).write_text(OTHER.public_key + "\n")
    assert typed("verify", str(forged)).code == 5  # not even a pin that the download brings
    named = typed("verify", str(forged), "--key", str(here / "other.pub"), "--json")
    assert (named.code, named.json["key"]["passed_over"]) == (0, None)


def test_without_a_pin_only_a_workspace_that_you_made_here_has_a_key_for_you(
    here: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch
):
    """Neither one that was unpacked somewhere, with whatever key and pin, nor yours under another key or place."""
    workspace = Workspace.create(here / "mine")
    own = workspace.public_key_file
    own.chmod(0o600)
    own.write_text(Signer(SEED).public_key + "\n")
    version, config = str(here / "town" / "v1"), here / "home" / ".config" / "sudare"
    monkeypatch.chdir(workspace.root)
    remedy = f"--workspace {workspace.root}"
    _refused(typed("verify", version), "no key named, none pinned, and the workspace around you", remedy)
    remember_own(OTHER.public_key, workspace.root, config)
    remember_own(Signer(SEED).public_key, here, config)
    assert typed("verify", version).code == 2
    remember_own(Signer(SEED).public_key, workspace.root, config)
    typed("verify", version).assert_printed("the own key of the workspace around you")
    shutil.copytree(workspace.root, here / "unpacked")
    (here / "unpacked" / ".sudare" / "keys" / PIN).write_text(OTHER.public_key + "\n")
    monkeypatch.chdir(here / "unpacked")
    assert typed("verify", version).code == 2


def test_a_workspace_that_is_named_is_used_and_the_other_pin_is_said(here: Path, typed: Typed):
    _stranger(here)
    assert typed("keys", "pin", "key.pub", "--user").code == 0
    said = typed("verify", "town/v1", "--workspace", "download")
    assert said.code == 5
    assert "! TWO KEYS: your own pin is another key" in said.out


def test_a_pin_keeps_the_time_at_which_it_was_made(here: Path, typed: Typed):
    assert typed("keys", "pin", "key.pub").code == 0
    pin = here / "home" / ".config" / "sudare" / PIN
    os.utime(pin, (1_700_000_000, 1_700_000_000))
    assert typed("keys", "pin", "key.pub").code == 0
    assert typed("verify", "town/v1", "--json").json["key"]["pinned_since"] == "2023-11-14 22:13 UTC"
