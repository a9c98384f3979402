"""Work over a large array in fixed chunks, on every core. The chunks never depend on the number of threads.

numpy releases the interpreter's lock inside its loops, so threads are enough. Results come back in the order of the
chunks, and what is summed over chunks is summed in that order: the same bytes with one thread or with many.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

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
