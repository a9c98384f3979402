"""Sums and means whose clip is found by a charged draw, beside the contract's bounds, the best clip and PyDP.

    python -m benchmarks.private_clips --data DIR [--peers DIR] [--kept DIR]

Bounds are those that a contract would declare without a look at the rows, some of them far too wide. Errors are root
mean squares over cells and repeats, against the exact statistics of all values within the bounds: they have both the
noise and what a clip cuts off. Four ways, each with all of epsilon:

    private     a tenth for the noisy histogram, the rest for the draw over the clip that was found
    bounds      the whole of the bounds as the clip
    best        the clip between ends of bins that has the least error with these rows: nobody can know it
    PyDP        `BoundedSum` and `BoundedMean` without bounds: it finds them itself, half of epsilon, cell by cell

A row holds where the private clip's error is at most 1.25 times that of the bounds, which may be the best clip
themselves, and not above PyDP's.
"""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from math import sqrt
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from benchmarks._statistics_data import Measured, tables
from benchmarks._statistics_peers import Peer, asked
from benchmarks.results import Row, Setting, machine, write
from benchmarks.statistics import ours
from contracts.domains.addends import ValueMagnitudes
from contracts.domains.lattice import ValueLattice
from contracts.reading.scalars import parse_bound
from contracts.release.statistics import USUAL_SHARE
from privacy.marginals.cell_sums import cell_sum_event
from privacy.marginals.sensitivity import LaplaceNoise
from privacy.noise.discrete_laplace import discrete_laplace
from privacy.noise.random_bytes import SeededBytes
from privacy.statistics.clips import LaterDraw, find_clip

EPSILONS: Final = ("0.1", "1")
STATISTICS: Final = ("sum", "mean")
REPEATS: Final = 20
RELEASES: Final = 20
"""Releases with each clip that was found."""
PYDP: Final = Peer("PyDP", "pydp_bounds", 8, STATISTICS)
ASKED: Final = ("Adult hours-per-week by region and sex", "ACS income by region and sex")
"""What PyDP is asked about: it takes minutes for each."""
BOUNDS: Final = {
    "Adult hours-per-week": (0, 168),
    "Adult capital-gain": (0, 99_999),
    "Adult age": (0, 120),
    "ACS income": (-20_000, 4_210_000),
}
"""Hours of a week, the coding limit of the gain, an age, and the coding limits of the census."""
WORSE: Final = 1.25
"""How much a private clip may lose where the bounds need no narrowing."""
FAR_TOO_WIDE: Final = 10**9
Floats = NDArray[np.float64]


def main() -> None:
    """Measure everything and write results/private_clips.json."""
    asked_for = _arguments()
    rows = []
    for number, table in enumerate(_cases(asked_for.data)):
        peer = _peer(table, asked_for.peers, asked_for.kept)
        for epsilon in EPSILONS:
            for statistic in STATISTICS:
                rows.append(_row(table, epsilon, statistic, peer, SeededBytes(number)))
                print(rows[-1].what, rows[-1].measured, rows[-1].target, rows[-1].peer, flush=True)
    write("private_clips", rows)


def _cases(data: Path) -> Iterator[Measured]:
    """Yield columns by region and sex, and over all rows; and within bounds that are far too wide."""
    for table in tables(data):
        if table.name not in BOUNDS:
            continue
        low, high = BOUNDS[table.name]
        everywhere, everybody = ("all",) * len(table.values), ("all",) * len(table.values)
        wide = replace(table, low=low, high=high)
        yield replace(wide, name=f"{table.name} by region and sex")
        yield replace(wide, name=f"{table.name} of all rows", regions=everywhere, sexes=everybody)
        if high > FAR_TOO_WIDE // 10**6:
            yield replace(wide, name=f"{table.name} by region and sex, bounds to 1e9", low=0, high=FAR_TOO_WIDE)


def _row(table: Measured, epsilon: str, statistic: str, peer: dict[str, Floats], source: SeededBytes) -> Row:
    """Compare the four ways for one statistic."""
    exact, magnitudes = table.exact[statistic], _magnitudes(table)
    private, clips = _private(table, Fraction(epsilon), statistic, magnitudes, source)
    whole = _error(_released(table, Fraction(epsilon), statistic, REPEATS * RELEASES, source), exact)
    best, clip = _best(table, Fraction(epsilon), statistic, magnitudes)
    known = _error(_released(clip, Fraction(epsilon), statistic, REPEATS * RELEASES, source), exact)
    settings: dict[str, Setting] = machine("numpy")
    settings |= {"rows": len(table.values), "cells": len(table.cells), "low": table.low, "high": table.high}
    settings |= {"epsilon": float(epsilon), "share": float(USUAL_SHARE), "repeats": REPEATS * RELEASES}
    settings |= {"rmse_bounds": _short(whole), "rmse_best_clip": _short(known), "best_clip": best}
    settings |= {"over_bounds": _short(private / whole), "over_best_clip": _short(private / known)}
    settings |= {"clips_found": [f"[{low}, {high}] {times}" for (low, high), times in clips.most_common(3)]}
    told, holds = None, private <= WORSE * whole
    if f"{statistic}/{epsilon}/{statistic}" in peer:
        theirs = _error(peer[f"{statistic}/{epsilon}/{statistic}"], exact)
        told, holds = f"PyDP: {theirs:.4g}", holds and private <= theirs
    what = f"{table.name}, epsilon {epsilon}: RMSE of the {statistic} with a private clip"
    return Row(what, _short(private), table.unit, _short(WORSE * whole), holds, peer=told, settings=settings)


def _private(
    table: Measured, epsilon: Fraction, statistic: str, magnitudes: ValueMagnitudes, source: SeededBytes
) -> tuple[float, Counter[tuple[int, int]]]:
    """Find clips and release with each; return the error, and which clips were found."""
    lasts = np.array([last for _, last in magnitudes.bins])
    offsets = np.clip(table.values, table.low, table.high) - table.low
    counts = np.bincount(np.searchsorted(lasts, offsets), minlength=magnitudes.parts)
    share = Fraction(USUAL_SHARE)
    event = cell_sum_event(LaplaceNoise(epsilon * share), magnitudes, adjacency="add_remove", rows_per_unit=1)
    left = epsilon * (1 - share)
    later = LaterDraw(len(table.cells), 2 / left**2, statistic == "mean")
    scale: Any = event
    squares, clips = [], Counter[tuple[int, int]]()
    for _ in range(REPEATS):
        noise = discrete_laplace(counts.size, inverse_scale=scale.inverse_scale, source=source)
        found = find_clip([int(each) for each in counts + noise], magnitudes, event=event, later=later).lattice
        clipped = replace(table, low=int(found.low), high=int(found.high))
        clips[clipped.low, clipped.high] += 1
        squares.append(_error(_released(clipped, left, statistic, RELEASES, source), table.exact[statistic]) ** 2)
    return sqrt(float(np.mean(squares))), clips


def _released(table: Measured, epsilon: Fraction, statistic: str, times: int, source: SeededBytes) -> Floats:
    """Release a statistic so often over the table's own clip, shape (times, cells)."""
    shape = times, len(table.cells)
    above, below = (np.broadcast_to(values, shape) for values in (table.above, table.below))
    bounds = {"low": table.low, "high": table.high, "width": table.width}
    return ours(above, below, **bounds, epsilon=epsilon, source=source)[statistic]


def _best(table: Measured, epsilon: Fraction, statistic: str, magnitudes: ValueMagnitudes) -> tuple[str, Measured]:
    """Return the clip of the least error with these rows, by the variance of the noise and what it cuts off."""
    exact, found = table.exact, []
    cell = {each: number for number, each in enumerate(table.cells)}
    cells = np.array([cell[each] for each in zip(table.regions, table.sexes, strict=True)])
    for place, (first, _) in enumerate(magnitudes.bins):
        for _, last in magnitudes.bins[place:]:
            if first < last:
                low, high = table.low + first, table.low + last
                clipped = np.bincount(cells, np.clip(table.values, low, high), len(table.cells))
                cut = clipped - exact["sum"]
                if statistic == "sum":
                    squares = cut**2 + 2 * (low**2 + high**2) / float(epsilon) ** 2
                else:
                    squares = (cut**2 + ((high - low) / float(epsilon)) ** 2) / exact["count"] ** 2
                found.append((float(squares.mean()), low, high))
    _, low, high = min(found)
    return f"[{low}, {high}]", replace(table, low=low, high=high)


def _magnitudes(table: Measured) -> ValueMagnitudes:
    low, high, step = (parse_bound(str(each)) for each in (table.low, table.high, 1))
    return ValueMagnitudes(ValueLattice(table.name, low, high, step, counts_missing=False))


def _peer(table: Measured, peers: Path | None, kept: Path) -> dict[str, Floats]:
    """Ask PyDP, where the environment of PipelineDP, which has it, is there."""
    if table.name not in ASKED:
        return {}
    python = (peers or Path()) / "pipelinedp" / "bin" / "python"
    if peers is None or not python.is_file():
        print("no PyDP: give --peers DIR with DIR/pipelinedp an environment of python-dp")
        return {}
    kept.mkdir(parents=True, exist_ok=True)
    return dict(asked(PYDP, python, table, EPSILONS, kept.resolve()).noisy)


def _error(noisy: Floats, exact: Floats) -> float:
    return float(np.sqrt(np.mean((noisy - exact) ** 2)))


def _short(number: float) -> float:
    return float(f"{number:.4g}")


def _arguments() -> argparse.Namespace:
    """Read where the data and the peers are."""
    parser = argparse.ArgumentParser(description="private clips beside the bounds, the best clip and PyDP")
    data, others = os.environ.get("SUDARE_BENCHMARK_DATA"), os.environ.get("SUDARE_BENCHMARK_PEERS")
    parser.add_argument("--data", type=Path, default=Path(data) if data else None, required=data is None)
    parser.add_argument("--peers", type=Path, default=Path(others) if others else None)
    parser.add_argument("--kept", type=Path, default=Path("build") / "private_clips")
    return parser.parse_args()


if __name__ == "__main__":
    main()
