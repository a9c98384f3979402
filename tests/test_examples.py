"""The shipped examples in a fresh copy of the repository, after `make install` alone: each is run and verified."""

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from deploy.gallery import ACCOUNTS
from tests.source_folders import CORE, EXTENSIONS, FOLDERS, ROOT

pytestmark = [pytest.mark.long, pytest.mark.timeout(2400)]

SPECS = {
    "adult-1994": ("tables", "wide", "statistics", "synthetic"),
    "households-2026": ("size", "people", "income", "synthetic"),
    "sado-2020": ("map",),
}
"""By the account that pays, those of its folder; examples/adult/model.yaml needs torch, which its page says."""
OF_EXTRAS = {
    "torch": ("privacy.learning.",),
    "ibis": ("sudare_engines.", "contracts.domains.portable_cell"),
    "sqlglot": ("sudare_engines.",),
    "pyiceberg": ("sudare_lakes.iceberg_files",),
}
"""Of each package that `make install` leaves out, which modules may ask for it when they are imported."""
TORCH = ("torch", "torchgen", "functorch", "sympy", "networkx", "filelock")
IMPORT_ALL = """
import importlib, pkgutil, sys
for name in sys.argv[1:]:
    package = importlib.import_module(name)
    for found in pkgutil.walk_packages(package.__path__, name + "."):
        try:
            importlib.import_module(found.name)
        except ModuleNotFoundError as error:
            print(found.name, error.name)
"""


class Clone:
    def __init__(self, root: Path) -> None:
        self.root = root
        ignored = shutil.ignore_patterns("__pycache__", ".venv")
        for name in (*FOLDERS, "deploy", "examples"):
            shutil.copytree(ROOT / name, root / name, ignore=ignored)
        for name in ("Makefile", "pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(ROOT / name, root / name)
        self.typed("make", f"PYTHON={sys.executable}", "install")

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Type a command at the root, with the environment's programs first."""
        foreign = ("PYTHON", "SUDARE", "PREFECT", "MAKE", "MFLAGS", "VIRTUAL_ENV")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
        kept["PATH"] = f"{self.root / '.venv/bin'}{os.pathsep}{os.environ['PATH']}"
        kept["SUDARE_FEDERATION_ENV"] = str(ROOT / "deploy" / "federation" / ".venv")
        return subprocess.run(words, cwd=self.root, env=kept, capture_output=True, text=True, check=False)

    def typed(self, *words: str) -> str:
        done = self.run(*words)
        assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def publish(self, spec: str, release: str) -> None:
        self.typed("sudare", "run", spec, "--workspace", "place")
        key = ("--key", "place/.sudare/keys/signing.pub")
        assert "holds under key" in self.typed("sudare", "verify", f"place/releases/{release}/latest", *key)


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    made = Clone(tmp_path_factory.mktemp("clone"))
    made.typed("sudare", "init", "place")
    for account in ACCOUNTS:
        made.typed("sudare", *replace(account, epsilon="20").words, "--workspace", "place")
    return made


def test_every_module_is_imported_without_the_packages_of_other_extras_than_its_own(clone: Clone):
    """`make install` installs the extra `publish`: no module of a command or a flow asks for more at its import."""
    done = clone.run("python", "-c", IMPORT_ALL, *CORE, *EXTENSIONS)
    assert done.returncode == 0, done.stderr
    told = [line.split() for line in done.stdout.splitlines()]
    assert [name for name, package in told if not name.startswith(OF_EXTRAS[package])] == []
    assert {package for _, package in told} <= OF_EXTRAS.keys()


def test_every_example_but_the_network_s_is_published_and_verified(clone: Clone):
    """And the commands of the example scripts, a federation of a table over three sites among them."""
    for account in ACCOUNTS:
        folder = Path(account.source).parts[1]
        for name in SPECS[account.name]:
            spec = f"examples/{folder}/{name}.yaml"
            clone.publish(spec, (clone.root / spec).read_text().partition("release: ")[2].split()[0])
    assert "holds under key" in clone.typed("sh", "examples/federation/federation.sh", "federation")


def test_the_network_s_example_says_what_it_needs_and_runs_with_it(clone: Clone):
    """Before anything is charged; with torch, which `make neural` installs and is linked to here, it is published."""
    refused = clone.run("sudare", "run", "examples/adult/model.yaml", "--workspace", "place")
    assert refused.returncode == 2
    assert "torch" in refused.stderr
    assert "make neural" in refused.stderr
    [packages] = (clone.root / ".venv" / "lib").glob("python*/site-packages")
    for name in TORCH:
        found = find_spec(name)
        assert found is not None
        assert found.submodule_search_locations
        (packages / name).symlink_to(found.submodule_search_locations[0])
    clone.publish("examples/adult/model.yaml", "adult-model")


def test_every_spec_of_the_examples_is_here():
    folders = {Path(account.source).parts[1]: SPECS[account.name] for account in ACCOUNTS}
    typed = {f"{folder}/{name}.yaml" for folder, names in folders.items() for name in names} | {"adult/model.yaml"}
    shipped = {path.relative_to(ROOT / "examples").as_posix() for path in (ROOT / "examples").glob("*/*.yaml")}
    assert {
        name
        for name in shipped - typed
        if not name.endswith((".odcs.yaml", ".contract.yaml")) and not name.startswith("federation/")
    } == set()
