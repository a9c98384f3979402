"""Many small tables out of one large one, and back, with few passes over the large one.

A table over a, b, c, d whose marginals ab, ac and bc are asked for is summed over d once, and the rest is done on
abc. The same tree of tables serves the other way round: factors over ab, ac and bc are added up on abc and spread
over d once.

The larger columns are dropped first, which leaves the smallest tables to go on with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from privacy.marginals.counts import Clique
from privacy.marginals.factor import Array, aligned


@dataclass(frozen=True)
class Step:
    """A table of the tree.

    Args:
        axes: which axes of the large table it keeps, ascending.
        children: the tables that are made from it.
    """

    axes: tuple[int, ...]
    children: tuple[Step, ...]


@lru_cache(maxsize=4096)
def steps(shape: tuple[int, ...], axes: tuple[int, ...], targets: frozenset[tuple[int, ...]]) -> Step:
    """Plan the tables from which all targets are made.

    Args:
        shape: cells along each axis of the large table.
        axes: what this table keeps of them.
        targets: axes of what is asked for, each a subset of `axes`, ascending.
    """
    left = sorted(target for target in targets if target != axes)
    children = []
    for axis in sorted(axes, key=lambda one: (-shape[one], one)):
        group = [target for target in left if axis not in target]
        if group:
            left = [target for target in left if axis in target]
            kept = tuple(sorted(set().union(*group)))
            children.append(steps(shape, kept, frozenset(group)))
    return Step(axes, tuple(children))


class TablePlan:
    """How the tables of some cliques are made from a table over all of their columns.

    Args:
        columns: of the large table, in the order of its axes.
        shape: cells along each axis.
        cliques: what is asked for, each of some of the columns, in any order.
    """

    def __init__(self, columns: Clique, shape: tuple[int, ...], cliques: Iterable[Clique]) -> None:
        self._columns = columns
        self._shape = shape
        place = {name: axis for axis, name in enumerate(columns)}
        self._axes = {clique: tuple(sorted(place[name] for name in clique)) for clique in cliques}
        self._root = steps(shape, tuple(range(len(columns))), frozenset(self._axes.values()))

    def gather(self, table: Array) -> dict[Clique, Array]:
        """Return the sums of a table over the other columns, for each clique, axes in the clique's order."""
        found: dict[tuple[int, ...], Array] = {}

        def visit(step: Step, values: Array) -> None:
            found[step.axes] = values
            for child in step.children:
                visit(child, _dropped(values, step.axes, child.axes))

        visit(self._root, table)
        result = {}
        for clique, axes in self._axes.items():
            order = [self._columns[axis] for axis in axes]
            result[clique] = found[axes].transpose([order.index(name) for name in clique])
        return result

    def spread(self, factors: Sequence[tuple[Clique, Array]], out: Array) -> None:
        """Write the sum of factors over planned cliques, each broadcast over the other columns, into `out`."""
        own: dict[tuple[int, ...], list[Array]] = {}
        for clique, values in factors:
            axes = self._axes[clique]
            own.setdefault(axes, []).append(aligned(values, clique, [self._columns[axis] for axis in axes]))
        if not self._add(self._root, own, out):
            out[...] = 0.0

    def _add(self, step: Step, own: Mapping[tuple[int, ...], list[Array]], out: Array) -> bool:
        """Write a step's sum into `out`; False, and nothing written, if there is nothing to sum."""
        parts = list(own.get(step.axes, []))
        for child in step.children:
            table = np.empty([self._shape[axis] for axis in child.axes])
            if self._add(child, own, table):
                spread = [self._shape[axis] if axis in child.axes else 1 for axis in step.axes]
                parts.append(table.reshape(spread))
        if not parts:
            return False
        if len(parts) == 1:
            out[...] = parts[0]
        else:
            np.add(parts[0], parts[1], out=out)
            for part in parts[2:]:
                out += part
        return True


def _dropped(values: Array, axes: tuple[int, ...], kept: tuple[int, ...]) -> Array:
    """Sum over the axes that are not kept, one after the other, the longest first."""
    left = list(axes)
    for axis in sorted(set(axes) - set(kept), key=lambda one: -values.shape[axes.index(one)]):
        place = left.index(axis)
        shape = values.shape[:place] + values.shape[place + 1 :]
        after = int(np.prod(values.shape[place + 1 :], dtype=np.int64))
        block = values.reshape(-1, values.shape[place], after)
        # A product with ones sums short rows several times faster than sum does.
        summed = block[:, :, 0] @ np.ones(values.shape[place]) if after == 1 else block.sum(axis=1)
        values = summed.reshape(shape)
        left.remove(axis)
    return values
