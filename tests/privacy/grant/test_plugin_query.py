"""A kind of query that an outside package brings: charged, drawn, entered, replayed and read by the checker."""

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
from privacy.accounting.events import event_from_json, event_kind
from privacy.grant.grant import open_grant
from privacy.grant.queries import kinds
from privacy.grant.queries.query import Relation
from privacy.ledger.entries import GrantExceeded
from privacy.ledger.replay.entry_rules import cost_of_events, entered_event
from privacy.marginals.sensitivity import GaussianNoise
from tasks.records.model.draw_kinds import draw_checks, draw_form, draw_kinds
from tasks.verification.draws.draw_checks import OtherDraw, PublishedValues
from tasks.verification.fitted.stand_in_grant import PublishedDraws
from tasks.verification.recompute.event_forms import registered_form
from tasks.verification.recompute.loss import NotRecomputable, recompute
from tests.privacy.ledger.ledgers import Counted, Place, ledger_with_account, request

NOISE = GaussianNoise(Fraction(1, 50))
EXACT = np.array([5, 3, 0, 11])
MODULE = '''
"""Noisy counts of rows up to each cell: one row moves all the cells from its own on."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from privacy.accounting.events import gaussian_sigma_squared
from privacy.accounting.events import RegisteredEvent
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


@dataclass(frozen=True)
class EvenGaussian(RegisteredEvent):
    """Gaussian noise on many cells that all move by as much; a list of moves would be too long."""

    sigma_squared: Fraction
    move: int
    cells: int
    kind: ClassVar[str] = "even_gaussian"
    adjacencies: ClassVar[frozenset[str]] = frozenset({"add_remove", "replace_one"})
    pure_loss = None

    def divergence(self, order: float) -> float:
        return order * float(self.move**2 * self.cells / (2 * self.sigma_squared))

    def scaled(self, factor: Fraction) -> "EvenGaussian":
        return EvenGaussian(self.sigma_squared / factor**2, self.move, self.cells)


@dataclass(frozen=True)
class LongCumulative(Query[NDArray[np.int64]]):
    counts: PrivateCounts
    sigma_squared: Fraction
    kind: ClassVar[str] = "long_cumulative"

    @property
    def handles(self) -> tuple[PrivateCounts]:
        return (self.counts,)

    def check(self, relation: Relation) -> None:
        return None

    def event(self, relation: Relation) -> EvenGaussian:
        return EvenGaussian(self.sigma_squared, relation.rows_per_unit, self.counts.shape[0])

    def identity(self, relation: Relation, place: int) -> Mapping[str, Any]:
        return {"kind": self.kind}

    def sample(
        self, exact: tuple[Any, ...], *, event: Any, noise: NoiseSource, stage: DrawStage
    ) -> NDArray[np.int64]:
        of_one = DiscreteGaussian(event.sigma_squared, (event.move,))
        return np.cumsum(exact[0]) + noise.integers(exact[0].size, event=of_one)

    def result(self, event: Any, drawn: tuple[DurableDraw, ...]) -> NDArray[np.int64]:
        return drawn[0].values
'''
FORM = '''
"""What the event costs, by code of its own: one order times the sum of the squared moves, by twice the variance."""

from decimal import Decimal

from tasks.verification.recompute.event_forms import EventForm, positive, whole_number


def _loss(sigma_squared, move, cells):
    variance = Decimal(sigma_squared.numerator) / Decimal(sigma_squared.denominator)
    return None, lambda order: order * move * move * cells / (2 * variance)


FORM = EventForm({"sigma_squared": positive, "move": whole_number, "cells": whole_number}, _loss)
'''
PARTS = '''
"""How cumulative counts are published, and what is checked of them."""

from typing import Literal

from privacy.accounting.events import DiscreteGaussian
from tasks.records.draws.marginal import DrawForm
from tasks.records.model.draw_kinds import DrawParts
from tasks.records.model.version_statements import FittedDraw
from tasks.verification.draws.draw_checks import DrawChecks


class CumulativeDraw(FittedDraw):
    kind: Literal["cumulative"]


class CumulativeForm(DrawForm):
    statement = CumulativeDraw

    def stated(self, released, key):
        return {"clique": list(released.clique), "shape": list(released.values.shape)}

    def described(self, released, key):
        return {"what": "cumulative counts", "columns": list(released.clique)}

    def published(self, draws):
        return ()


class CumulativeChecks(DrawChecks):
    events = (DiscreteGaussian,)

    def check(self, placed, draws, meaning, *, where):
        return []


PARTS = DrawParts("cumulative_parts:CumulativeForm", "cumulative_parts:CumulativeChecks")
'''
METADATA = """
[sudare.queries]
cumulative = cumulative_counts:Cumulative
long_cumulative = cumulative_counts:LongCumulative
[sudare.events]
even_gaussian = cumulative_counts:EvenGaussian
[sudare.draws]
cumulative = cumulative_parts:PARTS
[sudare.event_forms]
even_gaussian = cumulative_forms:FORM
"""


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    about = tmp_path / "cumulative-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: cumulative\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(METADATA)
    (tmp_path / "cumulative_counts.py").write_text(MODULE)
    (tmp_path / "cumulative_forms.py").write_text(FORM)
    (tmp_path / "cumulative_parts.py").write_text(PARTS)
    monkeypatch.syspath_prepend(str(tmp_path))
    forget()
    yield import_module("cumulative_counts").Cumulative
    forget()
    sys.modules.pop("cumulative_counts")


def forget() -> None:
    caches = kinds.query_kinds, event_kind, registered_form, entered_event, cost_of_events
    for cached in (*caches, draw_kinds, draw_form, draw_checks):
        cached.cache_clear()


def test_it_is_charged_drawn_entered_and_replayed(sqlite_place: Place, outside: Any):
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


def test_its_loss_is_recomputed_and_its_values_are_handed_out_by_the_checker(outside: Any):
    """By the independent code, rho = 1/50 of four cells that move together; another event is refused."""
    query = outside(Counted(EXACT).handle, NOISE)
    event, values = query.event(Relation("add_remove", 1)), np.arange(4)
    found = recompute([event.to_json()], "1e-9", {"kind": "renyi", "order": "12"})
    mine = RenyiCalculus(Fraction(12)).cost([event]) / PICO
    assert float(found.renyi_loss_at_order or 0) == pytest.approx(mine, rel=1e-6)
    stated = {"key": "k", "number": 0, "clique": ["age"], "shape": [4], "coarsening": None, "event": event.to_json()}
    own = {"kind": "cumulative", "cost": 1, "sha256": "0" * 64, "measurements": None}
    draw = draw_form("cumulative").statement.model_validate({**stated, **own})
    meaning: Any = SimpleNamespace(
        contract=SimpleNamespace(adjacency="add_remove", unit=SimpleNamespace(max_rows_per_unit=1))
    )
    replay: Any = SimpleNamespace(draws=(draw,))
    published = PublishedDraws(replay, (event,), PublishedValues({"k": values}, {}), meaning)
    np.testing.assert_array_equal(published.draw(query, key="k"), values)
    other = PublishedDraws(replay, (event,), PublishedValues({"k": values}, {}), meaning)
    with pytest.raises(OtherDraw):
        other.draw(outside(Counted(EXACT).handle, GaussianNoise(Fraction(1, 7))), key="k")


def long_event(module: Any, ledger: Any) -> Any:
    counted = Counted(EXACT)
    query = module.LongCumulative(counted.handle, Fraction(100))
    event = query.event(Relation("add_remove", 1))
    ledger.reserve(request(events=(event,), delta=ATTO // 10**9))
    values = open_grant(ledger, "run-1").draw(query, key="up-to")
    assert (np.abs(values - np.cumsum(EXACT)) < 100).all()
    return event


def test_an_event_of_its_own_is_inside_the_rules_of_the_journal(
    sqlite_place: Place, outside: Any, monkeypatch: pytest.MonkeyPatch
):
    """Charged at its own curve, written, read back, and found sound; one that no grant draws is found."""
    module = sys.modules[outside.__module__]
    ledger = ledger_with_account(sqlite_place, RenyiCalculus(Fraction(12)))
    event = long_event(module, ledger)
    assert event_from_json(event.to_json()) == event
    (entered,) = [entry.body for entry in ledger.journal() if entry.kind == "noise_drawn"]
    assert entered["event"] == {"kind": "even_gaussian", "sigma_squared": "100", "move": 1, "cells": 4}
    assert ledger.verify() == []
    monkeypatch.setattr(module.EvenGaussian, "drawn", False)
    assert "noise_drawn, event" in {finding.field for finding in ledger.verify()}


def test_without_the_package_its_entries_are_found(
    sqlite_place: Place, outside: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """What was charged and drawn cannot be read then."""
    ledger = ledger_with_account(sqlite_place, RenyiCalculus(Fraction(12)))
    event = long_event(sys.modules[outside.__module__], ledger)
    monkeypatch.setattr(sys, "path", [each for each in sys.path if each != str(tmp_path)])
    forget()
    assert {finding.field for finding in ledger.verify()} == {"body"}
    with pytest.raises(NotRecomputable, match="even_gaussian"):
        recompute([event.to_json()], "1e-9", {"kind": "renyi", "order": "12"})


def test_the_loss_of_its_own_event_is_recomputed_by_the_packages_form(outside: Any):
    """The accounting's curve and the form's agree; a record with another field is refused."""
    event = sys.modules[outside.__module__].EvenGaussian(Fraction(100), 1, 4)
    found = recompute([event.to_json()], "1e-9", {"kind": "renyi", "order": "12"})
    mine = RenyiCalculus(Fraction(12)).cost([event]) / PICO
    assert float(found.renyi_loss_at_order or 0) == pytest.approx(mine, rel=1e-6)
    assert mine == pytest.approx(12 * 4 / 200)
    with pytest.raises(NotRecomputable, match="fields"):
        recompute([{**event.to_json(), "more": 1}], "1e-9", {"kind": "renyi", "order": "12"})


def test_a_kind_that_is_none_or_takes_anothers_name_is_refused(
    tmp_path: Path, outside: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(outside, "kind", "marginal")
    with pytest.raises(TypeError, match="there is a kind of query 'marginal' already"):
        kinds.query_kinds()
    monkeypatch.setattr(import_module("cumulative_counts"), "Cumulative", dict)
    with pytest.raises(TypeError, match="a frozen dataclass derived from Query"):
        kinds.query_kinds()
