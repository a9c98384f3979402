"""The picture of pairs of columns: it fits the page at every width, and says what it shows in each form."""

from __future__ import annotations

import numpy as np
import pytest

from tasks.records.charts.charts import HEAT_LEVELS
from tasks.records.charts.pair_map import PairMap, pair_map


def drawn(columns: int) -> PairMap:
    darkness = np.zeros((columns, columns))
    darkness[0, 1] = 4.0
    texts = [["4" if (row, column) == (0, 1) else "" for column in range(columns)] for row in range(columns)]
    return pair_map([f"c{place}" for place in range(columns)], darkness, texts, "Pairs.")


def test_few_columns_have_numbers() -> None:
    first, others = drawn(12).rows[0]
    assert first == "c0"
    assert (others[1].text, others[1].label, others[1].level) == ("4", "c0 × c1: 4", HEAT_LEVELS)
    assert (others[2].text, others[2].label, others[2].level) == ("", "c0 × c2: none", 0)


@pytest.mark.parametrize("columns", [13, 40])
def test_more_columns_have_names_and_tell_the_number_to_a_pointer(columns: int) -> None:
    found = drawn(columns)
    assert found.picture is None
    assert found.rows[0][1][1].text == ""
    assert found.rows[0][1][1].label == "c0 × c1: 4"


def test_very_many_columns_are_squares() -> None:
    found = drawn(41)
    assert found.rows == []
    assert 'viewBox="0 0 41 41"' in str(found.picture)
    assert 'class="h8" d="M1 0h1v1h-1z"' in str(found.picture)
