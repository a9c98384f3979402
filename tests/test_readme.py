"""The README's commands do what it says: typed in a copy of the repository's example, by a shell."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from console.main import execute
from flows.request import read_request
from tasks.products.charge_request import request_for
from tasks.storage.workspace.settings import Workspace

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


def test_the_readme_s_account_holds_every_example_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, initialised: tuple[Path, str]
) -> None:
    """Each example is charged to the account as the README opens it, one after another, in the worst order too."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    shutil.copytree(initialised[0], tmp_path / "work")
    monkeypatch.chdir(tmp_path)
    (command,) = re.findall(r"^sudare (budget open .*\\\n.*)$", README, re.MULTILINE)
    assert execute(shlex.split(command.replace("\\\n", " "))) == 0
    workspace = Workspace.open(tmp_path / "work")
    with closing(workspace.open_ledger()) as ledger:
        for spec in sorted((tmp_path / "examples" / "adult").glob("*.yaml"), reverse=True):
            if spec.name.endswith(".odcs.yaml"):
                continue
            asked = read_request(spec, workspace)
            wanted = request_for(asked.spec, asked.contract, asked.plan, run_key=spec.stem, snapshot_hash="c" * 64)
            assert ledger.reserve(wanted).status == "reserved"
        charged = {charge.request.run_key for charge in ledger.charges(account="adult-1994")}
    assert {"tables", "wide", "synthetic", "model"} <= charged


def test_every_file_that_the_readme_links_to_is_there() -> None:
    for link in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / link).exists(), link


def test_the_make_targets_that_the_readme_names_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in set(re.findall(r"make ([a-z]+)", README)) - {"and"}:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE) or target in ("sure",), target
