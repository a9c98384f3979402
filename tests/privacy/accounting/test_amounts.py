"""Amounts: exact integers, rounded against the spender, and nothing that is not an amount."""

import math
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privacy.accounting.amounts import (
    ATTO,
    LARGEST,
    PICO,
    AmountRefused,
    atto_to_text,
    budget_down,
    delta_down,
    delta_up,
    loss_up,
    percent_text,
    pico_to_text,
    power_text,
)

NOT_AMOUNTS = [
    -1,
    -1e-300,
    Decimal("-0.1"),
    Fraction(-1, 3),
    float("nan"),
    float("inf"),
    -float("inf"),
    1e309,
    Decimal("1e309"),
    Decimal("1e999999"),
    Decimal("NaN"),
    Decimal("sNaN"),
    Decimal("Infinity"),
    Decimal("1e-999999"),
    10**7,
    10**5000,
    True,
    False,
    "1",
    None,
]


def shown(value: object) -> str:
    return "huge" if isinstance(value, int) and abs(value) > 10**40 else repr(value)


positive = st.fractions(min_value=Fraction(1, 10**12), max_value=LARGEST)
probabilities = st.fractions(min_value=0, max_value=Fraction(10**18 - 1, 10**18))


@pytest.mark.parametrize("value", [*NOT_AMOUNTS, 0, 0.0, Decimal("-0"), Fraction(0)], ids=shown)
@pytest.mark.parametrize("function", [loss_up, budget_down])
def test_what_is_not_a_positive_finite_number_is_refused(function: object, value: object):
    """Losses and budgets refuse zero, negative, NaN, infinite, too large, boolean and text, by name and limit."""
    with pytest.raises(AmountRefused, match=r"(loss|budget) is .*; allowed: a finite number > 0 and <= 1000000"):
        function(value)  # type: ignore[operator]


@pytest.mark.parametrize("value", [*NOT_AMOUNTS, 1, 1.0, Decimal(1), Fraction(3, 2)], ids=shown)
@pytest.mark.parametrize("function", [delta_up, delta_down])
def test_a_delta_outside_of_zero_to_one_is_refused(function: object, value: object):
    """Delta refuses everything but a finite number in [0, 1)."""
    with pytest.raises(AmountRefused, match=r"delta is .*; allowed: "):
        function(value)  # type: ignore[operator]


def test_a_delta_that_rounds_up_to_one_is_refused():
    """1 - 10^-20 is below one but not in whole units."""
    almost = 1 - Fraction(1, 10**20)
    with pytest.raises(AmountRefused):
        delta_up(almost)
    assert delta_down(almost) == ATTO - 1


def test_zero_is_a_delta():
    """Delta may be zero; zero stays zero in both directions."""
    assert delta_up(0) == delta_down(0) == delta_up(0.0) == delta_down(Decimal(0)) == 0


def test_a_budget_below_one_unit_is_refused():
    """What rounds down to nothing is no budget."""
    with pytest.raises(AmountRefused, match="at least 1e-12"):
        budget_down(Decimal("9e-13"))
    assert loss_up(Decimal("9e-13")) == 1


def test_a_decimal_keeps_the_digits_that_were_written():
    """A Decimal is the written number; a float is a computed one and is moved off its last rounding."""
    assert loss_up(Decimal("0.1")) == budget_down(Decimal("0.1")) == PICO // 10
    assert loss_up(0.1) == PICO // 10 + 1
    assert budget_down(0.1) == PICO // 10 - 1


@settings(deadline=None)
@given(positive)
def test_losses_go_up_and_budgets_down_by_less_than_a_unit(value: Fraction):
    """budget_down(x) <= x <= loss_up(x), each within one unit, and never negative."""
    assert 0 <= value * PICO - budget_down(value) < 1
    assert 0 <= loss_up(value) - value * PICO < 1


@settings(deadline=None)
@given(st.floats(min_value=1e-11, max_value=LARGEST))
def test_a_float_is_rounded_past_its_neighbours(value: float):
    """A float stands for anything up to its neighbours; both directions pass them."""
    assert loss_up(value) >= Fraction(min(math.nextafter(value, math.inf), LARGEST)) * PICO
    assert budget_down(value) <= Fraction(math.nextafter(value, 0)) * PICO


@settings(deadline=None)
@given(positive, positive)
def test_rounding_is_monotone_and_adding_is_safe(one: Fraction, other: Fraction):
    """More is never less after rounding; parts rounded up cover the whole, parts rounded down fit into it."""
    less, more = sorted((one, other))
    assert loss_up(less) <= loss_up(more)
    assert budget_down(less) <= budget_down(more)
    if one + other <= LARGEST:
        assert loss_up(one) + loss_up(other) >= loss_up(one + other)
        assert budget_down(one) + budget_down(other) <= budget_down(one + other)


@settings(deadline=None)
@given(probabilities)
def test_deltas_go_their_way_by_less_than_a_unit(value: Fraction):
    """delta_down(x) <= x <= delta_up(x), each within one unit."""
    assert 0 <= value * ATTO - delta_down(value) < 1
    assert 0 <= delta_up(value) - value * ATTO < 1


@pytest.mark.parametrize(
    ("units", "text"),
    [
        (1_500_000_000_000, "1.5"),
        (0, "0"),
        (1, "0.000000000001"),
        (10**12, "1"),
        (20 * 10**12, "20"),
        (-5 * 10**11, "-0.5"),
    ],
)
def test_units_are_written_as_plain_decimals(units: int, text: str):
    """The text has no exponent and no trailing zeros."""
    assert pico_to_text(units) == text


@settings(deadline=None)
@given(st.integers(min_value=-(10**19), max_value=10**19))
def test_the_text_of_an_amount_is_exact(units: int):
    """Reading the text back gives the same number."""
    assert Decimal(pico_to_text(units)) * PICO == units


@settings(deadline=None)
@given(st.integers(min_value=0, max_value=ATTO - 1))
def test_the_text_of_a_delta_is_exact(units: int):
    """Reading the text back gives the same number."""
    assert Fraction(Decimal(atto_to_text(units))) * ATTO == units


@settings(deadline=None)
@given(st.integers(min_value=0, max_value=ATTO - 1))
def test_a_delta_for_people_is_the_same_number_with_one_digit_before_the_point(units: int):
    """The label said 2106e-11."""
    assert power_text("2106e-11") == "2.106e-8"
    told = power_text(atto_to_text(units))
    assert Fraction(Decimal(told)) * ATTO == units
    assert "e" not in told or told[1:2] in (".", "e")


def test_a_round_delta_reads_as_people_write_it():
    """1e-9 is shown as 1e-9."""
    assert [atto_to_text(units) for units in (10**9, 25 * 10**10, 0, 1)] == ["1e-9", "25e-8", "0", "1e-18"]


@given(st.integers(0, 10**18), st.integers(1, 10**18))
def test_a_share_is_rounded_against_the_spender_by_less_than_a_hundredth_of_itself(part: int, whole: int):
    """What is lost is never shown smaller and what is left never larger; both ends of a cap are whole."""
    lost, left = (Decimal(percent_text(part, whole, up=up).removesuffix(" %")) for up in (True, False))
    assert left * whole <= 100 * part <= lost * whole
    assert (lost - left) * whole <= part + 10**-9 * part
    assert (percent_text(whole, whole, up=True), percent_text(0, whole, up=True)) == ("100 %", "0 %")
    assert percent_text(part, 0, up=False) == "0 %"
