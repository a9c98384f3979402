"""How the quantiles of a column are drawn: by a tree of counts alone, or chosen by the exponential mechanism too.

`tree`          one tree gives all quantiles and their intervals
`exponential`   quantiles are chosen with three quarters of what the tree would cost (`quantile_choices`), or with all
                but its `interval_share`; a tree with the rest gives their intervals, and counts
`auto`          the one of the lesser expected error, from public facts alone

The expected error is the standard deviation of a quantile's rank under noise alone, squared and averaged over the
quantiles. With one noisy number of variance v for each node, the rank at the worst boundary of a tree has variance
v sum w^2 (`quantiles`). The estimate is fitted to all boundaries, and errs about half as much (`FITTED`, measured in
benchmarks/statistics_quantiles.py in groups of hundreds of rows). A choice at a rate r has a rank whose law falls as
exp(-r |rank|): variance 2 / r^2. Both variances fall alike with epsilon and with the rows of a unit. So which is less
follows from the quantiles, the tree, the noise and the adjacency. The work of a choice is a few milliseconds: where
cells and quantiles are too many, `auto` takes the tree. Where rows have survey weights, or keys are selected, it is
the tree too.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import sqrt
from typing import Final, Literal

from contracts.contract.contract import Adjacency, Contract
from contracts.domains.quantile_choices import QuantileChoices
from contracts.domains.value_trees import ValueTree
from contracts.release.statistic import Statistic
from contracts.release.statistic_forms import QUANTILES, USUAL_INTERVAL_SHARE
from contracts.release.statistics_table import StatisticsTable
from privacy.statistics.quantiles import worst_squares

Mechanism = Literal["laplace", "gaussian"]
FITTED: Final = 0.5
"""The error of a tree's estimate over that of the rank at its worst boundary."""
MOST_CHOICES: Final = 20_000
"""Choices of one draw that `auto` makes: a minute or two."""


def quantile_method(
    statistic: Statistic, tree: ValueTree, contract: Contract, cells: int, mechanism: Mechanism
) -> Literal["tree", "exponential"]:
    """Decide by which method the quantiles of a statistic are drawn. Reads public parameters only.

    Args:
        statistic: some quantiles of a column.
        tree: its tree of counts.
        contract: gives the adjacency.
        cells: cells of its table.
        mechanism: the product's noise.
    """
    choices = choices_of(statistic, tree)
    tree_error = tree_rank_error(tree, choices, mechanism, contract.adjacency)
    share = choice_share(statistic)
    choice_error = choice_rank_error(choices, mechanism, contract.adjacency, share=share)
    if statistic.method != "auto":
        return statistic.method
    return "exponential" if choice_error < tree_error and cells * choices.parts <= MOST_CHOICES else "tree"


def choice_share(statistic: Statistic) -> Fraction:
    """Return what the choices get of what quantiles and their intervals cost together."""
    written = statistic.interval_share
    return 1 - Fraction(USUAL_INTERVAL_SHARE if written is None else written)


def column_choice_share(table: StatisticsTable, column: str) -> Fraction:
    """Return what the choices of a column's quantiles get."""
    own = (each for each in table.of if each.what == QUANTILES and each.column == column)
    return choice_share(next(own))


def choices_of(statistic: Statistic, tree: ValueTree) -> QuantileChoices:
    """Return what would be chosen for a statistic."""
    return QuantileChoices(tree.lattice, tuple(sorted(statistic.quantiles)))


def table_choices(table: StatisticsTable, contract: Contract, mechanism: Mechanism) -> tuple[QuantileChoices, ...]:
    """Return what is chosen for a table, in the order of its statistics."""
    if not may_choose(table):
        return ()
    found, cells = [], contract.cells(table.by)
    statistics: Sequence[Statistic] = [each for each in table.of if each.what == QUANTILES]
    for each, tree in zip(statistics, table.trees(contract), strict=True):
        if quantile_method(each, tree, contract, cells, mechanism) == "exponential":
            found.append(choices_of(each, tree))
    return tuple(found)


def may_choose(table: StatisticsTable) -> bool:
    """Tell whether quantiles of a table may be chosen: each row counts once, in cells that are declared."""
    return table.survey_weight is None and table.key_choice == "declared"


def tree_rank_error(tree: ValueTree, choices: QuantileChoices, mechanism: Mechanism, adjacency: Adjacency) -> float:
    """Return the root of the mean variance of ranks, of a tree for an epsilon of 1, or a rho of 1/2."""
    moves = tree.levels * (2 if adjacency == "replace_one" else 1)
    variance = 2 * moves**2 if mechanism == "laplace" else moves
    squares = [worst_squares(tree, share) for share in choices.shares]
    return FITTED * sqrt(variance * sum(squares) / len(squares))


def choice_rank_error(
    choices: QuantileChoices, mechanism: Mechanism, adjacency: Adjacency, *, share: Fraction
) -> float:
    """Return the same of choices, which get a share; a rho is that of an epsilon-bounded range, epsilon^2 / 8."""
    epsilon = float(share) if mechanism == "laplace" else 2 * sqrt(float(share))
    base = epsilon / (float(choices.loss_factor) * (2 if adjacency == "replace_one" else 1))
    variances = [2 / (base * float(choices.rate_share(place))) ** 2 for place in range(choices.parts)]
    return sqrt(sum(variances) / len(variances))
