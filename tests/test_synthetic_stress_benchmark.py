"""The stress benchmark's own parts: tables of high order, and the private evolution that ours stand beside."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from benchmarks._private_evolution import noise_multiplier
from benchmarks._stress_tables import KINDS, ROWS, StressTable, causal, numbers_of, parity
from benchmarks._synthetic_frontier import BINS, COLUMNS, normals
from benchmarks._synthetic_stress import Learned
from privacy.accounting.claim import pld_epsilon
from privacy.accounting.events import DiscreteGaussian
from privacy.evaluation.cells import EncodedRows
from privacy.evaluation.rows import mutual_information


def test_no_marginal_of_a_parity_tells_anything_but_the_whole() -> None:
    """Three signs: all triples of the four columns are uniform, and the four together have every second cell empty.

    35,000 rows in 8 cells of a triple: a share's deviation is 0.0018, so that 0.02 is beyond 11 of them.
    """
    codes = parity(3).binned(2).codes
    for triple in combinations(range(4), 3):
        shares = np.bincount(codes[:, triple] @ [4, 2, 1], minlength=8) / ROWS
        assert shares == pytest.approx(np.full(8, 1 / 8), abs=0.02)
    assert (np.bincount(codes @ [8, 4, 2, 1], minlength=16) == 0).sum() == 8


@pytest.mark.parametrize("kind", KINDS)
def test_the_label_of_a_causal_model_is_balanced_and_no_column_tells_it(kind: str) -> None:
    """Half of the rows have each label; the best single column predicts it in nine of ten rows at most."""
    table = causal(kind)
    assert np.abs(table.numbers).max() <= 1
    assert table.labels.mean() == pytest.approx(0.5, abs=0.02)
    codes = table.binned(16).codes
    for column in range(codes.shape[1] - 1):
        ones = np.bincount(codes[:, column], weights=codes[:, -1], minlength=16)
        assert np.maximum(ones, np.bincount(codes[:, column], minlength=16) - ones).sum() / ROWS < 0.9


def test_numbers_are_drawn_from_the_bins_that_they_are_coded_in() -> None:
    table = parity(2)
    numbers = numbers_of(table.binned(8).codes[:, :-1], 8, seed=1)
    again = StressTable(table.name, numbers, table.labels, table.test_numbers, table.test_labels)
    assert (again.binned(8).codes == table.binned(8).codes).all()


def test_the_noise_of_votes_is_that_of_their_composition() -> None:
    """19 votes at (1, 1e-6): by loss distributions of the discrete Gaussian they cost between 0.98 and 1.02."""
    events = [DiscreteGaussian(Fraction(noise_multiplier(19, epsilon=1.0, delta=1e-6) ** 2), (1,))] * 19
    assert pld_epsilon(events, 1e-6) == pytest.approx(1.0, abs=0.02)


def test_a_figure_is_that_of_the_learner_which_does_best() -> None:
    assert Learned({"one": [0.6, 0.9], "other": [0.8, 0.8]}, [0.0, 0.0]).best == [0.8, 0.8]


def test_the_normal_columns_are_correlated_densely() -> None:
    """Most pairs of the 30 columns share over 0.02 nats; independent ones of as many rows show 0.0056 by chance."""
    table = normals()
    assert table.shape == (BINS,) * COLUMNS
    found = mutual_information(EncodedRows(table.columns, table.shape, table.codes))
    assert np.mean(found[np.triu_indices(COLUMNS, 1)] > 0.02) > 0.5
