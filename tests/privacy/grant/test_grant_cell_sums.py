"""Sums by cell through the grant: derived events, exact noise, replay, and no lattice of a caller's own making."""

from __future__ import annotations

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
from privacy.grant.grant import Grant
from privacy.grant.measurement import CellSumMeasurement
from privacy.grant.queries.cell_sums import CellSumQuery
from privacy.ledger.entries import GrantExceeded
from privacy.marginals.cell_sums import PrivateCellSums, cell_sum_event
from privacy.marginals.sensitivity import GaussianNoise, LaplaceNoise
from tests.privacy.ledger.ledgers import KEYED_HASH, Place, opened_grant

LAPLACE, GAUSSIAN = LaplaceNoise(Fraction(1, 2)), GaussianNoise(Fraction(1, 100))
WAGE = ValueLattice("wage", Decimal(0), Decimal(50), Decimal("0.5"), counts_missing=True)
EXACT = np.arange(18, dtype=np.int64).reshape(2, 3, 3) * 100


def handle(exact: NDArray[np.int64] | None = EXACT, addends: Addends = WAGE, **changed: Any) -> PrivateCellSums:
    read = (lambda _: pytest.fail("sums were read")) if exact is None else (lambda _: exact)
    shape = EXACT.shape[:-1] if exact is None else exact.shape[:-1]
    made = PrivateCellSums(("sex", "job")[: len(shape)], shape, addends, KEYED_HASH, "b" * 64, read)
    return replace(made, **changed)


def measured(
    grant: Grant, sums: PrivateCellSums | None = None, key: str = "pay", **changed: Any
) -> CellSumMeasurement:
    return grant.draw(CellSumQuery(sums or handle(), changed.get("noise", GAUSSIAN)), key=key)


def test_noise_of_a_seed_is_the_same_whatever_the_sums(places: Callable[[str], Place]) -> None:
    """The noise does not depend on the data: value minus exact sum is one array."""
    away = []
    for name, exact in (("some", EXACT), ("none", EXACT * 0), ("many", EXACT + 10**15)):
        _, grant = opened_grant(places(name), seeded=True)
        away.append(measured(grant, handle(exact)).values - exact)
    assert away[0].any()
    assert np.array_equal(away[0], away[1])
    assert np.array_equal(away[0], away[2])


def test_planned_sums_are_drawn_as_planned_and_no_more(sqlite_place: Place) -> None:
    """Another width is another event, which was not planned; a budget holds so many and no more."""
    event = cell_sum_event(LAPLACE, WAGE, adjacency="add_remove", rows_per_unit=1)
    _, grant = opened_grant(sqlite_place, (event,))
    with pytest.raises(GrantExceeded, match="not planned"):
        measured(grant, handle(None, replace(WAGE, high=Decimal(60))), noise=LAPLACE)
    assert measured(grant, noise=LAPLACE).event == event
    with pytest.raises(GrantExceeded, match="not planned"):
        measured(grant, handle(None), "again", noise=LAPLACE)


@pytest.mark.parametrize(
    ("rows", "high", "fits"), [(1, WIDEST, True), (1, WIDEST + 1, False), (3, WIDEST // 3 + 1, False)]
)
def test_a_lattice_beyond_64_bits_is_refused_before_anything_is_read(
    sqlite_place: Place, rows: int, high: int, fits: bool
) -> None:
    """The bound is on the steps of all rows of a unit."""
    fine = ValueLattice("wage", Decimal(0), Decimal(high), Decimal(1), counts_missing=True)
    _, grant = opened_grant(sqlite_place, rows_per_unit=rows)
    if fits:
        assert measured(grant, handle(EXACT, fine)).event.moves == (WIDEST,)
    else:
        with pytest.raises(ValueError, match="at most 1,000,000,000 steps"):
            measured(grant, handle(None, fine))


def test_a_lattice_without_a_whole_number_of_steps_is_refused_before_anything_is_read(place: Place) -> None:
    """A step that does not divide the range would understate how far one row moves the sums."""
    _, grant = opened_grant(place)
    for low, high, step in (("0", "50", "30"), ("50", "0", "1"), ("0", "50", "-1"), ("0", "1e9", "0.1")):
        other = ValueLattice("wage", Decimal(low), Decimal(high), Decimal(step), counts_missing=True)
        with pytest.raises(ValueError, match="allowed"):
            measured(grant, handle(None, other))


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
def test_a_form_that_cannot_be_is_refused_before_anything_is_read(sqlite_place: Place, form: Addends) -> None:
    """A sum alone that starts between two steps, or steps beyond 64 bits, have no price."""
    _, grant = opened_grant(sqlite_place)
    with pytest.raises(ValueError, match="allowed"):
        measured(grant, handle(None, form))


@pytest.mark.parametrize("form", [LoneSum(WAGE), ValueMoments(WAGE, 10**4)], ids=["a sum alone", "moments"])
def test_other_forms_are_measured_at_the_price_of_their_steps(sqlite_place: Place, form: Addends) -> None:
    """The event and the identity that is entered follow from the handle's own form."""
    _, grant = opened_grant(sqlite_place)
    found = measured(grant, handle(EXACT[..., :1] if form.parts == 1 else np.tile(EXACT, 2)[..., :4], form))
    assert found.event == cell_sum_event(GAUSSIAN, form, adjacency="add_remove", rows_per_unit=1)
    assert found.event.moves == form.row_moves
    assert found.addends == form
