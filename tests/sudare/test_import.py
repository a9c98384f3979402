"""`import sudare` takes no time and tells of strangers; refusals have the words of Python, and nothing of a row."""

import os
import subprocess
import sys
import traceback
from pathlib import Path

import pytest

import sudare
from contracts.errors import Finding, SpecRefused, SudareError
from sudare import entrance
from sudare.words import call

MOST_MODULES = 60
OURS = ["sudare", "sudare.entrance"]


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    where = {**os.environ, **environment}
    return subprocess.run([sys.executable, "-c", code], env=where, capture_output=True, text=True, check=False)


@pytest.mark.services
def test_importing_loads_nothing_but_the_entrance():
    """Two modules of ours, and few of Python's own; how many of those are there already differs by environment."""
    code = "import sys; before = set(sys.modules); import sudare; print(*sorted(set(sys.modules) - before))"
    loaded = python(code).stdout.split()
    assert [name for name in loaded if name.partition(".")[0] not in sys.stdlib_module_names] == OURS
    assert len(loaded) <= MOST_MODULES


def test_every_public_name_can_be_loaded_and_no_other():
    for name in sudare.__all__:
        assert getattr(sudare, name) is not None
    assert dir(sudare) == sorted(sudare.__all__)
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = sudare.no_such_name  # type: ignore[attr-defined]


@pytest.mark.services
def test_a_strangers_package_before_ours_is_told_when_a_name_is_used(tmp_path: Path):
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
def test_the_module_is_the_command():
    said = subprocess.run([sys.executable, "-m", "sudare", "--version"], capture_output=True, text=True, check=True)
    assert said.stdout.startswith("sudare ")


SECRET = "zebra-4711"


def test_places_and_calls_take_the_place_of_files_lines_and_options(tmp_path: Path):
    file = tmp_path / "by-sex.yaml"

    def refuse() -> None:
        finding = Finding(
            f"{file}:12", "source.path", f"{file}", "one", "add --supersede, or sudare budget open --help"
        )
        raise SpecRefused([finding])

    with pytest.raises(SpecRefused) as refused:
        call(refuse, {file: "Spec('by-sex')"})
    [finding] = refused.value.findings
    assert finding.where == "Spec('by-sex')"
    assert finding.found == "Spec('by-sex')"
    assert finding.remedy == "call run(..., supersede=True), or ws.open_account(...)"
    assert str(refused.value) == str(finding)


def test_a_file_whose_name_only_ends_alike_is_left_as_it_is(tmp_path: Path):
    def refuse() -> None:
        raise SpecRefused([Finding(f"{tmp_path}/not-by-sex.yaml:3", "a", "b", "c")])

    with pytest.raises(SpecRefused) as refused:
        call(refuse, {tmp_path / "by-sex.yaml": "Spec"})
    assert refused.value.findings[0].where == f"{tmp_path}/not-by-sex.yaml:3"


def test_an_error_of_a_library_is_told_by_its_kind_alone(tmp_path: Path):
    """Its text and frames go into the private log; nothing that prints a traceback finds them."""
    log = tmp_path / "error.private.log"

    def fail() -> None:
        value = SECRET
        raise ValueError(f"cannot read {value}")

    with pytest.raises(SudareError, match="unexpected ValueError") as refused:
        call(fail, log=lambda: log)
    shown = traceback.TracebackException.from_exception(refused.value, capture_locals=True)
    assert SECRET not in "".join(shown.format())
    assert SECRET in log.read_text()
    assert log.stat().st_mode & 0o077 == 0


def test_an_interruption_passes():
    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        call(stop)
