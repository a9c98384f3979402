"""Residuals through the grant: one derived event for all, exact noise, replay, and no cheaper sensitivity."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from privacy.grant.queries.residuals import ResidualQuery
from privacy.ledger.entries import LedgerRefusal
from privacy.marginals.counts import Coarsening, PrivateCounts
from privacy.marginals.sensitivity import GaussianNoise
from tests.privacy.ledger.ledgers import KEYED_HASH, Place, opened_grant

NOISE = GaussianNoise(Fraction(1, 100))
COUNTS = np.arange(6, dtype=np.int64).reshape(2, 3) * 100


def handle(clique: tuple[str, ...], exact: NDArray[np.int64]) -> PrivateCounts:
    return PrivateCounts(clique, exact.shape, KEYED_HASH, "b" * 64, lambda: exact)


def test_what_does_not_fit_together_is_refused(sqlite_place: Place) -> None:
    """Pairs, sets of columns once, cells of the contract, at least two a column; nothing is drawn."""
    _, grant = opened_grant(sqlite_place)
    sex = handle(("sex",), COUNTS.sum(axis=1))
    coarser = sex.coarser(Coarsening("all", (1,), np.zeros(2, np.int64)))
    for counts, multipliers in (
        ((), ()),
        ((sex,), (1, 1)),
        ((sex, sex), (1, 1)),
        ((coarser,), (1,)),
        ((sex,), (0,)),
        ((handle(("sex",), np.zeros(1, np.int64)),), (1,)),
    ):
        with pytest.raises(ValueError, match="allowed"):
            grant.draw(ResidualQuery(counts, multipliers, NOISE), key="residuals")


def test_counts_of_another_shape_than_was_planned_are_not_drawn_for(sqlite_place: Place) -> None:
    """The sensitivity follows from the shape, so the counts must have it."""
    _, grant = opened_grant(sqlite_place)
    wrong = replace(handle(("sex",), COUNTS.sum(axis=1)), _count=lambda: COUNTS)
    with pytest.raises(LedgerRefusal, match="ValueError"):
        grant.draw(ResidualQuery((wrong,), (1,), NOISE), key="residuals")
