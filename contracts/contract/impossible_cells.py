"""Cells that no row can be in: what structural zeros and constraints exclude, and whether anything is left.

All of it is public: computed from the contract alone. A missing value breaks no constraint, so the cell of nulls is
excluded only by one that says where values are missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from contracts.contract.column import Column
from contracts.contract.terms import Constraint, Dependency, Pair, StructuralZero, null_mask, order_pairs
from contracts.domains.domain import NULL_LABEL

if TYPE_CHECKING:
    from numpy.typing import NDArray

Clique = tuple[str, ...]
MOST_CELLS = 2**24


def excluded(
    clique: Sequence[str],
    columns: Mapping[str, Column],
    zeros: Sequence[StructuralZero],
    constraints: Sequence[Constraint],
) -> NDArray[np.bool_]:
    """Mark the cells of a marginal that no row can be in.

    Args:
        clique: the columns, in the order of the axes.
        columns: the contract's columns, by name.
        zeros: structural zeros; one counts where all its columns are in the clique.
        constraints: constraints; one counts where both its columns are in the clique.
    Returns:
        Array in the marginal's shape, True where no row can be.
    """
    shape = tuple(columns[name].size for name in clique)
    found = np.zeros(shape, dtype=np.bool_)
    for zero in zeros:
        named = dict(zero.assignment)
        if set(named) <= set(clique):
            axes = [
                [columns[name].labels.index(label) for label in named[name]] if name in named else range(size)
                for name, size in zip(clique, shape, strict=True)
            ]
            found[np.ix_(*[np.asarray(axis, dtype=np.intp) for axis in axes])] = True
    for pair, mask in pair_masks(clique, columns, constraints):
        places = [clique.index(name) for name in pair]
        turned = mask if places[0] < places[1] else mask.T
        found |= turned.reshape([shape[place] if place in places else 1 for place in range(len(shape))])
    return found


def zero_cliques(
    names: Sequence[str], zeros: Sequence[StructuralZero], constraints: Sequence[Constraint]
) -> tuple[Clique, ...]:
    """Return the sets of columns, all among `names` and in their order, on which something is excluded."""
    sets = [set(dict(zero.assignment)) for zero in zeros]
    sets += [set(pair) for pair in order_pairs(constraints)]
    sets += [set(each.pair) for each in constraints if each.less_or_equal is None]
    cliques = {tuple(name for name in names if name in each): None for each in sets if each <= set(names)}
    return tuple(cliques)


def some_row_possible(sizes: Mapping[str, int], impossible: Mapping[Clique, NDArray[np.bool_]]) -> bool | None:
    """Say whether a row can exist that lies in no excluded cell; None where that would take too much memory to tell.

    Columns are eliminated one by one: what is possible for the others is what some cell of the eliminated one allows.

    Args:
        sizes: cells of each column.
        impossible: for some cliques, True where no row can be.
    """
    tables = [(clique, ~mask) for clique, mask in impossible.items()]
    waiting = {name for clique in impossible for name in clique}
    while waiting:
        scopes = {name: _scope(name, [clique for clique, _ in tables]) for name in waiting}
        name = min(sorted(waiting), key=lambda each: prod(sizes[other] for other in scopes[each]))
        scope = scopes[name]
        if prod(sizes[other] for other in scope) > MOST_CELLS:
            return None
        joined = np.ones([sizes[other] for other in scope], dtype=np.bool_)
        for clique, table in [each for each in tables if name in each[0]]:
            order = sorted(range(len(clique)), key=lambda axis: scope.index(clique[axis]))
            joined &= table.transpose(order).reshape([sizes[o] if o in clique else 1 for o in scope])
        left = np.asarray(joined.any(axis=scope.index(name)))
        if not left.any():
            return False
        tables = [each for each in tables if name not in each[0]]
        tables.append((tuple(other for other in scope if other != name), left))
        waiting.remove(name)
    return True


def _scope(name: str, cliques: Sequence[Clique]) -> Clique:
    """Return the columns that share a table with a column, itself among them."""
    return tuple(dict.fromkeys([name, *(other for clique in cliques if name in clique for other in clique)]))


def pair_masks(
    clique: Sequence[str], columns: Mapping[str, Column], constraints: Sequence[Constraint]
) -> list[tuple[Pair, NDArray[np.bool_]]]:
    """Return what the constraints inside a clique exclude, pair by pair; axes as in the pair."""
    orders = [pair for pair in order_pairs(constraints) if set(pair) <= set(clique)]
    dependencies = [each.determines for each in constraints if each.determines is not None]
    found = [(pair, above(columns[pair[0]], columns[pair[1]])) for pair in orders]
    for dependency in dependencies:
        if {dependency.by, dependency.column} <= set(clique):
            mask = _not_determined(dependency, columns[dependency.by], columns[dependency.column])
            found.append(((dependency.by, dependency.column), mask))
    conditions = [each.null_exactly_where for each in constraints if each.null_exactly_where is not None]
    for condition in conditions:
        if {condition.by, condition.column} <= set(clique):
            mask = null_mask(condition, columns[condition.by], columns[condition.column])
            found.append(((condition.by, condition.column), mask))
    return found


def above(low: Column, high: Column) -> NDArray[np.bool_]:
    """Mark the cells (i, j) in which every value of cell i of `low` exceeds every value of cell j of `high`."""
    lowest = [(first, 0) for first, _ in low.domain.axis]
    bins, half_open = high.domain.axis, high.domain.half_open
    highest = [(last, -1 if half_open and place < len(bins) - 1 else 0) for place, (_, last) in enumerate(bins)]
    rank = {end: place for place, end in enumerate(sorted({*lowest, *highest}))}
    mask = np.zeros((low.size, high.size), dtype=np.bool_)
    least = np.array([rank[end] for end in lowest])
    most = np.array([rank[end] for end in highest])
    mask[: least.size, : most.size] = least[:, None] > most[None, :]
    return mask


def _not_determined(dependency: Dependency, determinant: Column, column: Column) -> NDArray[np.bool_]:
    """Mark the cells that a functional dependency excludes."""
    mask = np.zeros((determinant.size, column.size), dtype=np.bool_)
    for label, target in dependency.mapping:
        mask[determinant.labels.index(label)] = True
        mask[determinant.labels.index(label), column.labels.index(target)] = False
    for name, axis in ((determinant, 0), (column, 1)):
        if NULL_LABEL in name.labels:
            mask[(slice(None),) * axis + (name.labels.index(NULL_LABEL),)] = False
    return mask
