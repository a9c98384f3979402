"""Prefect's database of a workspace: whole or not at all, once, and in the background."""

import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from flows.prefect_runs import server as prefect_database
from flows.prefect_runs.server import PrefectDatabaseFailed, begin_database, create_database, prefect_server
from tasks.storage.workspace.settings import Workspace

pytestmark = pytest.mark.services


def test_a_creation_that_is_stopped_leaves_nothing_that_passes_for_finished(tmp_path: Path):
    """The database stands in its place by one rename; what was begun is gone."""
    home = tmp_path / "prefect"
    imports = "from pathlib import Path; from flows.prefect_runs.server import create_database"
    call = f"{imports}; create_database(Path({str(home)!r}))"
    with subprocess.Popen([sys.executable, "-c", call]) as creating:
        while not list(home.glob("*.partial/creation.log")):
            assert creating.poll() is None
            time.sleep(0.01)
        creating.send_signal(signal.SIGINT)
    assert creating.returncode != 0
    assert [each.name for each in home.iterdir()] == ["creation.lock"]


def test_a_database_that_is_there_is_left_alone(prefect_home: Path):
    """Creating again changes nothing, so that every command may ask for it."""
    before = (prefect_home / "prefect.db").stat().st_mtime_ns
    create_database(prefect_home)
    assert begin_database(prefect_home) is None
    assert (prefect_home / "prefect.db").stat().st_mtime_ns == before


def test_a_server_waits_for_a_database_that_another_process_creates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Both are begun at once; one creates, and the server comes up on what it made."""
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    made = Workspace.create(tmp_path / "w")
    creating = begin_database(made.prefect_home)
    assert creating is not None
    with prefect_server(made) as started:
        started.wait()
        assert (made.prefect_home / "prefect.db").exists()
    assert creating.wait() == 0
    assert list(made.prefect_home.glob("*.partial")) == []
    with sqlite3.connect(made.prefect_home / "prefect.db") as database:
        assert database.execute("select count(*) from alembic_version").fetchone() == (1,)


def test_a_creation_that_fails_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The last line of what Prefect said is in the error, and nothing is left."""
    monkeypatch.setattr(prefect_database, "_CREATION", ("-c", "import sys; sys.exit('no room')"))
    with pytest.raises(PrefectDatabaseFailed, match="no room"):
        create_database(tmp_path / "prefect")
    assert [each.name for each in (tmp_path / "prefect").iterdir()] == ["creation.lock"]
