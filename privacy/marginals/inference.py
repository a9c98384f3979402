"""Many small tables out of one large one that is never there as a whole.

The large table is the exponential of a sum of factors over few columns each; what is wanted are its sums onto few
columns each. It is made block by block, small enough for a core's cache, and each block is summed at once.

Both ways go through a tree of tables. A table over a, b, c, d whose marginals ab, ac and bc are asked for is summed
over d once, and the rest is done on abc; factors over ab, ac and bc are added up on abc and spread over d once. The
larger columns are dropped first, which leaves the smallest tables to go on with.

Where three columns are never together in a factor or in what is asked for, as in most models of pairs, not even
blocks are made: the sums are matrix products (`sum_onto`), several times as fast.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from itertools import combinations
from itertools import product as table_plan_product
from math import prod
from string import ascii_letters
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from privacy.marginals.blocks import NothingPossible
from privacy.marginals.graph import CellDomain, JunctionTree, junction_tree

if TYPE_CHECKING:
    from contracts.contract.impossible_cells import Clique
    from privacy.arrays import Floats

# --- Sums of a large table that is a product of three smaller ones, as matrix products.
# Where no factor and nothing that is asked for has all of three axes i, j, k, the table is
#
#     exp(A[l, i, j] + B[l, i, k] + C[l, j, k])        l: all other axes
#
# and its sum over k is  exp(A) · (exp(B) · exp(C) summed over k),  a matrix product for each l; its sums over i and
# j are alike. The table itself is never made. Rows of B and C are taken relative to their largest value b[l, i],
# c[l, j] before they are exponentiated, so that nothing overflows; where A + b + c stays below `MOST_NATS`, what
# underflows is too small to matter in sums above 1e-200. Elsewhere there is no answer: the caller goes another way.
#
# Source: Koller and Friedman 2009, section 9.3 (sum-product variable elimination), for one variable.

Axes = tuple[int, ...]
MOST_NATS: Final = 200.0
"""exp(200) times the smallest positive float is below 1e-236: what underflows adds less than that to a sum."""
LEAST_CELLS: Final = 1 << 14
"""Of smaller tables the blocks are as fast."""
LEAST_PRODUCT: Final = 200
"""Multiplications a small matrix product must have, to be worth its call."""
MOST_MULTIPLICATIONS: Final = 1 << 17
"""Matrix products are kept smaller: libraries spread larger ones over threads, which wait for each other."""


@lru_cache(maxsize=4096)
def three_axes(shape: tuple[int, ...], sets: frozenset[Axes]) -> Axes | None:
    """Return three axes not all of which are in any of the sets; None if there are none that are worth it.

    Those with the most cells together are best: they make the largest matrices.

    Args:
        shape: cells along each axis.
        sets: axes of each factor and of each sum that is asked for.
    """
    if prod(shape) < LEAST_CELLS:
        return None
    masks = {sum(1 << axis for axis in axes) for axes in sets}
    found = [
        (prod(shape[axis] for axis in three), three)
        for three in combinations(range(len(shape)), 3)
        # Bit by bit: no set has all three axes.
        if not any(mask >> three[0] & mask >> three[1] & mask >> three[2] & 1 for mask in masks)
    ]
    best = max(found, default=(0, ()))
    return best[1] if best[0] >= LEAST_PRODUCT else None


@lru_cache(maxsize=4096)
def lacking(three: Axes, sets: frozenset[Axes], shape: tuple[int, ...]) -> dict[Axes, int]:
    """Return for each set one of the three axes that it lacks, 0 to 2; unions stay small where there is a choice."""
    part_of: dict[Axes, int] = {}
    unions: list[set[int]] = [set(), set(), set()]
    for axes in sorted(sets, key=lambda one: (-prod(shape[axis] for axis in one), one)):
        free = [place for place in range(3) if three[place] not in axes]
        # A set that lacks two of the three axes may join either part: the one whose table grows least.
        growth = {place: _cells(shape, unions[place] | set(axes)) - _cells(shape, unions[place]) for place in free}
        best = min(free, key=lambda place: growth[place])
        part_of[axes] = best
        unions[best] |= set(axes)
    return part_of


def _cells(shape: tuple[int, ...], axes: Iterable[int]) -> int:
    return prod(shape[axis] for axis in axes)


def sum_onto(parts: Sequence[Floats], three: Axes, place: int, kept: Axes) -> Floats | None:
    """Return the sum of exp(sum of parts) onto some axes; None where floats do not hold it.

    Args:
        parts: log-space arrays, the p-th without the p-th of the three axes; all other axes there, of length 1 where
            the part does not depend on them.
        three: the axes.
        place: which of the three is certainly summed over, 0 to 2.
        kept: axes of the result, ascending; among them the other two of the three, and all that the part depends on.
    """
    sizes = np.broadcast_shapes(*(part.shape for part in parts))
    gone = tuple(axis for axis in range(len(sizes)) if axis not in kept)
    first, second = three[(place + 1) % 3], three[(place + 2) % 3]
    # The part that lacks `second` is over first and what is gone, the part that lacks `first` over that and second.
    left, left_top = _relative(parts[(place + 2) % 3], gone)
    right, right_top = _relative(parts[(place + 1) % 3], gone)
    outer = parts[place] + left_top + right_top
    # No comparison holds of NaN: put this way round, the test refuses it too.
    if not outer.max(initial=-np.inf) <= MOST_NATS:
        return None
    batch = [axis for axis in kept if axis not in (first, second)]
    extra = sorted((axis for axis in gone if axis != three[place]), key=lambda axis: sizes[axis])
    inner, merged = [three[place]], sizes[first] * sizes[second] * sizes[three[place]]
    # Axes that are summed over anyway join the inner dimension, largest first, as long as the product stays small.
    while extra and merged * sizes[extra[-1]] <= MOST_MULTIPLICATIONS:
        inner.insert(0, extra.pop())
        merged *= sizes[inner[0]]
    left = _matrices(left, [*batch, *extra], [first], inner, sizes)
    right = _matrices(right, [*batch, *extra], inner, [second], sizes)
    summed = np.matmul(left, right).sum(axis=tuple(range(len(batch), len(batch) + len(extra))))
    order = [*batch, first, second]
    factor = np.exp(outer.squeeze(gone))
    result: Floats = factor * summed.transpose([order.index(axis) for axis in kept])
    return result


def _matrices(
    values: Floats, batch: Sequence[int], rows: Sequence[int], columns: Sequence[int], sizes: Sequence[int]
) -> Floats:
    """Lay out matrices whose rows and columns run over axes each; batch axes may keep length 1."""
    order = [*batch, *rows, *columns]
    left_out = tuple(axis for axis in range(values.ndim) if axis not in order)
    moved = values.transpose([*order, *left_out]).squeeze(tuple(range(len(order), values.ndim)))
    shape = [*moved.shape[: len(batch)], *(sizes[axis] for axis in (*rows, *columns))]
    spread = np.broadcast_to(moved, shape)
    return np.ascontiguousarray(spread).reshape(
        *shape[: len(batch)], prod(sizes[axis] for axis in rows), prod(sizes[axis] for axis in columns)
    )


def _relative(part: Floats, axes: Axes) -> tuple[Floats, Floats]:
    """Return exp(part - its largest values along axes), and these; 0 in place of minus infinity."""
    top = part.max(axis=axes, keepdims=True)
    # A row of nothing but minus infinity is taken relative to 0: -inf - -inf would be NaN.
    top = np.where(np.isneginf(top), 0.0, top)
    return np.exp(part - top), top


# --- Arrays over the cells of a clique.


def aligned(values: Floats, clique: Sequence[str], onto: Sequence[str]) -> Floats:
    """Return a view of `values` that broadcasts against arrays over `onto`, which must contain the clique."""
    order = sorted(range(len(clique)), key=lambda axis: onto.index(clique[axis]))
    present = set(clique)
    sizes = iter([values.shape[axis] for axis in order])
    shape = [next(sizes) if name in present else 1 for name in onto]
    return values.transpose(order).reshape(shape)


def product(factors: Sequence[tuple[Clique, Floats]], clique: Clique, shape: tuple[int, ...]) -> Floats:
    """Return the log of the product of log-space factors over `clique`, a new array."""
    total = np.zeros(shape)
    for columns, values in factors:
        total += aligned(values, columns, clique)
    return total


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
        self, factors: Sequence[tuple[Clique, Floats]], targets: frozenset[Axes], weight: tuple[Clique, Floats] | None
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
        return table_plan_product(*(range(size) for size in self._shape[: self._lead]))

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


# --- Belief propagation on a junction tree.


SMALLEST = 1e-200
LARGEST = 1e200


class BeliefPropagation:
    """The calibrated tree of exp(sum of factors), normalised to 1.

    Args:
        tree: a node must contain each factor's clique.
        factors: log-space arrays by clique, axes in the clique's order; minus infinity forbids a cell.
    Raises:
        ValueError: a clique that no node contains, or an array that does not have the clique's shape.
    """

    def __init__(self, tree: JunctionTree, factors: Mapping[Clique, Floats]) -> None:
        self.tree = tree
        self._factors: dict[Clique, Floats] = {}
        self._home = {clique: tree.home_of(clique) for clique in factors}
        self._assigned: list[list[Clique]] = [[] for _ in tree.nodes]
        for clique, number in self._home.items():
            self._assigned[number].append(clique)
        self._plans = [ContractionTree(node.columns, node.shape) for node in tree.nodes]
        count = len(tree.nodes)
        self._shift: list[Floats | None] = [None] * count
        self._dead: list[NDArray[np.bool_]] = [np.empty(0, dtype=np.bool_)] * count
        self._sums: list[Floats] = [np.empty(0)] * count
        self._message: list[Floats | None] = [None] * count
        self._gathered: list[dict[Clique, Floats] | None] = [None] * count
        self.update(factors)

    def update(self, factors: Mapping[Clique, Floats]) -> None:
        """Replace some factors; messages that do not depend on them are kept."""
        for clique, values in factors.items():
            if values.shape != self.tree.domain.sizes(clique):
                raise ValueError(f"the factor of {'×'.join(clique)} has shape {values.shape}")
            number = self._home[clique]
            before = self._factors.get(clique)
            # Another set of impossible cells: rows that were dead may live now, so that every shift is found anew.
            if before is None or (np.isneginf(before) != np.isneginf(values)).any():
                self._shift = [None] * len(self.tree.nodes)
            self._factors[clique] = values
            # Only the messages on the way to the root depend on this factor; above one that is stale already all are.
            while number >= 0 and self._message[number] is not None:
                self._message[number] = None
                number = self.tree.nodes[number].parent
        if factors:
            self._gathered = [None] * len(self.tree.nodes)

    @property
    def log_partition(self) -> float:
        """Log of the sum over the whole domain; minus infinity if nothing is possible."""
        return float(self._upward(0))

    def of_factor(self, clique: Clique) -> Floats:
        """Return the probabilities of a factor's clique, axes in its order.

        Raises:
            NothingPossible: the factors forbid every cell.
        """
        return self._downward(self._home[clique])[clique]

    def inside(self, number: int, cliques: Iterable[Clique]) -> dict[Clique, Floats]:
        """Return the probabilities of cliques inside one node, axes in each clique's order; shared sums are done
        once.

        Raises:
            NothingPossible: the factors forbid every cell.
        """
        return self._weighted(number, cliques)

    def _downward(self, number: int) -> dict[Clique, Floats]:
        """Return the probabilities of a node's factors and of its children's separators."""
        kept = self._gathered[number]
        if kept is None:
            kept = self._gathered[number] = self._weighted(number, self._needed(number))
        return kept

    def _needed(self, number: int) -> list[Clique]:
        nodes = self.tree.nodes
        return [*self._assigned[number], *(nodes[child].separator for child in nodes[number].children)]

    def _inputs(self, number: int) -> list[tuple[Clique, Floats]]:
        """Return a node's factors and the messages from its children."""
        nodes = self.tree.nodes
        own = [(clique, self._factors[clique]) for clique in self._assigned[number]]
        return own + [(nodes[child].separator, self._upward(child)) for child in nodes[number].children]

    def _weighted(self, number: int, cliques: Iterable[Clique]) -> dict[Clique, Floats]:
        """Sum a node's table times the marginal of its separator onto cliques."""
        if np.isneginf(self.log_partition):
            raise NothingPossible
        node = self.tree.nodes[number]
        # The root has no separator: the weight of its only row is 1.
        above = self._downward(node.parent)[node.separator] if node.parent >= 0 else np.ones(())
        # P(node) = P(node | separator) P(separator): the row over its sum, times the marginal from above. A row that
        # sums to 0 is impossible, and so is its separator's cell.
        weight = np.divide(above, self._sums[number], out=np.zeros_like(above), where=self._sums[number] > 0)
        factors = [*self._inputs(number), (node.separator, -self._shifted(number))]
        return self._plans[number].sums(factors, cliques, (node.separator, weight))

    def _shifted(self, number: int) -> Floats:
        shift = self._shift[number]
        return np.zeros(self.tree.domain.sizes(self.tree.nodes[number].separator)) if shift is None else shift

    def _upward(self, number: int) -> Floats:
        """Return the message to the parent: for each cell of the separator, the log of the sum of the node's row.

        Rows are taken relative to where their largest cell was before, or to 0 at first; if one is too far from that
        for floats, to where the largest cells are now.
        """
        kept = self._message[number]
        if kept is not None:
            return kept
        node, plan, inputs = self.tree.nodes[number], self._plans[number], self._inputs(number)
        if self._shift[number] is None:
            self._dead[number] = np.zeros(self.tree.domain.sizes(node.separator), dtype=np.bool_)
        sums = self._row_sums(number, inputs)
        # Sums this far from 1 have lost, or will lose, what matters: the shift moves to the rows' own largest cells.
        # Dead rows, all cells impossible, stay at 0 whatever the shift.
        if not (((sums > SMALLEST) & (sums < LARGEST)) | self._dead[number]).all():
            top = plan.largest(inputs, node.separator)
            self._dead[number] = np.isneginf(top)
            self._shift[number] = np.where(self._dead[number], 0.0, top)
            sums = self._row_sums(number, inputs)
        # The log of 0 is minus infinity: an impossible cell stays impossible further up.
        with np.errstate(divide="ignore"):
            message = np.log(sums) + self._shifted(number)
        self._sums[number] = sums
        self._message[number] = message
        return message

    def _row_sums(self, number: int, inputs: list[tuple[Clique, Floats]]) -> Floats:
        """Return the sums of a node's rows; at the root everything else that is needed comes with them."""
        node = self.tree.nodes[number]
        factors = [*inputs, (node.separator, -self._shifted(number))]
        asked = [node.separator] if node.parent >= 0 else [node.separator, *self._needed(number)]
        found = self._plans[number].sums(factors, asked)
        sums = found[node.separator]
        # At the root everything that is asked for is a sum of the same table: one pass gives them all.
        if node.parent < 0 and SMALLEST < sums < LARGEST:
            self._gathered[number] = {clique: values / sums for clique, values in found.items()}
        return sums


# --- Marginals of any cliques out of a calibrated tree, in one node or across several; what they share is done once.


@dataclass(frozen=True)
class EliminationStep:
    """A node's part in a clique's marginal.

    Args:
        number: the node.
        scope: the columns to which the node is reduced first.
        separator: the separator's columns, empty at the top.
        result: the columns of the table that it hands up: given, then the wanted ones found so far.
        below: the parts under it.
    """

    number: int
    scope: Clique
    separator: Clique
    result: Clique
    below: tuple[EliminationStep, ...]


def marginals(calibrated: BeliefPropagation, cliques: Iterable[Clique]) -> dict[Clique, Floats]:
    """Return the probabilities of cliques, axes in each clique's order.

    Args:
        calibrated: the tree with its factors.
        cliques: distinct columns each, any of the domain's.
    Raises:
        NothingPossible: the factors forbid every cell.
    """
    parts = {clique: plan(calibrated.tree, clique) for clique in cliques}
    wanted: dict[int, set[Clique]] = {}
    for part in parts.values():
        _note(part, wanted)
    tables = {number: calibrated.inside(number, sorted(scopes)) for number, scopes in sorted(wanted.items())}
    return {clique: _evaluate(part, tables) for clique, part in parts.items()}


def plan(tree: JunctionTree, clique: Clique) -> EliminationStep:
    """Return the parts of a clique's marginal."""
    home = tree.home(clique)
    # One node holds all columns: its table need only be summed.
    if home is not None:
        return EliminationStep(home, clique, (), clique, ())
    wanted = set(clique)
    needed = [number for number, node in enumerate(tree.nodes) if wanted & set(node.residual)]
    paths = [_to_root(tree, number) for number in needed]
    # The lowest common ancestor of all nodes that introduce a wanted column: nothing above it matters.
    top = next(number for number in paths[0] if all(number in path for path in paths))
    used = {number for path in paths for number in path[: path.index(top) + 1]}
    return _part(tree, top, top, used, wanted, clique)


def _to_root(tree: JunctionTree, number: int) -> list[int]:
    path = [number]
    while tree.nodes[path[-1]].parent >= 0:
        path.append(tree.nodes[path[-1]].parent)
    return path


def _part(
    tree: JunctionTree, number: int, top: int, used: set[int], kept: set[str], clique: Clique
) -> EliminationStep:
    node = tree.nodes[number]
    below = tuple(_part(tree, child, top, used, kept, clique) for child in node.children if child in used)
    given = () if number == top else node.separator
    links = {name for part in below for name in part.separator}
    # A node is reduced to the wanted columns, those that are given from above, and its links to the nodes below.
    scope = tuple(name for name in node.columns if name in kept or name in given or name in links)
    # What is handed up: the wanted columns that this node or one below it has seen.
    met = (kept & set(scope)) | {name for part in below for name in part.result if name in kept}
    result = clique if number == top else given + tuple(name for name in clique if name in met and name not in given)
    return EliminationStep(number, scope, given, result, below)


def _note(part: EliminationStep, reductions: dict[int, set[Clique]]) -> None:
    """Collect the reductions of each node; a conditional needs its separator's marginal as well."""
    scopes = reductions.setdefault(part.number, set())
    scopes.add(part.scope)
    if part.separator:
        scopes.add(part.separator)
    for below in part.below:
        _note(below, reductions)


def _evaluate(part: EliminationStep, tables: dict[int, dict[Clique, Floats]]) -> Floats:
    """Return P(result) at the top, P(wanted part of result | given) elsewhere, over `result`."""
    operands: list[tuple[Clique, Floats]] = []
    own = tables[part.number][part.scope]
    if part.separator:
        given = tables[part.number][part.separator]
        shape = [size if name in part.separator else 1 for name, size in zip(part.scope, own.shape, strict=True)]
        order = [part.separator.index(name) for name in part.scope if name in part.separator]
        spread = given.transpose(order).reshape(shape)
        # P(scope | given): nothing is divided by 0, since where the separator is impossible the whole row is.
        own = np.divide(own, spread, out=np.zeros_like(own), where=spread > 0)
    operands.append((part.scope, own))
    operands += [(below.result, _evaluate(below, tables)) for below in part.below]
    return _contract(operands, part.result)


def _contract(operands: list[tuple[Clique, Floats]], result: Clique) -> Floats:
    """Multiply tables and sum over all columns but those of `result`."""
    if len(operands) == 1 and operands[0][0] == result:
        return operands[0][1]
    letter = dict(zip(dict.fromkeys(name for names, _ in operands for name in names), ascii_letters, strict=False))
    terms = ["".join(letter[name] for name in names) for names, _ in operands]
    formula = ",".join(terms) + "->" + "".join(letter[name] for name in result)
    return np.asarray(np.einsum(formula, *(values for _, values in operands), optimize="greedy"))


# --- A private graphical model.


@dataclass(frozen=True, eq=False)
class GraphicalModel:
    """The distribution total × exp(sum of potentials) / Z over a domain.

    Args:
        domain: all columns.
        cliques: distinct, each with its columns in the domain's order.
        potentials: one float64 log-space array a clique, of the clique's shape; minus infinity is a structural zero.
        total: expected number of rows, ≥ 0.
    Raises:
        ValueError: cliques and potentials do not fit together or to the domain, NaN or +infinity, a negative total.
    """

    domain: CellDomain
    cliques: tuple[Clique, ...]
    potentials: tuple[Floats, ...]
    total: float

    def __post_init__(self) -> None:
        if len(self.cliques) != len(self.potentials) or len(set(self.cliques)) != len(self.cliques):
            raise ValueError("give distinct cliques, and one potential a clique")
        if not (np.isfinite(self.total) and self.total >= 0):
            raise ValueError("the total must be finite and at least 0")
        for clique, values in zip(self.cliques, self.potentials, strict=True):
            if self.domain.canonical(clique) != clique or values.shape != self.domain.sizes(clique):
                raise ValueError(f"the potential of {'×'.join(clique)} does not fit the domain")
            if values.dtype != np.float64 or np.isnan(values).any() or np.isposinf(values).any():
                raise ValueError(
                    f"the potential of {'×'.join(clique)} must be float64 below plus infinity, without NaN"
                )

    @cached_property
    def tree(self) -> JunctionTree:
        """The junction tree of the cliques."""
        return junction_tree(self.domain, self.cliques)

    @property
    def factors(self) -> Mapping[Clique, Floats]:
        """The potentials by clique."""
        return dict(zip(self.cliques, self.potentials, strict=True))

    @cached_property
    def _calibrated(self) -> BeliefPropagation:
        return BeliefPropagation(self.tree, self.factors)

    def marginal(self, clique: Sequence[str]) -> Floats:
        """Return the expected counts of any clique, axes in the given order [rows].

        Raises:
            ValueError: an unknown column, or one named twice.
            NothingPossible: the structural zeros exclude everything.
        """
        return self.marginals([clique])[0]

    def marginals(self, cliques: Sequence[Sequence[str]]) -> list[Floats]:
        """Return the expected counts of many cliques; work that they share is done once."""
        known = {tuple(clique): self.domain.canonical(clique) for clique in cliques}
        tables = marginals(self._calibrated, set(known.values()))
        found = []
        for clique in map(tuple, cliques):
            order = known[clique]
            found.append(self.total * tables[order].transpose([order.index(name) for name in clique]))
        return found
