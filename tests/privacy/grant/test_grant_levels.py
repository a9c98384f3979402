"""Counts of groups at levels of their own through the grant: a derived event, exact sums, the law of both draws."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import logsumexp

from contracts.contract.contract import Adjacency
from privacy.accounting.calibrate import gaussian_sigma_squared, laplace_inverse_scale
from privacy.grant.queries.level_counts import LevelCountQuery
from privacy.marginals import group_levels
from privacy.marginals.counts import PrivateCounts
from privacy.marginals.group_levels import chosen_digest, level_starts, level_sums, levels_digest
from privacy.marginals.sensitivity import GaussianNoise, marginal_moves
from tests.privacy.ledger.ledgers import KEYED_HASH, Place, opened_grant

NOISE = GaussianNoise(Fraction(1, 100))
COUNTS = np.arange(24, dtype=np.int64).reshape(4, 2, 3) * 1000
CELLS = (1, 2, 6)
CELL_OF = (np.zeros(6, np.int64), np.repeat(np.arange(2), 3), np.arange(6))
CHOSEN = np.array([2, 0, 1, 0])


def query(chosen: NDArray[np.int64] = CHOSEN) -> LevelCountQuery:
    handle = PrivateCounts(("place", "sex", "age"), COUNTS.shape, KEYED_HASH, "b" * 64, lambda: COUNTS)
    return LevelCountQuery(handle, 1, CELLS, CELL_OF, chosen, NOISE)


WRONG = {
    "chosen must be": query(np.array([2, 0, 3, 0])),
    "for each of 4 groups": query(np.array([2, 0, 1])),
    "a number in": replace(query(), cell_of=(*CELL_OF[:2], np.arange(1, 7))),
    "give each of 6 cells": replace(query(), cell_of=(*CELL_OF[:2], np.arange(5))),
    "numbers of cells for 2 levels": replace(query(), cell_of=CELL_OF[:2]),
    "no group": replace(query(), grouped_by=0),
}


@pytest.mark.parametrize("says", WRONG)
def test_levels_under_which_a_row_is_nowhere_or_twice_are_refused(sqlite_place: Place, says: str) -> None:
    """Before anything is read."""
    _, grant = opened_grant(sqlite_place)
    with pytest.raises(ValueError, match=says):
        grant.draw(WRONG[says], key="a")


def test_sums_are_exact_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """A piece of one group at a time, and all at once: as by hand, for every choice."""
    exact = COUNTS.reshape(4, 6)
    for piece in (1, 1 << 22):
        monkeypatch.setattr(group_levels, "PIECE", piece)
        for chosen in product(range(3), repeat=4):
            parts = [np.bincount(CELL_OF[of], weights=own) for of, own in zip(chosen, exact, strict=True)]
            found = level_sums(exact, CELLS, CELL_OF, np.array(chosen))
            assert (found == np.concatenate(parts)).all()
            assert level_starts(CELLS, np.array(chosen))[-1] == found.size


def test_what_is_added_up_and_what_was_chosen_is_part_of_the_query() -> None:
    """Another level of one group, or other cells of a level, have other digests."""
    assert chosen_digest(CHOSEN) != chosen_digest(CHOSEN[::-1].copy())
    other = (CELL_OF[0], np.tile(np.arange(2), 3), CELL_OF[2])
    assert levels_digest(CELLS, CELL_OF) != levels_digest(CELLS, other)


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("rows", [1, 2])
def test_no_choice_moves_counts_further_than_a_marginal(adjacency: Adjacency, rows: int) -> None:
    """All neighbours in a world of two groups of four cells, all choices: the bound holds, and is reached. A unit's
    rows lie anywhere. The wrong claim that each group pays for itself, half of the sum, is found out."""
    cells, cell_of = (1, 2, 4), (np.zeros(4, np.int64), np.array([0, 0, 1, 1]), np.arange(4))
    places = list(product(product(range(2), range(4)), repeat=rows))
    worst = {"l1": 0, "l2": 0}
    for chosen in product(range(3), repeat=2):
        sums = {}
        for unit in [(), *places]:
            exact = np.zeros((2, 4), np.int64)
            for place in unit:
                exact[place] += 1
            sums[unit] = level_sums(exact, cells, cell_of, np.array(chosen))
        others = [()] if adjacency == "add_remove" else places
        for one, other in product(places, others):
            change = sums[one] - sums[other]
            worst["l1"] = max(worst["l1"], int(np.abs(change).sum()))
            worst["l2"] = max(worst["l2"], int((change**2).sum()))
    moves = marginal_moves(adjacency, rows)
    assert worst == {"l1": sum(moves), "l2": sum(move * move for move in moves)}
    assert worst["l1"] > sum(moves) / 2


def log_masses(sigma_squared: Fraction, centre: int, support: NDArray[np.int64]) -> NDArray[np.float64]:
    """The logarithms of a discrete Gaussian's masses; less than 1e-20 of it lies outside the support."""
    weights = -((support - centre) ** 2) / (2 * float(sigma_squared))
    return np.asarray(weights - logsumexp(weights))


def joint_divergence(
    order: float,
    pair: tuple[tuple[int, int], tuple[int, int]],
    rho: tuple[Fraction, Fraction],
    adjacency: Adjacency,
    *,
    cheaper: Fraction = Fraction(1),
) -> float:
    """The Rényi divergence of both draws together, between two tables of one group of two cells; by enumeration.
    Formula: exp((a - 1) D) = sum_t p(t)^a q(t)^(1 - a) exp((a - 1) D_level(t)), each D enumerated too. `cheaper` is a
    wrong mechanism's factor for the variance at the detailed level."""
    moves = marginal_moves(adjacency, 1)
    first, second = (gaussian_sigma_squared(each, moves) for each in rho)
    support = np.arange(-400, 461)

    def terms(sigma_squared: Fraction, centres: tuple[int, int]) -> NDArray[np.float64]:
        p, q = (log_masses(sigma_squared, centre, support) for centre in centres)
        return order * p + (1 - order) * q

    totals = sum(pair[0]), sum(pair[1])
    coarse = float(logsumexp(terms(second, totals)))
    detail = sum(float(logsumexp(terms(second * cheaper, cells))) for cells in zip(*pair, strict=True))
    inside = np.where(support >= 30, detail, coarse)
    return float(logsumexp(terms(first, totals) + inside)) / (order - 1)


@pytest.mark.parametrize("order", [1.5, 2.0, 4.0, 12.0])
def test_both_draws_together_lose_what_is_charged_whatever_the_first_decides(order: float) -> None:
    """Tables around the threshold of 30: order times rho of both draws bounds the joint divergence, and is reached.
    Each level loses the same, so that the noisy choice loses nothing beyond the first draw. A mechanism that gave the
    detailed level half of the variance would break the bound."""
    rho = Fraction(1, 100), Fraction(9, 100)
    most, found, wrong = order * float(sum(rho)), [], []
    for pair, adjacency in [
        (((15, 15), (15, 14)), "add_remove"),
        (((30, 0), (29, 0)), "add_remove"),
        (((80, 20), (79, 20)), "add_remove"),
        (((15, 15), (14, 16)), "replace_one"),
    ]:
        found.append(joint_divergence(order, pair, rho, adjacency))  # type: ignore[arg-type]
        wrong.append(joint_divergence(order, pair, rho, adjacency, cheaper=Fraction(1, 2)))  # type: ignore[arg-type]
    assert max(found) <= most * (1 + 1e-9)
    assert max(found) >= most * (1 - 1e-6)
    assert max(wrong) > most * 1.2


def log_laplace(inverse_scale: Fraction, centre: int, support: NDArray[np.int64]) -> NDArray[np.float64]:
    """The logarithms of a discrete Laplace's masses, exact on all whole numbers."""
    t = float(inverse_scale)
    return np.asarray(-t * np.abs(support - centre) + np.log(np.expm1(t) / (np.exp(t) + 1)))


def joint_pure_loss(
    pair: tuple[tuple[int, int], tuple[int, int]],
    epsilon: tuple[Fraction, Fraction],
    adjacency: Adjacency,
    *,
    cheaper: Fraction = Fraction(1),
) -> float:
    """The largest log ratio of both draws together, between two tables of one group of two cells; by enumeration.
    Formula: max_t [log p(t)/q(t) + max_y log p(y)/q(y) at the level of t]. `cheaper` is a wrong mechanism's factor
    for the scale at the detailed level."""
    moves = marginal_moves(adjacency, 1)
    first, second = (laplace_inverse_scale(each, moves) for each in epsilon)
    support = np.arange(-400, 461)

    def ratios(inverse_scale: Fraction, centres: tuple[int, int]) -> NDArray[np.float64]:
        p, q = (log_laplace(inverse_scale, centre, support) for centre in centres)
        return p - q

    totals = sum(pair[0]), sum(pair[1])
    coarse = float(ratios(second, totals).max())
    detail = sum(float(ratios(second / cheaper, cells).max()) for cells in zip(*pair, strict=True))
    return float((ratios(first, totals) + np.where(support >= 30, detail, coarse)).max())


def test_both_laplace_draws_together_lose_their_sum_whatever_the_first_decides() -> None:
    """No pair of tables loses more than both epsilons, and one loses all of it; a cheaper detail would lose more."""
    epsilon, found, wrong = (Fraction(1, 10), Fraction(9, 10)), [], []
    cells = [((15, 15), (15, 14)), ((15, 15), (16, 15)), ((30, 0), (29, 0)), ((80, 20), (79, 20))]
    for pair in cells:
        found.append(joint_pure_loss(pair, epsilon, "add_remove"))
        wrong.append(joint_pure_loss(pair, epsilon, "add_remove", cheaper=Fraction(1, 2)))
    for pair in [((15, 15), (14, 16)), ((15, 15), (15, 15)), ((40, 1), (39, 2))]:
        found.append(joint_pure_loss(pair, epsilon, "replace_one"))
    assert max(found) == pytest.approx(1)
    assert max(wrong) > 1.5
