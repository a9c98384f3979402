"""How far published counts lie from the noisy ones that they were made of: released numbers about released ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contracts.reading.scalars import six_digits

_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class Distance:
    """How far two tables lie apart, over their cells.

    Args:
        cells: how many were compared.
        mean_absolute: mean of the distances [rows].
        rmse: root of the mean of their squares [rows].
    """

    cells: int
    mean_absolute: float
    rmse: float

    def to_json(self) -> dict[str, str]:
        """Return both errors as text of six digits."""
        return {"mean_absolute": six_digits(self.mean_absolute), "rmse": six_digits(self.rmse)}


def distance(published: NDArray[Any], noisy: NDArray[np.int64], kept: NDArray[np.bool_] | None = None) -> Distance:
    """Compare published counts with noisy ones.

    Args:
        published: refined counts, or those that a model expects, any shape [rows].
        noisy: noisy counts, the same shape [rows].
        kept: cells to compare; all without it. Of suppressed cells nothing is known.
    Privacy: post-processing.
    """
    one, other = published.reshape(-1), noisy.reshape(-1)
    cells, absolute, squares = 0, 0.0, 0.0
    for start in range(0, one.size, _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        apart = one[part].astype(np.float64) - other[part].astype(np.float64)
        if kept is not None:
            apart = apart[kept.reshape(-1)[part]]
        cells += apart.size
        absolute += float(np.abs(apart).sum())
        squares += float(np.square(apart).sum())
    if not cells:
        return Distance(0, 0.0, 0.0)
    return Distance(cells, absolute / cells, float(np.sqrt(squares / cells)))
