"""The plan of adaptive tables at the console: levels, thresholds and expected errors before anything is charged."""

from __future__ import annotations

import json
import shutil
from math import ceil
from pathlib import Path

import pytest

from tests.console.conftest import ADULT, execute


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    for name in ("adaptive.yaml", "adult.odcs.yaml", "adult.parquet"):
        shutil.copy(ADULT / name, tmp_path / name)
    return tmp_path / "adaptive.yaml"


def test_a_plan_says_what_each_level_costs_in_error(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each row its threshold; the last column is half a count, as the spec's aim says by default."""
    assert execute(["plan", str(spec), "--json"]) == 0
    payload = json.loads(capsys.readouterr().out)
    (table,) = payload["tables"]
    levels = table["levels"]
    assert [level["level"] for level in levels] == ["total", "sex", "sex × age (4)", "sex × age"]
    assert [level["cells"] for level in levels] == [1, 2, 8, 30]
    width = next(draw["interval_95"] for draw in payload["draws"] if draw["key"] == "levels:countries")
    assert [level["from_noisy_total"] for level in levels] == [None, *(ceil(n * width / 0.5) for n in (2, 8, 30))]
    assert [draw["share"] for draw in payload["draws"]] == [0.1, 0.9]
    assert table["widths_95"]["count"] >= 1.96 * max(level["cell_error"] for level in levels)
    assert table["widths_95"]["total"] >= 1.96 * max(level["total_error"] for level in levels)
    assert sorted(level["total_error"] for level in levels) == [level["total_error"] for level in levels]


def test_a_plan_for_people_names_levels_and_groups(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["plan", str(spec)]) == 0
    said = capsys.readouterr().out
    assert "210 of countries" in said
    assert "sex × age (4)" in said
    assert "from a noisy total of" in said
