"""Many small tables out of one large one that is never there as a whole.

The large table is the exponential of a sum of factors over few columns each; what is wanted are its sums onto few
columns each. It is made block by block, small enough for a core's cache, and each block is summed at once.

Both ways go through a tree of tables. A table over a, b, c, d whose marginals ab, ac and bc are asked for is summed
over d once, and the rest is done on abc; factors over ab, ac and bc are added up on abc and spread over d once. The
larger columns are dropped first, which leaves the smallest tables to go on with.

Where three columns are never together in a factor or in what is asked for, as in most models of pairs, not even
blocks are made: the sums are matrix products (`contraction`), several times as fast.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache, reduce
from itertools import product
from math import prod
from typing import Final, TypeVar

import numpy as np

from contracts.contract.impossible_cells import Clique
from privacy.arrays import Floats
from privacy.marginals.contraction import LEAST_CELLS, Axes, lacking, sum_onto, three_axes
from privacy.marginals.factor import aligned

BLOCK: Final = 1 << 17
"""Cells of a block: one MiB, and about as much again for what is made of it."""
MANY_BLOCKS: Final = 8
FEW_CELLS: Final = 1 << 13
"""Matrix libraries spread larger products over threads, which wait for each other."""
FEWEST_ROWS: Final = 16
Result = TypeVar("Result")


@dataclass(frozen=True)
class Step:
    """A table of the tree.

    Args:
        axes: which axes of the large table it keeps, ascending.
        children: the tables that are made from it, or that it is made from.
    """

    axes: Axes
    children: tuple[Step, ...]


@lru_cache(maxsize=4096)
def steps(shape: tuple[int, ...], axes: Axes, targets: frozenset[Axes]) -> Step:
    """Plan the tables between a large one and its targets.

    Args:
        shape: cells along each axis of the large table.
        axes: what this table keeps of them.
        targets: axes of the small tables, each a subset of `axes`, ascending.
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


class ContractionTree:
    """A large table over some columns.

    Args:
        columns: in the order of its axes; long axes last make long inner loops.
        shape: cells along each axis.
    """

    def __init__(self, columns: Clique, shape: tuple[int, ...]) -> None:
        self._columns = columns
        self._shape = shape
        self._place = {name: axis for axis, name in enumerate(columns)}
        self._all = tuple(range(len(columns)))
        lead = 0
        while prod(shape[lead:]) > BLOCK and lead < len(shape) - 1:
            lead += 1
        self._lead = lead

    def sums(
        self,
        factors: Sequence[tuple[Clique, Floats]],
        cliques: Iterable[Clique],
        weight: tuple[Clique, Floats] | None = None,
    ) -> dict[Clique, Floats]:
        """Return the sums of weight · exp(sum of factors) onto each clique, axes in the clique's order.

        Args:
            factors: log-space arrays over some of the columns.
            cliques: what is asked for, each of some of the columns.
            weight: an array over some of the columns, ≥ 0.
        """
        asked = {clique: self._axes(clique) for clique in cliques}
        # Matrix products where three axes are never together; blocks where they are, or where floats would not hold
        # them.
        found = self._contracted(factors, frozenset(asked.values()), weight)
        if found is None:
            found = self._in_blocks(factors, asked, weight)
        return {clique: self._ordered(found[axes], axes, clique) for clique, axes in asked.items()}

    def _contracted(
        self,
        factors: Sequence[tuple[Clique, Floats]],
        targets: frozenset[Axes],
        weight: tuple[Clique, Floats] | None,
    ) -> dict[Axes, Floats] | None:
        """Return the sums by axes as matrix products; None where that is not possible, or not worth it."""
        if prod(self._shape) < LEAST_CELLS:
            return None
        if weight is not None:
            with np.errstate(divide="ignore"):
                factors = [*factors, (weight[0], np.log(weight[1]))]
        own = self._by_axes(factors)
        three = three_axes(self._shape, targets | frozenset(own))
        if three is None:
            return None
        parts = self._three_parts(own, three)
        wanted: dict[int, list[Axes]] = {}
        for target, place in lacking(three, targets, self._shape).items():
            wanted.setdefault(place, []).append(target)
        found: dict[Axes, Floats] = {}
        for place, some in wanted.items():
            others = {three[other] for other in range(3) if other != place}
            depends = {axis for axis in self._all if parts[place].shape[axis] > 1}
            kept = tuple(sorted(others.union(depends, *some)))
            summed = sum_onto(parts, three, place, kept)
            if summed is None:
                return None
            self._descend(steps(self._shape, kept, frozenset(some)), summed, found)
        return found

    def _three_parts(self, own: Mapping[Axes, list[Floats]], three: Axes) -> list[Floats]:
        """Add up the factors that lack each of three axes; axes of length 1 where none depends on them."""
        place_of = lacking(three, frozenset(own), self._shape)
        parts = []
        for place in range(3):
            some = frozenset(axes for axes in own if place_of[axes] == place)
            kept = tuple(sorted({three[other] for other in range(3) if other != place}.union(*some)))
            total = self._added(steps(self._shape, kept, some), {axes: own[axes] for axes in some})
            parts.append(np.broadcast_to(total, self._sizes(kept)).reshape(self._spread(self._all, kept)))
        return parts

    def _in_blocks(
        self,
        factors: Sequence[tuple[Clique, Floats]],
        axes_by_clique: Mapping[Clique, Axes],
        weight: tuple[Clique, Floats] | None,
    ) -> dict[Axes, Floats]:
        """Return the sums by axes, made block by block."""
        root = steps(self._shape, self._all, frozenset(axes_by_clique.values()))
        # Somebody wants the large table itself: only then are its blocks kept.
        whole = self._all in axes_by_clique.values()
        parts = self._parts(factors)
        scale = None if weight is None else self._broadcast(*weight)

        @np.errstate(over="ignore")  # the caller sees the infinite sum; each thread has an error state of its own
        def work(lead: Axes) -> list[Floats]:
            block = self._block(parts, lead)
            np.exp(block, out=block)
            if scale is not None:
                block *= _at(scale, lead)
            summed = [_dropped(block, self._all[self._lead :], self._inner(child.axes)) for child in root.children]
            return [*summed, block] if whole else summed

        blocks = _in_threads(work, list(self._leads()))
        found: dict[Axes, Floats] = {}
        with np.errstate(over="ignore"):
            for number, child in enumerate(root.children):
                self._descend(child, self._joined(child.axes, [block[number] for block in blocks]), found)
        if whole:
            found[self._all] = self._joined(self._all, [block[-1] for block in blocks])
        return found

    def largest(self, factors: Sequence[tuple[Clique, Floats]], onto: Clique) -> Floats:
        """Return the largest values of the sum of factors for each cell of `onto`, axes in its order."""
        axes = self._axes(onto)
        kept = self._inner(axes)
        gone = tuple(axis - self._lead for axis in self._all[self._lead :] if axis not in kept)
        parts = self._parts(factors)
        blocks = _in_threads(lambda lead: self._block(parts, lead).max(axis=gone), list(self._leads()))
        found = np.full([self._shape[axis] for axis in axes], -np.inf)
        for lead, block in zip(self._leads(), blocks, strict=True):
            place = tuple(lead[axis] for axis in axes if axis < self._lead)
            found[place] = np.maximum(found[place], block)
        return self._ordered(found, axes, onto)

    def _axes(self, clique: Clique) -> Axes:
        return tuple(sorted(self._place[name] for name in clique))

    def _inner(self, axes: Axes) -> Axes:
        return tuple(axis for axis in axes if axis >= self._lead)

    def _leads(self) -> Iterator[Axes]:
        return product(*(range(size) for size in self._shape[: self._lead]))

    def _broadcast(self, clique: Clique, values: Floats) -> Floats:
        return aligned(values, clique, self._columns)

    def _ordered(self, values: Floats, axes: Axes, clique: Clique) -> Floats:
        return values.transpose([axes.index(self._place[name]) for name in clique])

    def _by_axes(self, factors: Sequence[tuple[Clique, Floats]]) -> dict[Axes, list[Floats]]:
        """Return the factors by their axes, each with its axes ascending."""
        own: dict[Axes, list[Floats]] = {}
        for clique, values in factors:
            axes = self._axes(clique)
            own.setdefault(axes, []).append(aligned(values, clique, [self._columns[axis] for axis in axes]))
        return own

    def _parts(self, factors: Sequence[tuple[Clique, Floats]]) -> list[Floats]:
        """Add factors up on as few tables as the tree has below the large one, each to be broadcast to it."""
        own = self._by_axes(factors)
        root = steps(self._shape, self._all, frozenset(own))
        small = [(child.axes, self._added(child, own)) for child in root.children]
        spread = [
            np.broadcast_to(values, self._sizes(axes)).reshape(self._spread(self._all, axes))
            for axes, values in small
        ]
        return own.get(self._all, []) + spread

    def _added(self, step: Step, own: Mapping[Axes, list[Floats]]) -> Floats:
        """Return the sum of the factors that lie within a step; axes of length 1 where none depends on them."""
        terms = list(own.get(step.axes, []))
        for child in step.children:
            below = self._added(child, own)
            sizes = dict(zip(child.axes, below.shape, strict=True))
            terms.append(below.reshape([sizes.get(axis, 1) for axis in step.axes]))
        if not terms:
            return np.zeros([1] * len(step.axes))
        # Adding small terms before large ones broadcasts less.
        terms.sort(key=lambda term: term.size)  # sums of small terms first
        return reduce(np.add, terms)

    def _sizes(self, axes: Axes) -> list[int]:
        return [self._shape[axis] for axis in axes]

    def _spread(self, axes: Axes, kept: Axes) -> list[int]:
        return [self._shape[axis] if axis in kept else 1 for axis in axes]

    def _block(self, parts: Sequence[Floats], lead: Axes) -> Floats:
        """Return one block of the sum of parts."""
        block = np.empty(self._shape[self._lead :])
        if not parts:
            block[...] = 0.0
        elif len(parts) == 1:
            block[...] = _at(parts[0], lead)
        else:
            np.add(_at(parts[0], lead), _at(parts[1], lead), out=block)
            for part in parts[2:]:
                block += _at(part, lead)
        return block

    def _joined(self, axes: Axes, blocks: Sequence[Floats]) -> Floats:
        """Return the sum of all blocks' tables over `axes`, in the order of the blocks."""
        outer = [axis for axis in axes if axis < self._lead]
        total = np.zeros([self._shape[axis] for axis in axes])
        for lead, block in zip(self._leads(), blocks, strict=True):
            total[tuple(lead[axis] for axis in outer)] += block
        return total

    def _descend(self, step: Step, values: Floats, found: dict[Axes, Floats]) -> None:
        """Sum a table on to everything below it."""
        found[step.axes] = values
        for child in step.children:
            self._descend(child, _dropped(values, step.axes, child.axes), found)


def _at(values: Floats, lead: Axes) -> Floats:
    """Return the part of an array that belongs to a block; it may have length 1 along leading axes."""
    place = tuple(number if size > 1 else 0 for number, size in zip(lead, values.shape, strict=False))
    return np.asarray(values[place])


def _dropped(values: Floats, axes: Axes, kept: Axes) -> Floats:
    """Sum over the axes that are not kept, one after the other, the longest first."""
    left = list(axes)
    for axis in sorted(set(axes) - set(kept), key=lambda one: -values.shape[axes.index(one)]):
        place = left.index(axis)
        shape = values.shape[:place] + values.shape[place + 1 :]
        after = prod(values.shape[place + 1 :])
        block = values.reshape(-1, values.shape[place], after)
        # A product with ones sums short rows several times faster than sum does; many small ones need no threads.
        summed = _few_rows(block[:, :, 0]) @ np.ones(values.shape[place]) if after == 1 else block.sum(axis=1)
        values = summed.reshape(shape)
        left.remove(axis)
    return values


def _few_rows(table: Floats) -> Floats:
    """Split a table into several of as many rows as a matrix product takes without threads, if they come out even."""
    rows = _even_part(len(table), max(1, FEW_CELLS // table.shape[1]))
    return table if rows < FEWEST_ROWS else table.reshape(-1, rows, table.shape[1])


@lru_cache(maxsize=4096)
def _even_part(rows: int, most: int) -> int:
    """Return the largest divisor that is at most so large."""
    return next(part for part in range(min(rows, most), 0, -1) if rows % part == 0) if rows else 0


def _in_threads(work: Callable[[Axes], Result], leads: Sequence[Axes]) -> list[Result]:
    """Do the blocks, on every core where there are many; results are in order and do not depend on the threads."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if cores == 1 or len(leads) < MANY_BLOCKS:
        return [work(lead) for lead in leads]
    with ThreadPoolExecutor(cores) as pool:
        return list(pool.map(work, leads))
