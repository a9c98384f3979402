"""Sums by cell: how far a unit moves them, by brute force; no spread change is worse than one number that moves."""

import pickle
from decimal import Decimal
from fractions import Fraction
from itertools import combinations_with_replacement, pairwise, product
from math import exp, expm1, log

import numpy as np
import pytest
from numpy.typing import NDArray

from contracts.contract.contract import Adjacency
from contracts.domains.addends import Addends, LoneSum, ValueMoments
from contracts.domains.lattice import ValueLattice
from privacy.accounting.events import DiscreteGaussian, DiscreteLaplace
from privacy.marginals.cell_sums import PrivateCellSums, cell_sum_event
from privacy.marginals.sensitivity import GaussianNoise, LaplaceNoise, noise_event

ADDENDS = ValueLattice("wage", Decimal(0), Decimal(50), Decimal("0.5"), counts_missing=True)
Losses = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Privacy losses, and how likely each is."""


def laplace_losses(shift: int, inverse_scale: float) -> Losses:
    """The exact law of the loss of discrete Laplace noise under a shift."""
    shift, ratio = abs(shift), exp(-inverse_scale)
    top = -expm1(-inverse_scale) / (1 + ratio)
    inside = np.arange(1, shift)
    losses = np.concatenate([[shift], shift - 2 * inside, [-shift]]) * inverse_scale
    tail = 1 / (1 + ratio)
    return losses, np.concatenate([[tail], top * ratio**inside, [tail * ratio**shift if shift else 1 - tail]])


def gaussian_losses(shift: int, sigma_squared: float) -> Losses:
    """That of discrete Gaussian noise; beyond 40 standard deviations there is nothing that a double holds."""
    places = np.arange(-int(40 * sigma_squared**0.5) - 40, int(40 * sigma_squared**0.5) + 41)
    weights = np.exp(-(places**2) / (2 * sigma_squared))
    return (shift * shift - 2.0 * shift * places) / (2 * sigma_squared), weights / weights.sum()


def together(*parts: Losses) -> Losses:
    losses, chances = parts[0]
    for other, likely in parts[1:]:
        losses = (losses[:, None] + other[None, :]).ravel()
        chances = (chances[:, None] * likely[None, :]).ravel()
    return losses, chances


def divergence(law: Losses, epsilon: float) -> float:
    """The hockey-stick divergence: the smallest delta at this epsilon."""
    losses, chances = law
    return float(np.sum(chances * np.clip(-np.expm1(np.minimum(epsilon - losses, 0)), 0, None)))


def worst_excess(spread: Losses, single: Losses, most: float) -> float:
    """How much more delta a spread change needs, at 60 epsilons."""
    return max(divergence(spread, e) - divergence(single, e) for e in np.linspace(0, most, 60))


@pytest.mark.parametrize("inverse_scale", [0.02, 0.1, 0.4, 1.0, 3.0])
def test_laplace_noise_hides_a_spread_change_as_well(inverse_scale: float):
    """Every way in which D steps fall on above, below and missing; exact but for the rounding of doubles."""
    for total in (1, 2, 3, 7, 12):
        single, most = laplace_losses(total, inverse_scale), total * inverse_scale
        for first in range(total + 1):
            for second in range(total + 1 - first):
                rest = total - first - second
                spread = together(*(laplace_losses(each, inverse_scale) for each in (first, second, rest)))
                assert worst_excess(spread, single, most) <= 1e-14
                assert abs(sum(spread[1]) - 1) < 1e-12


@pytest.mark.parametrize("sigma_squared", [0.25, 0.7, 2.0, 9.0, 40.0])
def test_gaussian_noise_hides_a_spread_change_as_well(sigma_squared: float):
    for total in (2, 3, 5, 8):
        single = gaussian_losses(total, sigma_squared)
        for first in range(1, total // 2 + 1):
            spread = together(*(gaussian_losses(each, sigma_squared) for each in (first, total - first)))
            assert worst_excess(spread, single, 2 * total * total / sigma_squared) <= 1e-14


def test_under_replace_one_both_cells_may_be_spread():
    """D steps leave a cell and D enter another: four numbers that move are no worse than two."""
    for total, (first, second) in ((4, (1, 2)), (6, (3, 1)), (6, (5, 5))):
        for law, scale in ((laplace_losses, 0.3), (laplace_losses, 1.2)):
            whole = together(law(total, scale), law(-total, scale))
            moves = (first, total - first, -second, second - total)
            spread = together(*(law(each, scale) for each in moves))
            assert worst_excess(spread, whole, 2 * total * scale) <= 1e-14


def test_a_change_of_one_step_more_is_told_apart():
    """Otherwise the comparisons above would say nothing: D + 1 spread steps need more delta than D at once."""
    spread = together(laplace_losses(3, 0.4), laplace_losses(4, 0.4))
    assert worst_excess(spread, laplace_losses(6, 0.4), 3.0) > 1e-3
    # Gaussian noise charges for the squares: only what is not spread is as bad as a single move.
    assert worst_excess(together(gaussian_losses(6, 9.0), gaussian_losses(0, 9.0)), gaussian_losses(5, 9.0), 4) > 1e-3


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("noise", [LaplaceNoise(Fraction(1, 3)), GaussianNoise(Fraction(1, 50))])
def test_the_event_is_that_of_rows_that_weigh_the_width(adjacency: Adjacency, noise: LaplaceNoise | GaussianNoise):
    """Its loss is what was asked for, whatever the lattice: only the scale follows the width."""
    scales = []
    for rows in (1, 2, 3):
        event = cell_sum_event(noise, ADDENDS, adjacency=adjacency, rows_per_unit=rows)
        steps = 100 * rows
        assert event.moves == ((steps,) if adjacency == "add_remove" else (steps, steps))
        assert event == noise_event(noise, adjacency=adjacency, rows_per_unit=steps)
        if isinstance(event, DiscreteLaplace):
            assert 0 <= Fraction(1, 3) - event.inverse_scale * sum(event.moves) < Fraction(1, 10**12)
            scales.append(1 / event.inverse_scale)
        else:
            assert isinstance(event, DiscreteGaussian)
            assert sum(move * move for move in event.moves) / (2 * event.sigma_squared) <= Fraction(1, 50)
            scales.append(event.sigma_squared)
    assert all(small < large for small, large in pairwise(scales))


def test_a_handle_shows_and_pickles_nothing():
    for clique, shown in ((("sex", "job"), "sex×job"), ((), "nothing")):
        handle = PrivateCellSums(clique, (2, 3)[: len(clique)], ADDENDS, "c" * 64, "b" * 64, lambda _: np.zeros(3))
        assert repr(handle) == f"PrivateCellSums(wage by {shown})"
        with pytest.raises(TypeError, match="stay in this process"):
            pickle.dumps(handle)


CLIPS = [("2", "3"), ("-2", "2"), ("-1", "3"), ("-3", "-1")]


def added(addends: Addends, offset: int | None) -> list[int]:
    if isinstance(addends, LoneSum):
        return [0 if offset is None else addends.low_steps + offset]
    assert isinstance(addends, ValueMoments)
    if offset is None:
        return [0, 0, 0, addends.whole]
    width, times = addends.lattice.width, addends.whole // addends.lattice.width**2
    return [(width - offset) ** 2 * times, 2 * offset * (width - offset) * times, offset**2 * times, 0]


def changes(addends: Addends, rows: int, adjacency: str) -> set[tuple[int, ...]]:
    """All changes of the numbers of two cells that a unit of up to so many rows can make."""
    values = [None, *range(addends.lattice.width + 1)]
    places = [(cell, added(addends, value)) for cell, value in product((0, 1), values)]
    sums = set()
    for number in range(rows + 1):
        for chosen in combinations_with_replacement(places, number):
            total = [0] * (2 * addends.parts)
            for cell, numbers in chosen:
                for part, number_of in enumerate(numbers):
                    total[cell * addends.parts + part] += number_of
            sums.add(tuple(total))
    if adjacency == "add_remove":
        return sums
    return {tuple(new - old for new, old in zip(one, other, strict=True)) for one in sums for other in sums}


def forms() -> list[Addends]:
    lattices = [ValueLattice("pay", Decimal(low), Decimal(high), Decimal(1), True) for low, high in CLIPS]
    return [*(LoneSum(each) for each in lattices), ValueMoments(lattices[1], 32), ValueMoments(lattices[0], 3)]


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("addends", forms(), ids=lambda each: f"{type(each).__name__} {each.lattice.low}")
def test_no_change_is_larger_than_the_moves_say(addends: Addends, adjacency: str, rows: int):
    """L1, for pure losses, is reached; L2, for Gaussian noise, is never exceeded."""
    terms = {"adjacency": adjacency, "rows_per_unit": rows}
    laplace = cell_sum_event(LaplaceNoise(Fraction(1)), addends, **terms)  # type: ignore[arg-type]
    gaussian = cell_sum_event(GaussianNoise(Fraction(1, 2)), addends, **terms)  # type: ignore[arg-type]
    found = changes(addends, rows, adjacency)
    assert isinstance(laplace, DiscreteLaplace)
    assert isinstance(gaussian, DiscreteGaussian)
    assert max(sum(map(abs, change)) for change in found) == sum(laplace.moves)
    assert max(sum(each * each for each in change) for change in found) <= sum(each**2 for each in gaussian.moves)
    assert 0 <= 1 - laplace.inverse_scale * sum(laplace.moves) < Fraction(1, 10**11)


def test_two_cells_are_too_few_where_a_row_turns():
    """A clip of both signs: from -2 to 2 in one cell is worse for Gaussian noise than 2 in each of two cells."""
    alone = LoneSum(ValueLattice("pay", Decimal(-2), Decimal(2), Decimal(1), True))
    found = changes(alone, 1, "replace_one")
    assert max(sum(each * each for each in change) for change in found) == 16 > 2 * alone.reach**2


@pytest.mark.parametrize("order", [1.5, 3.0, 20.0])
def test_every_change_has_at_most_the_renyi_loss_of_the_moves(order: float):
    """Of discrete Laplace noise, by the law of the loss, to the last digits of doubles."""

    def loss(change: tuple[int, ...], scale: float) -> float:
        losses, chances = together(*(laplace_losses(each, scale) for each in change))
        return log(float((chances * pow(2.718281828459045, (order - 1) * losses)).sum())) / (order - 1)

    for low, high in CLIPS:
        alone = LoneSum(ValueLattice("pay", Decimal(low), Decimal(high), Decimal(1), True))
        event = cell_sum_event(LaplaceNoise(Fraction(1)), alone, adjacency="replace_one", rows_per_unit=1)
        assert isinstance(event, DiscreteLaplace)
        scale = float(event.inverse_scale)
        worst = loss(event.moves, scale)
        assert all(loss(change, scale) <= worst + 1e-12 for change in changes(alone, 1, "replace_one"))
