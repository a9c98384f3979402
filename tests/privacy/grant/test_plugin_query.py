"""A kind of query that an outside package brings: charged, drawn, entered, replayed and read by the checker."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from privacy.accounting.amounts import ATTO, PICO
from privacy.accounting.calculus import RenyiCalculus
from privacy.accounting.events import event_from_json
from privacy.grant.grant import open_grant
from privacy.grant.queries import kinds
from privacy.grant.queries.query import Relation
from privacy.ledger.errors import GrantExceeded
from privacy.marginals.sensitivity import GaussianNoise
from tasks.records.model.synthetic_statements import SyntheticDraw
from tasks.verification.fitted.stand_in_grant import OtherDraw, PublishedDraws, PublishedValues
from tasks.verification.recompute.loss import recompute
from tests.privacy.ledger.ledgers import Counted, Place, ledger_with_account, request

NOISE = GaussianNoise(Fraction(1, 50))
EXACT = np.array([5, 3, 0, 11])
MODULE = '''
"""Noisy counts of rows up to each cell: one row moves all the cells from its own on."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from privacy.accounting.calibrate import gaussian_sigma_squared
from privacy.accounting.events import DiscreteGaussian
from privacy.grant.measurement import DurableDraw
from privacy.grant.queries.query import DrawStage, NoiseSource, Query, Relation
from privacy.marginals.counts import PrivateCounts
from privacy.marginals.sensitivity import GaussianNoise


@dataclass(frozen=True)
class Cumulative(Query[NDArray[np.int64]]):
    counts: PrivateCounts
    noise: GaussianNoise
    kind: ClassVar[str] = "cumulative"

    @property
    def handles(self) -> tuple[PrivateCounts]:
        return (self.counts,)

    @property
    def clique(self) -> tuple[str, ...]:
        return self.counts.clique

    def check(self, relation: Relation) -> None:
        if len(self.counts.shape) != 1:
            raise ValueError("cells of one column are in an order")

    def event(self, relation: Relation) -> DiscreteGaussian:
        moves = (relation.rows_per_unit,) * self.counts.shape[0]
        return DiscreteGaussian(gaussian_sigma_squared(self.noise.rho, moves), moves)

    def identity(self, relation: Relation, place: int) -> Mapping[str, Any]:
        return {"kind": self.kind}

    def sample(
        self, exact: tuple[Any, ...], *, event: Any, noise: NoiseSource, stage: DrawStage
    ) -> NDArray[np.int64]:
        return np.cumsum(exact[0]) + noise.integers(exact[0].size, event=event)

    def result(self, event: Any, drawn: tuple[DurableDraw, ...]) -> NDArray[np.int64]:
        return drawn[0].values
'''


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The kind, of a package whose metadata name it at the entry point."""
    about = tmp_path / "cumulative-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: cumulative\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[sudare.queries]\ncumulative = cumulative_counts:Cumulative\n")
    (tmp_path / "cumulative_counts.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    kinds.query_kinds.cache_clear()
    yield import_module("cumulative_counts").Cumulative
    kinds.query_kinds.cache_clear()
    sys.modules.pop("cumulative_counts")


def test_it_is_charged_drawn_entered_and_replayed(sqlite_place: Place, outside: Any) -> None:
    """Its event is derived from the charge's relation; the same values come back, and no count is read again."""
    event = outside(Counted(EXACT).handle, NOISE).event(Relation("add_remove", 1))
    ledger = ledger_with_account(sqlite_place, RenyiCalculus(Fraction(12)))
    ledger.reserve(request(events=(event,), delta=ATTO // 10**9))
    grant, counted = open_grant(ledger, "run-1"), Counted(EXACT)
    values = grant.draw(outside(counted.handle, NOISE), key="up-to")
    sigma = float(event.sigma_squared) ** 0.5
    assert (np.abs(values - np.cumsum(EXACT)) < 8 * sigma).all()
    again = Counted(EXACT)
    np.testing.assert_array_equal(open_grant(ledger, "run-1").draw(outside(again.handle, NOISE), key="up-to"), values)
    assert (counted.opened, again.opened) == (1, 0)
    (entered,) = [entry.body for entry in ledger.journal() if entry.kind == "noise_drawn"]
    assert event_from_json(entered["event"]) == event
    assert ledger.verify() == []
    with pytest.raises(GrantExceeded):
        grant.draw(outside(Counted(EXACT).handle, NOISE), key="again")


def test_its_loss_is_recomputed_and_its_values_are_handed_out_by_the_checker(outside: Any) -> None:
    """By the independent code, rho = 1/50 of four cells that move together; another event is refused."""
    query = outside(Counted(EXACT).handle, NOISE)
    event, values = query.event(Relation("add_remove", 1)), np.arange(4)
    found = recompute([event.to_json()], "1e-9", {"kind": "renyi", "order": "12"})
    mine = RenyiCalculus(Fraction(12)).cost([event]) / PICO
    assert float(found.renyi_loss_at_order or 0) == pytest.approx(mine, rel=1e-6)
    stated = {"key": "k", "number": 0, "clique": ["age"], "shape": [4], "coarsening": None, "event": event.to_json()}
    draw = SyntheticDraw(**stated, cost=1, sha256="0" * 64, measurements=None, index=None)
    meaning: Any = SimpleNamespace(
        contract=SimpleNamespace(adjacency="add_remove", unit=SimpleNamespace(max_rows_per_unit=1))
    )
    replay: Any = SimpleNamespace(draws=(draw,))
    published = PublishedDraws(replay, (event,), PublishedValues({"k": values}, {}), meaning)
    np.testing.assert_array_equal(published.draw(query, key="k"), values)
    other = PublishedDraws(replay, (event,), PublishedValues({"k": values}, {}), meaning)
    with pytest.raises(OtherDraw):
        other.draw(outside(Counted(EXACT).handle, GaussianNoise(Fraction(1, 7))), key="k")


def test_a_kind_that_is_none_or_takes_anothers_name_is_refused(
    tmp_path: Path, outside: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outside, "kind", "marginal")
    with pytest.raises(TypeError, match="there is a kind of query 'marginal' already"):
        kinds.query_kinds()
    monkeypatch.setattr(import_module("cumulative_counts"), "Cumulative", dict)
    with pytest.raises(TypeError, match="a frozen dataclass derived from Query"):
        kinds.query_kinds()
