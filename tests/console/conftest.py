"""A workspace with the Adult example and an account, and ways to type commands."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from console.main import execute
from flows.prefect_runs.server import PrefectServer
from tasks.storage.workspace.settings import Workspace

ADULT = Path(__file__).parents[2] / "examples" / "adult"
OPEN = (
    *("budget", "open", "adult-1994", "--population", "adults", "--block", "1994", "--unit", "row"),
    *("--epsilon", "3", "--delta", "1e-9", "--calculus", "renyi", "--adjacency", "add_remove"),
)
COMMAND = (sys.executable, "-c", "from console.main import main; main()")

Typed = Callable[..., "Said"]


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    def assert_ended(self, code: int, *told: str) -> None:
        """Assert the exit code, and what standard error tells."""
        assert self.code == code, self.err
        assert [text for text in told if text not in self.err] == [], self.err

    def assert_printed(self, *told: str) -> None:
        """Assert that all went well, and what standard output has."""
        assert self.code == 0, self.err
        assert [text for text in told if text not in self.out] == [], self.out


def said(*words: str) -> Said:
    """Type a command in this process."""
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        code = execute(words)
    return Said(code, out.getvalue(), err.getvalue())


@dataclass(frozen=True)
class Place:
    workspace: Workspace
    adult: Path

    def spec(self, name: str, *changes: tuple[str, str]) -> Path:
        """Write the example's spec under another release name, with other texts in it."""
        text = (self.adult / "tables.yaml").read_text().replace("release: adult-tables", f"release: {name}")
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        path = self.adult / f"{name}.yaml"
        path.write_text(text)
        return path

    def pure_account(self, name: str, mechanism: str = "gaussian") -> Path:
        """Open an account without a delta for other rows; write a spec that asks it for that noise."""
        copy = self.adult / f"{name}.parquet"
        pl.read_parquet(self.adult / "adult.parquet").head(-len(name)).write_parquet(copy)
        people = ("--population", name, "--block", "1994", "--unit", "row", "--source", str(copy))
        cap = ("--epsilon", "3", "--calculus", "pure", "--adjacency", "add_remove")
        assert execute(["budget", "open", f"pure-{name}", *people, *cap, *_at(self.workspace)]) == 0
        return self.spec(
            name,
            ("path: adult.parquet", f"path: {copy.name}"),
            ("account: adult-1994", f"account: pure-{name}"),
            ("mechanism: laplace", f"mechanism: {mechanism}"),
            ("delta: 0", "delta: 1e-9"),
        )

    def type(self, *words: str) -> Said:
        """Type a command in this process, where a fixture of a module cannot ask for `typed`."""
        return said(*words, *_at(self.workspace))

    def type_on(self, server: PrefectServer, *words: str) -> Said:
        """Type a command in this process, where a fixture of a module cannot ask for `served`."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PREFECT_API_URL", server.api_url)
            return self.type(*words)

    def start(self, *words: str) -> subprocess.Popen[str]:
        command = [*COMMAND, *words, "--workspace", str(self.workspace.root)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run(self, *words: str) -> Said:
        with self.start(*words) as process:
            out, err = process.communicate()
        return Said(process.returncode, out, err)


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SUDARE_WORKSPACE", "SUDARE_LEDGER_URL", "PREFECT_API_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def make_place(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Place]:
    return lambda: place_in(tmp_path_factory.mktemp("place"))


def place_in(root: Path) -> Place:
    """Make a workspace in a folder, beside a copy of the example, with its account."""
    workspace = Workspace.create(root / "w")
    shutil.copytree(ADULT, root / "adult")
    assert execute([*OPEN, "--source", str(root / "adult" / "adult.parquet"), *_at(workspace)]) == 0
    return Place(workspace, root / "adult")


@pytest.fixture(scope="module")
def shared(make_place: Callable[[], Place]) -> Place:
    """One place for the tests of a module that only look, or that each use a release of their own."""
    return make_place()


@pytest.fixture
def place(make_place: Callable[[], Place]) -> Place:
    return make_place()


@pytest.fixture
def typed(capfd: pytest.CaptureFixture[str]) -> Typed:
    def type_(*words: str, at: Workspace | None = None) -> Said:
        capfd.readouterr()
        code = execute([*words, *(_at(at) if at is not None else ())])
        told = capfd.readouterr()
        return Said(code, told.out, told.err)

    return type_


def _at(workspace: Workspace) -> tuple[str, str]:
    return "--workspace", str(workspace.root)
