"""An extension can be deleted: the core is imported, shows its help, and verifies, without each and without all.

Where one is deleted it cannot be imported, and neither pyproject.toml nor the metadata name it. All are deleted from
a copy of the tree as well, which also releases. There all tests of the core are collected, and those run that ask for
extensions or hold the laws of the repository; `python -m deploy.without_extensions FOLDER` and `make test` run all.
"""

import shutil
import sys
import tomllib
from pathlib import Path

import pytest

from contracts.plug_ins import OF_EXTENSIONS
from deploy.gallery import ACCOUNTS
from deploy.without_extensions import copy_without, lines_without
from tasks.storage.workspace.settings import Workspace
from tests.source_folders import CORE, EXTENSIONS, ROOT
from tests.worlds.packages import Hidden, describe
from tests.worlds.tables import first
from tests.worlds.versions import publish_version

OF_THE_CORE = (
    *("tests/contracts/drafting", "tests/tasks/storage/sinks", "tests/tasks/storage/sources/test_folder_source.py"),
    *("tests/console/test_contract.py", "tests/console/test_explain.py", "tests/console/test_main.py"),
    *("tests/sudare/test_spec.py", "tests/tasks/records/page/test_language.py", "tests/tasks/test_public_sample.py"),
    *("tests/test_docs.py", "tests/test_import_contracts.py", "tests/test_mirror.py", "tests/test_repository.py"),
)
CHOSEN = f"""
import importlib, pkgutil
def pytest_collection_modifyitems(items):
    items[:] = [each for each in items if each.nodeid.startswith({OF_THE_CORE!r})]
    for name in {CORE!r}:
        for found in pkgutil.walk_packages(importlib.import_module(name).__path__, name + "."):
            importlib.import_module(found.name)
"""
"""A plug-in of pytest: of all that is collected it leaves those, and it imports every module."""


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The words that verify a version which was published with all extensions."""
    folder = tmp_path_factory.mktemp("version")
    version = publish_version(first(), folder)
    (folder / "key.pub").write_text(f"{version.key}\n")
    return ["verify", str(version.folder), "--key", str(folder / "key.pub")]


def test_the_names_that_refusals_know_are_those_that_extensions_register():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    registered = {
        group: {name: place.partition(".")[0] for name, place in points.items() if place.startswith("sudare_")}
        for group, points in project["entry-points"].items()
    }
    assert {group: names for group, names in registered.items() if names} == {
        group: dict(names) for group, names in OF_EXTENSIONS.items()
    }


@pytest.mark.parametrize("name", EXTENSIONS)
def test_an_extension_has_a_page_and_at_most_seven_thousand_lines(name: str):
    folder = ROOT / "extensions" / name
    assert (folder / "README.md").read_text(encoding="utf-8").startswith("# ")
    assert sum(len(path.read_text(encoding="utf-8").splitlines()) for path in folder.rglob("*.py")) <= 7_000


@pytest.mark.services
@pytest.mark.parametrize("name", EXTENSIONS)
def test_the_core_and_the_other_extensions_work_without(tmp_path: Path, checked: list[str], name: str):
    """All that is registered is imported; help, and a version that was published before, verified."""
    text = lines_without([name], (ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert name not in text
    points = tomllib.loads(text)["project"]["entry-points"]
    modules = {place.partition(":")[0] for names in points.values() for place in names.values()}
    others = {each for each in modules if each.startswith("sudare_")}
    assert {each.partition(".")[0] for each in others} == {*EXTENSIONS} - {name}
    lines = [
        f"[{group}]\n" + "".join(f"{key} = {place}\n" for key, place in points[group].items()) for group in points
    ]
    describe(tmp_path, "sudare", "".join(lines))
    tried = Hidden(tmp_path, [name]).tried(sorted(others), tmp_path, ["--help"], checked)
    assert tried.returncode == 0, tried.stderr
    helped, _, verified = tried.stdout.partition("--help ended with 0\n")
    assert "verify" in helped
    assert " holds under key " in verified


def all_but_compiled(folder: str, names: list[str]) -> list[str]:
    inside = folder.endswith("__pycache__")
    return [each for each in names if not inside and (each == "extensions" or not Path(folder, each).is_dir())]


@pytest.mark.long
def test_without_any_extension_a_copy_releases_and_the_tests_of_the_core_pass(tmp_path: Path, checked: list[str]):
    """Every module of it is imported; it shows its help, and verifies an earlier version and one of its own."""
    copy_without(EXTENSIONS, tmp_path / "tree")
    assert [name for name in EXTENSIONS if name in (tmp_path / "tree" / "pyproject.toml").read_text()] == []
    for name in (*CORE, "tests"):  # what is compiled already
        shutil.copytree(ROOT / name, tmp_path / "tree" / name, ignore=all_but_compiled, dirs_exist_ok=True)
    here = Hidden(tmp_path, EXTENSIONS, tmp_path / "tree")
    here.done(sys.executable, "-c", "import setuptools; setuptools.setup()", "--quiet", "egg_info")
    root = Workspace.create(tmp_path / "place").root
    opened = [*ACCOUNTS[0].words, "--workspace", str(root)]
    key = ["--key", f"{root}/.sudare/keys/signing.pub"]
    own = [["release", "examples/adult/tables.yaml"], ["verify", f"{root}/releases/adult-tables/latest", *key]]
    tried = here.tried((), root, ["--help"], checked, opened, *own)
    ended = [line for line in tried.stdout.splitlines() if " ended with " in line]
    typed = ("--help", "verify", "budget", "release", "verify")
    assert ended == [f"{word} ended with 0" for word in typed], tried.stderr
    assert tried.stdout.count(" holds under key ") == 2
    (tmp_path / "chosen.py").write_text(CHOSEN)
    words = ("-m", "pytest", "-p", "no:cacheprovider", "-p", "chosen", "--ignore", "tests/extensions", "tests")
    assert " passed" in here.done(sys.executable, *words)
