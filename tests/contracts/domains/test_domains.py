"""Domains: the forms of bins, the labels of cells, calendar periods."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from contracts.domains.calendar_periods import Granularity, count_periods, period_index, period_label, periods
from contracts.domains.ordered import DateDomain, DecimalDomain, IntegerDomain
from tests.contracts.samples import column

GRANULARITIES: list[Granularity] = ["day", "week", "month", "quarter", "year"]
DAYS = st.dates(date(1, 1, 1), date(9999, 12, 31))


def integer_bins(bounds: list[int], bins: object) -> tuple[tuple[int, int], ...]:
    domain = column("integer", "integer", bounds=bounds, bins=bins).domain
    assert isinstance(domain, IntegerDomain)
    return domain.bins


def decimal_bins(bounds: list[str], bins: object) -> tuple[tuple[Decimal, Decimal], ...]:
    domain = column("decimal", "number", bounds=bounds, bins=bins).domain
    assert isinstance(domain, DecimalDomain)
    return domain.bins


def test_the_three_forms_of_bins_mean_the_same() -> None:
    """Edges, a width and pairs become the same pairs."""
    pairs = ((0, 9), (10, 19), (20, 25))
    assert integer_bins([0, 25], {"edges": [0, 10, 20, 25]}) == pairs
    assert integer_bins([0, 25], {"width": 10}) == pairs
    assert integer_bins([0, 25], [[0, 9], [10, 19], [20, 25]]) == pairs
    intervals = ((Decimal("0"), Decimal("0.1")), (Decimal("0.1"), Decimal("0.2")), (Decimal("0.2"), Decimal("0.25")))
    assert decimal_bins(["0", "0.25"], {"edges": ["0", "0.10", "2e-1", ".25"]}) == intervals
    assert decimal_bins(["0", "0.25"], {"width": "0.1"}) == intervals
    assert decimal_bins(["0", "0.25"], [["0", "0.1"], ["0.1", "0.2"], ["0.2", "0.25"]]) == intervals


@settings(max_examples=50, deadline=None)
@given(low=st.integers(-1000, 1000), span=st.integers(0, 500), width=st.integers(1, 600))
def test_bins_of_a_width_cover_the_bounds_once(low: int, span: int, width: int) -> None:
    """Every whole number of the bounds lies in exactly one bin, and no bin is wider than asked for."""
    bins = integer_bins([low, low + span], {"width": width})
    assert [value for first, last in bins for value in range(first, last + 1)] == list(range(low, low + span + 1))
    assert all(last - first + 1 <= width for first, last in bins)


@settings(max_examples=50, deadline=None)
@given(low=st.integers(-1000, 1000), span=st.integers(1, 500), width=st.integers(1, 600), places=st.integers(0, 9))
def test_decimal_bins_of_a_width_are_exact(low: int, span: int, width: int, places: int) -> None:
    """Edges are exact multiples; where the width divides the span there is no sliver at the end."""
    unit = Decimal(1).scaleb(-places)
    bins = decimal_bins([str(low * unit), str((low + span) * unit)], {"width": str(width * unit)})
    assert [first for first, _ in bins] == [(low + place * width) * unit for place in range(-(-span // width))]
    assert bins[-1][1] == (low + span) * unit


def test_labels_of_bins_read_like_a_table_head() -> None:
    """Single numbers stand alone; half-open intervals show which end belongs to them."""
    ages = column("integer", "integer", bounds=[-1, 9], bins=[[-1, -1], [0, 4], [5, 9]])
    assert ages.labels == ("-1", "0 to 4", "5 to 9", "(null)")
    shares = column("decimal", "number", bounds=[0, 1], bins={"width": "0.50"}, nulls={"policy": "map", "to": "1"})
    assert (shares.labels, shares.null_code) == (("[0, 0.5)", "[0.5, 1]"), 1)


def test_bins_that_a_double_cannot_tell_apart_are_refused() -> None:
    """Near 10^15 a width of 10^-6 is below the spacing of doubles."""
    with pytest.raises(ValidationError, match="differ in double precision"):
        decimal_bins(["999999999999999", "999999999999999.001"], {"width": "0.000001"})


def test_periods_that_are_too_many_are_refused() -> None:
    """Ten thousand years of days are more cells than a column may have."""
    with pytest.raises(ValidationError, match="found 3652059 periods, allowed at most 1048575"):
        column("date", "date", bounds=["0001-01-01", "9999-12-31"], granularity="day")


@settings(max_examples=60, deadline=None)
@given(first=DAYS, span=st.integers(0, 2000), granularity=st.sampled_from(GRANULARITIES))
def test_periods_tile_the_range_and_change_where_their_label_does(
    first: date, span: int, granularity: Granularity
) -> None:
    """Each day lies in one period; two neighbouring days share it exactly when they share its label."""
    last = min(date.max, first + timedelta(days=min(span, (date.max - first).days)))
    tiles = periods(first, last, granularity)
    assert len(tiles) == count_periods(first, last, granularity)
    assert (tiles[0][0], tiles[-1][1]) == (first, last)
    for (_, before), (after, _) in pairwise(tiles):
        assert after - before == timedelta(days=1)
        assert period_label(after, granularity) != period_label(before, granularity)
        assert period_index(after, granularity) == period_index(before, granularity) + 1
    for start, end in tiles:
        assert start <= end
        assert period_label(start, granularity) == period_label(end, granularity)


def test_labels_of_periods_are_those_of_iso_8601() -> None:
    """The week of a day at the turn of the year belongs to the ISO year."""
    day = date(2021, 1, 3)
    labels = [period_label(day, granularity) for granularity in GRANULARITIES]
    assert labels == ["2021-01-03", "2020-W53", "2021-01", "2021-Q1", "2021"]
    domain = column("date", "date", bounds=["2020-11-15", "2021-02-03"], granularity="quarter").domain
    assert isinstance(domain, DateDomain)
    assert domain.labels == ("2020-Q4", "2021-Q1", "(null)")
