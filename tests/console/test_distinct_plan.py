"""What the console shows of a plan with units and distinct values."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from console.products.statistics import StatisticsProductView
from privacy.statistics.plan import StatisticsPlan
from tests.worlds.distinct_counts import laplace


def test_units_and_distinct_values_are_shown_with_their_errors(tmp_path: Path) -> None:
    """In JSON and in print; where the noise is larger than all declared values, the plan says so."""
    spec, _, plan, ledger = laplace().prepared_of(tmp_path, StatisticsPlan)
    ledger.close()
    view = StatisticsProductView()
    payload = json.loads(json.dumps(view.plan_object(spec, plan)))
    draws = {each["key"]: each for each in payload["draws"]}
    assert draws["table:ward/units"]["of"] == {"counts": "units", "declared_cells": True}
    # Epsilon 8 for four tables; three draws of this one: a unit in one cell, and three values.
    assert draws["table:every/units"]["expected_error"] == pytest.approx(2**0.5 * 2, rel=0.05)
    assert draws["table:every/distinct/age"]["expected_error"] == pytest.approx(2**0.5 * 6, rel=0.05)
    printed = io.StringIO()
    view.print_draws(Console(file=printed, width=160), payload)
    lines = printed.getvalue().splitlines()
    assert sum("distinct_note" in line and "±" in line for line in lines) == 2
    (floors,) = [line for line in lines if "distinct_floor" in line]
    assert "all that is possible" in floors
    assert "any size" in floors
