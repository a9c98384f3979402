"""Accuracy that is asked for: what an aim says, and the least epsilon that reaches it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path

import pytest

from console.aims import curve, least_epsilon, reached, read_aims
from console.products.product_view import ExpectedWidth
from contracts.errors import SpecRefused

SPEC = Path("spec.yaml")


def widths(epsilon: Decimal) -> Sequence[ExpectedWidth]:
    """Two tables whose noise is 30 / epsilon wide, and a mean in one of them."""
    return [
        ExpectedWidth("age", "count", 30 / float(epsilon)),
        ExpectedWidth("age", "mean_hours", 400 / float(epsilon), by_rows=True),
        ExpectedWidth("education_x_income", "count", 60 / float(epsilon)),
        ExpectedWidth("ages", "q50_age", 10 / float(epsilon)),
    ]


@pytest.mark.parametrize(
    ("text", "named", "reach", "rows"),
    [
        ("±50", None, 50, None),
        ("+-1,000", None, 1000, None),
        ("± 5% where count >= 1000", None, 50, 1000),
        ("±5% at 95% where count >= 1_000", None, 50, 1000),
        (" age: ±2.5 at 95.0% ", "age", 2.5, None),
        ("age.mean_hours: +/-.5 where count ≥ 200", "age.mean_hours", 0.5, 200),
    ],
)
def test_an_aim_is_read(text: str, named: str | None, reach: float, rows: int | None) -> None:
    (aim,) = read_aims([text], SPEC)
    assert (aim.named, aim.reach, aim.rows) == (named, reach, rows)


@pytest.mark.parametrize(
    ("text", "allowed", "remedy"),
    [
        ("50", "±NUMBER", "write it like"),
        ("±-5", "±NUMBER", "write it like"),
        ("±5 rows", "±NUMBER", "write it like"),
        ("±5%", "from a size on", "write ±5% where count >= 1000"),
        ("±0", "above 0", "allow for some error"),
        ("±5% where count >= 0", "above 0", "allow for some error"),
        ("±5 at 99%", "at 95%", "drop `at`"),
        ("±5 at 9.5.1%", "±NUMBER", "write it like"),
        ("±5 at .%", "±NUMBER", "write it like"),
        ("age.mean_hours: ±5% where count >= 10", "% of counts alone", "units"),
        ("aeg: ±5", "TABLE.STATISTIC", "write 'age' instead of 'aeg'"),
        ("age.mean_hour: ±5 where count >= 9", "TABLE.STATISTIC", "age.mean_hours"),
        ("income: ±5", "TABLE.STATISTIC", "names are"),
        ("ages: ±5", "a table with counts", "name a statistic of it: one of ages.q50_age"),
        ("age.mean_hours: ±5", "the rows of the smallest cell", "where count >= 1000"),
        ("±0.0001", "an aim that epsilon 1000, the largest, reaches", "allow for more error"),
    ],
)
def test_an_aim_that_cannot_be_followed_is_refused(text: str, allowed: str, remedy: str) -> None:
    with pytest.raises(SpecRefused) as refused:
        least_epsilon(read_aims([text], SPEC), widths, SPEC)
    (finding,) = refused.value.findings
    assert (finding.where, finding.field) == ("sudare plan spec.yaml", "--for")
    assert text.strip() in finding.found
    assert allowed in finding.allowed
    assert remedy in finding.remedy


@pytest.mark.parametrize(
    ("texts", "least"),
    [
        (["±60"], "1"),
        (["±59"], "1.02"),
        (["age: ±60"], "0.5"),
        (["±6"], "10"),
        (["±0.06"], "1000"),
        (["±60,000"], "0.001"),
        (["±60,000,000,000"], "0.000001"),
        (["age: ±30", "age.mean_hours: ±1 where count >= 100", "education_x_income: ±10% where count >= 1000"], "4"),
    ],
)
def test_the_least_epsilon_of_three_digits_is_found(texts: list[str], least: str) -> None:
    aims = read_aims(texts, SPEC)
    found = least_epsilon(aims, widths, SPEC)
    assert found == Decimal(least)
    assert all(each.holds for each in reached(aims, widths(found), SPEC))
    less = found * Decimal("0.98")
    assert found == Decimal("1e-6") or not all(each.holds for each in reached(aims, widths(less), SPEC))


def test_widths_that_fall_in_steps_are_followed_to_the_edge() -> None:
    """Half widths of counts are whole numbers."""

    def steps(noise: Callable[[float], int]) -> Decimal:
        return least_epsilon(
            read_aims(["±9"], SPEC), lambda epsilon: [ExpectedWidth("t", "count", noise(float(epsilon)))], SPEC
        )

    assert steps(lambda epsilon: int(30 / epsilon)) == Decimal("3.01")
    assert steps(lambda epsilon: round(30 / epsilon)) == Decimal("3.16")


def test_an_interval_of_a_mean_is_longer_where_its_rows_are_few_and_never_longer_than_all_that_is_possible() -> None:
    """Its denominator is noisy: with g the squared share of the rows that is noise, 1 / (1 - g) times as long."""
    mean = ExpectedWidth("age", "mean_hours", 400.0, by_rows=True, count=10.0, most=49.5)
    assert mean.of(1000) == pytest.approx(0.4 / (1 - 1e-4))
    assert mean.of(20) == pytest.approx(20 / 0.75)
    assert mean.of(12) == mean.of(10) == mean.of(1) == 49.5


def test_the_curve_shows_what_other_epsilons_would_give() -> None:
    aims = read_aims(["±60", "age: ±60"], SPEC)
    told = curve(aims, widths, Decimal(1), SPEC)
    assert [each["epsilon"] for each in told] == ["0.25", "0.5", "1", "2", "4"]
    assert told[1]["half_widths"] == [120, 60]
    assert [each["epsilon"] for each in curve(aims, widths, Decimal(500), SPEC)] == ["125", "250", "500", "1000"]
