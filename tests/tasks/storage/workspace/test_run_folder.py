"""A run's folder: one holder at a time, cleaned at the end, and the private log of what should not happen."""

import os
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from contracts.errors import SpecRefused
from tasks.storage.snapshot.snapshot import PARTIAL, SNAPSHOT
from tasks.storage.workspace.keys import WorkspaceRefused
from tasks.storage.workspace.run_folder import (
    COMPLETE,
    LOST,
    SPILL,
    RunBusy,
    UnexpectedError,
    hold,
    run_name,
    sheltered,
)

HOLD_FOR_EVER = """
import sys, time
from pathlib import Path
from tasks.storage.workspace.run_folder import hold
with hold(Path(sys.argv[1]), "r", keep_snapshot=False):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.mark.services
def test_a_second_process_is_told_who_holds_the_run_and_death_lets_go(tmp_path: Path):
    """The lock is the kernel's: while its holder lives it refuses, and SIGKILL frees it."""
    with subprocess.Popen([sys.executable, "-c", HOLD_FOR_EVER, str(tmp_path)], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(RunBusy, match=f"process {holder.pid}") as busy, hold(tmp_path, "r", keep_snapshot=False):
            pass
        assert "then resumes it" in str(busy.value)
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        with hold(tmp_path, "r", keep_snapshot=False) as folder:
            assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700


@pytest.mark.services
def test_inside_one_process_the_folder_is_held_once(tmp_path: Path):
    """A second block of the same process is refused like another process, and cleans nothing."""
    with hold(tmp_path, "r", keep_snapshot=False) as outer:
        (outer.path / SNAPSHOT).write_text("rows")
        (outer.path / PARTIAL).write_text("rows")
        (outer.path / f"{PARTIAL}.wal").write_text("rows")
        (outer.path / SPILL).mkdir()
        (outer.path / SPILL / "rows").write_text("rows")
        with pytest.raises(RunBusy), hold(tmp_path, "r", keep_snapshot=False):
            raise AssertionError("two runs of one spec")
        assert (outer.path / SNAPSHOT).exists()
    assert [path.name for path in outer.path.iterdir()] == ["lock"]


@pytest.mark.parametrize(
    ("charge", "keep", "stays"),
    [
        (None, False, False),
        ("returned", False, False),
        (LOST, False, False),
        ("reserved", False, True),
        ("opened", False, True),
        ("published", False, True),
        (COMPLETE, False, False),
        (COMPLETE, True, True),
        (None, True, True),
    ],
)
def test_the_snapshot_stays_only_where_a_charged_run_needs_it(
    tmp_path: Path, charge: str | None, keep: bool, stays: bool
):
    """Charged and not published: it must resume on these rows. Else it goes, unless a person wants to keep it."""
    with hold(tmp_path, "r", keep_snapshot=keep) as folder:
        (folder.path / SNAPSHOT).write_text("rows")
        folder.charge = charge
    assert (folder.path / SNAPSHOT).exists() is stays


def test_the_snapshot_of_a_refused_run_goes(tmp_path: Path):
    """An error before the charge leaves no private rows behind."""

    def refused_run() -> None:
        with hold(tmp_path, "r", keep_snapshot=False) as folder:
            (folder.path / SNAPSHOT).write_text("rows")
            raise SpecRefused([])

    with pytest.raises(SpecRefused):
        refused_run()
    assert not (tmp_path / "r" / SNAPSHOT).exists()


def test_an_unexpected_error_tells_its_type_and_hides_its_text(tmp_path: Path):
    """The text goes to the private log (0600); the new error has neither text nor context of the old one."""
    log = tmp_path / "error.private.log"
    before = os.umask(0)
    try:
        with pytest.raises(UnexpectedError) as unexpected:
            sheltered(lambda: int("row 4711"), lambda: log)
    finally:
        os.umask(before)
    assert "4711" not in str(unexpected.value)
    assert "ValueError" in str(unexpected.value)
    assert str(log) in str(unexpected.value)
    assert unexpected.value.__cause__ is None
    assert unexpected.value.__context__ is None
    assert "4711" in log.read_text()
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


def test_where_the_log_cannot_be_written_the_text_goes_elsewhere_or_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A read-only disk: a private file of the system's takes it. No disk at all: it is lost, and never shown."""
    gone = tmp_path / "no such folder" / "error.private.log"
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for elsewhere in (True, False):
        if not elsewhere:
            monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nothing"))
        with pytest.raises(UnexpectedError) as unexpected:
            sheltered(lambda: int("row 4711"), lambda: gone)
        assert "4711" not in str(unexpected.value)
        assert unexpected.value.__context__ is None
        log = unexpected.value.log
        assert (log is not None) == elsewhere
        if log is not None:
            assert "4711" in log.read_text()
            assert stat.S_IMODE(log.stat().st_mode) == 0o600


def test_a_folder_that_cannot_be_written_is_refused_before_a_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """As the system answers on a read-only disk, where root may not write either."""
    with hold(tmp_path, "r", keep_snapshot=False):
        pass
    monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK)
    with (
        pytest.raises(WorkspaceRefused, match="nothing was charged") as refused,
        hold(tmp_path, "r", keep_snapshot=False),
    ):
        pass
    assert str(tmp_path) in str(refused.value)


def test_our_own_errors_pass_unchanged(tmp_path: Path):
    """What we refuse on purpose is no bug and leaves no log."""
    log = tmp_path / "error.private.log"
    with pytest.raises(SpecRefused):
        sheltered(_refuse, lambda: log)
    assert not log.exists()


def _refuse() -> None:
    raise SpecRefused([])


def test_another_text_of_the_spec_is_another_run():
    """The folder's name follows the release and the digest of the spec."""
    assert run_name("a", "0" * 64) != run_name("a", "1" * 64)
    assert run_name("a", "0" * 64).startswith("a-")
