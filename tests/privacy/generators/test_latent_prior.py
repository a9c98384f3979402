"""The normal mixture of latent vectors: the bound of what is summed for it."""

from __future__ import annotations

import numpy as np
import pytest

from privacy.generators.p3gm import reach
from privacy.generators.projection import Projected, Projection, check_clip
from privacy.learning.layout import ColumnLayout, RowLayout

NUMBERS = RowLayout(tuple(ColumnLayout(f"x{place}", "category", np.eye(3)) for place in range(3)))


@pytest.mark.parametrize("spread", [0.0, 1e-12, 1e-3])
def test_rows_that_are_alike_have_a_bound_at_which_sums_are_exact(spread: float) -> None:
    """A norm just above the least that a plan takes; the fit ended here with one charged run in a hundred."""
    projection = Projection(NUMBERS, NUMBERS.names, 2, 3e-4)
    check_clip(projection)
    random = np.random.default_rng(5)
    for _ in range(200):
        axes = np.linalg.qr(random.normal(size=(9, 2)))[0]
        half, alike, even = np.full(9, 0.5), np.full(2, spread), np.ones(9)
        projected = Projected(half, axes, alike, 100.0, half, even)
        bound = reach(projection, projected)
        assert bound <= projection.bound
        assert projection.embedding(half, axes, bound=bound).bound == bound
