"""The wheel: what it holds, and that it checks with the base dependencies alone.

Processes of this environment, in which all other packages are hidden, stand for one that pip made of the wheel. That
an installed tree works is tried by deploy/check_python.sh and deploy/check_uv.sh.
"""

import re
import shutil
import subprocess
import sys
import tomllib
from email import message_from_string
from importlib.metadata import packages_distributions
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from console.main import IMPORTED
from tests.source_folders import FOLDERS, ROOT
from tests.worlds.classifiers import dp_sgd
from tests.worlds.packages import Hidden, asked_by, left_out_by
from tests.worlds.statistics import pure
from tests.worlds.synthetic_rows import aim
from tests.worlds.tables import Scenario, first
from tests.worlds.versions import publish_version

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tree, folder = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("wheel")
    for name in FOLDERS:
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree / name)
    words = ["-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, tree]
    subprocess.run([sys.executable, *words], cwd=folder, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


def test_the_checker_has_few_dependencies():
    """At most twelve, and none of the extra `publish`; what that is imported as stands in the table of commands."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    base = {canonicalize_name(Requirement(line).name) for line in project["dependencies"]}
    extra = {canonicalize_name(Requirement(line).name) for line in project["optional-dependencies"]["publish"]}
    assert len(base) <= 12
    assert not base & extra
    owners = packages_distributions()
    assert {canonicalize_name(owner) for name in IMPORTED for owner in owners[name]} == extra
    assert len(IMPORTED) == len(extra)


def test_the_wheel_holds_every_file_of_the_packages(wheel: Path):
    """Templates, styles, compiled catalogues and markers of types too; no tests, and no source of a catalogue."""
    left_out = {"__pycache__", ".po"}
    found = [path for name in FOLDERS for path in (ROOT / name).rglob("*") if path.is_file()]
    files = [path for path in found if not left_out & {*path.parts, path.suffix}]
    expected = {path.relative_to(ROOT).as_posix().removeprefix("extensions/") for path in files}
    assert {name for name in ZipFile(wheel).namelist() if ".dist-info/" not in name} == expected


def test_the_base_dependencies_verify_a_version_of_every_kind(wheel: Path, tmp_path: Path):
    """All others hidden, verify, explain and help work; what publishes says what it needs, and that is told."""
    ZipFile(wheel).extractall(tmp_path)
    [about] = tmp_path.glob("*.dist-info/METADATA")
    base = asked_by(message_from_string(about.read_text()).get_all("Requires-Dist", []))
    here = Hidden(tmp_path, left_out_by(base), tmp_path)
    kinds: dict[str, Scenario] = {"tables": first(), "synthetic": aim(), "classifier": dp_sgd(), "statistics": pure()}
    commands = [["--help"], ["explain", "publisher-missing"]]
    for kind, scenario in kinds.items():
        version = publish_version(scenario, tmp_path / kind)
        (tmp_path / f"{kind}.pub").write_text(version.key + "\n")
        commands += [["verify", str(version.folder), "--key", f"{kind}.pub"], ["explain", str(version.folder)]]
    (tmp_path / "spec.yaml").write_text("release: adult\n")
    tried = here.tried((), tmp_path, *commands, ["run", "spec.yaml"], ["explain", "spec.yaml"])
    codes = re.findall(r"^\S+ ended with (\d)$", tried.stdout, re.MULTILINE)
    assert codes == [*["0"] * len(commands), "2", "2"], tried.stderr
    assert tried.stdout.count(" holds under key ") == len(kinds)
    assert tried.stdout.count("Check it: sudare verify") == len(kinds)
    assert "Only the checker is installed" in tried.stdout
    needed = "error: this needs sudare[publish]: pip install 'sudare[publish]' "
    refused = tried.stderr.splitlines()[-4:]
    assert [line.startswith(needed) for line in refused] == [True, False] * 2
    assert refused[1] == refused[3] == "what it means: sudare explain publisher-missing"
    assert {"prefect", "duckdb", "sqlalchemy", "polars", "pandas", "great_expectations", "torch"} <= here.names
