"""Digits of published estimates: a tenth of the standard error, by decimal arithmetic; intervals that only grow."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from privacy.statistics.table import published_digits

NUMBERS = st.floats(-(2.0**30), 2.0**30, allow_subnormal=False)
WIDTHS = st.floats(1e-3, 2.0**30)


def rounded(value: float, low: float, high: float) -> tuple[float, float, float]:
    ends: dict[str, Any] = {"least": -np.inf, "most": np.inf}
    return tuple(float(each[0]) for each in published_digits(*map(np.array, ([value], [low], [high])), **ends))  # type: ignore[return-value]


@given(NUMBERS, WIDTHS, WIDTHS)
def test_no_digit_is_finer_than_a_tenth_of_the_standard_error(value: float, below: float, above: float) -> None:
    """By decimals: the unit is the power of ten at or below a tenth of the error; ends are rounded outwards."""
    low, high = value - below, value + above
    middle, first, last = rounded(value, low, high)
    tenth = Decimal(high - low) / 2 / Decimal("1.96") / 10
    unit = Decimal(1).scaleb(tenth.adjusted())
    near = abs(tenth / unit - 10) < Decimal("1e-9") or abs(tenth / unit - 1) < Decimal("1e-9")
    if not near:  # a double may fall on the other side of a power of ten
        for number in (middle, first, last):
            steps = Decimal(repr(number)) / unit
            assert steps == steps.to_integral_value()
        assert Decimal(repr(first)) >= (Decimal(low) / unit).to_integral_value(ROUND_FLOOR) * unit - unit
        assert Decimal(repr(last)) <= (Decimal(high) / unit).to_integral_value(ROUND_CEILING) * unit + unit
    assert first <= low <= high <= last
    assert first <= middle <= last
    assert abs(middle - value) <= float(unit) * 5.001


def test_examples_of_published_digits() -> None:
    """A mean of income within 2,100 has whole hundreds; what has no error, or no end, keeps what it has."""
    assert rounded(50909.94012993079, 48809.94, 53009.94) == (50900.0, 48800.0, 53100.0)
    assert rounded(37.25, 37.25, 37.25) == (37.25, 37.25, 37.25)
    assert rounded(12.3456, 11.0, np.inf) == (12.35, 11.0, np.inf)
    assert rounded(np.inf, 3.25, np.inf) == (np.inf, 3.25, np.inf)
    value, low, high = published_digits(
        np.array([98.0]), np.array([70.0]), np.array([99.0]), least=17.0, most=99.0, precision=100.0
    )
    assert (value[0], low[0], high[0]) == (99.0, 70.0, 99.0)
