"""What the console shows of a plan with private keys: their share, their memory, and each draw with its clip."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from console.products.statistics import BYTES_PER_NUMBER, MANY_KEYS, StatisticsProductView
from privacy.statistics.plan import StatisticsPlan
from tests.worlds.private_keys import pure

TABLES = "[{by: [insured, note], keys: private, of: [count, {mean: bill, clip: [0, 500], step: 2.5}]}]"


def test_keys_are_shown_with_their_share_and_what_many_of_them_take(tmp_path: Path) -> None:
    """The selection has half of the charge, as the one draw of its table; three labels and two numbers a key."""
    product = f"{{kind: statistics, mechanism: laplace, tables: {TABLES}}}"
    spec, _, plan, ledger = replace(pure(), product=product).prepared_of(tmp_path, StatisticsPlan)
    ledger.close()
    view = StatisticsProductView()
    payload = json.loads(json.dumps(view.plan_object(spec, plan)))
    facts = dict(view.plan_facts(payload))
    assert "for 50.0% of ε, and δ = " in facts["keys"]
    parts = plan.draws[0].shape[-1]
    assert parts in (2, 3)
    assert payload["megabytes_of_many_keys"] == -(-3 * parts * MANY_KEYS * BYTES_PER_NUMBER // 10**6)
    assert facts["of the keys"].startswith(f"about {payload['megabytes_of_many_keys']} MB of memory more for 10,000")
    printed = io.StringIO()
    view.print_draws(Console(file=printed, width=160), payload)
    lines = [" ".join(line.split()) for line in printed.getvalue().splitlines()]
    assert "insured_x_note/keys keys, by coins 50.0%" in lines
    assert "insured_x_note/bill sums [0, 500] 50.0%" in lines
