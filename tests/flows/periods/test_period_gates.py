"""What Prefect is told of a gate that stops a period: that it was one."""

from __future__ import annotations

from pathlib import Path

import pytest

from contracts.errors import Finding, GateBroken
from flows.steps import as_task
from tasks.storage.workspace.run_folder import RunFolder


def _break(gate: str) -> None:
    raise GateBroken(
        [Finding("visits.csv", gate, "no row of 2024-Q1", "at least one row", "run it when they are there")]
    )


@pytest.mark.parametrize("gate", ["rows of the period", "delivery", "people", "rows"])
def test_prefect_is_not_told_which_gate_of_a_period_broke(tmp_path: Path, gate: str) -> None:
    """All gates read alike; whoever ran the command is told which. Of one release the gate is named, as before."""
    task = as_task(_break, name="ingest")
    run = RunFolder(tmp_path, of_period=True)
    with pytest.raises(GateBroken) as told:
        task.fn(run, gate)
    assert [finding.field for finding in told.value.findings] == ["a gate"]
    assert "when they are there" not in str(told.value)
    assert "2024-Q1" not in str(told.value)
    assert run.refusal is not None
    assert gate in str(run.refusal)
    with pytest.raises(GateBroken, match=gate):
        task.fn(RunFolder(tmp_path), gate)
