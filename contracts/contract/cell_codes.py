"""Cells of a declared domain by their numbers: mixed-radix codes in row-major order, and the impossible ones.

The code of a cell with the digits d_0, d_1, ... in a domain of shape (n_0, n_1, ...) is ((d_0 n_1) + d_1) n_2 + ...
Codes are int64, so a domain has at most 2^63 - 1 cells. Nothing here needs memory in proportion to the domain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from contracts.contract.impossible_cells import pair_masks

if TYPE_CHECKING:
    from contracts.contract.column import Column
    from contracts.contract.contract import Contract

_COUNTED_IN: Final = 2**24


def digit(codes: NDArray[np.int64], shape: Sequence[int], place: int) -> NDArray[np.int64]:
    """Return the code of one column in each cell.

    Args:
        codes: cells of the domain, shape (n,).
        shape: cells of each column of the domain.
        place: which column.
    """
    # numpy divides by a scalar fast, and takes remainders slowly; the first column has none.
    above = codes // prod(shape[place + 1 :])
    return above if place == 0 else above - above // shape[place] * shape[place]


def cell_codes(digits: Sequence[NDArray[np.int64]], shape: Sequence[int]) -> NDArray[np.int64]:
    """Return the codes of cells, given the code of each of their columns.

    Args:
        digits: for each column its codes, shape (n,), each inside the column.
        shape: cells of each column of the domain, together at most 2^63 - 1.
    """
    codes = np.zeros(digits[0].size, np.int64)
    for part, size in zip(digits, shape, strict=True):
        codes *= size
        codes += part
    return codes


@dataclass(frozen=True, eq=False)
class ImpossibleCells:
    """The cells of a marginal that structural zeros and constraints exclude, without an array over all cells.

    Args:
        shape: cells of each column of the marginal.
        boxes: for each structural zero the columns (by place) that it names, with the codes that it excludes.
        masks: for each constraint its two columns (by place), and True where no row can be.
        count: how many cells are excluded together; None where finding that out would take too much memory.
    """

    shape: tuple[int, ...]
    boxes: tuple[tuple[tuple[int, tuple[int, ...]], ...], ...] = ()
    masks: tuple[tuple[tuple[int, int], NDArray[np.bool_]], ...] = ()
    count: int | None = 0

    @classmethod
    def of(cls, contract: Contract, clique: Sequence[str]) -> ImpossibleCells:
        """Return what a contract excludes by columns that are all in the clique.

        Privacy: uses the contract only, never data.
        """
        columns = {column.name: column for column in contract.columns}
        boxes = []
        for zero in contract.structural_zeros:
            named = dict(zero.assignment)
            if set(named) <= set(clique):
                places = [(place, name) for place, name in enumerate(clique) if name in named]
                boxes.append(tuple((place, _codes(columns[name], named[name])) for place, name in places))
        masks = tuple(
            ((clique.index(pair[0]), clique.index(pair[1])), mask)
            for pair, mask in pair_masks(clique, columns, contract.constraints)
        )
        concerned = {place for box in boxes for place, _ in box} | {place for pair, _ in masks for place in pair}
        return cls(contract.shape(clique), tuple(boxes), masks, _counted(contract, clique, sorted(concerned)))

    @property
    def some(self) -> bool:
        """Whether there are any rules that exclude cells."""
        return bool(self.boxes or self.masks)

    def among(self, codes: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Mark the impossible ones among some cells, shape as `codes`."""
        marked = np.zeros(codes.size, np.bool_)
        for box in self.boxes:
            inside = np.ones(codes.size, np.bool_)
            for place, excluded in box:
                inside &= np.isin(digit(codes, self.shape, place), excluded)
            marked |= inside
        for (first, second), mask in self.masks:
            marked |= mask[digit(codes, self.shape, first), digit(codes, self.shape, second)]
        return marked


def _codes(column: Column, labels: Sequence[str]) -> tuple[int, ...]:
    return tuple(column.labels.index(label) for label in labels)


def _counted(contract: Contract, clique: Sequence[str], concerned: Sequence[int]) -> int | None:
    """Count the impossible cells over the columns that they depend on, times the cells of the others."""
    shape = contract.shape(clique)
    if not concerned:
        return 0
    if prod(shape[place] for place in concerned) > _COUNTED_IN:
        return None
    marked = contract.impossible([clique[place] for place in concerned])
    return int(marked.sum()) * prod(size for place, size in enumerate(shape) if place not in concerned)
