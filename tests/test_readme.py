"""The README's commands do what it says: typed in a copy of the repository's example, by a shell."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_commands_of_the_readme_work_as_written(tmp_path: Path, initialised: tuple[Path, str]) -> None:
    """Every ```sh block, one after another, with the shell stopping at the first failure.

    The first command, `sudare init`, was typed for the whole suite; what it made lies where the README says.
    """
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    shutil.copytree(initialised[0], tmp_path / "work")
    first, _, commands = "\n".join(re.findall(r"```sh\n(.*?)```", README, re.DOTALL)).partition("\n")
    assert first == "sudare init work"
    assert "sudare verify" in commands
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-eu", "-c", commands],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    assert "adult-tables v1 is published" in done.stdout
    assert "adult-tables v1 holds under key" in done.stdout
    assert "The journal holds" in done.stdout


def test_every_file_that_the_readme_links_to_is_there() -> None:
    for link in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / link).exists(), link


def test_the_make_targets_that_the_readme_names_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in set(re.findall(r"make ([a-z]+)", README)) - {"and"}:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE) or target in ("sure",), target
