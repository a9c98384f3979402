"""Strategies through the grant: one derived event for all, exact noise, replay, and no cheaper sensitivity."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from contracts.contract.contract import Adjacency
from privacy.grant.grant import open_grant
from privacy.grant.queries.strategies import StrategyQuery
from privacy.ledger.errors import LedgerRefusal
from privacy.marginals.counts import PrivateCounts
from privacy.marginals.ordered.strategies import measured_numbers, strategy_moves
from privacy.marginals.sensitivity import GaussianNoise
from tests.privacy.ledger.ledgers import KEYED_HASH, Place, opened_grant
from tests.privacy.noise.noise_statistics import dkw_rejects, gaussian_cdf

NOISE = GaussianNoise(Fraction(1, 100))
COUNTS = np.arange(6, dtype=np.int64).reshape(2, 3) * 100
WHOLE = np.array([[9, 4, 1], [0, 8, 3], [0, 0, 7]], dtype=np.int64)
BY_SEX = np.array([[5, 2, 2], [0, 5, 1], [0, 0, 4]], dtype=np.int64)


def handle(clique: tuple[str, ...], exact: NDArray[np.int64]) -> PrivateCounts:
    return PrivateCounts(clique, exact.shape, KEYED_HASH, "b" * 64, lambda: exact)


def query(last: NDArray[np.int64] = BY_SEX) -> StrategyQuery:
    handles = (handle(("age",), COUNTS.sum(axis=0)), handle(("sex", "age"), COUNTS))
    return StrategyQuery(handles, (0, 1), (WHOLE, last), NOISE)


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("rows", [1, 3])
def test_all_strategies_are_one_draw_with_the_derived_event(
    sqlite_place: Place, adjacency: Adjacency, rows: int
) -> None:
    """Not told by the caller; the journal has one event, and a run that resumes gets the same numbers."""
    ledger, grant = opened_grant(sqlite_place, adjacency=adjacency, rows_per_unit=rows)
    drawn = grant.draw(query(), key="residuals")
    assert drawn.event.moves == strategy_moves(drawn.residuals, adjacency, rows)
    assert drawn.event.sigma_squared >= sum(move**2 for move in drawn.event.moves) / (2 * NOISE.rho)
    assert drawn.values.shape == (3 + 6,)
    entered = [entry.body for entry in ledger.journal() if entry.kind == "noise_drawn"]
    assert [(body["event"], body["sha256"]) for body in entered] == [(drawn.event.to_json(), drawn.sha256)]
    again = open_grant(ledger, "run-1").draw(query(), key="residuals")
    assert (again.values == drawn.values).all()


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


def test_the_values_are_the_numbers_of_the_counts_and_noise(sqlite_place: Place) -> None:
    """They lie within ten standard deviations of the exact ones, which lie thousands apart."""
    _, grant = opened_grant(sqlite_place)
    counts = tuple(handle(each.clique, 10**6 * each._count()) for each in query().counts)
    drawn = grant.draw(replace(query(), counts=counts), key="residuals")
    parts = [measured_numbers(s, c._count()) for s, c in zip(drawn.residuals, counts, strict=True)]
    assert np.abs(drawn.values - np.concatenate(parts)).max() <= 10 * drawn.variance**0.5 < 10_000


@pytest.mark.stat
def test_the_noise_is_the_event_s_number_by_number(sqlite_place: Place) -> None:
    """n = 20,000 numbers against the normal with the event's variance, false alarm 1e-9; 30 % off is found."""
    _, grant = opened_grant(sqlite_place, seeded=True)
    wide = handle(("area", "age"), np.zeros((10_000, 2), np.int64))
    one = StrategyQuery((wide,), (1,), (np.array([[3, 1], [0, 2]], dtype=np.int64),), GaussianNoise(Fraction(1, 2)))
    drawn = grant.draw(one, key="residuals")
    scale = float(drawn.event.sigma_squared) ** 0.5
    assert not dkw_rejects(drawn.values, gaussian_cdf(scale))
    assert dkw_rejects(drawn.values, gaussian_cdf(1.3 * scale))


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
