"""Sums over rows through the grant: derived events, exact noise, replay, and nothing of a caller's own making."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from privacy.accounting.amounts import ATTO
from privacy.accounting.calculus import RenyiCalculus
from privacy.accounting.events import PrivacyEvent, ZeroConcentrated
from privacy.grant.grant import Grant, open_grant
from privacy.grant.measurement import SumMeasurement
from privacy.grant.queries.sums import SumQuery
from privacy.learning.embedding import Embedding
from privacy.learning.groups import Everyone, LabelCodes, Responsibilities
from privacy.learning.layout import ColumnLayout, RowLayout
from privacy.learning.moments import Moments, sum_event
from privacy.learning.rows import PrivateRows
from privacy.ledger.errors import GrantExceeded, LedgerRefusal
from privacy.ledger.ledger import Ledger
from privacy.marginals.sensitivity import GaussianNoise, LaplaceNoise
from privacy.noise.random_bytes import SecureBytes
from tests.privacy.learning.learning_rows import LAYOUT, all_statistics, embedded, private, random_rows, whole
from tests.privacy.ledger.ledgers import Place, bind, request, terms
from tests.privacy.noise.noise_statistics import dkw_rejects, gaussian_cdf

NOISE = GaussianNoise(Fraction(1, 100))
BUDGET = (ZeroConcentrated(Fraction(1, 10)),)
ROWS = random_rows(200)
CLASSES = all_statistics()["class moments"]


def opened(place: Place, events: tuple[PrivacyEvent, ...] = BUDGET, **changed: Any) -> tuple[Ledger, Grant]:
    """A ledger whose account has the request's adjacency and rows of a unit, and its grant."""
    made = request(events=events, delta=ATTO // 10**9, **changed)
    ledger = place.open()
    ledger.open_account(terms(RenyiCalculus(Fraction(12)), adjacency=made.adjacency))
    bind(ledger, "2024")
    ledger.reserve(made)
    return ledger, open_grant(ledger, "run-1")


def measured(grant: Grant, statistic: Moments = CLASSES, key: str = "sums") -> SumMeasurement:
    return grant.draw(SumQuery(private(ROWS), statistic, NOISE), key=key)


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("name", ["class moments", "sums and squares", "sums alone"])
def test_the_event_is_derived_from_statistic_and_adjacency(sqlite_place: Place, name: str, adjacency: Any) -> None:
    """Not told by the caller; the journal has it, and the values lie around the exact sums."""
    statistic = all_statistics()[name]
    ledger, grant = opened(sqlite_place, adjacency=adjacency)
    drawn = measured(grant, statistic)
    event = sum_event(statistic, NOISE, adjacency=adjacency, rows_per_unit=1)
    assert (drawn.event, drawn.event.moves) == (event, statistic.moves(adjacency, 1))
    assert drawn.variance == pytest.approx(float(event.sigma_squared))
    entered = [entry.body for entry in ledger.journal() if entry.kind == "noise_drawn"]
    assert [(body["event"], body["sha256"]) for body in entered] == [(event.to_json(), drawn.sha256)]
    away = (drawn.values - statistic.total(ROWS, LAYOUT)) / drawn.variance**0.5
    assert 0 < np.abs(away).max() < 8


@pytest.mark.stat
def test_the_noise_has_the_derived_scale_and_no_other(sqlite_place: Place) -> None:
    """n = 200,028 draws of one statistic; a Kolmogorov-Smirnov test rejects +-10 % and not the derived scale.
    False-alarm rate 1e-9 (DKW); at this n the threshold is 0.0073, and 10 % of the scale moves the distribution
    function by 0.023, so that missing it has probability below 1e-17."""
    wide = RowLayout((ColumnLayout("many", "category", np.eye(631)), *LAYOUT.columns))
    zeros = np.zeros((1, 5), dtype=np.uint16)
    ball = Embedding(("many",), whole([0] * 631), None, Fraction(1), 5)
    statistic = Moments(ball, Everyone(), ("counts", "sums", "full"))
    _, grant = opened(sqlite_place)
    drawn = grant.draw(SumQuery(private(zeros, wide), statistic, NOISE), key="sums")
    noise, sigma = drawn.values - statistic.total(zeros, wide), drawn.variance**0.5
    assert noise.size == 200_028
    assert sigma == pytest.approx(5 * 32**2 * (3 * 50) ** 0.5)
    assert not dkw_rejects(noise, gaussian_cdf(sigma))
    assert dkw_rejects(noise, gaussian_cdf(1.1 * sigma))
    assert dkw_rejects(noise, gaussian_cdf(0.9 * sigma))


def test_a_run_that_resumes_gets_the_same_values(sqlite_place: Place) -> None:
    """Replayed from the file, without reading a row; another statistic, layout or noise under the key is refused."""
    ledger, grant = opened(sqlite_place)
    first = measured(grant)
    again = open_grant(ledger, "run-1")
    gone = PrivateRows(LAYOUT, private(ROWS).keyed_hash, "b" * 64, lambda: pytest.fail("rows were read"))
    replayed = again.draw(SumQuery(gone, CLASSES, NOISE), key="sums")
    assert np.array_equal(replayed.values, first.values)
    assert (replayed.event, replayed.sha256, replayed.number) == (first.event, first.sha256, first.number)
    other_layout = RowLayout((replace(LAYOUT.columns[0], table=LAYOUT.columns[0].table / 2), *LAYOUT.columns[1:]))
    for rows, statistic, noise in (
        (private(ROWS), replace(CLASSES, embedding=embedded(bound=Fraction(1, 3))), NOISE),
        (private(ROWS, other_layout), CLASSES, NOISE),
        (private(ROWS), CLASSES, GaussianNoise(Fraction(1, 200))),
    ):
        with pytest.raises(LedgerRefusal, match="a run that resumes asks for the same draws"):
            open_grant(ledger, "run-1").draw(SumQuery(rows, statistic, noise), key="sums")


def test_a_sum_is_charged_and_the_budget_holds(sqlite_place: Place) -> None:
    """Ten draws of rho = 1/100 fit into 1/10, the eleventh does not and reads nothing."""
    _, grant = opened(sqlite_place)
    for turn in range(10):
        measured(grant, key=f"sums-{turn}")
    unread = PrivateRows(LAYOUT, private(ROWS).keyed_hash, "b" * 64, lambda: pytest.fail("rows were read"))
    with pytest.raises(GrantExceeded, match="budget"):
        grant.draw(SumQuery(unread, CLASSES, NOISE), key="sums-10")


def test_planned_sums_are_drawn_as_planned(sqlite_place: Place) -> None:
    event = sum_event(CLASSES, NOISE, adjacency="add_remove", rows_per_unit=1)
    _, grant = opened(sqlite_place, (event,))
    assert measured(grant).event == event
    with pytest.raises(GrantExceeded, match="not planned"):
        measured(grant, key="again")


def test_rows_of_another_snapshot_or_contract_are_refused(sqlite_place: Place) -> None:
    _, grant = opened(sqlite_place)
    for changed in ({"keyed_hash": "d" * 64}, {"contract_digest": "d" * 64}):
        with pytest.raises(LedgerRefusal, match="of another snapshot or contract"):
            grant.draw(SumQuery(replace(private(ROWS), **changed), CLASSES, NOISE), key="sums")


def test_a_sum_that_fails_on_the_rows_stays_charged(sqlite_place: Place) -> None:
    """Codes that the layout does not have: the failure names no value, and the draw is not made again."""
    _, grant = opened(sqlite_place)
    wrong = np.full((5, 4), 99, dtype=np.uint8)
    for _ in range(2):
        with pytest.raises(LedgerRefusal, match="stays charged") as raised:
            grant.draw(SumQuery(private(wrong), CLASSES, NOISE), key="sums")
        assert "99" not in str(raised.value)


class LooseMoments(Moments):
    """A statistic that understates how far a row moves it."""

    def moves(self, adjacency: Any, rows_per_unit: int) -> tuple[int, ...]:
        return (1,)


class LooseEmbedding(Embedding):
    def vectors(self, codes: Any, layout: RowLayout) -> Any:
        raise AssertionError(codes)


class LooseLabels(LabelCodes):
    def weights(self, codes: Any, layout: RowLayout, vectors: Any) -> Any:
        raise AssertionError(codes)


class LooseRows(PrivateRows):
    """A handle with code of its own."""


class LooseLayout(RowLayout):
    """A layout with code of its own."""


class LooseColumn(ColumnLayout):
    """A column with code of its own."""


class LooseNoise(GaussianNoise):
    """Noise with code of its own."""


class LooseArray(np.ndarray):  # type: ignore[type-arg]
    """An array with code of its own."""


def spoiled(value: Any, **fields: Any) -> Any:
    copy = replace(value)
    for name, part in fields.items():
        object.__setattr__(copy, name, part)
    return copy


BALL, LABEL = embedded(), LabelCodes("label", 3)
FIELDS = (BALL.columns, BALL.centre, BALL.axes, BALL.bound, BALL.bits)
SHARED = all_statistics()["mixture"].groups
STATISTICS: list[tuple[Any, str]] = [
    (LooseMoments(BALL, LABEL, ("counts",)), "not LooseMoments"),
    ("second moment", "not str"),
    (spoiled(CLASSES, embedding=LooseEmbedding(*FIELDS)), "not LooseEmbedding"),
    (spoiled(CLASSES, groups=LooseLabels("label", 3)), "not LooseLabels"),
    (spoiled(CLASSES, parts=("counts", "counts")), "parts must be some of"),
    (spoiled(CLASSES, embedding=spoiled(BALL, bits=40)), "bits must be"),
    (spoiled(CLASSES, embedding=spoiled(BALL, axes=BALL.axes.view(LooseArray))), "axes must be ndarray itself"),
    (spoiled(CLASSES, groups=LabelCodes("height", 3)), "column height must have 3 cells"),
    (spoiled(CLASSES, groups=spoiled(SHARED, centres=whole([[2**40] * 2] * 3))), "near the origin"),
    (
        spoiled(CLASSES, groups=spoiled(SHARED, labels=LooseLabels("label", 3), owners=whole([0, 1, 2]))),
        "LabelCodes itself, not LooseLabels",
    ),
]
LAYOUTS: list[tuple[Any, str]] = [
    (LooseLayout(LAYOUT.columns), "RowLayout itself, not LooseLayout"),
    (spoiled(LAYOUT, columns=(LooseColumn("x", "number", np.zeros((2, 1))),)), "ColumnLayout itself"),
    (
        spoiled(LAYOUT, columns=(spoiled(LAYOUT.columns[0], table=np.zeros((2, 1)).view(LooseArray)),)),
        "ndarray itself",
    ),
    (RowLayout(LAYOUT.columns[:2]), "no column 'age'"),
]


@pytest.mark.parametrize(("statistic", "said"), STATISTICS, ids=[said for _, said in STATISTICS])
def test_statistics_of_a_callers_own_making_are_refused(sqlite_place: Place, statistic: Any, said: str) -> None:
    """Nothing is read, nothing is charged."""
    ledger, grant = opened(sqlite_place)
    before = len(ledger.journal())
    unread = PrivateRows(LAYOUT, private(ROWS).keyed_hash, "b" * 64, lambda: pytest.fail("rows were read"))
    with pytest.raises(ValueError, match=said):
        grant.draw(SumQuery(unread, statistic, NOISE), key="sums")
    assert len(ledger.journal()) == before


@pytest.mark.parametrize(("layout", "said"), LAYOUTS, ids=[said for _, said in LAYOUTS])
def test_rows_of_a_callers_own_making_are_refused(sqlite_place: Place, layout: Any, said: str) -> None:
    _, grant = opened(sqlite_place)
    with pytest.raises(ValueError, match=said):
        grant.draw(SumQuery(private(ROWS, layout), CLASSES, NOISE), key="sums")


def test_other_handles_and_other_noise_are_refused(sqlite_place: Place) -> None:
    _, grant = opened(sqlite_place)
    loose = LooseRows(LAYOUT, "c" * 64, "b" * 64, lambda: ROWS)
    for rows, noise, said in (
        (loose, NOISE, "rows must be PrivateRows itself"),
        (private(ROWS), LaplaceNoise(Fraction(1)), "noise must be GaussianNoise itself"),
        (private(ROWS), LooseNoise(Fraction(1)), "noise must be"),
        (private(ROWS), GaussianNoise(0.5), "rho must be Fraction itself"),
    ):
        with pytest.raises(ValueError, match=said):
            grant.draw(SumQuery(rows, CLASSES, noise), key="sums")  # type: ignore[arg-type]


def test_what_was_cached_behind_a_frozen_value_does_not_come_along(sqlite_place: Place) -> None:
    """A forged digest or table in an object's own dictionary changes neither the draw nor what it is filed under."""
    ledger, grant = opened(sqlite_place)
    forged, layout = replace(CLASSES), replace(LAYOUT)
    forged.__dict__["digest"] = "0" * 64
    layout.__dict__["_runs"] = "anything"
    first = grant.draw(SumQuery(private(ROWS, layout), forged, NOISE), key="sums")
    assert np.array_equal(measured(open_grant(ledger, "run-1")).values, first.values)


def test_the_grant_draws_from_secure_bytes(sqlite_place: Place) -> None:
    """Two runs draw differently."""
    _, grant = opened(sqlite_place)
    assert isinstance(grant._random_bytes, SecureBytes)
    assert not np.array_equal(measured(grant).values, measured(grant, key="again").values)
    assert isinstance(SHARED, Responsibilities)
