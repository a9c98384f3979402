"""Rows of codes, and in which cell of a marginal each row lies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

_MOST_CELLS = 2**63 - 1


@dataclass(frozen=True, eq=False, repr=False)
class EncodedRows:
    """Encoded rows; private or released, whoever made them knows.

    Args:
        columns: the names of the columns, distinct.
        shape: cells along each column.
        codes: one row a person, integers, shape (rows, columns), column j from 0 to shape[j] - 1.
    Raises:
        ValueError: the three do not fit together.
    """

    columns: tuple[str, ...]
    shape: tuple[int, ...]
    codes: NDArray[np.integer[Any]]

    def __post_init__(self) -> None:
        if len(set(self.columns)) != len(self.columns) or len(self.columns) != len(self.shape):
            raise ValueError(f"columns and shape must be equally many, and columns distinct: {self.columns}")
        if self.codes.ndim != 2 or self.codes.shape[1] != len(self.columns):
            raise ValueError(f"codes must have {len(self.columns)} columns")
        if self.codes.size and ((self.codes < 0).any() or (self.codes >= np.array(self.shape)).any()):
            raise ValueError("codes must lie inside their columns' cells")

    def __repr__(self) -> str:
        """Show the columns only: how many rows there are may be private."""
        return f"Rows({'×'.join(self.columns)})"

    def numbers(self, clique: Sequence[int]) -> NDArray[np.int64]:
        """Return the row-major number of each row's cell in the marginal of columns `clique` (by place).

        Raises:
            ValueError: the marginal has more than 2^63 - 1 cells.
        """
        sizes = [self.shape[place] for place in clique]
        if prod(sizes) > _MOST_CELLS:
            raise ValueError(f"a marginal of {prod(sizes)} cells cannot be numbered")
        found = np.zeros(len(self.codes), dtype=np.int64)
        for place, size in zip(clique, sizes, strict=True):
            found *= size
            found += self.codes[:, place]
        return found


def check_comparable(real: EncodedRows, synthetic: EncodedRows) -> None:
    """Refuse two tables whose columns differ.

    Raises:
        ValueError: other columns, other cells, or no real rows.
    """
    if (real.columns, real.shape) != (synthetic.columns, synthetic.shape):
        raise ValueError("both tables must have the same columns in the same order with the same cells")
    if not len(real.codes):
        raise ValueError("there must be at least one real row")
