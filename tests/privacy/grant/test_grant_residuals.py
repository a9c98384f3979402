"""Residuals through the grant: one derived event for all, exact noise, replay, and no cheaper sensitivity."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from contracts.contract.contract import Adjacency
from privacy.accounting.events import ZeroConcentrated
from privacy.grant.grant import open_grant
from privacy.grant.queries.residuals import ResidualQuery
from privacy.ledger.errors import GrantExceeded, LedgerRefusal
from privacy.marginals.coarsening import Coarsening
from privacy.marginals.counts import PrivateCounts
from privacy.marginals.residual_basis import residual_moves, residual_of
from privacy.marginals.sensitivity import GaussianNoise
from tests.privacy.ledger.ledgers import KEYED_HASH, Place, opened_grant
from tests.privacy.noise.noise_statistics import dkw_rejects, gaussian_cdf

NOISE = GaussianNoise(Fraction(1, 100))
COUNTS = np.arange(6, dtype=np.int64).reshape(2, 3) * 100
MULTIPLIERS = (9, 5, 4, 2)


def handle(clique: tuple[str, ...], exact: NDArray[np.int64]) -> PrivateCounts:
    return PrivateCounts(clique, exact.shape, KEYED_HASH, "b" * 64, lambda: exact)


def query(multipliers: tuple[int, ...] = MULTIPLIERS) -> ResidualQuery:
    parts = (
        ((), COUNTS.sum()),
        (("sex",), COUNTS.sum(axis=1)),
        (("job",), COUNTS.sum(axis=0)),
        (("sex", "job"), COUNTS),
    )
    handles = tuple(handle(clique, np.asarray(exact)) for clique, exact in parts)
    return ResidualQuery(handles, multipliers, NOISE)


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("rows", [1, 3])
def test_all_residuals_are_one_draw_with_the_derived_event(
    sqlite_place: Place, adjacency: Adjacency, rows: int
) -> None:
    """Not told by the caller; the journal has one event, and a run that resumes gets the same numbers."""
    ledger, grant = opened_grant(sqlite_place, adjacency=adjacency, rows_per_unit=rows)
    drawn = grant.draw(query(), key="residuals")
    assert drawn.event.moves == residual_moves(drawn.residuals, adjacency, rows)
    assert drawn.event.sigma_squared >= sum(move**2 for move in drawn.event.moves) / (2 * NOISE.rho)
    assert drawn.values.shape == (1 + 2 + 3 + 6,)
    entered = [entry.body for entry in ledger.journal() if entry.kind == "noise_drawn"]
    assert [(body["event"], body["sha256"]) for body in entered] == [(drawn.event.to_json(), drawn.sha256)]
    again = open_grant(ledger, "run-1").draw(query(), key="residuals")
    assert (again.values == drawn.values).all()
    assert again.sha256 == drawn.sha256


def test_a_run_that_resumes_may_not_ask_with_other_multipliers(sqlite_place: Place) -> None:
    """Which residuals were measured, and how often each counts, is a part of the draw."""
    ledger, grant = opened_grant(sqlite_place)
    grant.draw(query(), key="residuals")
    # 3-4-5: other multipliers with the same sum of squares per cell would have the same event.
    with pytest.raises(LedgerRefusal):
        open_grant(ledger, "run-1").draw(query((9, 5, 4, 3)), key="residuals")


def test_a_draw_beyond_the_charge_is_refused(sqlite_place: Place) -> None:
    """Nothing is drawn."""
    ledger, grant = opened_grant(sqlite_place, (ZeroConcentrated(Fraction(1, 1000)),))
    with pytest.raises(GrantExceeded):
        grant.draw(query(), key="residuals")
    assert not [entry for entry in ledger.journal() if entry.kind == "noise_drawn"]


@pytest.mark.stat
def test_the_noise_is_the_event_s_number_by_number(sqlite_place: Place) -> None:
    """n = 20,000 numbers against the normal with the event's variance, false alarm 1e-9; 30 % off is found."""
    wide = np.zeros(20_000, np.int64)
    _, grant = opened_grant(sqlite_place, seeded=True)
    one = ResidualQuery((handle(("area",), wide),), (3,), GaussianNoise(Fraction(1, 2)))
    drawn = grant.draw(one, key="residuals")
    scale = float(drawn.event.sigma_squared) ** 0.5
    assert scale > 10_000
    assert not dkw_rejects(drawn.values, gaussian_cdf(scale))
    assert dkw_rejects(drawn.values, gaussian_cdf(1.3 * scale))


def test_the_values_are_the_residuals_of_the_counts_and_noise(sqlite_place: Place) -> None:
    """They lie within ten standard deviations of the exact ones, which lie thousands apart."""
    _, grant = opened_grant(sqlite_place)
    counts = tuple(handle(each.clique, 10**6 * each._count()) for each in query().counts)
    drawn = grant.draw(replace(query(), counts=counts), key="residuals")
    parts = [m * residual_of(c._count()).reshape(-1) for c, m in zip(counts, MULTIPLIERS, strict=True)]
    assert np.abs(drawn.values - np.concatenate(parts)).max() <= 10 * drawn.variance**0.5 < 10_000


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
