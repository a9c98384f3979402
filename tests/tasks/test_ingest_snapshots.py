"""Snapshots of sources: taken up again, refused while a source changes, and whole or absent after an interruption."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest

from contracts.errors import Refused, SudareError
from contracts.release.spec import Source
from tasks.ingest import ingest
from tasks.storage import progress
from tasks.storage.duckdb_session import connect, run
from tasks.storage.snapshot.snapshot import PARTIAL, SNAPSHOT, discard, private_folder
from tests.tasks.intake import KEY, ROWS, contents, large_csv, make_contract, take_in, write_csv

# Resuming


def test_a_finished_snapshot_of_the_same_source_is_taken_up(tmp_path: Path):
    source, contract = write_csv(tmp_path, *ROWS), make_contract(tmp_path)
    first = take_in(source, contract, tmp_path)
    inode = first.path.stat().st_ino
    assert take_in(source, contract, tmp_path) == first
    assert first.path.stat().st_ino == inode


@pytest.mark.usefixtures("every_row_kept")
def test_a_changed_source_is_read_again(tmp_path: Path):
    contract = make_contract(tmp_path)
    first = take_in(write_csv(tmp_path, *ROWS), contract, tmp_path)
    second = take_in(write_csv(tmp_path, *ROWS[::-1]), contract, tmp_path)
    assert second.keyed_hash != first.keyed_hash
    assert contents(second.path, "raw")[0][0] == "120"


@pytest.mark.usefixtures("every_row_kept")
def test_another_select_contract_or_key_is_not_served_by_the_old_snapshot(tmp_path: Path):
    source, contract = write_csv(tmp_path, *ROWS), make_contract(tmp_path)
    inodes = {take_in(source, contract, tmp_path).path.stat().st_ino}
    selecting = source.model_copy(update={"select": "SELECT * FROM source WHERE sex = 'F'"})
    inodes.add(take_in(selecting, contract, tmp_path).path.stat().st_ino)
    assert len(contents(tmp_path / "run" / SNAPSHOT, "raw")) == 2
    other = make_contract(tmp_path, gates=("nulls:age",))
    assert take_in(source, other, tmp_path).contract_digest == other.digest
    first = take_in(source, other, tmp_path).keyed_hash
    assert take_in(source, other, tmp_path, key=bytes(32)).keyed_hash != first


def test_a_damaged_or_altered_snapshot_is_made_again(tmp_path: Path):
    source, contract = write_csv(tmp_path, *ROWS), make_contract(tmp_path)
    table = take_in(source, contract, tmp_path)
    with duckdb.connect(str(table.path)) as connection:
        connection.execute("UPDATE codes SET age = 0")
    assert take_in(source, contract, tmp_path) == table
    assert contents(table.path, "codes")[0][0] == 3
    table.path.write_bytes(b"no database")
    assert take_in(source, contract, tmp_path) == table
    assert len(contents(table.path, "codes")) == 4


@pytest.mark.usefixtures("every_row_kept")
def test_what_a_killed_ingest_left_is_not_taken_for_a_snapshot(tmp_path: Path):
    source, contract = write_csv(tmp_path, *ROWS), make_contract(tmp_path)
    folder = tmp_path / "run"
    (folder / "spill").mkdir(parents=True)
    for name in (PARTIAL, f"{PARTIAL}.wal", "spill/left"):
        (folder / name).write_bytes(b"left")
    assert len(contents(take_in(source, contract, tmp_path).path, "raw")) == 4
    assert [path.name for path in folder.iterdir()] == [SNAPSHOT]
    discard(folder)
    assert not list(folder.iterdir())


def test_a_source_that_changes_meanwhile_is_refused(tmp_path: Path):
    source, contract = large_csv(tmp_path), make_contract(tmp_path)

    def write_more(fraction: float) -> None:
        with source.path.open("a") as file:
            file.write("1,F,2,2020-01-01\n")

    with watched(write_more), pytest.raises(Refused, match="a file that changed while it was read"):
        take_in(source, contract, tmp_path)
    assert not list((tmp_path / "run").iterdir())


@pytest.mark.long
def test_a_link_that_is_moved_meanwhile_is_refused(tmp_path: Path):
    """The people who pay are those of the file that was read, not of the one that the link names later."""
    source, contract = large_csv(tmp_path), make_contract(tmp_path)
    other = source.path.rename(tmp_path / "first.csv").with_name("second.csv")
    other.write_bytes((tmp_path / "first.csv").read_bytes())
    source.path.symlink_to("first.csv")

    def move(fraction: float) -> None:
        source.path.unlink()
        source.path.symlink_to("second.csv")

    with watched(move), pytest.raises(Refused, match="while it was read"):
        take_in(source, contract, tmp_path)
    assert not list((tmp_path / "run").iterdir())


# Interruptions, locks and full disks


@contextmanager
def watched(advance: object) -> Iterator[list[str]]:
    """Call `advance` with the fraction that a step reports, and note what begins and ends."""
    seen: list[str] = []

    class Watcher:
        def begin(self, name: str) -> Watcher:
            seen.append(name)
            return self

        def advance(self, fraction: float) -> None:
            advance(fraction)  # type: ignore[operator]

        def end(self, name: str, *, ok: bool) -> None:
            seen.append(f"{name} {'done' if ok else 'failed'}")

    progress.watch(Watcher())
    try:
        yield seen
    finally:
        progress.watch(None)


@pytest.mark.long
def test_the_progress_grows_from_nothing_to_all(tmp_path: Path):
    fractions: list[float] = []
    with watched(fractions.append) as seen:
        take_in(large_csv(tmp_path), make_contract(tmp_path), tmp_path)
    assert fractions == sorted(fractions)
    assert 0 <= fractions[0] < 0.7
    assert fractions[-1] == 1.0
    assert seen == ["ingest", "ingest done"]


@pytest.mark.long
@pytest.mark.parametrize("from_fraction", [0.0, 0.7, 0.9])
def test_ctrl_c_stops_the_ingest_and_leaves_nothing(tmp_path: Path, from_fraction: float):
    """While it reads, while it encodes, while it hashes."""

    def interrupt(fraction: float) -> None:
        if fraction >= from_fraction:
            signal.raise_signal(signal.SIGINT)

    source, contract = large_csv(tmp_path), make_contract(tmp_path)
    with watched(interrupt) as seen, pytest.raises(KeyboardInterrupt):
        take_in(source, contract, tmp_path)
    assert not list((tmp_path / "run").iterdir())
    assert seen == ["ingest", "ingest failed"]


def test_a_signal_inside_a_short_statement_is_a_keyboard_interrupt_too(tmp_path: Path):
    """DuckDB itself raises RuntimeError("Query interrupted")."""

    def interrupted() -> None:
        raise RuntimeError("Query interrupted")

    with connect(None, memory_limit="100MB", spill=tmp_path / "spill") as connection:
        with pytest.raises(KeyboardInterrupt):
            run(connection, interrupted, explain=lambda error: None)


@pytest.mark.services
def test_a_killed_ingest_leaves_no_finished_snapshot(tmp_path: Path):
    large_csv(tmp_path)
    make_contract(tmp_path)
    program = f"""
        import os, signal
        from pathlib import Path
        from contracts.contract.odcs import load_contract
        from contracts.release.spec import Source
        from tasks.storage import progress
        from tasks.ingest import ingest
        class Killer:
            def begin(self, name): return self
            def advance(self, fraction): os.kill(os.getpid(), signal.SIGKILL)
        progress.watch(Killer())
        folder = Path({str(tmp_path)!r})
        contract = load_contract(folder / "people.odcs.yaml")
        ingest(Source(path=folder / "large.csv"), contract, folder=folder / "run", key=bytes(32), memory_limit="1GB")
    """
    ended = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert (tmp_path / "run" / PARTIAL).exists()
    assert not (tmp_path / "run" / SNAPSHOT).exists()


@pytest.mark.long
def test_a_full_disk_is_named_and_nothing_half_written_stays(tmp_path: Path):
    """A limit on the size of files stands for the full disk: writing fails in the same way."""
    source, contract = large_csv(tmp_path), make_contract(tmp_path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, hard))
    try:
        with pytest.raises(SudareError) as raised:
            take_in(source, contract, tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert f"{tmp_path / 'run'}: writing the snapshot\n    found: no space left to write" in str(raised.value)
    assert raised.value.__context__ is None
    assert not list((tmp_path / "run").iterdir())


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path):
    (tmp_path / "run").write_text("a file in the way")
    with pytest.raises(SudareError, match="run: making the run's folder"):
        take_in(write_csv(tmp_path, *ROWS), make_contract(tmp_path), tmp_path)


def test_a_second_ingest_into_the_same_folder_is_refused(tmp_path: Path):
    with private_folder(tmp_path / "run"):
        with pytest.raises(SudareError, match="another process is writing this snapshot"):
            take_in(write_csv(tmp_path, *ROWS), make_contract(tmp_path), tmp_path)


@pytest.mark.parametrize("limit", ["", "much", "-1GB"])
def test_a_memory_limit_that_means_nothing_is_refused(tmp_path: Path, limit: str):
    source, contract = write_csv(tmp_path, *ROWS), make_contract(tmp_path)
    with pytest.raises(Refused, match=r"ingest\.memory_limit"):
        ingest(source, contract, folder=tmp_path / "run", key=KEY, memory_limit=limit)


def wide_csv(folder: Path, rows: int) -> Source:
    """A CSV with 278 bytes a row that compress badly."""
    path, text = folder / "wide.csv", " || ".join(f"sha256('{part}' || i::VARCHAR)" for part in range(4))
    duckdb.sql(
        f"SELECT i % 99 AS age, {text} AS sex, i AS wage, '2021-01-01' AS since FROM range({rows}) t(i)"
    ).write_csv(str(path))
    return Source(path=path)


@pytest.mark.long
def test_a_table_larger_than_the_memory_is_worked_on_from_the_disk(tmp_path: Path):
    source, contract = wide_csv(tmp_path, 900_000), make_contract(tmp_path)
    assert source.path.stat().st_size > 245_000_000
    table = ingest(source, contract, folder=tmp_path / "run", key=KEY, memory_limit="230MB")
    assert contents(table.path, "(SELECT count(*) FROM codes)") == [(900_000,)]


def test_a_memory_limit_that_is_too_small_is_told(tmp_path: Path):
    source, contract = wide_csv(tmp_path, 150_000), make_contract(tmp_path)
    with pytest.raises(SudareError, match="the memory limit is too small"):
        ingest(source, contract, folder=tmp_path / "run", key=KEY, memory_limit="20MB")
    assert not list((tmp_path / "run").iterdir())
