"""Which commit runs: of a working tree of its own, with what was changed in it; nothing where git does not know."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tasks.records.software import code_commit

pytestmark = pytest.mark.services


def git(folder: Path, *arguments: str) -> str:
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    told = subprocess.run(["git", "-C", str(folder), *who, *arguments], capture_output=True, text=True, check=True)
    return told.stdout.strip()


def test_the_commit_is_that_of_the_working_tree(tmp_path: Path) -> None:
    """Clean at first; a changed file is told."""
    git(tmp_path, "init", "-q")
    (tmp_path / "code.py").write_text("1")
    git(tmp_path, "add", "code.py")
    git(tmp_path, "commit", "-qm", "one")
    assert code_commit(tmp_path) == (git(tmp_path, "rev-parse", "HEAD"), False)
    (tmp_path / "code.py").write_text("2")
    assert code_commit(tmp_path)[1] is True


def test_a_folder_inside_another_repository_is_not_taken_for_it(tmp_path: Path) -> None:
    """Installed code below somebody's working tree is not of that tree's commit."""
    git(tmp_path, "init", "-q")
    inside = tmp_path / "site-packages"
    inside.mkdir()
    assert code_commit(inside)[1] is None


def test_a_repository_without_a_commit_tells_none(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    assert code_commit(tmp_path)[1] is None
