"""The made-up tables with columns of money: their bins, their labels, and which of their numbers enter by bins."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from benchmarks._money_tables import accounts, amounts, loans
from benchmarks._neural_tables import Table
from privacy.generators.projection import entering


def test_bins_begin_at_one_two_and_five_times_the_powers_of_ten() -> None:
    made = amounts(10, 200, zero=True)
    assert made.lows.tolist() == [0, 1, 20, 50, 100]
    assert made.highs.tolist() == [0, 19, 49, 99, 200]
    assert made.codes(np.array([0, 1, 19, 20, 199, 900])).tolist() == [0, 1, 1, 2, 4, 4]
    assert amounts(10, 200, zero=False).lows.tolist() == [0, 20, 50, 100]


@pytest.mark.parametrize(("make", "share", "uneven"), [(loans, 0.12, 5), (accounts, 0.13, 6)])
def test_tables_differ_by_seed_and_have_five_columns_of_money(
    make: Callable[..., Table], share: float, uneven: int
) -> None:
    """Amounts are whole and none is negative; the years of `accounts` are in uneven bins too."""
    table = make(1, 4000)
    assert table.labels().mean() == pytest.approx(share, abs=0.04)
    assert (make(1, 4000).codes() == table.codes()).all()
    assert (make(2, 4000).codes() != table.codes()).any()
    layout = table.layout
    by_bins = entering(layout, "auto")
    moved = [name for name in layout.names if by_bins.column(name) is not layout.column(name)]
    assert len(moved) == uneven
    for name in moved:
        assert (np.asarray(table.values[name]) == np.floor(table.values[name])).all()
        assert np.asarray(table.values[name]).min() >= 0
