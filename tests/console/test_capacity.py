"""What this machine lacks is told by `plan` and `run` before anything is charged; with real missing imports."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from flows import capacity
from privacy.ledger.ledger import Ledger
from tasks.storage.workspace.settings import Workspace
from tests.console.conftest import Place, Typed

BLOCKED = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {modules!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Missing())
from console.main import execute
sys.exit(execute({arguments!r}))
"""


def typed_without(place: Place, modules: list[str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Type a command in a process in which some modules cannot be imported."""
    code = BLOCKED.format(modules=modules, arguments=[*arguments, "--workspace", str(place.workspace.root)])
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root), "COLUMNS": "200"}
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=300, check=False
    )


def spent(place: Place) -> list[int]:
    workspace = Workspace.open(place.workspace.root)
    with closing(Ledger(workspace.ledger_url, draws=workspace.draws)) as ledger:
        return [state.spent for state in ledger.accounts()]


@pytest.mark.parametrize("command", ["plan", "run"])
def test_a_training_without_torch_is_refused_and_nothing_is_charged(place: Place, command: str) -> None:
    before = spent(place)
    said = typed_without(place, ["torch"], command, str(place.adult / "model.yaml"))
    assert said.returncode == 2, said.stderr
    assert "torch not installed" in said.stderr
    assert "nothing was charged" in said.stderr
    assert spent(place) == before


def test_cuda_without_a_gpu_is_refused_by_the_plan(place: Place, typed: Typed) -> None:
    import torch

    spec = place.adult / "model.yaml"
    spec.write_text(spec.read_text().replace("rows_about: 48000", "rows_about: 48000, device: cuda"))
    said = typed("plan", str(spec), at=place.workspace)
    there_is_one = torch.cuda.is_available()
    assert said.code == (0 if there_is_one else 2), said.err
    assert there_is_one == ("device cuda, and there is none" not in said.err)
    assert there_is_one == ("choose device: cpu" not in said.err)


@pytest.mark.parametrize("command", ["plan", "run"])
@pytest.mark.parametrize(
    ("patched", "found"), [({"memory_megabytes": 0.0}, "MB of memory"), ({"free_megabytes": 3.0}, "3 MB free")]
)
def test_no_memory_and_no_disk_are_refused(
    place: Place,
    typed: Typed,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    patched: dict[str, float],
    found: str,
) -> None:
    before = spent(place)
    for name, value in patched.items():
        monkeypatch.setattr(capacity, name, lambda *_, value=value: value)
    said = typed(command, str(place.adult / "tables.yaml"), at=place.workspace)
    assert said.code == 2, said.err
    assert found in said.err
    assert spent(place) == before


def test_an_object_store_without_its_extra_is_refused(place: Place) -> None:
    spec = place.adult / "tables.yaml"
    spec.write_text(spec.read_text().replace("publish: {to: releases/", "publish: {to: 's3://bucket/prefix'"))
    said = typed_without(place, ["boto3"], "plan", str(spec))
    assert said.returncode == 2, said.stderr
    assert "boto3 is not installed here" in said.stderr
    assert "sudare[s3]" in said.stderr


@pytest.mark.parametrize("command", ["plan", "run"])
def test_an_engine_that_the_workspace_does_not_name_is_refused(place: Place, typed: Typed, command: str) -> None:
    before = spent(place)
    spec = place.adult / "tables.yaml"
    spec.write_text(spec.read_text().replace("adult.parquet}", "adult.parquet, engine: spark}"))
    said = typed(command, str(spec), at=place.workspace)
    assert said.code == 2, said.err
    assert "no `spark.python` in this workspace" in said.err
    assert "nothing was charged" in said.err
    assert spent(place) == before


def test_clickhouse_without_its_extra_is_refused_and_nothing_is_charged(place: Place) -> None:
    before = spent(place)
    spec = place.adult / "tables.yaml"
    spec.write_text(spec.read_text().replace("adult.parquet}", "adult.parquet, engine: clickhouse}"))
    for command in ("plan", "run"):
        said = typed_without(place, ["chdb"], command, str(spec))
        assert said.returncode == 2, said.stderr
        assert "chdb is not installed here" in said.stderr
        assert "sudare[clickhouse]" in said.stderr
    assert spent(place) == before
