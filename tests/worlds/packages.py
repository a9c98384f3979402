"""Packages beside the tree, each a module and the metadata with its entry point; and packages that are hidden."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.source_folders import ROOT

PROGRAM = """
import importlib, json, pkgutil, sys
from pathlib import Path
from sitecustomize import HIDDEN
packages, root, *commands = map(json.loads, sys.argv[1:])
for name in packages:
    package = importlib.import_module(name)
    for found in pkgutil.walk_packages(getattr(package, "__path__", ()), name + "."):
        try:
            importlib.import_module(found.name)
        except ModuleNotFoundError as error:
            print(found.name, error.name)
for words in commands:
    if words == ["make", "neural"]:
        HIDDEN.clear()
    elif words[0] == "release":
        from benchmarks.orchestration import release_plainly
        print("release ended with", release_plainly(Path(words[1]), Path(root)), flush=True)
    else:
        from console.main import execute
        print(words[0], "ended with", execute(words), flush=True)
"""
HIDE = """
import sys

class Rest:  # a finder without them; None in sys.modules would be taken for a module by those who only look there
    def __init__(self, finder):
        self.finder = finder
    def __getattr__(self, name):
        return getattr(self.finder, name)
    def find_spec(self, name, *rest):
        return None if name in HIDDEN else self.finder.find_spec(name, *rest)

sys.meta_path[:] = map(Rest, sys.meta_path)
"""


def describe(folder: Path, name: str, entry_points: str) -> None:
    """Write the metadata of a distribution."""
    about = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(entry_points)


@contextmanager
def installed(folder: Path, module: str, entry_points: str) -> Iterator[None]:
    """Copy a module of `tests/worlds` to where no package of the tree is, and register what it has."""
    describe(folder, module.replace("_", "-"), entry_points)
    shutil.copy(Path(__file__).with_name(f"{module}.py"), folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        yield


def asked_by(lines: Iterable[str]) -> set[str]:
    """Name the distributions that some requirements ask for, and those that these ask for, on this machine."""
    found, waiting = set(), [("", Requirement(line)) for line in lines]
    while waiting:
        extra, each = waiting.pop()
        if each.marker is not None and not each.marker.evaluate({"extra": extra}):
            continue
        for wanted in {(canonicalize_name(each.name), extra) for extra in each.extras or {""}} - found:
            found.add(wanted)
            waiting += [(wanted[1], Requirement(line)) for line in requires(wanted[0]) or []]
    return {name for name, _ in found}


def left_out_by(distributions: Collection[str]) -> set[str]:
    """Name the packages that are installed here and are of none of these distributions."""
    kept = {*distributions, "sudare"}
    owned = packages_distributions()
    return {name for name, owners in owned.items() if kept.isdisjoint(map(canonicalize_name, owners))}


@dataclass(frozen=True)
class Hidden:
    """Processes of this environment in which some packages are not found, and a tree is the first on the path."""

    folder: Path
    names: Collection[str]
    tree: Path = ROOT
    environment: Mapping[str, str] = field(default_factory=dict)

    def run(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        """Run a program at the root of the tree, with the programs of this environment first."""
        (self.folder / "sitecustomize.py").write_text(f"HIDDEN = {sorted(self.names)!r}\n{HIDE}")
        foreign = ("PYTHON", "SUDARE", "PREFECT", "MAKE", "MFLAGS", "PYTEST", "VIRTUAL_ENV")
        own = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
        own["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{own['PATH']}"
        own["PYTHONPATH"] = os.pathsep.join(map(str, (self.folder, self.tree, self.tree / "extensions")))
        own |= {"XDG_CONFIG_HOME": str(self.folder), "OMP_NUM_THREADS": "1", **self.environment}
        return subprocess.run([*map(str, words)], cwd=self.tree, env=own, capture_output=True, text=True, check=False)

    def tried(
        self, packages: Collection[str], root: Path, *commands: Sequence[str]
    ) -> subprocess.CompletedProcess[str]:
        """Have one process import all of some packages, then release and type commands in a workspace."""
        given = map(json.dumps, ([*packages], str(root), *commands))
        return self.run(sys.executable, "-P", "-c", PROGRAM, *given)

    def done(self, *words: str | Path) -> str:
        """Run a program that has to succeed; return what it printed."""
        ended = self.run(*words)
        assert ended.returncode == 0, f"{ended.stdout[-4000:]}{ended.stderr[-4000:]}"
        return ended.stdout
