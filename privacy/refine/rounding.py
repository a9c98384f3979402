"""Whole numbers that keep the total: the nearest lattice point of the scaled simplex.

Source: negative ℓ2 paper, section 2.4: the nearest integer point rounds cells up or down so that the sum holds.
Rounding all down leaves some units over; giving one to cell i changes the squared distance by 1 - 2·remainder_i, so
they go to the largest remainders. Equal remainders go to the lower cell number, so that the result replays byte for
byte. The cut between the remainders is found by partition, not by sorting: O(n).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privacy.refine.chunks import over_chunks


def round_to_total(
    values: NDArray[np.float64],
    total: int,
    *,
    out: NDArray[np.int64] | None = None,
) -> NDArray[np.int64]:
    """Round non-negative cells to whole numbers whose sum is exactly `total`.

    Args:
        values: any shape, finite, non-negative, summing to `total` up to float rounding [units].
        total: ≥ 0 [units].
        out: where to put the result: int64, contiguous, same shape. May be the memory of `values`
            (`values.view(np.int64)`); None for a new array.
    Returns:
        NDArray[int64]: same shape, each cell within one unit of its value, summing to total.
    Raises:
        ValueError: the values do not sum to the total up to rounding, one is negative or not finite, the total is
            negative, or `out` does not fit.
    Privacy: post-processing.
    """
    if total < 0:
        raise ValueError(f"total must be at least 0, not {total}")
    place, amount = _positive_cells(values.reshape(-1))
    whole = np.floor(amount)
    rounded = whole.astype(np.int64)
    rounded[_rounded_up(amount - whole, total, total - int(rounded.sum()))] += 1
    return _scatter(place, rounded, values.shape, out)


def _positive_cells(flat: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return where the cells above 0 are and what they hold; refuse what cannot be rounded."""

    def positive(cells: slice) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        chunk = flat[cells]
        if not chunk.min() >= 0:  # a NaN is no minimum that is at least 0
            raise ValueError("values must be finite and not negative")
        found = np.flatnonzero(chunk)
        return found + cells.start, chunk[found]

    parts = over_chunks(positive, flat.size)
    place = np.concatenate([np.empty(0, np.int64), *(part[0] for part in parts)])
    amount = np.concatenate([np.empty(0), *(part[1] for part in parts)])
    if not np.isfinite(amount).all():
        raise ValueError("values must be finite and not negative")
    return place, amount


def _rounded_up(remainder: NDArray[np.float64], total: int, missing: int) -> NDArray[np.int64]:
    """Choose the `missing` cells with the largest remainders, the lower cell first among equals."""
    # A cell without a remainder is whole already.
    open_cells = np.flatnonzero(remainder)
    if not 0 <= missing <= max(open_cells.size, 1) or missing > remainder.size:
        raise ValueError(f"values must sum to total = {total} up to rounding; {missing} units are missing")
    if missing == 0:
        return np.empty(0, np.int64)
    # One unit can be missing where no cell is open: a sum of whole numbers that is off by float rounding.
    candidates = open_cells if open_cells.size >= missing else np.arange(remainder.size)
    considered = remainder[candidates]
    # The smallest remainder that is still rounded up.
    cut = np.partition(considered, considered.size - missing)[considered.size - missing]
    above = candidates[considered > cut]
    return np.concatenate([above, candidates[considered == cut][: missing - above.size]])


def _scatter(
    place: NDArray[np.int64],
    rounded: NDArray[np.int64],
    shape: tuple[int, ...],
    out: NDArray[np.int64] | None,
) -> NDArray[np.int64]:
    """Write the positive cells into a table of zeros."""
    if out is not None and (out.dtype != np.int64 or out.shape != shape or not out.flags.c_contiguous):
        raise ValueError(f"out must be a contiguous int64 array of shape {shape}")
    result = np.empty(shape, np.int64) if out is None else out
    flat = result.reshape(-1)

    def write(cells: slice) -> None:
        first, last = np.searchsorted(place, [cells.start, cells.stop])
        flat[cells] = 0
        flat[place[first:last]] = rounded[first:last]

    over_chunks(write, flat.size)
    return result
