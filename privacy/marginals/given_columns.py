"""The distribution of some columns of a model, given the others row by row, as whole-number weights.

The columns that are modelled are eliminated one after the other, and the given ones never. What a column is
eliminated with are the columns that it depends on, of those eliminated later and of the given ones. Drawn in the
reverse order, each column is conditional on what is known of its row by then. So the draw is exact, whatever the
distribution of the given columns.

Source: Koller and Friedman 2009, sections 9.3 and 12.1 (variable elimination, forward sampling).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from contracts.contract.impossible_cells import Clique
from privacy.arrays import Floats
from privacy.marginals import factor
from privacy.marginals.conditional_weights import whole_weights
from privacy.marginals.domain import CellDomain
from privacy.marginals.errors import ModelTooLarge, NothingPossible
from privacy.marginals.graphical_model import GraphicalModel
from privacy.marginals.sampling import assigned_codes
from privacy.marginals.seeds import PostProcessingSeed
from privacy.marginals.triangulation import BYTES_PER_CELL, MEGABYTE

MOST_CELLS: Final = 2**26


@dataclass(frozen=True, eq=False)
class ConditionalColumn:
    """One column's weights given those that are known before it.

    Args:
        column: the column.
        known: the columns that it depends on, in the order of the axes.
        shape: cells of each of these.
        weights: of each code in each cell of `known`, shape (cells of known, codes), whole numbers.
    """

    column: str
    known: Clique
    shape: tuple[int, ...]
    weights: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ConditionalColumns:
    """The modelled columns of a model in the order in which they are drawn.

    Args:
        steps: each depends on given columns and on those of the steps before.
        left: what remains over given columns alone: the logarithm of how possible a row of these is.
    """

    steps: tuple[ConditionalColumn, ...]
    left: tuple[tuple[Clique, Floats], ...]


def conditional_columns(model: GraphicalModel, given: Sequence[str]) -> ConditionalColumns:
    """Work out the weights of every column that is not given.

    Args:
        model: the joint distribution.
        given: columns of it whose values will be known.
    Raises:
        ModelTooLarge: a table of weights would have more than 2^26 cells.
        NothingPossible: structural zeros exclude every row.
    """
    domain = model.domain
    factors: list[tuple[Clique, Floats]] = list(model.factors.items())
    steps: list[ConditionalColumn] = []
    for column, known in elimination(domain, model.cliques, given):
        if domain.cells((*known, column)) > MOST_CELLS:
            size = BYTES_PER_CELL * domain.cells((*known, column)) / MEGABYTE
            raise ModelTooLarge(size, BYTES_PER_CELL * MOST_CELLS / MEGABYTE)
        own = [each for each in factors if column in each[0]]
        sizes = domain.sizes((*known, column))
        logs = factor.product(own, (*known, column), sizes).reshape(-1, sizes[-1])
        weights, sums = whole_weights(logs)
        steps.append(ConditionalColumn(column, known, sizes[:-1], weights))
        factors = [each for each in factors if column not in each[0]]
        factors.append((known, sums.reshape(sizes[:-1])))
    if any(bool(np.isneginf(values).all()) for _, values in factors):
        raise NothingPossible
    return ConditionalColumns(tuple(reversed(steps)), tuple(factors))


def elimination(
    domain: CellDomain, cliques: Iterable[Sequence[str]], given: Sequence[str]
) -> Iterator[tuple[str, Clique]]:
    """Yield the columns that are not given in the order in which they are eliminated, each with what it depends on.

    The smallest table is next, and of equal ones the first column: the same order on every machine.

    Args:
        domain: all columns.
        cliques: of the model.
        given: the columns that stay.
    """
    left = [name for name in domain.columns if name not in given]
    around: dict[str, set[str]] = {name: set() for name in domain.columns}
    for clique in cliques:
        for name in clique:
            around[name] |= set(clique) - {name}
    while left:
        column = min(left, key=lambda name: (domain.cells((name, *around[name])), domain.place(name)))
        left.remove(column)
        known = around.pop(column)
        for name in known:
            around[name] = (around[name] | known) - {name, column}
        yield column, domain.canonical(tuple(known))


def conditional_megabytes(domain: CellDomain, cliques: Iterable[Sequence[str]], given: Sequence[str]) -> float:
    """Return the memory of the weights of a model of cliques, given some columns [MB of 2²⁰ bytes]."""
    cells = sum(domain.cells((*known, column)) for column, known in elimination(domain, cliques, given))
    return BYTES_PER_CELL * cells / MEGABYTE


def draw_given(
    columns: ConditionalColumns, known: dict[str, NDArray[np.int64]], rows: int, *, seed: PostProcessingSeed
) -> dict[str, NDArray[np.int64]]:
    """Draw the modelled columns of rows whose given columns are known.

    Args:
        columns: of the model.
        known: codes of each given column, shape (rows,) each.
        rows: how many.
        seed: public; the same one gives the same codes on every machine.
    Returns:
        The codes of all columns.
    Raises:
        NothingPossible: a row of given columns has no possible row of the others.
    Privacy: post-processing.
    """
    codes = dict(known)
    for stream, step in enumerate(columns.steps):
        group = np.zeros(rows, dtype=np.int64)
        for name, size in zip(step.known, step.shape, strict=True):
            group = group * size + codes[name]
        if (step.weights.sum(axis=1)[group] == 0).any():
            raise NothingPossible
        codes[step.column] = assigned_codes(group, step.weights, seed, stream)
    return codes
