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

if TYPE_CHECKING:
    from contracts.contract import Contract

MOST_CODES: Final = 2**63 - 1
_COUNTED_IN: Final = 2**24


def digit(codes: NDArray[np.int64], shape: Sequence[int], place: int) -> NDArray[np.int64]:
    """Return the code of one column in each cell.

    Args:
        codes: cells of the domain, shape (n,).
        shape: cells of each column of the domain.
        place: which column.
    """
    stride = prod(shape[place + 1 :])
    return (codes // stride) % shape[place]


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


@dataclass(frozen=True)
class ImpossibleCells:
    """The declared structural zeros of a marginal.

    Args:
        shape: cells of each column of the marginal.
        boxes: for each structural zero the columns (by place) that it names, with the codes that it excludes.
        count: how many cells they exclude together; None where finding that out would take too much memory.
    """

    shape: tuple[int, ...]
    boxes: tuple[tuple[tuple[int, tuple[int, ...]], ...], ...] = ()
    count: int | None = 0

    @classmethod
    def of(cls, contract: Contract, clique: Sequence[str]) -> ImpossibleCells:
        """Return those structural zeros of a contract whose columns are all in the clique.

        Privacy: uses the contract only, never data.
        """
        boxes = []
        for zero in contract.structural_zeros:
            named = dict(zero.assignment)
            if set(named) <= set(clique):
                columns = [(place, name) for place, name in enumerate(clique) if name in named]
                boxes.append(
                    tuple(
                        (place, tuple(contract.column(name).labels.index(label) for label in named[name]))
                        for place, name in columns
                    )
                )
        concerned = sorted({place for box in boxes for place, _ in box})
        shape, count = contract.shape(clique), None
        if prod(shape[place] for place in concerned) <= _COUNTED_IN:
            marked = contract.impossible([clique[place] for place in concerned]) if boxes else np.zeros(1, np.bool_)
            count = int(marked.sum()) * prod(size for place, size in enumerate(shape) if place not in concerned)
        return cls(shape, tuple(boxes), count)

    def among(self, codes: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Mark the impossible ones among some cells, shape as `codes`."""
        marked = np.zeros(codes.size, np.bool_)
        for box in self.boxes:
            inside = np.ones(codes.size, np.bool_)
            for place, excluded in box:
                inside &= np.isin(digit(codes, self.shape, place), excluded)
            marked |= inside
        return marked
