"""README and tutorial do what they say: their commands are typed, their spec is one that runs."""

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
SYNTHETIC = (ROOT / "docs" / "synthetic.md").read_text(encoding="utf-8")


def commands_of(page: str, folder: Path, workspace: str, made: Path) -> str:
    commands = "\n".join(re.findall(r"```sh\n(.*?)```", page, re.DOTALL))
    assert commands.count(f"sudare init {workspace}\n") == 1
    shutil.copytree(made, folder / workspace)
    return commands.replace(f"sudare init {workspace}\n", "")


def typed_here(commands: str, capfd: pytest.CaptureFixture[str]) -> str:
    """Type commands one after another: those of sudare in this process, what is between them in a shell."""
    capfd.readouterr()
    for lines in re.split(r"(^(?:! )?sudare (?:.*\\\n)*.*\n)", commands, flags=re.MULTILINE):
        refused, words = lines.startswith("! "), shlex.split(lines.removeprefix("! ").replace("\\\n", " "))
        if words[:1] == ["sudare"]:
            assert not set("|<>;&$`") & set(lines), f"{lines}: a shell would read more in it"
            assert (execute(words[1:]) != 0) is refused, lines
        else:
            path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
            subprocess.run(["sh", "-eu", "-c", lines], env={**os.environ, "PATH": path}, check=True)
    return "".join(capfd.readouterr())


@pytest.mark.usefixtures("served")
def test_the_tutorial_leads_from_a_csv_to_a_verified_release(
    tmp_path: Path, initialised: tuple[Path, str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    """Each of its commands ends well, and what the page says that they say is said."""
    monkeypatch.chdir(tmp_path)
    said = typed_here(commands_of(TUTORIAL, tmp_path, "work", initialised[0]), capfd)
    for quoted in re.findall(r"says `([^`]+)`", TUTORIAL):
        assert quoted in said
    assert len(re.findall(r"says `([^`]+)`", TUTORIAL)) == 5
    assert said.count("clinic-visits v1 is published") == 1
    assert "clinic-visits v1 does NOT hold " in said
    assert "\nlabel.html: size\n" in said
    (tmp_path / "work" / "releases" / "clinic-visits" / "v1" / "record.html").stat()


@pytest.mark.usefixtures("served")
def test_the_whole_file_of_synthetic_rows_leads_to_a_verified_version(
    tmp_path: Path, initialised: tuple[Path, str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    """With the CSV file and the contract that the tutorial makes."""
    monkeypatch.chdir(tmp_path)
    made = re.findall(r"^(?:python3 - |cat > visits\.contract).*?^EOF\n", TUTORIAL, re.MULTILINE | re.DOTALL)
    assert len(made) == 2
    said = typed_here("".join(made) + commands_of(SYNTHETIC, tmp_path, "rows", initialised[0]), capfd)
    assert "clinic-rows v1 is published" in said
    assert "clinic-rows v1 holds under key" in said
    assert len((tmp_path / "more.csv").read_text(encoding="utf-8").splitlines()) == 501


@pytest.mark.usefixtures("served")
def test_the_shipped_example_is_released_as_the_tutorial_says(
    tmp_path: Path, initialised: tuple[Path, str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    """`make demo` types such commands in a shell, each in a process of its own."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    said = typed_here(commands_of(SHIPPED, tmp_path, "adult", initialised[0]), capfd)
    assert "adult-tables v1 is published" in said
    assert "adult-tables v1 holds under key" in said


def test_the_tutorial_s_account_holds_every_shipped_example_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, initialised: tuple[Path, str]
):
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
    assert {"tables", "wide", "statistics", "synthetic", "model"} == charged
    assert all(f"`{name}.yaml`" in SHIPPED for name in charged)


def test_the_spec_of_the_readme_fits_the_shipped_contract(tmp_path: Path):
    (spec,) = re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)
    (tmp_path / "release.yaml").write_text(spec, encoding="utf-8")
    contract = load_contract(ROOT / "examples" / "adult" / "adult.odcs.yaml")
    assert check_spec(load_spec(tmp_path / "release.yaml"), contract) == []


def test_the_readme_fits_a_screen_and_its_picture_is_small():
    assert len(README.splitlines()) <= 75
    (picture,) = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", README)
    content = (ROOT / picture).read_bytes()
    assert content.startswith(b"\x89PNG")
    assert len(content) < 200_000


@pytest.mark.parametrize("page", [README, TUTORIAL + SHIPPED], ids=["README", "start"])
def test_the_make_targets_that_a_page_names_exist(page: str):
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"(?:`|    )make ([a-z-]+)", page))
    assert targets
    assert [target for target in targets if not re.search(rf"^{target}:", makefile, re.MULTILINE)] == []
