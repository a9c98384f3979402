"""Noise and projection of tables of which only the cells above a threshold are ever written down.

Each setting runs in a process of its own, so that its peak memory (imports and input included) is known. The time is
that of exact noise from a CSPRNG at the default threshold, of lowering it as far as theta needs, and of the
projection. The total is the exact one, as in the paper; a noisy one takes one draw more.
"""

from __future__ import annotations

import multiprocessing
from dataclasses import dataclass
from fractions import Fraction
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.results import Row, machine
from privacy.noise.discrete_laplace import discrete_laplace
from privacy.noise.random_bytes import SecureBytes
from privacy.noise.sparse_laplace import SparseLaplace, layer_probability, successes
from privacy.refine.sparse import SparseRefined, SparseTable, default_threshold, laplace_excess, sparse_negative_l2

SIDE: Final = 4096
HUGE_CELLS: Final = 10**12
HUGE_POPULATED: Final = 10**6
HUGE_TOTAL: Final = 10**8
PAPER: Final = "9.36 (Simplex, one of 25 runs)"
MOST_HITS: Final = 20_000_000
"""How many empty cells memory may be expected to hold: two numbers of 8 bytes each, a few times."""
REPEATS: Final = 7

Private = tuple[NDArray[np.int64], NDArray[np.int64]]


@dataclass(frozen=True)
class Measured:
    """One setting: seconds of each repeat, the last result's sizes, and the process's peak memory [MiB]."""

    seconds: tuple[float, ...]
    first_threshold: int
    threshold: int
    drawn: int
    nonzero: int
    peak_mib: float


def rows(mesh: Path | None) -> list[Row]:
    """Measure the mesh, where it is given, the huge table, and the sampler of the gaps."""
    made = [] if mesh is None else [_mesh(mesh, epsilon) for epsilon in ("0.1", "1")]
    huge = _apart(None, Fraction(1))
    what = "10^12 cells, 10^6 populated, total 10^8, epsilon 1, sparse noise + projection"
    seconds = round(median(huge.seconds), 3)
    made.append(_row(what, seconds, "s", 3.0, seconds <= 3.0, huge, paper="impossible"))
    made.append(_row(f"{what}: peak memory", round(huge.peak_mib), "MiB", 954, huge.peak_mib <= 954, huge))
    made.append(_hits())
    return made


def _mesh(path: Path, epsilon: str) -> Row:
    mesh = _apart(path, Fraction(epsilon))
    seconds = round(median(mesh.seconds), 3)
    what = f"mesh, {SIDE} x {SIDE} cells, epsilon {epsilon}, sparse noise + projection"
    sorting = _by_sorting(path, epsilon)
    peer = f"numpy, sort and cumsum of all {SIDE * SIDE} noisy values, projection alone: {sorting:.2f}"
    return _row(what, seconds, "s", 0.3, seconds <= 0.3, mesh, paper=PAPER if epsilon == "0.1" else None, peer=peer)


def _row(
    what: str,
    measured: float,
    unit: str,
    target: float,
    holds: bool,
    of: Measured,
    *,
    paper: str | None = None,
    peer: str | None = None,
) -> Row:
    settings = machine("numpy", "cryptography")
    settings |= {
        "repeats": REPEATS,
        "statistic": "median",
        "threads": "noise 1, projection 2",
        "total": "exact, as in the paper",
    }
    settings |= {"seconds": [round(second, 3) for second in of.seconds], "peak_mib": round(of.peak_mib)}
    settings |= {"first_threshold": of.first_threshold, "threshold": of.threshold}
    settings |= {"cells_drawn": of.drawn, "cells_nonzero": of.nonzero}
    return Row(what, measured, unit, target=target, holds=holds, paper=paper, peer=peer, settings=settings)


def _hits() -> Row:
    """Measure how many places of rare successes one core finds a second: 10^12 trials at tau = 12, t = 1."""
    odds, source, rates = layer_probability(Fraction(1), 12, None), SecureBytes(), []
    for _ in range(REPEATS):
        began = perf_counter()
        found = successes(HUGE_CELLS, probability=odds, source=source)
        rates.append(found.size / (perf_counter() - began) / 1e6)
    settings = machine("numpy", "cryptography") | {"repeats": REPEATS, "statistic": "median", "hits": found.size}
    rate = round(median(rates), 1)
    what = "places of hits among 10^12 cells, P(X >= 12), epsilon 1"
    return Row(what, rate, "million hits/s", target=2.0, holds=rate >= 2.0, settings=settings)


# --- in a process of its own --------------------------------------------------------------------------------------


def _apart(mesh: Path | None, epsilon: Fraction) -> Measured:
    context = multiprocessing.get_context("spawn")
    receive, send = context.Pipe(duplex=False)
    process = context.Process(target=_measure, args=(mesh, epsilon, send))
    process.start()
    told: Measured = receive.recv()
    process.join()
    return told


def _measure(mesh: Path | None, epsilon: Fraction, send: Pipe) -> None:
    private, cells = huge_counts() if mesh is None else mesh_counts(mesh)
    total, seconds = int(private[1].sum()), []
    for _ in range(REPEATS):
        began = perf_counter()
        refined = release(private, cells, epsilon, total)
        seconds.append(perf_counter() - began)
        found = refined.measured.threshold, refined.measured.codes.size, refined.codes.size
        del refined  # or the next repeat would hold two results
    send.send(Measured(tuple(seconds), default_threshold(cells, epsilon), *found, _peak_mib()))


def _peak_mib() -> float:
    """Read the most memory that this process held since it began; `getrusage` would count its parent's, too."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def release(private: Private, cells: int, epsilon: Fraction, total: int) -> SparseRefined:
    """Draw, lower as far as needed, project: what a release does with one table."""
    first, source = default_threshold(cells, epsilon), SecureBytes()
    drawn = SparseLaplace(*private, cells=cells, inverse_scale=epsilon, threshold=first, source=source)

    def lower(threshold: int) -> SparseTable:
        return SparseTable(*drawn.lower(threshold), threshold, cells)

    table, least = SparseTable(*drawn.drawn(), first, cells), default_threshold(cells, epsilon, false_hits=MOST_HITS)
    excess = laplace_excess(epsilon)
    return sparse_negative_l2(table, total, lambda_=0.0, lower=lower, excess=excess, least_threshold=least)


def mesh_counts(path: Path) -> tuple[Private, int]:
    """Read the populated cells inside the paper's frame, and the number of all its cells."""
    from benchmarks._tables_data import national_mesh  # here, or Arrow would count in the other tables' memory

    people = national_mesh(path).reshape(-1)
    codes = np.flatnonzero(people)
    return (codes, people[codes]), people.size


def huge_counts() -> tuple[Private, int]:
    """Make 10^6 populated cells among 10^12, exponentially distributed counts of at least 1, total 10^8."""
    generator = np.random.default_rng(4)
    codes = np.unique(generator.integers(0, HUGE_CELLS, HUGE_POPULATED + 100))[:HUGE_POPULATED]
    weights = generator.standard_exponential(HUGE_POPULATED)
    counts = 1 + generator.multinomial(HUGE_TOTAL - HUGE_POPULATED, weights / weights.sum()).astype(np.int64)
    return (codes, counts), HUGE_CELLS


def _by_sorting(path: Path, epsilon: str) -> float:
    """Return the seconds of the usual projection by sorting, median of 7, on the whole noisy mesh."""
    (codes, counts), cells = mesh_counts(path)
    noisy = discrete_laplace(cells, inverse_scale=Fraction(epsilon), source=SecureBytes()).astype(np.float64)
    noisy[codes] += counts
    total, seconds = float(counts.sum()), []
    for _ in range(REPEATS):
        began = perf_counter()
        falling = np.sort(noisy)[::-1]
        thetas = (np.cumsum(falling) - total) / np.arange(1, cells + 1)
        theta = thetas[np.flatnonzero(falling > thetas)[-1]]
        np.maximum(noisy - theta, 0)
        seconds.append(perf_counter() - began)
    return median(seconds)
