"""Answers of ranges: exact without noise, with the variance of the linear map, and alike on every machine."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from privacy.marginals.ordered.design import RangeTable, RangeWorkload, indicators
from privacy.marginals.ordered.portable_matrices import inverse, solved, square_root, upper_factor
from privacy.marginals.ordered.strategies import RangeAnswers, RangeStrategy, answer_variances, measured_numbers
from privacy.marginals.residuals import STEP
from tests.privacy.marginals.ordered.workloads import alone, crossed, measured, two_columns

WORKLOADS = [alone("prefix", 9), crossed(5), two_columns()]


def numbers(workload: RangeWorkload, strategies: tuple[RangeStrategy, ...], rows: np.ndarray) -> np.ndarray:
    parts = []
    for each in strategies:
        axes = tuple(axis for axis, name in enumerate(workload.sizes) if name not in each.columns)
        parts.append(measured_numbers(each, rows.sum(axis=axes)))
    return np.concatenate(parts)


def asked(workload: RangeWorkload, table: RangeTable, rows: np.ndarray) -> np.ndarray:
    """The exact answers: wide plain columns, then the ordered ones in the table's order."""
    kept = [*workload.wide(table), *table.asked]
    axes = tuple(axis for axis, name in enumerate(workload.sizes) if name not in kept)
    names, counts = [name for name in workload.sizes if name in kept], rows.sum(axis=axes)
    for name, ranges in table.ranges:
        place = names.index(name)
        counts = np.moveaxis(np.tensordot(indicators(ranges, workload.sizes[name]), counts, (1, place)), 0, place)
    return np.asarray(counts.transpose([names.index(name) for name in kept]))


@pytest.mark.parametrize("workload", WORKLOADS)
def test_without_noise_answers_are_exact(workload: RangeWorkload) -> None:
    """In any order of columns, with a column of one cell, with ordered columns that a table leaves out."""
    rows = np.random.default_rng(3).integers(0, 50, tuple(workload.sizes.values()))
    strategies = measured(workload)
    answers = RangeAnswers(strategies, numbers(workload, strategies, rows))
    assert abs(answers.total - rows.sum()) <= STEP
    for table in workload.tables:
        found = answers.table(table, workload)
        assert np.abs(found - asked(workload, table, rows)).max() <= STEP


@pytest.mark.parametrize("workload", WORKLOADS)
def test_the_variance_is_that_of_the_linear_map(workload: RangeWorkload) -> None:
    """Column by column of the map from noise to answers, as the code makes it."""
    strategies, unit = measured(workload), 10**9
    size = sum(each.cells for each in strategies)
    for table in workload.tables:
        squares = 0.0
        for place in range(size):
            values = np.zeros(size, np.int64)
            values[place] = unit
            squares = squares + (RangeAnswers(strategies, values).table(table, workload) / unit) ** 2
        expected = answer_variances(table, workload, strategies, Fraction(7))
        plain = [workload.sizes[name] for name in workload.wide(table)]
        assert 7 * squares == pytest.approx(np.broadcast_to(expected, (*plain, *expected.shape)), rel=1e-6, abs=1e-12)


def test_answers_agree_with_each_other() -> None:
    """A range is the difference of two prefixes, whatever the noise is; the last prefix is the total."""
    workload = crossed(5)
    strategies = measured(workload)
    size = sum(each.cells for each in strategies)
    answers = RangeAnswers(strategies, np.random.default_rng(4).integers(-(10**6), 10**6, size))
    prefixes = answers.table(workload.tables[0], workload).sum(axis=0)
    ranges = dict(zip(workload.tables[3].asked["age"], answers.table(workload.tables[3], workload), strict=True))
    assert prefixes[3] - prefixes[0] == pytest.approx(ranges[1, 3], abs=10 * STEP)
    assert prefixes[-1] == pytest.approx(answers.total, abs=10 * STEP)


def test_more_or_fewer_numbers_are_refused() -> None:
    strategies = measured(alone("prefix", 4))
    with pytest.raises(ValueError, match="one number for each"):
        RangeAnswers(strategies, np.zeros(3, np.int64))


@pytest.mark.parametrize("size", [1, 2, 30])
def test_roots_and_factors_are_those_of_the_library(size: int) -> None:
    """Square root, inverse, factor and solution, by numbers in a fixed order."""
    made = np.random.default_rng(size).normal(size=(size, 2 * size))
    matrix = made @ made.T + 0.01 * np.eye(size)
    root = square_root(matrix)
    assert root @ root == pytest.approx(matrix, rel=1e-9, abs=1e-9)
    assert (root == root.T).all()
    assert inverse(matrix) == pytest.approx(np.linalg.inv(matrix), rel=1e-8, abs=1e-8)
    factor = upper_factor(matrix)
    assert factor.T @ factor == pytest.approx(matrix, rel=1e-9, abs=1e-9)
    assert (np.tril(factor, -1) == 0).all()
    assert factor @ solved(factor, made) == pytest.approx(made, rel=1e-9, abs=1e-9)


def test_a_matrix_that_is_not_positive_definite_is_refused() -> None:
    for each in (square_root, inverse, upper_factor):
        with pytest.raises(ValueError, match="positive definite"):
            each(np.diag([1.0, -1.0]))
