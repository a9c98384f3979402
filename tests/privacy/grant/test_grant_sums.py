"""Sums over rows through the grant: derived events, exact noise, replay, and nothing of a caller's own making."""

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from contracts.domains.addends import Addends, LoneSum, ValueMoments
from contracts.domains.lattice import WIDEST, ValueLattice
from privacy.grant.grant import Grant, open_grant
from privacy.grant.measurement import CellSumMeasurement, SumMeasurement
from privacy.grant.queries.cell_sums import CellSumQuery
from privacy.grant.queries.sums import SumQuery
from privacy.learning.embedding import Embedding
from privacy.learning.layout import ColumnLayout, PrivateRows, RowLayout
from privacy.learning.moments import LabelCodes, Moments, Responsibilities
from privacy.ledger.entries import GrantExceeded, LedgerRefusal
from privacy.marginals.cell_sums import PrivateCellSums, cell_sum_event
from privacy.marginals.sensitivity import GaussianNoise, LaplaceNoise
from privacy.noise.random_bytes import SecureBytes
from tests.privacy.learning.learning_rows import LAYOUT, all_statistics, embedded, private, random_rows, whole
from tests.privacy.ledger.ledgers import KEYED_HASH, Place, opened_grant

NOISE = GaussianNoise(Fraction(1, 100))
ROWS = random_rows(200)
CLASSES = all_statistics()["class moments"]


def measured(grant: Grant, statistic: Moments = CLASSES, key: str = "sums") -> SumMeasurement:
    return grant.draw(SumQuery(private(ROWS), statistic, NOISE), key=key)


def test_a_sum_that_fails_on_the_rows_stays_charged(sqlite_place: Place):
    """Codes that the layout does not have: the failure names no value, and the draw is not made again."""
    _, grant = opened_grant(sqlite_place)
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


def loose(kind: type) -> Any:
    """A class with code of its own."""
    return type(f"Loose{kind.__name__}", (kind,), {})


LooseRows, LooseLayout, LooseColumn = loose(PrivateRows), loose(RowLayout), loose(ColumnLayout)
LooseNoise, LooseArray = loose(GaussianNoise), loose(np.ndarray)


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
    (LooseLayout(LAYOUT.columns), "RowLayout itself, not LooseRowLayout"),
    (spoiled(LAYOUT, columns=(LooseColumn("x", "number", np.zeros((2, 1))),)), "ColumnLayout itself"),
    (
        spoiled(LAYOUT, columns=(spoiled(LAYOUT.columns[0], table=np.zeros((2, 1)).view(LooseArray)),)),
        "ndarray itself",
    ),
    (RowLayout(LAYOUT.columns[:2]), "no column 'age'"),
]


@pytest.mark.parametrize(("statistic", "said"), STATISTICS, ids=[said for _, said in STATISTICS])
def test_statistics_of_a_callers_own_making_are_refused(sqlite_place: Place, statistic: Any, said: str):
    """Nothing is read, nothing is charged."""
    ledger, grant = opened_grant(sqlite_place)
    before = len(ledger.journal())
    unread = PrivateRows(LAYOUT, private(ROWS).keyed_hash, "b" * 64, lambda: pytest.fail("rows were read"))
    with pytest.raises(ValueError, match=said):
        grant.draw(SumQuery(unread, statistic, NOISE), key="sums")
    assert len(ledger.journal()) == before


@pytest.mark.parametrize(("layout", "said"), LAYOUTS, ids=[said for _, said in LAYOUTS])
def test_rows_of_a_callers_own_making_are_refused(sqlite_place: Place, layout: Any, said: str):
    _, grant = opened_grant(sqlite_place)
    with pytest.raises(ValueError, match=said):
        grant.draw(SumQuery(private(ROWS, layout), CLASSES, NOISE), key="sums")


def test_other_handles_and_other_noise_are_refused(sqlite_place: Place):
    _, grant = opened_grant(sqlite_place)
    loose = LooseRows(LAYOUT, "c" * 64, "b" * 64, lambda: ROWS)
    for rows, noise, said in (
        (loose, NOISE, "rows must be PrivateRows itself"),
        (private(ROWS), LaplaceNoise(Fraction(1)), "noise must be GaussianNoise itself"),
        (private(ROWS), LooseNoise(Fraction(1)), "noise must be"),
        (private(ROWS), GaussianNoise(0.5), "rho must be Fraction itself"),
    ):
        with pytest.raises(ValueError, match=said):
            grant.draw(SumQuery(rows, CLASSES, noise), key="sums")


def test_what_was_cached_behind_a_frozen_value_does_not_come_along(sqlite_place: Place):
    """A forged digest or table in an object's own dictionary changes neither the draw nor what it is filed under."""
    ledger, grant = opened_grant(sqlite_place)
    forged, layout = replace(CLASSES), replace(LAYOUT)
    forged.__dict__["digest"] = "0" * 64
    layout.__dict__["_runs"] = "anything"
    first = grant.draw(SumQuery(private(ROWS, layout), forged, NOISE), key="sums")
    assert np.array_equal(measured(open_grant(ledger, "run-1")).values, first.values)


def test_the_grant_draws_from_secure_bytes(sqlite_place: Place):
    """Two runs draw differently."""
    _, grant = opened_grant(sqlite_place)
    assert isinstance(grant._random_bytes, SecureBytes)
    assert not np.array_equal(measured(grant).values, measured(grant, key="again").values)
    assert isinstance(SHARED, Responsibilities)


LAPLACE, GAUSSIAN = LaplaceNoise(Fraction(1, 2)), GaussianNoise(Fraction(1, 100))
WAGE = ValueLattice("wage", Decimal(0), Decimal(50), Decimal("0.5"), counts_missing=True)
EXACT = np.arange(18, dtype=np.int64).reshape(2, 3, 3) * 100


def handle(exact: NDArray[np.int64] | None = EXACT, addends: Addends = WAGE, **changed: Any) -> PrivateCellSums:
    read = (lambda _: pytest.fail("sums were read")) if exact is None else (lambda _: exact)
    shape = EXACT.shape[:-1] if exact is None else exact.shape[:-1]
    made = PrivateCellSums(("sex", "job")[: len(shape)], shape, addends, KEYED_HASH, "b" * 64, read)
    return replace(made, **changed)


def cells_measured(
    grant: Grant, sums: PrivateCellSums | None = None, key: str = "pay", **changed: Any
) -> CellSumMeasurement:
    return grant.draw(CellSumQuery(sums or handle(), changed.get("noise", GAUSSIAN)), key=key)


def test_noise_of_a_seed_is_the_same_whatever_the_sums(places: Callable[[str], Place]):
    """The noise does not depend on the data: value minus exact sum is one array."""
    away = []
    for name, exact in (("some", EXACT), ("none", EXACT * 0), ("many", EXACT + 10**15)):
        _, grant = opened_grant(places(name), seeded=True)
        away.append(cells_measured(grant, handle(exact)).values - exact)
    assert away[0].any()
    assert np.array_equal(away[0], away[1])
    assert np.array_equal(away[0], away[2])


def test_planned_sums_are_drawn_as_planned_and_no_more(sqlite_place: Place):
    """Another width is another event, which was not planned; a budget holds so many and no more."""
    event = cell_sum_event(LAPLACE, WAGE, adjacency="add_remove", rows_per_unit=1)
    _, grant = opened_grant(sqlite_place, (event,))
    with pytest.raises(GrantExceeded, match="not planned"):
        cells_measured(grant, handle(None, replace(WAGE, high=Decimal(60))), noise=LAPLACE)
    assert cells_measured(grant, noise=LAPLACE).event == event
    with pytest.raises(GrantExceeded, match="not planned"):
        cells_measured(grant, handle(None), "again", noise=LAPLACE)


@pytest.mark.parametrize(
    ("rows", "high", "fits"), [(1, WIDEST, True), (1, WIDEST + 1, False), (3, WIDEST // 3 + 1, False)]
)
def test_a_lattice_beyond_64_bits_is_refused_before_anything_is_read(
    sqlite_place: Place, rows: int, high: int, fits: bool
):
    """The bound is on the steps of all rows of a unit."""
    fine = ValueLattice("wage", Decimal(0), Decimal(high), Decimal(1), counts_missing=True)
    _, grant = opened_grant(sqlite_place, rows_per_unit=rows)
    if fits:
        assert cells_measured(grant, handle(EXACT, fine)).event.moves == (WIDEST,)
    else:
        with pytest.raises(ValueError, match="at most 1,000,000,000 steps"):
            cells_measured(grant, handle(None, fine))


def test_a_lattice_without_a_whole_number_of_steps_is_refused_before_anything_is_read(place: Place):
    """A step that does not divide the range would understate how far one row moves the sums."""
    _, grant = opened_grant(place)
    for low, high, step in (("0", "50", "30"), ("50", "0", "1"), ("0", "50", "-1"), ("0", "1e9", "0.1")):
        other = ValueLattice("wage", Decimal(low), Decimal(high), Decimal(step), counts_missing=True)
        with pytest.raises(ValueError, match="allowed"):
            cells_measured(grant, handle(None, other))


@pytest.mark.parametrize(
    "form",
    [
        LoneSum(ValueLattice("wage", Decimal(WIDEST), Decimal(WIDEST + 1), Decimal(1), counts_missing=True)),
        LoneSum(ValueLattice("wage", Decimal(1), Decimal(7), Decimal(2), counts_missing=True)),
        ValueMoments(WAGE, WIDEST + 1),
        ValueMoments(WAGE, 0),
    ],
    ids=["far from 0", "between two steps", "too many steps", "no steps"],
)
def test_a_form_that_cannot_be_is_refused_before_anything_is_read(sqlite_place: Place, form: Addends):
    """A sum alone that starts between two steps, or steps beyond 64 bits, have no price."""
    _, grant = opened_grant(sqlite_place)
    with pytest.raises(ValueError, match="allowed"):
        cells_measured(grant, handle(None, form))


@pytest.mark.parametrize("form", [LoneSum(WAGE), ValueMoments(WAGE, 10**4)], ids=["a sum alone", "moments"])
def test_other_forms_are_measured_at_the_price_of_their_steps(sqlite_place: Place, form: Addends):
    """The event and the identity that is entered follow from the handle's own form."""
    _, grant = opened_grant(sqlite_place)
    found = cells_measured(grant, handle(EXACT[..., :1] if form.parts == 1 else np.tile(EXACT, 2)[..., :4], form))
    assert found.event == cell_sum_event(GAUSSIAN, form, adjacency="add_remove", rows_per_unit=1)
    assert found.event.moves == form.row_moves
    assert found.addends == form
