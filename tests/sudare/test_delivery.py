"""Rows in memory lie in the private folder while they are needed, for one run at a time, and never longer."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

import sudare
from sudare.delivery import delivered, is_name, rows_file
from tasks.storage.workspace.settings import Workspace as Place

ROWS = pl.DataFrame({"x": [1, 2, 3]})
HOLD = """
import sys, time, polars as pl
from pathlib import Path
from sudare.delivery import delivered
from tasks.storage.workspace.settings import Workspace
with delivered(Workspace.open(Path(sys.argv[1])), sys.argv[2], pl.DataFrame({"x": [1]})):
    print("there", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place.create(tmp_path / "w")


def holding(place: Place, name: str) -> subprocess.Popen[str]:
    """A process that has rows of a name delivered."""
    command = [sys.executable, "-c", HOLD, str(place.root), name]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "there\n"
    return process


def test_rows_are_there_inside_the_block_alone(place: Place) -> None:
    with delivered(place, "visits", ROWS) as file:
        assert file == rows_file(place, "visits")
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
        assert pl.read_parquet(file).equals(ROWS)
    assert not file.exists()


def test_rows_go_whatever_ends_the_block(place: Place) -> None:
    for error in (KeyboardInterrupt, sudare.SudareError):
        with pytest.raises(error), delivered(place, "visits", ROWS):
            raise error
        assert not rows_file(place, "visits").exists()


def test_rows_that_cannot_be_written_leave_no_part_of_them(place: Place) -> None:
    with pytest.raises(sudare.SourceUnreadable), delivered(place, "visits", ROWS.lazy()):
        pass
    assert not rows_file(place, "visits").exists()


@pytest.mark.services
def test_two_runs_do_not_read_rows_of_one_name(place: Place) -> None:
    """The second would find other rows than it brought, or none."""
    process = holding(place, "visits")
    try:
        with pytest.raises(sudare.SourceUnreadable, match="another run is reading"), delivered(place, "visits", ROWS):
            pass
        with delivered(place, "panel", ROWS):
            assert rows_file(place, "visits").exists()
    finally:
        process.kill()
        process.communicate()


@pytest.mark.services
def test_what_a_killed_process_left_goes_with_the_next_delivery(place: Place) -> None:
    process = holding(place, "visits")
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert rows_file(place, "visits").exists()
    with delivered(place, "panel", ROWS):
        assert not rows_file(place, "visits").exists()


def test_a_name_is_no_path_and_no_address() -> None:
    assert is_name("visits")
    assert is_name("visits-2026_q1")
    for written in ("", "Visits", "visits.csv", "./visits", "s3://bucket/visits", "-x", "x" * 64, "visits\n"):
        assert not is_name(written)
