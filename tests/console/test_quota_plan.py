"""What the console shows of a plan with sums within a quota."""

from __future__ import annotations

import io
import json
from pathlib import Path

from rich.console import Console

from console.products.statistics import StatisticsProductView
from privacy.statistics.plan import StatisticsPlan
from tests.worlds.statistic_kinds import quotas


def test_a_quota_is_shown_with_its_interval_and_its_clip(tmp_path: Path) -> None:
    """In JSON and in print: the noise hides 400 of a patient, in place of three stays of 500."""
    spec, _, plan, ledger = quotas().prepared_of(tmp_path, StatisticsPlan)
    ledger.close()
    view = StatisticsProductView()
    payload = json.loads(json.dumps(view.plan_object(spec, plan)))
    drawn = next(each for each in payload["draws"] if each["key"] == "table:ward/bill")
    assert drawn["of"]["per_unit"] == "400"
    assert drawn["event"]["moves"] == [160]
    printed = io.StringIO()
    view.print_draws(Console(file=printed, width=160), payload)
    lines = printed.getvalue().splitlines()
    assert sum("sum_bill" in line and "±" in line for line in lines) == 3
    (ward,) = [line for line in lines if "ward/bill" in line]
    assert "sum within a quota" in ward
    assert "[0, 500], 400 per unit" in ward
