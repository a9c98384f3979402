"""README and tutorial do what they say: their commands are typed by a shell, their spec is one that runs."""

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
from contracts.contract.odcs import load_contract
from contracts.release.spec import load_spec
from contracts.release.spec_checks import check_spec
from flows.request import read_request
from tasks.products.charge_request import request_for
from tasks.storage.workspace.settings import Workspace

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
TUTORIAL, _, SHIPPED = (
    (ROOT / "docs" / "start.md").read_text(encoding="utf-8").partition("\n## The shipped example\n")
)


def typed(page: str, folder: Path, workspaces: tuple[str, ...], made: Path) -> str:
    """Type every ```sh block of a page, one after another, with the shell stopping at the first failure.

    `sudare init` was typed for the whole suite; its workspace lies where the page makes its own.
    """
    commands = "\n".join(re.findall(r"```sh\n(.*?)```", page, re.DOTALL))
    for workspace in workspaces:
        assert commands.count(f"sudare init {workspace}\n") == 1
        commands = commands.replace(f"sudare init {workspace}\n", "")
        shutil.copytree(made, folder / workspace)
    done = subprocess.run(
        ["sh", "-eu", "-c", commands],
        cwd=folder,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_the_tutorial_leads_from_a_csv_to_a_verified_release(tmp_path: Path, initialised: tuple[Path, str]) -> None:
    """Each of its commands ends well, and what the page says that they say is said."""
    said = typed(TUTORIAL, tmp_path, ("work",), initialised[0])
    for quoted in re.findall(r"says `([^`]+)`", TUTORIAL):
        assert quoted in said
    assert len(re.findall(r"says `([^`]+)`", TUTORIAL)) == 4
    assert said.count("clinic-visits v1 is published") == 1
    assert re.search(r"clinic-visits v1 does NOT hold .*\nlabel\.html: size\n", said)
    (tmp_path / "work" / "releases" / "clinic-visits" / "v1" / "record.html").stat()


def test_the_shipped_example_is_released_as_the_tutorial_says(tmp_path: Path, initialised: tuple[Path, str]) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    said = typed(SHIPPED, tmp_path, ("adult",), initialised[0])
    assert "adult-tables v1 is published" in said
    assert "adult-tables v1 holds under key" in said


def test_the_tutorial_s_account_holds_every_shipped_example_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, initialised: tuple[Path, str]
) -> None:
    """Each example is charged to the account as the page opens it, one after another, in the worst order too."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    shutil.copytree(initialised[0], tmp_path / "adult")
    monkeypatch.chdir(tmp_path)
    (command,) = re.findall(r"^sudare (budget open .*\\\n.*)$", SHIPPED, re.MULTILINE)
    assert execute(shlex.split(command.replace("\\\n", " "))) == 0
    workspace = Workspace.open(tmp_path / "adult")
    with closing(workspace.open_ledger()) as ledger:
        for spec in sorted((tmp_path / "examples" / "adult").glob("*.yaml"), reverse=True):
            if spec.name.endswith(".odcs.yaml"):
                continue
            asked = read_request(spec, workspace)
            wanted = request_for(asked.spec, asked.contract, asked.plan, run_key=spec.stem, snapshot_hash="c" * 64)
            assert ledger.reserve(wanted).status == "reserved"
        charged = {charge.request.run_key for charge in ledger.charges(account="adult-1994")}
    assert {"tables", "wide", "synthetic", "model"} == charged
    assert all(f"`{name}.yaml`" in SHIPPED for name in charged)


def test_the_spec_of_the_readme_fits_the_shipped_contract(tmp_path: Path) -> None:
    (spec,) = re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)
    (tmp_path / "release.yaml").write_text(spec, encoding="utf-8")
    contract = load_contract(ROOT / "examples" / "adult" / "adult.odcs.yaml")
    assert check_spec(load_spec(tmp_path / "release.yaml"), contract) == []


def test_the_readme_fits_a_screen_and_its_picture_is_small() -> None:
    assert len(README.splitlines()) <= 75
    (picture,) = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", README)
    content = (ROOT / picture).read_bytes()
    assert content.startswith(b"\x89PNG")
    assert len(content) < 200_000


@pytest.mark.parametrize("page", [README, TUTORIAL + SHIPPED], ids=["README", "start"])
def test_the_make_targets_that_a_page_names_exist(page: str) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"(?:`|    )make ([a-z-]+)", page))
    assert targets
    assert [target for target in targets if not re.search(rf"^{target}:", makefile, re.MULTILINE)] == []
