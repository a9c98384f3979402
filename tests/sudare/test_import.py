"""`import sudare` takes no time, loads names when they are used, and tells of strangers before ours."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import sudare
from sudare import entrance

MOST_MODULES = 60
OURS = ["sudare", "sudare.entrance"]


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    where = {**os.environ, **environment}
    return subprocess.run([sys.executable, "-c", code], env=where, capture_output=True, text=True, check=False)


@pytest.mark.services
def test_importing_loads_nothing_but_the_entrance() -> None:
    """Two modules of ours, and few of Python's own; how many of those are there already differs by environment."""
    code = "import sys; before = set(sys.modules); import sudare; print(*sorted(set(sys.modules) - before))"
    loaded = python(code).stdout.split()
    assert [name for name in loaded if name.partition(".")[0] not in sys.stdlib_module_names] == OURS
    assert len(loaded) <= MOST_MODULES


def test_every_public_name_can_be_loaded_and_no_other() -> None:
    for name in sudare.__all__:
        assert getattr(sudare, name) is not None
    assert dir(sudare) == sorted(sudare.__all__)
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = sudare.no_such_name  # type: ignore[attr-defined]


@pytest.mark.services
def test_a_strangers_package_before_ours_is_told_when_a_name_is_used(tmp_path: Path) -> None:
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "__init__.py").touch()
    path = f"{tmp_path}{os.pathsep}{entrance.HOME}"
    command = [sys.executable, "-P", "-c", "import sudare; sudare.Workspace"]
    where = {**os.environ, "PYTHONPATH": path}
    said = subprocess.run(command, env=where, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert said.returncode == 1
    assert str(tmp_path / "tasks") in said.stderr.splitlines()[-1]
    assert said.stderr.splitlines()[-1].startswith("ImportError: sudare: ")


@pytest.mark.services
def test_the_module_is_the_command() -> None:
    said = subprocess.run([sys.executable, "-m", "sudare", "--version"], capture_output=True, text=True, check=True)
    assert said.stdout.startswith("sudare ")
