"""The workspace: what `init` makes, how it is found, and what its settings may say."""

import os
import stat
from pathlib import Path

import pytest

from contracts import plug_ins
from privacy.ledger.journal.signing import Signer
from tasks.storage.workspace.environment import environment_for_prefect, exported, switch_telemetry_off
from tasks.storage.workspace.keys import WorkspaceRefused
from tasks.storage.workspace.settings import Workspace
from tests.source_folders import FOLDERS, ROOT


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "SUDARE_WORKSPACE",
        "SUDARE_LEDGER_URL",
        "SUDARE_SIGNING_KEY",
        "SUDARE_SIGNING_KEY_FILE",
        "PREFECT_API_URL",
    ):
        monkeypatch.delenv(name, raising=False)


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_create_makes_private_folders_and_keys_that_only_the_owner_reads(tmp_path: Path):
    """Folders are 0700 and secret keys 0600, even under a permissive umask; the public key matches the secret one."""
    before = os.umask(0)
    try:
        workspace = Workspace.create(tmp_path / "w")
    finally:
        os.umask(before)
    for folder in (workspace.private, workspace.draws, workspace.runs, workspace.private / "keys"):
        assert _mode(folder) == 0o700
    for key in ("signing.key", "snapshot.key"):
        assert _mode(workspace.private / "keys" / key) == 0o600
    assert workspace.public_key_file.read_text() == f"{workspace.signer().public_key}\n"
    assert len(workspace.snapshot_key()) == 32
    assert workspace.snapshot_key() != (workspace.keys / "signing.key").read_bytes()


def test_create_refuses_a_workspace_and_changes_nothing(tmp_path: Path):
    """A second `init` would replace the keys that published versions are signed with: it is refused."""
    key = Workspace.create(tmp_path).signer().public_key
    with pytest.raises(WorkspaceRefused, match="a workspace already"):
        Workspace.create(tmp_path)
    assert Workspace.open(tmp_path).signer().public_key == key


def test_create_after_an_interrupted_create_keeps_the_keys(tmp_path: Path):
    """sudare.toml is written last, so that what lacks it can be made again, with the keys that are there."""
    key = Workspace.create(tmp_path).signer().public_key
    (tmp_path / "sudare.toml").unlink()
    assert Workspace.create(tmp_path).signer().public_key == key


def test_create_in_a_place_that_is_no_folder_says_so(tmp_path: Path):
    """What cannot be a folder is refused with the system's reason."""
    (tmp_path / "file").write_text("")
    with pytest.raises(WorkspaceRefused, match="a folder that can be written"):
        Workspace.create(tmp_path / "file" / "w")


def test_find_walks_upwards(tmp_path: Path):
    """A command works anywhere inside its workspace."""
    Workspace.create(tmp_path)
    (tmp_path / "a" / "b").mkdir(parents=True)
    assert Workspace.find(tmp_path / "a" / "b").root == tmp_path


def test_find_takes_the_workspace_of_the_environment_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """SUDARE_WORKSPACE wins over the current folder."""
    Workspace.create(tmp_path / "here")
    Workspace.create(tmp_path / "told")
    monkeypatch.setenv("SUDARE_WORKSPACE", str(tmp_path / "told"))
    assert Workspace.find(tmp_path / "here").root == tmp_path / "told"


def test_find_without_a_workspace_says_how_to_make_one(tmp_path: Path):
    """The refusal names the command that helps."""
    with pytest.raises(WorkspaceRefused, match="sudare init"):
        Workspace.find(tmp_path)


def test_ledger_lies_in_the_workspace_unless_it_is_told_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Default, then sudare.toml (relative to the workspace), then SUDARE_LEDGER_URL."""
    workspace = Workspace.create(tmp_path)
    assert workspace.ledger_url == f"sqlite:///{tmp_path}/.sudare/ledger.sqlite"
    file = tmp_path / "sudare.toml"
    file.write_text('[ledger]\nurl = "sqlite:///books/l.sqlite"\n')
    assert Workspace.open(tmp_path).ledger_url == f"sqlite:///{tmp_path}/books/l.sqlite"
    monkeypatch.setenv("SUDARE_LEDGER_URL", "sqlite:////elsewhere/l.sqlite")
    assert Workspace.open(tmp_path).ledger_url == "sqlite:////elsewhere/l.sqlite"


def test_prefect_server_comes_from_environment_or_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """No server by default; the file may name one; PREFECT_API_URL wins."""
    assert Workspace.create(tmp_path).prefect_api_url is None
    (tmp_path / "sudare.toml").write_text('[prefect]\napi_url = "http://file/api"\n')
    assert Workspace.open(tmp_path).prefect_api_url == "http://file/api"
    monkeypatch.setenv("PREFECT_API_URL", "http://environment/api")
    assert Workspace.open(tmp_path).prefect_api_url == "http://environment/api"


@pytest.mark.parametrize(
    ("text", "field", "found"),
    [
        ('[store]\nrelease = "x"\n', "store.release", "unknown key"),
        ("[ingest]\nmemory_limit = 3\n", "ingest.memory_limit", "int"),
        ("[ingest\n", "TOML", "line 1"),
        ('surprise = "x"\n', "surprise", "unknown key"),
        ('[publisher]\ncurater = "x"\n', "publisher.curater", "curater"),
        ("[publisher]\ncontact = true\n", "publisher.contact", "True"),
        ('[publisher]\napprovers = "x"\n', "publisher.approvers", "unknown key"),
        ('[publisher]\npermitted_uses = ["teaching", ""]\n', "publisher.permitted_uses[1]", "''"),
    ],
)
def test_settings_that_cannot_be_followed_are_refused(tmp_path: Path, text: str, field: str, found: str):
    """Unknown keys, wrong types and broken TOML are findings that name the field."""
    Workspace.create(tmp_path)
    (tmp_path / "sudare.toml").write_text(text)
    with pytest.raises(WorkspaceRefused) as refused:
        Workspace.open(tmp_path)
    [finding] = refused.value.findings
    assert finding.field == field
    assert found in finding.found


def test_a_publisher_may_be_declared_for_all_releases(tmp_path: Path):
    """Without a table there is none; what it says is read as it is written."""
    assert Workspace.create(tmp_path).publisher is None
    (tmp_path / "sudare.toml").write_text('[publisher]\ncurator = "Office"\npermitted_uses = ["teaching"]\n')
    publisher = Workspace.open(tmp_path).publisher
    assert publisher is not None
    assert (publisher.curator, publisher.permitted_uses, publisher.contact) == ("Office", ("teaching",), None)


def test_a_damaged_key_is_refused_without_showing_it(tmp_path: Path):
    """The message tells the length, never the bytes."""
    workspace = Workspace.create(tmp_path)
    (workspace.private / "keys" / "snapshot.key").write_bytes(b"secret")
    with pytest.raises(WorkspaceRefused, match="6 bytes") as refused:
        workspace.snapshot_key()
    assert "secret" not in str(refused.value)


def test_a_server_of_our_own_inherits_no_prefect_settings(monkeypatch: pytest.MonkeyPatch):
    """A database or an API that the user's shell names for Prefect is not ours to migrate or to call."""
    monkeypatch.setenv("PREFECT_SERVER_DATABASE_CONNECTION_URL", "postgresql://elsewhere")
    environment = environment_for_prefect({"PREFECT_HOME": "here"})
    assert environment["PREFECT_HOME"] == "here"
    assert "PREFECT_SERVER_DATABASE_CONNECTION_URL" not in environment
    assert environment["DO_NOT_TRACK"] == "1"


def test_exported_variables_are_taken_back(monkeypatch: pytest.MonkeyPatch):
    """What was set before comes back, what was not set goes."""
    monkeypatch.setenv("SUDARE_TEST_KEPT", "before")
    monkeypatch.delenv("SUDARE_TEST_NEW", raising=False)
    with exported({"SUDARE_TEST_KEPT": "inside", "SUDARE_TEST_NEW": "inside"}):
        assert os.environ["SUDARE_TEST_KEPT"] == os.environ["SUDARE_TEST_NEW"] == "inside"
    assert os.environ["SUDARE_TEST_KEPT"] == "before"
    assert "SUDARE_TEST_NEW" not in os.environ


def test_telemetry_is_off_unless_a_person_wants_it(monkeypatch: pytest.MonkeyPatch):
    """Off by default; a value that stands in the environment already is kept."""
    monkeypatch.delenv("DO_NOT_TRACK", raising=False)
    monkeypatch.setenv("GX_ANALYTICS_ENABLED", "true")
    switch_telemetry_off()
    assert os.environ["DO_NOT_TRACK"] == "1"
    assert os.environ["GX_ANALYTICS_ENABLED"] == "true"


def test_only_settings_and_credentials_read_the_environment():
    """No other module of ours touches os.environ or os.getenv."""
    readers = [
        path.relative_to(ROOT).as_posix()
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*.py")
        if "os.environ" in (text := path.read_text(encoding="utf-8")) or "getenv" in text
    ]
    workspace = ["tasks/storage/workspace/environment.py", "tasks/storage/workspace/settings.py"]
    assert sorted(readers) == ["tasks/storage/credentials.py", *workspace]


# --- the signing key of a server, and the schedule ---------------------------------------------------------------

SEED = bytes(range(32))


def _public(seed: bytes) -> str:
    return Signer(seed).public_key


def test_a_key_has_the_name_that_init_was_given(tmp_path: Path):
    """The name is the first line of every checkpoint; it stays when the workspace is opened again."""
    made = Workspace.create(tmp_path / "w", name="statistics.example/journal")
    assert made.public_key_file.read_text().startswith("statistics.example/journal+")
    assert Workspace.open(tmp_path / "w").signer().verifier.name == "statistics.example/journal"
    with pytest.raises(WorkspaceRefused, match="a space, a plus or a control character"):
        Workspace.create(tmp_path / "other", name="the journal")


def test_a_server_s_signing_key_comes_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """`init` then writes no secret signing key, and publishes the public half of the one it was told."""
    monkeypatch.setenv("SUDARE_SIGNING_KEY", SEED.hex())
    workspace = Workspace.create(tmp_path)
    assert workspace.signer().public_key == _public(SEED)
    assert workspace.public_key_file.read_text() == f"{_public(SEED)}\n"
    assert not (workspace.private / "keys" / "signing.key").exists()


def test_a_server_s_signing_key_comes_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "secret").write_bytes(SEED)
    monkeypatch.setenv("SUDARE_SIGNING_KEY_FILE", str(tmp_path / "secret"))
    assert Workspace.create(tmp_path / "w").signer().public_key == _public(SEED)
    monkeypatch.setenv("SUDARE_SIGNING_KEY", SEED.hex())
    with pytest.raises(WorkspaceRefused, match="one of the two"):
        Workspace.open(tmp_path / "w").signer()


def test_a_signing_key_that_is_not_the_workspace_s_own_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Versions signed with it would fail for everybody who pinned signing.pub."""
    workspace = Workspace.create(tmp_path)
    monkeypatch.setenv("SUDARE_SIGNING_KEY", SEED.hex())
    with pytest.raises(WorkspaceRefused, match="the public half of another key"):
        workspace.signer()


@pytest.mark.parametrize("told", ["00", "z" * 64, SEED.hex() + "00"])
def test_a_signing_key_of_another_form_is_refused_without_being_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: str
):
    monkeypatch.setenv("SUDARE_SIGNING_KEY", told)
    with pytest.raises(WorkspaceRefused, match="64 hex digits") as refused:
        Workspace.create(tmp_path)
    assert told not in str(refused.value)


def test_a_schedule_names_specs_from_the_workspace_and_when_they_run(tmp_path: Path):
    assert Workspace.create(tmp_path).schedule == ()
    file = tmp_path / "sudare.toml"
    file.write_text(file.read_text() + '"specs/a.yaml" = "0 6 1 * *"\n')
    [entry] = Workspace.open(tmp_path).schedule
    assert (entry.spec, entry.path, entry.cron) == ("specs/a.yaml", tmp_path / "specs" / "a.yaml", "0 6 1 * *")
    file.write_text(file.read_text() + '"specs/b.yaml" = 6\n')
    with pytest.raises(WorkspaceRefused, match="five cron fields"):
        Workspace.open(tmp_path)


def test_a_table_of_an_extension_that_is_not_installed_is_refused_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    Workspace.create(tmp_path)
    file = tmp_path / "sudare.toml"
    file.write_text(f'[spark]\npython = "spark/bin/python"\n{file.read_text()}')
    monkeypatch.setattr(plug_ins, "registered", lambda group: ())
    with pytest.raises(WorkspaceRefused, match="extension sudare_engines, which is not installed"):
        Workspace.open(tmp_path)
