"""Bins beside one that has so many rows that a double holds no small rise of a cumulated count."""

from __future__ import annotations

import numpy as np
import pytest

from contracts.domains.trees import bin_ends, bin_tree
from privacy.generators.bin_weights import leaf_shares
from tests.contracts.samples import column


@pytest.mark.parametrize("rows", [1e8, 1e9, 1e12])
@pytest.mark.parametrize("edges", [[-5, 0, 1, 100, 10**6], [0, 1, 10, 10**9]])
def test_bins_of_no_rows_are_filled_beside_very_many(rows: float, edges: list[int]) -> None:
    domain = column("integer", "integer", bounds=[edges[0], edges[-1]], bins={"edges": edges}).domain
    tree = bin_tree("x", domain, 1)
    assert tree is not None
    ends = bin_ends(domain.axis, tree)
    shares = leaf_shares(np.eye(1, tree.leaves)[0] * rows, tree, ends, 1.0)
    assert shares.min() >= 0
    assert np.add.reduceat(shares, ends[:-1]) == pytest.approx(1.0)
