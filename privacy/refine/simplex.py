"""Projection onto the scaled simplex {β ≥ 0, Σβ = total}, without sorting.

    β_i = max(0, v_i - θ),  θ such that Σ max(0, v_i - θ) = total,  that is  Σ min(v_i, θ) = Σ v_i - total
Source: Matsumoto, Matsui, Terada (negative ℓ2 paper), eq. 7-10. θ is found in three steps.
1. All cells are summed, and every 61st is looked at. The second form of the equation is bounded above, so that the
   few large cells cannot mislead such a sample: it gives a bound that lies just below θ, by six standard errors.
2. One pass over all cells gathers those above the bound, on a sparse table a few per cent. Whether
   Σ max(0, v_i - bound) reaches the total says for certain whether the bound lies below θ; where it does not, all
   cells are kept.
3. Michelot 1986 on what was gathered: drop the cells at or below (Σ - total) / count, repeat. That is Newton's
   method on a convex, piecewise linear function, which ends after few passes: each one halves the count or what is
   still missing.

Whole-number cells are summed in whole numbers and θ is an exact fraction, so that the active set is exact, too.
Sums of floats go by fixed chunks. Neither depends on the number of threads.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from functools import partial
from math import floor, fsum, isfinite, sqrt
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from privacy.arrays import Numbers

# --- Work over a large array in fixed chunks, on every core.


CHUNK: Final = 1 << 17
"""Cells in a chunk: one MiB of 64-bit numbers stays in a core's cache between two loops over it."""
Result = TypeVar("Result")
Piece = TypeVar("Piece")


def over_chunks(work: Callable[[slice], Result], size: int) -> list[Result]:
    """Call `work` once for each chunk of range(size) and return the results in order.

    Args:
        work: what to do with one slice; it writes at most into that slice of shared arrays.
        size: how many cells, ≥ 0.
    """
    chunks = [slice(start, min(start + CHUNK, size)) for start in range(0, size, CHUNK)]
    return over_pieces(work, chunks)


def over_pieces(work: Callable[[Piece], Result], pieces: Iterable[Piece]) -> list[Result]:
    """Call `work` once for each piece, on every core, and return the results in their order.

    Args:
        work: what to do with one piece; it writes at most where no other piece does.
        pieces: they must not depend on the number of threads.
    """
    waiting = list(pieces)
    workers = min(_cores(), len(waiting))
    if workers <= 1:
        return [work(piece) for piece in waiting]
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(work, waiting))


def exact_sum(values: NDArray[np.int64]) -> int:
    """Sum exactly: halves of 32 bits, of which 2^31 and more do not overflow together."""
    return (int((values >> 32).sum()) << 32) + int((values & 0xFFFFFFFF).sum())


def _cores() -> int:
    """Count the cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_SAMPLED_FROM: Final = 1 << 18
_STRIDE: Final = 61
"""A prime, so that the sample does not run down one column of a mesh."""
_STANDARD_ERRORS: Final = 6
_CROWDED: Final = 2
_LOW_BITS: Final = 32
_SAFE: Final = 2**62 // CHUNK
_INT64: Final = np.iinfo(np.int64)


def project_simplex(values: Numbers, total: float, *, out: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
    """Return the point of the scaled simplex that is nearest to `values`.

    Args:
        values: any shape, finite [units].
        total: the sum to reach, ≥ 0 [units].
        out: where to put the result: float64, contiguous, same shape. May be `values` itself, or an int64
            table's own memory (`values.view(np.float64)`); None for a new array.
    Returns:
        NDArray[float64]: same shape, non-negative, summing to total up to float rounding [units].
    Raises:
        ValueError: total is negative or not finite, a cell is not finite, or `out` does not fit.
    Privacy: post-processing.
    Source: negative ℓ2 paper, eq. 8-10.
    """
    return project_divided(values, total, gamma=1.0, out=out)


def project_divided(
    values: Numbers, total: float, *, gamma: float, out: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """Return the point of the scaled simplex that is nearest to `values` / gamma (eq. 14).

    The threshold of v/γ for the total is that of v for γ·total, divided by γ: v itself stays in exact integers.

    Args:
        values: as in `project_simplex`, which states the rest, too.
        gamma: γ in (0, 1] [dimensionless].
    """
    check_projectable(values, total)
    result = _checked_out(values, out)
    if total == 0 or values.size == 0:
        result.fill(0.0)
        return result
    flat, share = _flat(values), Fraction(gamma) * Fraction(total)
    theta = _threshold(flat, share)
    # Far outside of int64 the exact threshold is of no use: nothing, or everything, lies above it.
    if isinstance(theta, Fraction) and not _INT64.min <= floor(theta) <= _INT64.max:
        flat, theta = flat.astype(np.float64), float(theta)
    # θ = whole + part: whole numbers are compared and subtracted as whole numbers, the fraction comes last.
    whole = floor(theta) if isinstance(theta, Fraction) else theta
    part = float(theta - whole)
    target = result.reshape(-1)

    def write(cells: slice) -> None:
        source, place = flat[cells], target[cells]
        active = np.flatnonzero(source > whole)
        positive = (source[active] - whole).astype(np.float64, copy=False)
        positive -= part
        positive /= gamma
        place.fill(0.0)
        place[active] = positive

    over_chunks(write, flat.size)
    return result


def threshold(values: Numbers, total: float) -> float:
    """Return θ, the number that is taken off every cell that stays positive (eq. 10).

    Args:
        values: any shape, at least one cell, finite [units].
        total: > 0 [units].
    """
    return float(_threshold(_flat(values), Fraction(total)))


def check_projectable(values: Numbers, total: float) -> None:
    """Refuse what has no projection; raises `ValueError` naming the argument and the allowed range."""
    if not isfinite(total) or total < 0:
        raise ValueError(f"total must be finite and at least 0, not {total}")
    flat = values.reshape(-1)
    exact = np.issubdtype(values.dtype, np.integer)
    if not exact and not all(over_chunks(lambda cells: np.isfinite(flat[cells]).all(), flat.size)):
        raise ValueError("values must be finite in every cell")
    if values.size == 0 and total > 0:
        raise ValueError("total must be 0 when there is no cell")


def _flat(values: Numbers) -> NDArray[Any]:
    """Return the cells in a row, as int64 or float64."""
    dtype = np.int64 if np.issubdtype(values.dtype, np.integer) else np.float64
    return values.reshape(-1).astype(dtype, copy=False)


def _checked_out(values: Numbers, out: NDArray[np.float64] | None) -> NDArray[np.float64]:
    """Return the array to write to: the one given if it fits, or a new one."""
    if out is None:
        return np.empty(values.shape, dtype=np.float64)
    if out.dtype != np.float64 or out.shape != values.shape or not out.flags.c_contiguous:
        raise ValueError(f"out must be a contiguous float64 array of shape {values.shape}")
    same = out.ctypes.data == values.ctypes.data and values.flags.c_contiguous and values.itemsize == out.itemsize
    if not same and np.may_share_memory(out, values):
        raise ValueError("out must not overlap values, unless it is the same memory cell by cell")
    return out


def _threshold(flat: NDArray[Any], total: Fraction) -> Fraction | float:
    """Return θ: an exact fraction for whole-number cells, a float for floats."""
    active = _above_a_bound(flat, total)
    theta = _mean_excess(active, total)
    # Each pass drops what is certainly 0 at this θ; θ only grows, so that nothing dropped ever comes back.
    while (kept := active[active > _comparison_bound(theta)]).size < active.size:
        active = kept
        theta = _mean_excess(active, total)
    return theta


def _above_a_bound(flat: NDArray[Any], total: Fraction) -> NDArray[Any]:
    """Return the cells above a bound below θ, or all of them where no such bound is found."""
    if flat.size < _SAMPLED_FROM:
        return flat
    for bound in _sampled_bounds(flat, total):
        parts = over_chunks(partial(_gather, flat, bound), flat.size)
        gathered = np.concatenate(parts)
        # Σ max(0, v - bound) ≥ total proves bound ≤ θ, whatever the sample said: the guess can cost time, never
        # exactness.
        if gathered.size and _sum(gathered) - bound * gathered.size >= total:
            return gathered
    return flat


def _gather(flat: NDArray[Any], bound: int | float, cells: slice) -> NDArray[Any]:
    """Return the cells of one chunk that exceed the bound."""
    chunk = flat[cells]
    return chunk[chunk > bound]


def _sampled_bounds(flat: NDArray[Any], total: Fraction) -> list[int | float]:
    """Guess bounds below θ: solve Σ min(v, θ) = Σv - total on every 61st cell, six standard errors too low.

    Where many cells lie just above that bound (all those that hold 0, under little noise), the bound six standard
    errors too high comes first: it may lie below θ as well, and spares them.
    """
    sample = np.ascontiguousarray(flat[::_STRIDE])
    surplus = Fraction(_sum(flat)) - total
    # The sample's part of Σ min(v, θ) = Σ v - total.
    share = Fraction(_sum(sample)) - surplus * sample.size / flat.size
    if share <= 0:
        return []
    guess = float(_threshold(sample, share))
    error = Fraction(_STANDARD_ERRORS * float(np.minimum(sample, guess).std()) * sqrt(sample.size))
    low = _comparison_bound(_threshold(sample, share + error))
    high = _comparison_bound(_threshold(sample, share - error)) if share > error else low
    # Many cells between both bounds: gathering them would cost more than trying the higher bound in vain.
    crowded = np.count_nonzero(sample > low) > _CROWDED * np.count_nonzero(sample > high)
    return [high, low] if crowded else [low]


def _mean_excess(active: NDArray[Any], total: Fraction) -> Fraction | float:
    found = _sum(active)
    return (found - total) / active.size if isinstance(found, int) else (found - float(total)) / active.size


def _comparison_bound(theta: Fraction | float) -> int | float:
    """Return the bound that cells are compared with: a whole number exceeds θ where it exceeds ⌊θ⌋."""
    return floor(theta) if isinstance(theta, Fraction) else theta


def _sum(cells: NDArray[Any]) -> int | float:
    """Sum whole numbers exactly; floats chunk by chunk, in order."""
    parts = over_chunks(lambda chunk: _chunk_sum(cells[chunk]), cells.size)
    return fsum(parts) if cells.dtype == np.float64 else sum(parts)


def _chunk_sum(chunk: NDArray[Any]) -> int | float:
    """Sum one chunk; whole numbers that might overflow together go by halves of 32 bits."""
    if chunk.dtype == np.float64:
        return float(chunk.sum())
    if chunk.max() < _SAFE and chunk.min() > -_SAFE:
        return int(chunk.sum())
    # v = high 2^32 + low: each half of a chunk sums within int64, and Python adds the two without a limit.
    mask = (1 << _LOW_BITS) - 1
    return (int((chunk >> _LOW_BITS).sum()) << _LOW_BITS) + int((chunk & mask).sum())


# --- Whole numbers that keep the total.


def round_to_total(
    values: NDArray[np.float64], total: int, *, out: NDArray[np.int64] | None = None
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
    place: NDArray[np.int64], rounded: NDArray[np.int64], shape: tuple[int, ...], out: NDArray[np.int64] | None
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
