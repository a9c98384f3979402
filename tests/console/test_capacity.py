"""What this machine lacks is told by `plan` and `run` before anything is charged; with real missing imports."""

import json
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from flows import request as capacity
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
import json
from contextlib import redirect_stderr
from io import StringIO
from console.main import execute
told = []
for command in {commands!r}:
    with redirect_stderr(StringIO()) as err:
        code = execute([command, *{arguments!r}])
    told.append([code, err.getvalue()])
sys.__stdout__.write("\\n" + json.dumps(told))
"""


def typed_without(place: Place, module: str, *commands: str, spec: Path) -> list[tuple[int, str]]:
    """Type commands in a process in which a module cannot be imported; return their codes and errors."""
    arguments = [str(spec), "--workspace", str(place.workspace.root)]
    code = BLOCKED.format(modules=[module], commands=commands, arguments=arguments)
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{root / 'extensions'}", "COLUMNS": "200"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=300, check=True
    )
    return [(code, err) for code, err in json.loads(done.stdout.splitlines()[-1])]


def spent(place: Place) -> list[int]:
    workspace = Workspace.open(place.workspace.root)
    with closing(Ledger(workspace.ledger_url, draws=workspace.draws)) as ledger:
        return [state.spent for state in ledger.accounts()]


@pytest.mark.usefixtures("served")
def test_a_training_without_torch_is_refused_and_nothing_is_charged(place: Place):
    before = spent(place)
    for code, err in typed_without(place, "torch", "run", "plan", spec=place.adult / "model.yaml"):
        assert code == 2, err
        assert "torch not installed" in err
        assert "nothing was charged" in err
    assert spent(place) == before


def test_cuda_without_a_gpu_is_refused_by_the_plan(place: Place, typed: Typed):
    import torch

    spec = place.adult / "model.yaml"
    spec.write_text(spec.read_text().replace("rows_about: 48000", "rows_about: 48000, device: cuda"))
    said = typed("plan", str(spec), at=place.workspace)
    there_is_one = torch.cuda.is_available()
    assert said.code == (0 if there_is_one else 2), said.err
    assert there_is_one == ("device cuda, and there is none" not in said.err)
    assert there_is_one == ("choose device: cpu" not in said.err)


@pytest.mark.services
@pytest.mark.parametrize("command", ["plan", "run"])
@pytest.mark.parametrize(
    ("patched", "found"), [({"memory_megabytes": 0.0}, "MB of memory"), ({"free_megabytes": 3.0}, "3 MB free")]
)
def test_no_memory_and_no_disk_are_refused(
    place: Place, typed: Typed, monkeypatch: pytest.MonkeyPatch, command: str, patched: dict[str, float], found: str
):
    before = spent(place)
    for name, value in patched.items():
        monkeypatch.setattr(capacity, name, lambda *_, value=value: value)
    said = typed(command, str(place.adult / "tables.yaml"), at=place.workspace)
    assert said.code == 2, said.err
    assert found in said.err
    assert spent(place) == before
