"""Strategies through the grant: one derived event for all, exact noise, replay, and no cheaper sensitivity."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from privacy.grant.grant import open_grant
from privacy.grant.queries.strategies import StrategyQuery
from privacy.ledger.entries import LedgerRefusal
from privacy.marginals.counts import PrivateCounts
from privacy.marginals.ordered.strategies import strategy_moves
from privacy.marginals.sensitivity import GaussianNoise
from tests.privacy.ledger.ledgers import KEYED_HASH, Place, opened_grant

NOISE = GaussianNoise(Fraction(1, 100))
COUNTS = np.arange(6, dtype=np.int64).reshape(2, 3) * 100
WHOLE = np.array([[9, 4, 1], [0, 8, 3], [0, 0, 7]], dtype=np.int64)
BY_SEX = np.array([[5, 2, 2], [0, 5, 1], [0, 0, 4]], dtype=np.int64)


def handle(clique: tuple[str, ...], exact: NDArray[np.int64]) -> PrivateCounts:
    return PrivateCounts(clique, exact.shape, KEYED_HASH, "b" * 64, lambda: exact)


def query(last: NDArray[np.int64] = BY_SEX) -> StrategyQuery:
    handles = (handle(("age",), COUNTS.sum(axis=0)), handle(("sex", "age"), COUNTS))
    return StrategyQuery(handles, (0, 1), (WHOLE, last), NOISE)


def test_a_run_that_resumes_may_not_ask_with_another_matrix(sqlite_place: Place) -> None:
    """What was measured is a part of the draw, though the event be the same."""
    ledger, grant = opened_grant(sqlite_place)
    drawn = grant.draw(query(), key="residuals")
    other = BY_SEX.copy()
    other[0, 1] = -other[0, 1]
    turned = replace(drawn.residuals[1], matrix=other)
    assert strategy_moves((drawn.residuals[0], turned), "add_remove", 1) == drawn.event.moves
    with pytest.raises(LedgerRefusal):
        open_grant(ledger, "run-1").draw(query(other), key="residuals")


@pytest.mark.parametrize(
    "broken",
    [
        {"counts": ()},
        {"plain": (0,)},
        {"plain": (0, 0)},
        {"matrices": (WHOLE, BY_SEX[:2, :2])},
        {"matrices": (WHOLE, BY_SEX.T.copy())},
        {"matrices": (WHOLE, BY_SEX * 0)},
        {"plain": (1, 1)},
    ],
)
def test_what_does_not_fit_together_is_refused(sqlite_place: Place, broken: dict[str, object]) -> None:
    """One of each, triangular matrices, a column that is plain or ordered; nothing is drawn."""
    ledger, grant = opened_grant(sqlite_place)
    with pytest.raises(ValueError, match=r"allowed|must"):
        grant.draw(replace(query(), **broken), key="residuals")  # type: ignore[arg-type]
    assert not [entry for entry in ledger.journal() if entry.kind == "noise_drawn"]
