"""A run of adaptive tables that stops between its two draws goes on from the noisy totals that are there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privacy.grant.grant import open_grant
from privacy.ledger.errors import LedgerRefusal
from privacy.noise.random_bytes import SeededBytes
from privacy.private_table import snapshot_mark
from tasks.products.charge_request import request_for
from tasks.products.product_kind import Making, making_of
from tests.worlds.adaptive import of_wards


class Stopping:
    """A grant that stops before its second draw."""

    def __init__(self, grant: Any) -> None:
        self._grant, self._drawn = grant, 0

    def draw(self, query: Any, *, key: str) -> Any:
        self._drawn += 1
        if self._drawn > 1:
            raise KeyboardInterrupt
        return self._grant.draw(query, key=key)


def test_a_resumed_run_keeps_its_choice(tmp_path: Path) -> None:
    """The totals are replayed, so the same levels are asked for; another choice is refused."""
    scenario = of_wards()
    spec, contract, plan, ledger = scenario.prepared_of(tmp_path, object)
    table, key = scenario.taken(tmp_path, spec, contract), scenario.run_key(spec)
    mark = snapshot_mark(table.keyed_hash, spec.digest)
    ledger.reserve(request_for(spec, contract, plan, run_key=key, snapshot_hash=mark))  # type: ignore[arg-type]
    measure = making_of("adaptive").steps[0].make

    def making(grant: Any) -> Making:
        return Making(grant, spec, plan, table, contract, tmp_path / "private", key)

    with pytest.raises(KeyboardInterrupt):
        measure(making(Stopping(open_grant(ledger, key, seeded=SeededBytes(7)))), None)
    totals, counts = measure(making(open_grant(ledger, key, seeded=SeededBytes(8))), None).draws
    again = measure(making(open_grant(ledger, key, seeded=SeededBytes(9))), None).draws
    assert (again[0].values == totals.values).all()
    assert (again[1].values == counts.values).all()
    assert counts.values.size == sum(plan.tables[0].sizes[each] for each in plan.tables[0].chosen(totals.values))  # type: ignore[attr-defined]
    other = np.where(totals.values == totals.values.max(), -totals.values, totals.values)
    grant = open_grant(ledger, key, seeded=SeededBytes(10))

    class Forging:
        """A maker that takes other totals for those that were drawn."""

        def draw(self, query: Any, *, key: str) -> Any:
            made = grant.draw(query, key=key)
            if key.startswith("groups:"):
                object.__setattr__(made, "values", other)
            return made

    with pytest.raises(LedgerRefusal):
        measure(making(Forging()), None)
    ledger.close()
