"""`make test` passes on a bare machine: a plug-in finds what starts a foreign program or skips a test of it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.worlds.bare_machine import is_allowed

ROOT = Path(__file__).resolve().parents[1]
FOREIGN = """
import shutil, subprocess, sys
import pytest

def test_foreign():
    subprocess.run([shutil.which("env") or "env", "true"], check=True)
    subprocess.run(["openssl", "version"], check=False)

@pytest.mark.services
def test_marked():
    subprocess.run([sys.executable, "-c", ""], check=True)
    with pytest.raises(FileNotFoundError):
        subprocess.run(["no-such-program"])

def test_skipped():
    pytest.skip("no chromium")

@pytest.mark.services
def test_marked_and_skipped():
    pytest.skip("no chromium")

@pytest.fixture
def browser():
    return 1

def test_by_its_fixture(browser):
    pass

def test_own():
    subprocess.run([sys.executable, "-c", ""], check=True)
"""


def outcomes(folder: Path, *, markers: str, ci: bool) -> str:
    """Run the file above with the plug-in, and return what pytest prints."""
    (folder / "test_foreign.py").write_text(FOREIGN)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n    services: x\n")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("CI", "PYTEST"))}
    words = ["-m", "pytest", "-p", "tests.worlds.bare_machine", "-p", "no:cacheprovider", "-v", "-m", markers]
    done = subprocess.run(
        [sys.executable, *words, str(folder), "--rootdir", str(folder)],
        env={**kept, "PYTHONPATH": str(ROOT)} | ({"CI": "true"} if ci else {}),
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout


@pytest.mark.parametrize("ci", [True, False])
def test_a_foreign_program_and_a_skip_fail_unless_they_are_marked(tmp_path: Path, ci: bool) -> None:
    """Of a test without a marker; where CI is set a marked test may not be skipped either."""
    told = outcomes(tmp_path, markers="not services", ci=ci)
    assert "3 deselected" in told
    assert "1 passed" in told
    assert "openssl is not on every machine: mark test_foreign.py::test_foreign with `services`" in told
    assert "No test is skipped here" in told
    marked = outcomes(tmp_path, markers="services", ci=ci)
    assert ("1 failed, 2 passed" if ci else "2 passed, 1 skipped") in marked


def test_programs_are_known_by_name_and_place(tmp_path: Path) -> None:
    """A program of an environment's packages is as foreign as one of the system: PostgreSQL and Node come so too."""
    assert is_allowed("git")
    assert is_allowed(sys.executable)
    assert is_allowed(str(tmp_path / "script"))
    for name in ("openssl", "/usr/bin/flock", str(Path(sys.prefix) / "lib/pgserver/pginstall/bin/initdb")):
        assert not is_allowed(name)


def test_the_bare_path_has_what_make_needs_and_nothing_that_a_test_of_services_asks_for(tmp_path: Path) -> None:
    """CI runs `make demo` and `make test` with it."""
    made = subprocess.run(
        ["sh", ROOT / "deploy" / "bare_path.sh", tmp_path / "bin"], capture_output=True, text=True, check=True
    )
    place = made.stdout.strip()
    assert all(
        shutil.which(name, path=place) for name in ("sh", "git", "make", "tar", "mkdir", "python3", "sha256sum")
    )
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
    text = (ROOT / ".ci" / "run").read_text()
    assert (
        text.index("bare demo\nbare demo\nbare test\n")
        < text.index("\ninstall_tools &")
        < text.index("test-services")
    )
