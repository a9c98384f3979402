"""An extension can be deleted: the core is imported, shows its help, and verifies, without each and without all.

Each is deleted from a copy of the tree, whose processes find only what the copy holds. All tests of the core without
extensions are run by `python -m deploy.without_extensions FOLDER` and `make test` there. Here all are collected, and
those run that ask for extensions or hold the laws of the repository.
"""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from contracts.plug_ins import OF_EXTENSIONS
from deploy.without_extensions import copy_without
from tests.source_folders import CORE, EXTENSIONS, ROOT
from tests.test_examples import IMPORT_ALL
from tests.worlds.tables import first
from tests.worlds.versions import Version, publish_version

SUDARE = "from sudare.entrance import main; main()"
OF_THE_CORE = (
    "tests/contracts/drafting",
    "tests/console/test_contract.py",
    "tests/console/test_explain.py",
    "tests/console/test_main.py",
    "tests/sudare/test_spec.py",
    "tests/tasks/storage/sinks",
    "tests/tasks/storage/sources/test_folder_source.py",
    "tests/tasks/records/page/test_language.py",
    "tests/tasks/test_public_sample.py",
    "tests/test_docs.py",
    "tests/test_import_contracts.py",
    "tests/test_mirror.py",
    "tests/test_repository.py",
)


class Tree:
    """A copy of the tree without some extensions, and processes that find no other."""

    def __init__(self, root: Path, names: tuple[str, ...]) -> None:
        self.root = root / "tree"
        copy_without(names, self.root)
        # The environment of the tests has the extensions: its finder would load what the copy does not hold, and its
        # metadata name it. What comes first on the path has metadata of the copy, and makes the names unloadable.
        (root / "sitecustomize.py").write_text(f"import sys\nsys.modules.update(dict.fromkeys({names!r}))\n")
        self.path = os.pathsep.join(map(str, (root, self.root, self.root / "extensions")))
        self.python("-c", "import setuptools; setuptools.setup()", "--quiet", "egg_info")

    def run(self, *words: str | Path, **environment: str) -> str:
        """Run a program at the root of the copy; it has to succeed."""
        foreign = ("PYTHON", "SUDARE", "PREFECT", "MAKE", "MFLAGS", "PYTEST")
        own = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
        own |= {"PYTHONPATH": self.path, **environment}
        done = subprocess.run([*map(str, words)], cwd=self.root, env=own, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{done.stdout[-4000:]}{done.stderr[-4000:]}"
        return done.stdout

    def python(self, *words: str | Path) -> str:
        return self.run(sys.executable, *words)


@pytest.fixture(scope="module")
def version(tmp_path_factory: pytest.TempPathFactory) -> Version:
    return publish_version(first(), tmp_path_factory.mktemp("version"))


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
@pytest.mark.parametrize("names", [*((name,) for name in EXTENSIONS), EXTENSIONS], ids=[*EXTENSIONS, "all"])
def test_the_core_works_without(tmp_path: Path, version: Version, names: tuple[str, ...]):
    """Every module of the core is imported; help, and a version that was published before, verified."""
    tree = Tree(tmp_path, names)
    project = (tree.root / "pyproject.toml").read_text(encoding="utf-8")
    assert [name for name in names if name in project] == []
    left = {name for name in EXTENSIONS if name not in names}
    points = tree.python("-c", "from importlib.metadata import distribution as d; print(d('sudare').entry_points)")
    assert {name for name in EXTENSIONS if f"'{name}." in points} == left
    assert tree.python("-c", IMPORT_ALL, *CORE, *left) == ""
    assert "verify" in tree.python("-c", SUDARE, "--help")
    (tmp_path / "key.pub").write_text(f"{version.key}\n")
    said = tree.python("-c", SUDARE, "verify", version.folder, "--key", tmp_path / "key.pub")
    assert " holds under key " in said


@pytest.mark.long
def test_without_any_extension_the_demo_runs_and_the_tests_of_the_core_pass(tmp_path: Path):
    """In the environment of these tests: nothing is installed for the copy."""
    tree = Tree(tmp_path, EXTENSIONS)
    installed = Path(sys.prefix, ".runtime-installed")
    demo = tree.run("make", "-o", installed, f"VENV={sys.prefix}", f"WORKSPACE={tmp_path / 'demo'}", "demo")
    assert "holds under key" in demo
    pytest_words = ("-m", "pytest", "-p", "no:cacheprovider", "--ignore", "tests/extensions")
    assert "error" not in tree.python(*pytest_words, "--collect-only", "tests").splitlines()[-1]
    tree.python(*pytest_words, *OF_THE_CORE)
