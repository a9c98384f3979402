"""What the console shows of a plan with quantiles: errors in ranks, and no width, which depends on the data."""

from __future__ import annotations

import io
import json
from pathlib import Path

from rich.console import Console

from console.products.statistics import StatisticsProductView
from privacy.statistics.plan import StatisticsPlan
from tests.worlds.statistics import of_tables

TABLES = "[{by: [ward], of: [{mean: bill}, {quantiles: [0.025, 0.5], of: age, method: exponential}]}]"


def test_quantiles_are_shown_with_their_error_in_ranks(tmp_path: Path) -> None:
    """In JSON and in print; a mean beside them keeps its units and has no ranks."""
    spec, _, plan, ledger = of_tables(TABLES).prepared_of(tmp_path, StatisticsPlan)
    ledger.close()
    view = StatisticsProductView()
    payload = json.loads(json.dumps(view.plan_object(spec, plan)))
    mean, tree = payload["draws"]
    assert (mean["key"], tree["key"]) == ("table:ward/bill", "table:ward/quantiles/age")
    assert tree["of"]["resolution"] == "1"
    assert tree["cells"] == mean["cells"] == 4
    assert tree["expected_error"] > mean["expected_error"] > 0
    expected = payload["statistics"][0]["expected"]
    ranked = {each["statistic"]: each["half_width_95"] for each in expected if each.get("ranks")}
    assert list(ranked) == ["q2.5_age", "q50_age"]
    printed = io.StringIO()
    view.print_draws(Console(file=printed, width=160), payload)
    assert [each["key"] for each in payload["choices"]] == ["table:ward/choice/age"]
    assert "quantiles of age: chosen by the exponential mechanism" in " ".join(printed.getvalue().split())
    for name, width in ranked.items():
        (line,) = [line for line in printed.getvalue().splitlines() if name in line]
        assert f"±{width:,.4g} in rank" in line
        assert "any size" in line
    assert not any("rank" in line for line in printed.getvalue().splitlines() if "mean_bill" in line)
