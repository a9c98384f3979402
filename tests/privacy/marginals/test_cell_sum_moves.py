"""How far a unit moves sums alone and moments: by brute force over rows, cells and both relations."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from itertools import combinations_with_replacement, product
from math import log

import pytest

from contracts.domains.addends import Addends, LoneSum, ValueMoments
from contracts.domains.lattice import ValueLattice
from privacy.accounting.events import DiscreteGaussian, DiscreteLaplace
from privacy.marginals.cell_sums import cell_sum_event
from privacy.marginals.sensitivity import GaussianNoise, LaplaceNoise
from tests.privacy.marginals.test_cell_sums import laplace_losses, together

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
def test_no_change_is_larger_than_the_moves_say(addends: Addends, adjacency: str, rows: int) -> None:
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


def test_two_cells_are_too_few_where_a_row_turns() -> None:
    """A clip of both signs: from -2 to 2 in one cell is worse for Gaussian noise than 2 in each of two cells."""
    alone = LoneSum(ValueLattice("pay", Decimal(-2), Decimal(2), Decimal(1), True))
    found = changes(alone, 1, "replace_one")
    assert max(sum(each * each for each in change) for change in found) == 16 > 2 * alone.reach**2


@pytest.mark.parametrize("order", [1.5, 3.0, 20.0])
def test_every_change_has_at_most_the_renyi_loss_of_the_moves(order: float) -> None:
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
