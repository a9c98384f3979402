"""Sums of a large table that is a product of three smaller ones, as matrix products.

Where no factor and nothing that is asked for has all of three axes i, j, k, the table is

    exp(A[l, i, j] + B[l, i, k] + C[l, j, k])        l: all other axes

and its sum over k is  exp(A) · (exp(B) · exp(C) summed over k),  a matrix product for each l; its sums over i and j
are alike. The table itself is never made. Rows of B and C are taken relative to their largest value b[l, i], c[l, j]
before they are exponentiated, so that nothing overflows; where A + b + c stays below `MOST_NATS`, what underflows is
too small to matter in sums above 1e-200. Elsewhere there is no answer, and the
caller takes another way.

Source: Koller and Friedman 2009, section 9.3 (sum-product variable elimination), for one variable.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import combinations
from math import prod
from typing import Final

import numpy as np

from privacy.arrays import Floats

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
