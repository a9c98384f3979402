"""The tiers hold: a plug-in finds what starts a process, reads a clock, costs too much or is skipped."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.services

ROOT = Path(__file__).resolve().parents[1]
CASES = """
import multiprocessing, os, socket, subprocess, sys, time
import pytest

@pytest.mark.parametrize("do", [
    lambda: subprocess.run([sys.executable, "-c", ""], check=True),
    lambda: os.fork() or os._exit(0),
    lambda: multiprocessing.get_context("spawn").Process(target=print).start(),
    lambda: socket.create_server(("127.0.0.1", 0)),
    lambda: socket.create_connection(("127.0.0.1", 9)),
    lambda: time.sleep(0.01),
], ids=["run", "fork", "spawn", "bind", "connect", "sleep"])
def test_impure(do):
    try:
        do()
    except Exception:
        pass

def test_clock():
    assert time.monotonic() > 0

def test_dear():
    until = time.process_time_ns() + 5 * 10**9
    while time.process_time_ns() < until:
        pass

def test_pure():
    time.sleep(0)
    left, right = socket.socketpair()

def test_skipped():
    pytest.skip("no chromium")

@pytest.mark.services
def test_marked():
    subprocess.run([sys.executable, "-c", ""], check=True)
    time.sleep(0.01)

@pytest.mark.services
def test_marked_and_skipped():
    pytest.skip("no chromium")

@pytest.mark.services
def test_second_try(tmp_path_factory):
    seen = tmp_path_factory.getbasetemp() / "seen"
    first = not seen.exists()
    seen.write_text("")
    assert not first

@pytest.fixture
def browser():
    return 1

def test_by_its_fixture(browser):
    pass
"""


def outcomes(folder: Path, *, markers: str, ci: bool) -> str:
    """Run the cases above with the plug-in, and return what pytest prints."""
    (folder / "test_cases.py").write_text(CASES)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n    services: x\n    long: x\n    spark: x\n")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("CI", "PYTEST"))}
    words = ["-m", "pytest", "-p", "tests.worlds.tiers", "-p", "no:cacheprovider", "-v", "-rR", "-m", markers]
    words = [sys.executable, *words, str(folder), "--rootdir", str(folder)]
    own = {**kept, "PYTHONPATH": str(ROOT)} | ({"CI": "true"} if ci else {})
    return subprocess.run(words, env=own, cwd=folder, capture_output=True, text=True, check=False).stdout


def test_what_is_not_pure_fails_unless_it_is_marked(tmp_path: Path):
    """A case that catches what the plug-in raises fails too; what costs too much fails where nobody else computes."""
    said = outcomes(tmp_path, markers="not services", ci=False)
    assert "4 deselected" in said
    starts = dict.fromkeys(("run", "fork", "spawn"), "starts a process")
    for name, what in (
        starts | {"bind": "binds a socket", "connect": "connects a socket", "sleep": "sleeps"}
    ).items():
        assert f"test_cases.py::test_impure[{name}] {what}" in said
    assert "test_clock reads a clock (monotonic): mark it with" in said
    assert "No test is skipped here" in said
    assert "test_pure PASSED" in said
    assert "test_dear costs " in said


@pytest.mark.parametrize(("ci", "end"), [(True, "1 failed, 3 passed"), (False, "3 passed, 1 skipped")])
def test_a_marked_case_is_tried_once_more_and_not_skipped_in_ci(tmp_path: Path, ci: bool, end: str):
    said = outcomes(tmp_path, markers="services", ci=ci)
    assert end in said
    assert "RERUN test_cases.py::test_second_try" in said


def test_the_bare_path_has_what_make_needs_and_nothing_that_a_test_of_services_asks_for(tmp_path: Path):
    """CI runs `make demo` and `make test` with it."""
    words = ["sh", ROOT / "deploy" / "bare_path.sh", tmp_path / "bin"]
    made = subprocess.run(words, capture_output=True, text=True, check=True)
    place = made.stdout.strip()
    needed = ("sh", "git", "make", "tar", "mkdir", "python3", "sha256sum")
    assert all(shutil.which(name, path=place) for name in needed)
    foreign = (
        "openssl",
        "flock",
        "java",
        "go",
        "chromium",
        "chromium-headless-shell",
        "softhsm2-util",
        "psql",
        "helm",
    )
    assert not any(shutil.which(name, path=place) for name in foreign)
