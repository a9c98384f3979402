"""What share of the charge each draw of statistics gets: by weight, or so that the stated errors are least.

`by_weight`  tables share by their weights, the draws of a table alike; a selection of keys is one of them
`optimal`    selections keep what they have by weight; all else is shared so that the sum of squared errors is least

Errors are counted in rows: of a count as it is; of a sum over the value farthest from 0; of a mean, a variance or a
root of one times the rows of its cell, over the length of the clip (over its square for a variance); of a ratio as of
its two sums; of a quantile as of its rank, at the boundary where it is largest; of units and different values as it
is; of an effective size, of weights at a quarter of their clip, as of a count with its relative error. So it does
not matter in which unit a column is, and no number of rows has to be known. Survey weights count as the largest one.

Where (one letter each)
    w   weight of a table     n   its cells     s   share of a draw     f   part of s that a draw keeps for itself
    r   variance of the noise in one number, over the square of what one row moves, at a cost of 1 (up to a factor)
    q   for one statistic, the sum of the squared weights of the numbers that it is made of [rows]

Every such error is a sum of noises of fixed weights, and the mean of several counts is one too. So the objective is

    Laplace   sum over draws of  w n r q / (f s)^2        Gaussian   sum over draws of  w n r q / (f s)

and least where s is proportional to the cube root, or the square root, of its factor, as for tables of counts
(`privacy.table_plans.split`). Of a mean, noise is that in the middle of its clip; of a variance, that of values that
are spread evenly, as plans foretell them (`privacy.statistics.plan`).
"""

from __future__ import annotations

from fractions import Fraction
from math import prod
from typing import Final

from contracts.contract.contract import Contract
from contracts.domains.addends import Addends, DistinctCount, LoneSum, ValueMagnitudes, ValueMoments, WeightedCount
from contracts.domains.lattice import ValueLattice
from contracts.domains.trees import BinTree, ValueTree
from contracts.release.statistics import (
    COUNT,
    EFFECTIVE_SIZE,
    QUANTILES,
    RATIO,
    Statistic,
    StatisticsProduct,
    StatisticsTable,
)
from privacy.marginals.cell_sums import cell_sum_event
from privacy.marginals.sensitivity import LaplaceNoise, marginal_moves
from privacy.statistics.noise_sums import six_digits_up
from privacy.statistics.quantiles import Mechanism, column_choice_share, table_choices, worst_squares
from privacy.statistics.table import MOST_AVERAGED
from privacy.table_plans.split import optimal_shares, shares_by_weight

_MEAN: Final = Fraction(1, 2)
"""Squared weights of the numbers behind a mean in the middle of its clip."""
_RELATIVE: Final = {"variance": Fraction(1, 6), "sd": Fraction(1, 2), EFFECTIVE_SIZE: Fraction(8)}
"""The same of a variance 1/12, and of its root, which moves by 1 / (2 sqrt(1/12)) of it; of an effective size."""


def draw_shares(product: StatisticsProduct, contract: Contract) -> dict[str, Fraction]:
    """Return the share of each draw of the tables, and of each selection of keys, by the key of the draw.

    What a private clip or chosen quantiles take of a draw's share is still in it.

    Args:
        product: which fits the contract.
        contract: gives the cells, the lattices and the sensitivities.
    Returns:
        dict: shares above 0, which add up to one.
    Privacy: reads public parameters only.
    """
    alike = _by_weight(product)
    if product.split == "by_weight":
        return alike
    selected = {table.selection_key for table in product.tables}
    found = {key: share for key, share in alike.items() if key in selected}
    rest = 1 - sum(found.values(), Fraction(0))
    squares = [(table, key, each) for table in product.tables for key, each in _squares(table, product, contract)]
    weights = [Fraction(table.weight) * each for table, _, each in squares]
    cells = [prod(contract.shape(table.by)) for table, _, _ in squares]
    shares = optimal_shares(weights, cells, product.mechanism)
    return found | {key: share * rest for (_, key, _), share in zip(squares, shares, strict=True)}


def squared_error(product: StatisticsProduct, contract: Contract) -> float:
    """Return the objective: the squared errors of all cells, counted in rows and weighted, at a cost of one.

    Args:
        product: which fits the contract.
        contract: its contract.
    Returns:
        float: of Laplace noise at an epsilon of 1 divided by 2, of Gaussian noise at a rho of 1/2 [rows^2].
    Privacy: reads public parameters only.
    """
    shares, power = draw_shares(product, contract), 2 if product.mechanism == "laplace" else 1
    factors = (
        (key, Fraction(table.weight) * prod(contract.shape(table.by)) * each)
        for table in product.tables
        for key, each in _squares(table, product, contract)
    )
    return float(sum(factor / shares[key] ** power for key, factor in factors))


def _by_weight(product: StatisticsProduct) -> dict[str, Fraction]:
    shares = shares_by_weight([Fraction(table.weight) for table in product.tables])
    found: dict[str, Fraction] = {}
    for table, share in zip(product.tables, shares, strict=True):
        keys = [*table.draw_keys, *([] if table.selection_key is None else [table.selection_key])]
        found |= dict.fromkeys(keys, share / len(keys))
    return found


def _squares(table: StatisticsTable, product: StatisticsProduct, contract: Contract) -> list[tuple[str, Fraction]]:
    """Return for each draw of a table r q / f^2, of Gaussian noise r q / f: squared errors in one cell [rows^2]."""
    draws = table.draws(contract)
    counted = _counting(draws)
    chosen = {each.column for each in table_choices(table, contract, product.mechanism)}
    found = []
    for key, addends in draws:
        own = sum((_statistic_squares(each, addends) for each in table.of), Fraction(0))
        if key in counted and any(each.what == COUNT for each in table.of):
            own += Fraction(_count_numbers(addends), len(counted) ** 2)
        kept = Fraction(1)
        if isinstance(addends, ValueTree) and addends.column in chosen:
            kept = 1 - column_choice_share(table, addends.column)
        elif isinstance(addends, ValueLattice) and addends.column in table.private_clips:
            kept = 1 - Fraction(table.private_clips[addends.column].share)
        power = 2 if product.mechanism == "laplace" else 1
        cells = prod(contract.shape(table.by))
        found.append((key, own * _row_variance(addends, cells, contract, product.mechanism) / kept**power))
    return found


def _counting(draws: tuple[tuple[str, Addends | None], ...]) -> list[str]:
    """Name the draws whose counts are averaged; of trees alone the one with the fewest nodes at its top."""
    summed = [key for key, addends in draws if isinstance(addends, ValueLattice | ValueMoments)]
    if summed:
        return summed[:MOST_AVERAGED]
    alone = [(_count_numbers(each), key) for key, each in draws if not isinstance(each, LoneSum | DistinctCount)]
    return [min(alone)[1]] if alone else []


def _count_numbers(addends: Addends | None) -> int:
    """Return how many noisy numbers a count is the sum of."""
    if isinstance(addends, ValueTree):
        return addends.level_nodes[0] + addends.lattice.counts_missing
    return 1 if addends is None else addends.parts


def _row_variance(addends: Addends | None, cells: int, contract: Contract, mechanism: Mechanism) -> Fraction:
    """Return r: the squared L1 of what a unit moves, or with Gaussian noise its squared L2, over a row's square."""
    rows = contract.unit.max_rows_per_unit
    if addends is None:
        moves: tuple[int, ...] = marginal_moves(contract.adjacency, rows)
        whole = 1
    else:
        moves = cell_sum_event(
            LaplaceNoise(Fraction(1)), addends, adjacency=contract.adjacency, rows_per_unit=rows, cells=cells
        ).moves
        whole = 1 if isinstance(addends, DistinctCount) else max(addends.row_moves)
    size = sum(map(abs, moves)) ** 2 if mechanism == "laplace" else sum(move * move for move in moves)
    return Fraction(size, whole**2)


def _statistic_squares(statistic: Statistic, addends: Addends | None) -> Fraction:
    """Return q of a statistic for the noise of one draw; 0 where it comes of others."""
    if addends is None or isinstance(addends, WeightedCount | ValueMagnitudes | BinTree):
        return Fraction(0)
    if isinstance(addends, ValueTree) or statistic.what == QUANTILES:
        if not isinstance(addends, ValueTree) or statistic.key != addends.key:
            return Fraction(0)
        ranks = (six_digits_up(worst_squares(addends, share)) for share in statistic.quantiles)
        return sum((Fraction(each) for each in ranks), Fraction(0))
    if isinstance(addends, DistinctCount):
        return Fraction(statistic.key == addends.key)
    if addends.column not in {term.column for term in statistic.terms} or statistic.what == COUNT:
        return Fraction(0)
    if statistic.what in ("sum", RATIO):
        return _sum_squares(addends)
    return _RELATIVE.get(statistic.what, _MEAN)


def _sum_squares(addends: ValueLattice | LoneSum | ValueMoments) -> Fraction:
    """Return the squared weights of the numbers behind a sum, over the square of the value farthest from 0."""
    if isinstance(addends, LoneSum):
        return Fraction(1)
    low, high = Fraction(addends.lattice.low), Fraction(addends.lattice.high)
    ends = (low, (low + high) / 2, high) if isinstance(addends, ValueMoments) else (low, high)
    return sum((each * each for each in ends), Fraction(0)) / max(abs(low), abs(high)) ** 2
