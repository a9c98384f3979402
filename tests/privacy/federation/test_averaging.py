"""Averages of models: weighted by declared rows, and refused where they are none."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks._federated_averages import averaged
from privacy.learning.network import CannotTrain

ONE, OTHER = np.array([1, 2, 3], np.float32), np.array([4, 2, -3], np.float32)


def test_models_are_averaged_by_the_rows_that_are_declared() -> None:
    average = averaged([ONE, OTHER], [100, 300])
    np.testing.assert_array_equal(average, np.array([3.25, 2, -1.5], np.float32))
    assert average.dtype == np.float32
    np.testing.assert_array_equal(averaged([OTHER], [7]), OTHER)


@pytest.mark.parametrize(
    ("models", "rows"),
    [([], []), ([ONE], [1, 2]), ([ONE, OTHER[:2]], [1, 2]), ([ONE, OTHER], [1, 0]), ([ONE, OTHER], [1, 2.0])],
)
def test_what_cannot_be_averaged_is_refused(models: list[np.ndarray], rows: list[int]) -> None:
    with pytest.raises(CannotTrain):
        averaged(models, rows)
