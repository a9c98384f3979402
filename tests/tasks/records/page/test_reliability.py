"""Letters of reliability: what the interval promises, never more, and the same limits in code and docs."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.records.page.reliability import LIMITS, WORST, grades, letters

DOCS = Path(__file__).resolve().parents[4] / "docs" / "record.md"


def _letter(count: int, lower: int, upper: int) -> str:
    return str(letters(np.array([count]), np.array([lower]), np.array([upper]))[0])


@pytest.mark.parametrize(("place", "letter", "percent"), [(place, *limit) for place, limit in enumerate(LIMITS)])
def test_a_limit_belongs_to_its_letter_and_one_row_more_to_the_next(place: int, letter: str, percent: int) -> None:
    """At 1,000 rows a per cent is 10 rows, to both sides alike."""
    following = LIMITS[place + 1][0] if place + 1 < len(LIMITS) else WORST
    reach = 10 * percent
    assert _letter(1000, 1000 - reach, 1000 + reach) == letter
    assert _letter(1000, 1000 - reach, 1000 + reach + 1) == following
    assert _letter(1000, 1000 - reach - 1, 1000 + reach) == following


def test_a_count_of_nothing_is_unreliable_and_one_without_noise_has_no_letter() -> None:
    """Relative to 0 every reach is infinite; a cell that is declared impossible reaches nowhere."""
    assert [_letter(0, 0, 5), _letter(-3, -9, 4), _letter(0, 0, 0), _letter(12, 12, 12)] == [WORST, WORST, "", ""]


@given(st.integers(1, 10**6), st.integers(0, 10**6), st.integers(0, 10**6))
def test_a_letter_never_promises_more_than_the_interval(count: int, below: int, above: int) -> None:
    """Also where refinement moved the count out of the middle, or out of its interval: by exact fractions."""
    found = _letter(count, count - below, count + above)
    reach = Fraction(100 * max(below, above), count)
    expected = next((letter for letter, percent in LIMITS if reach <= percent), WORST)
    assert found == (expected if below or above else "")


@given(st.integers(1, 1000), st.integers(1, 1000), st.integers(0, 2000))
def test_a_count_outside_its_interval_is_judged_by_the_farther_end(width: int, beyond: int, low: int) -> None:
    count = low + width + beyond
    reach = Fraction(100 * (width + beyond), count)
    assert _letter(count, low, low + width) == next((letter for letter, most in LIMITS if reach <= most), WORST)


def test_every_cell_with_a_letter_is_counted_once() -> None:
    found = letters(
        np.array([[1000, 1000], [5, 0]]), np.array([[990, 600], [0, 0]]), np.array([[1010, 1400], [9, 0]])
    )
    assert found.tolist() == [["A", "E"], [WORST, ""]]
    counted = {grade.letter: grade.number for grade in grades(found)}
    assert counted == {"A": 1, "B": 0, "C": 0, "D": 0, "E": 1, WORST: 1}
    assert grades(np.array([""])) == []


def test_the_docs_have_the_same_limits_and_words() -> None:
    listed = DOCS.read_text(encoding="utf-8")
    for grade, (letter, percent) in zip(grades(np.array([WORST])), LIMITS, strict=False):
        assert f"| {letter} | {percent} % | {grade.means} |" in listed
        assert grade.reach == f"≤ {percent} %"
