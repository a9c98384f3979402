"""The benchmark of keys and distinct counts: its optimum and its errors are those of what a run draws."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import sqrt

import numpy as np
import pytest

from benchmarks._distinct_peers import Answers, Question
from benchmarks.statistics_distinct import (
    CELLS,
    DELTA,
    ROWS,
    _count_row,
    _key_rows,
    laplace_error,
    optimal_chances,
    several_rows,
    zipf_people,
)
from privacy.accounting.key_law import ONE, keep_chances

UNITS = np.bincount(zipf_people(20_000).key)


@pytest.mark.parametrize("epsilon", [Fraction(1), Fraction(1, 2), Fraction(3)])
def test_the_optimum_is_that_of_the_theorem_and_our_coins_reach_it(epsilon: Fraction) -> None:
    """Two computations of one recursion, in other numbers; a rule with half of delta is told apart."""
    found = optimal_chances(epsilon, DELTA, 10**6)
    ours = [chance / ONE for chance in keep_chances(epsilon, DELTA)]
    assert len(found) == len(ours)
    assert np.allclose(found, ours, rtol=1e-9, atol=1e-15)
    assert not np.allclose(
        found, [chance / ONE for chance in keep_chances(epsilon, DELTA / 2)][: len(found)], rtol=1e-3
    )


def test_the_error_by_formula_is_that_of_the_distribution() -> None:
    """Summed over the integers; the continuous law's is larger."""
    for rows in (1, 3, 10):
        ratio = np.exp(-1 / rows)
        places = np.arange(-4000, 4001)
        mass = (1 - ratio) / (1 + ratio) * ratio ** np.abs(places)
        assert laplace_error(Fraction(1, rows)) == pytest.approx(sqrt(float((mass * places**2).sum())))
        assert laplace_error(Fraction(1, rows)) < sqrt(2) * rows


@pytest.mark.stat
def test_keys_reach_the_optimum_and_a_peer_that_publishes_more_is_a_miss() -> None:
    """n = 2,000 selections against the expected number: beyond 3 standard errors with probability 0.003, so 6 here.

    False alarm below 1e-8. A peer's number above ours is written as a target that does not hold.
    """
    asked = Question("PipelineDP", "keys", 2)
    more = Answers(asked, {"seconds": 1.0, "versions": {}}, np.array([[9000.0], [9001.0]]))
    alone, _, coverage, near = _key_rows(UNITS, [more])
    assert coverage.holds is True
    assert alone.holds is False
    assert near.measured is not None
    assert near.measured <= 6 * float(str(near.settings["standard_error"]))
    assert _key_rows(UNITS, [replace(more, noisy=np.array([[10.0], [11.0]]))])[0].holds is True


@pytest.mark.stat
def test_the_error_of_units_is_that_of_three_rows_and_a_better_peer_is_a_miss() -> None:
    """n = 200,000 noisy numbers: 3 % is over 10 standard errors, a false alarm below 1e-20.

    One row's noise is a third.
    """
    people = several_rows()
    exact = np.array([len(np.unique(people.person[people.key == cell])) for cell in range(CELLS)], dtype=np.float64)
    asked = Question("OpenDP", "units", 100)
    near = Answers(asked, {"versions": {}}, exact + np.tile([[1.0], [-1.0]], (50, CELLS)))
    row = _count_row("units", people, [near])
    assert row.holds is False
    assert row.settings["rmse_simulated"] == pytest.approx(laplace_error(Fraction(1, ROWS)), rel=0.03)
    assert row.settings["rmse_simulated"] != pytest.approx(laplace_error(Fraction(1)), rel=0.5)
    assert _count_row("values", people, []).measured == row.measured


def test_the_rows_of_people_are_those_that_they_are_said_to_be() -> None:
    """People of one key each, most keys of one person; three rows each of 12,000 others."""
    several = several_rows()
    assert UNITS.sum() == 20_000
    assert np.median(UNITS) == 1
    assert np.bincount(several.person).tolist() == [ROWS] * 12_000
    assert set(several.key.tolist()) == set(range(CELLS))
