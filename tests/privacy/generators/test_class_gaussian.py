"""Class-conditional Gaussians through a real ledger: planned events, the classes' moments, conditions, refusals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from pydantic import ValidationError

from contracts.contract.contract import Adjacency
from privacy.generators.class_gaussian import ClassGaussian
from privacy.generators.generator import CannotGenerate, SynthesisTask
from privacy.generators.models import read_model
from privacy.generators.registry import names
from privacy.learning.layout import ColumnLayout, RowLayout
from privacy.learning.rows import PrivateRows
from privacy.marginals.counts import PrivateCounts
from privacy.marginals.domain import CellDomain
from tests.privacy.generators.small_table import Stopped, start, stopping_after
from tests.privacy.ledger.ledgers import KEYED_HASH, Place

LEVELS = np.linspace(0, 1, 101)[:, None]
LAYOUT = RowLayout(
    (
        *(ColumnLayout(f"x{place}", "number", LEVELS) for place in range(4)),
        ColumnLayout("colour", "category", np.eye(2)),
        ColumnLayout("kind", "category", np.eye(3)),
    )
)
MEANS = np.array([[0.3, 0.7, 0.5, 0.5], [0.7, 0.7, 0.4, 0.5], [0.5, 0.3, 0.6, 0.5]])
DELTA = Fraction(1, 10**6)


def table(rows: int = 20_000) -> NDArray[np.uint8]:
    """Three clouds; the first two numbers of a cloud move together, and red is rare in the last one."""
    generator = np.random.default_rng(3)
    kind = generator.integers(0, 3, rows)
    noise = generator.normal(0, 0.05, (rows, 4))
    noise[:, 1] = 0.8 * noise[:, 0] + 0.6 * noise[:, 1]
    numbers = np.clip(np.rint((MEANS[kind] + noise) * 100), 0, 100)
    colour = generator.random(rows) < np.array([0.2, 0.5, 0.9])[kind]
    return np.column_stack([numbers, colour, kind]).astype(np.uint8)


@dataclass
class Rows:
    """A source of rows that has no marginals."""

    codes: NDArray[np.uint8]

    def rows(self, chosen: Sequence[str] | None = None) -> PrivateRows:
        layout = LAYOUT.select(chosen or LAYOUT.names)
        return PrivateRows(layout, KEYED_HASH, "b" * 64, lambda: LAYOUT.selected(self.codes, layout.names))

    def marginals(self, cliques: Sequence[Any]) -> tuple[PrivateCounts, ...]:
        raise AssertionError("no marginal is asked for")


def question(
    epsilon: Fraction = Fraction(5), adjacency: Adjacency = "add_remove", public_total: int | None = None
) -> SynthesisTask:
    domain = CellDomain(LAYOUT.names, tuple(column.table.shape[0] for column in LAYOUT.columns))
    return SynthesisTask(domain, {}, adjacency, 1, epsilon, DELTA, public_total, LAYOUT)


@pytest.mark.parametrize("dimensions", [3, 4, 6])
def test_the_classes_come_out_with_their_means_and_covariances(sqlite_place: Place, dimensions: int) -> None:
    """Whether or not there are fewer axes than entries."""
    run = start(sqlite_place, ClassGaussian(), question(Fraction(50)), label="kind", dimensions=dimensions)
    fitted = run.fit(Rows(table()))  # type: ignore[arg-type]
    assert run.drawn() == list(run.plan.events) == [each.event for each in fitted.sums]
    made = fitted.model.sample(20_000, seed=4)
    assert fitted.model.rows == pytest.approx(20_000, abs=100)
    for kind in range(3):
        cloud = made[made[:, 5] == kind]
        assert len(cloud) == pytest.approx(6667, abs=400)
        assert cloud[:, :4].mean(axis=0) / 100 == pytest.approx(MEANS[kind], abs=0.03)
        assert cloud[:, 4].mean() == pytest.approx([0.2, 0.5, 0.9][kind], abs=0.15)
        assert 0.4 < np.corrcoef(cloud[:, 0], cloud[:, 1])[0, 1] < 0.98


def test_it_is_replayed_when_it_is_resumed(sqlite_place: Place) -> None:
    run = start(sqlite_place, ClassGaussian(), question(), label="kind", dimensions=3)
    with pytest.raises(Stopped):
        run.fit(Rows(table()), stopping_after(2))  # type: ignore[arg-type]
    first = run.fit(Rows(table()))  # type: ignore[arg-type]
    again = run.fit(Rows(table()[:0]))  # type: ignore[arg-type]
    values, arrays = first.model.to_arrays()
    assert len(run.drawn()) == 6
    assert again.model.to_arrays()[0] == values
    assert all((each == again.model.to_arrays()[1][name]).all() for name, each in arrays.items())


def test_a_condition_on_the_label_holds(sqlite_place: Place) -> None:
    run = start(sqlite_place, ClassGaussian(), question(), label="kind")
    model = run.fit(Rows(table())).model  # type: ignore[arg-type]
    again = read_model(model.kind, *model.to_arrays())
    assert set(again.sample(500, seed=1, where={"kind": [2]})[:, 5]) == {2}
    assert set(again.sample(500, seed=1, where={"colour": [0]})[:, 4]) == {0}


def test_a_public_total_is_the_number_of_rows(sqlite_place: Place) -> None:
    asked = question(adjacency="replace_one", public_total=20_000)
    run = start(sqlite_place, ClassGaussian(), asked, label="kind")
    assert run.fit(Rows(table())).model.rows == 20_000  # type: ignore[arg-type]


@pytest.mark.parametrize("rows", [0, 1])
def test_hardly_any_rows_give_a_sound_result(sqlite_place: Place, rows: int) -> None:
    run = start(sqlite_place, ClassGaussian(), question(Fraction(1, 10)), label="kind")
    model = run.fit(Rows(table(rows))).model  # type: ignore[arg-type]
    assert 0 <= model.rows < 2000
    assert model.sample(100, seed=0).shape == (100, 6)


@pytest.mark.parametrize(
    ("options", "changed", "message"),
    [
        ({"label": "sort"}, {}, "is not among the columns"),
        ({"label": "x0"}, {}, "a number in bins"),
        ({"label": "kind"}, {"delta": Fraction(0)}, "a delta above 0"),
    ],
)
def test_what_must_fail_is_refused_by_the_plan(
    options: dict[str, Any], changed: dict[str, Any], message: str
) -> None:
    made = ClassGaussian()
    with pytest.raises(CannotGenerate, match=message):
        made.plan(replace(question(), **changed), made.options(**options))


@pytest.mark.parametrize("clip", [1e-9, 1e9])
def test_a_norm_that_no_vector_is_clipped_to_is_refused_with_the_options(clip: float) -> None:
    with pytest.raises(ValidationError, match="clip"):
        ClassGaussian.options(label="kind", clip=clip)


def test_it_is_registered() -> None:
    assert "class_gaussian" in names()
