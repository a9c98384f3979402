"""The plan of a table whose keys are counted by the draw that selects them, as people and programs read it."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

from rich.console import Console

from console.products.statistics import StatisticsProductView
from privacy.statistics.plan import StatisticsPlan
from tests.worlds.private_keys import counted_units


def test_a_plan_says_from_how_many_rows_on_a_key_is_published_and_how_wide_its_interval_is(tmp_path: Path) -> None:
    """No other draw counts: the table has the share of the selection, and one draw of different values beside."""
    spec, _, plan, ledger = counted_units().prepared_of(tmp_path, StatisticsPlan)
    ledger.close()
    view = StatisticsProductView()
    payload = view.plan_object(spec, plan)
    [selection] = payload["selections"]
    [table] = payload["statistics"]
    assert selection["counts"] == "rows"
    assert 0 < selection["units_for_half"] < selection["units_for_99_percent"]
    assert table["share"] == 1.0
    [count, *_] = table["expected"]
    assert (count["statistic"], count["half_width_95"] > 1) == ("count", True)
    facts = dict(view.plan_facts(payload))
    assert facts["draws"] == "2 for 1 table"
    assert "with the counts of its rows" in facts["keys"]
    assert "rows is published in half of releases" in facts["keys"]
    out = StringIO()
    view.print_draws(Console(file=out, width=120), payload)
    assert "keys with their counts" in out.getvalue()
