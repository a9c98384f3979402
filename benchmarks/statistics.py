"""Noisy counts, sums, means and variances by region and sex beside OpenDP, PipelineDP, SmartNoise SQL and Tumult.

    python -m benchmarks.statistics --data DIR [--peers DIR] [--kept DIR]

`--data DIR` (or SUDARE_BENCHMARK_DATA) holds adult/ and nist_acs/; `--peers DIR` (or SUDARE_BENCHMARK_PEERS) one
environment a peer. All get the same rows, keys, bounds and epsilon; the unit is one row, added or removed. Errors are
root mean squares over cells and repeats, against the exact statistics of the clipped values. Four modes: a sum alone,
a mean alone, a variance alone, and count, sum and mean together, each with all of epsilon. The best peer is chosen
row by row. Of the peers PipelineDP alone gives variances of groups; OpenDP's are of data whose size is known.

A row holds where our error is no larger than the best peer's, up to three standard errors of their ratio; `verdict`
says whether it is smaller, larger, or not to be told apart. Of a sum alone both errors are known by formula too: all
peers add Laplace noise of scale max(|low|, |high|) / epsilon to it. There the formulas' ratio decides, which may be
1.001 at most. A peer's mean whose noisy count was 0 is infinite, and then so is its error.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import exp, inf, isfinite, sqrt
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from benchmarks._statistics_data import Measured, tables
from benchmarks._statistics_peers import Answers, answers
from benchmarks.results import Row, Setting, machine, write
from contracts.domains.addends import LoneSum, may_stand_alone
from privacy.noise.discrete_laplace import discrete_laplace
from privacy.noise.random_bytes import RandomBytes, SeededBytes

EPSILONS: Final = ("0.1", "1")
REPEATS: Final = 2000
SEED: Final = 1
STANDARD_ERRORS: Final = 3
EQUAL: Final = 1.001
"""A ratio of two formulas up to which the errors count as equal."""
QUESTIONS: Final = (
    ("sum", "sum"),
    ("mean", "mean"),
    ("variance", "variance"),
    ("together", "count"),
    ("together", "sum"),
    ("together", "mean"),
)
TITLES: Final = {"sum": "alone", "mean": "alone", "variance": "alone", "together": "of count, sum and mean together"}
Floats = NDArray[np.float64]
Released = dict[str, dict[str, Floats]]
"""Mode -> statistic -> shape (repeats, cells)."""


@dataclass(frozen=True)
class Error:
    """A root mean square over cells and repeats.

    Args:
        size: the error, in the statistic's unit.
        relative_error: the standard error of `size` over `size`, from the repeats.
    """

    size: float
    relative_error: float


def main() -> None:
    """Measure everything and write results/statistics.json."""
    asked = _arguments()
    rows = []
    ratios: dict[tuple[str, str], list[Any]] = {question: [] for question in QUESTIONS}
    for table in tables(asked.data):
        found = answers(table, EPSILONS, peers=asked.peers, kept=asked.kept)
        for epsilon in EPSILONS:
            released = _ours_repeated(table, epsilon)
            for question in QUESTIONS:
                row = _row(table, epsilon, question, released, found)
                rows.append(row)
                if "ratio" in row.settings:
                    ratio = row.settings.get("ratio_by_formula", row.settings["ratio"])
                    ratios[question].append((ratio, row.what, row.holds))
    write("statistics", [*_largest(ratios), *rows])


def ours(
    above: NDArray[np.int64],
    below: NDArray[np.int64],
    *,
    low: int,
    high: int,
    width: int,
    epsilon: Fraction,
    source: RandomBytes,
) -> dict[str, Floats]:
    """Release counts, sums and means of each cell from one draw.

    With v = (clip(x) - low) / step in 0..width, above = sum of v and below = sum of (width - v): a row changes both
    by width in all, so noise of inverse scale epsilon / width on each is epsilon-DP.

        count = (A + B) / width,  sum = (high A + low B) / width,  mean = low + (high - low) A+ / (A+ + B+)

    Args:
        above: exact, shape (..., cells).
        below: exact, same shape.
        low: the lower clip.
        high: the upper clip.
        width: the number of steps from low to high.
        epsilon: of the whole query.
        source: uniform bytes.
    Returns:
        count, sum and mean, same shape; the mean lies within the clips, and is their middle where A+ = B+ = 0.
    Privacy: epsilon-DP under add/remove of one row.
    """
    noise = discrete_laplace(2 * above.size, inverse_scale=epsilon / width, source=source)
    noisy_above, noisy_below = np.stack([above, below]) + noise.reshape(2, *above.shape)
    positive_above, positive_both = (
        np.maximum(noisy_above, 0),
        np.maximum(noisy_above, 0) + np.maximum(noisy_below, 0),
    )
    share = np.where(positive_both > 0, positive_above / np.maximum(positive_both, 1), 0.5)
    return {
        "count": (noisy_above + noisy_below) / width,
        "sum": (high * noisy_above.astype(np.float64) + low * noisy_below) / width,
        "mean": low + (high - low) * share,
    }


def sum_alone(sums: NDArray[np.int64], *, reach: int, epsilon: Fraction, source: RandomBytes) -> Floats:
    """Release the sum of each cell by itself: a row changes it by `reach` at most; shape as `sums`.

    Privacy: epsilon-DP under add/remove of one row.
    """
    noise = discrete_laplace(sums.size, inverse_scale=epsilon / reach, source=source)
    return (sums + noise.reshape(sums.shape)).astype(np.float64)


def variances(
    moments: NDArray[np.int64], *, width: int, whole: int, epsilon: Fraction, source: RandomBytes
) -> Floats:
    """Release the variance of each cell from its moments: a row changes them by `whole` in all.

    Formula: width^2 (a c - b^2 / 4) / (a + b + c)^2 of noisy numbers, none below 0; from 0 to width^2 / 4.

    Args:
        moments: exact, shape (..., cells, 3).
        width: the number of steps from the lower clip to the upper one.
        whole: the steps that a row hands out.
        epsilon: of the whole query.
        source: uniform bytes.
    Returns:
        Floats: shape (..., cells); half of the largest where all numbers are 0.
    Privacy: epsilon-DP under add/remove of one row.
    """
    noise = discrete_laplace(moments.size, inverse_scale=epsilon / whole, source=source).reshape(moments.shape)
    parts = np.maximum(moments + noise, 0).astype(np.float64)
    total = parts.sum(axis=-1)
    low, between, high = np.moveaxis(parts / np.where(total > 0, total, 1.0)[..., None], -1, 0)
    return np.where(total > 0, np.clip(low * high - between**2 / 4, 0.0, 0.25), 0.125) * float(width) ** 2


def _ours_repeated(table: Measured, epsilon: str) -> Released:
    """Release a table many times, each time with noise of its own; a sum alone in the form that the product takes."""
    shape, exactly = (REPEATS, len(table.cells)), Fraction(epsilon)
    above, below = (np.broadcast_to(values, shape) for values in (table.above, table.below))
    bounds = {"low": table.low, "high": table.high, "width": table.width}
    joint = ours(above, below, **bounds, epsilon=exactly, source=SeededBytes(SEED))
    found = dict.fromkeys(("sum", "mean", "together"), joint)
    if may_stand_alone(table.lattice, 1):
        sums = np.broadcast_to(table.above + table.low * table.counts, shape)
        terms = {"epsilon": exactly, "source": SeededBytes(SEED)}
        found["sum"] = {"sum": sum_alone(sums, reach=LoneSum(table.lattice).reach, **terms)}
    moments, source = np.broadcast_to(table.moments, (*shape, 3)), SeededBytes(SEED)
    terms = {"width": table.width, "whole": table.form.whole}
    return found | {"variance": {"variance": variances(moments, **terms, epsilon=exactly, source=source)}}


def _error(noisy: Floats, exact: Floats) -> Error:
    """Return the root mean square, and how well the repeats tell it."""
    if not np.isfinite(noisy).all():
        return Error(inf, 0.0)
    squares = np.mean((noisy - exact) ** 2, axis=1)
    spread = np.std(squares, ddof=1) / sqrt(len(squares))
    return Error(float(sqrt(squares.mean())), float(spread / squares.mean() / 2))


def _row(
    table: Measured, epsilon: str, question: tuple[str, str], released: Released, found: Sequence[Answers]
) -> Row:
    """Compare one statistic, asked for in one way, with the best peer's."""
    mode, statistic = question
    exact, mine = table.exact[statistic], _error(released[mode][statistic], table.exact[statistic])
    theirs = {
        name: _error(values, exact) for asked in found for name, values in asked.of(mode, epsilon, statistic).items()
    }
    settings = _settings(table, epsilon, mode, found)
    settings |= {"expected": _alone(table, epsilon) if mode == "sum" else _expected(table, epsilon).get(statistic)}
    what = f"{table.name}, epsilon {epsilon}: RMSE of the {statistic} {TITLES[mode]}"
    unit = {"count": "rows", "variance": f"{table.unit}²"}.get(statistic, table.unit)
    if not theirs:
        return Row(what, mine.size, unit, settings=settings)
    best = min(theirs, key=lambda name: theirs[name].size)
    settings |= _comparison(mine, theirs[best], _expected_ratio(table, epsilon) if mode == "sum" else None)
    settings |= {"peers_rmse": {name: _written(error.size) for name, error in theirs.items()}}
    least, holds = theirs[best].size, settings["verdict"] != "larger"
    target: float | str = least
    if mode == "sum":
        target = f"by formula {_laplace_error(table, epsilon):.5g}, ours {_alone(table, epsilon):.5g}"
    return Row(what, mine.size, unit, target, holds, peer=f"{best}: {least:.4g}", settings=settings)


def _comparison(mine: Error, theirs: Error, by_formula: float | None) -> dict[str, Setting]:
    """Say whether our error is smaller, larger, or not to be told apart; a formula decides where there is one."""
    ratio = mine.size / theirs.size
    doubt = STANDARD_ERRORS * ratio * sqrt(mine.relative_error**2 + theirs.relative_error**2)
    larger = ratio > 1 + doubt if by_formula is None else by_formula > EQUAL
    verdict = "larger" if larger else "smaller" if ratio < 1 - doubt else "not to be told apart"
    found: dict[str, Setting] = {"ratio": round(ratio, 4), "three_standard_errors": round(doubt, 4)}
    return found | ({} if by_formula is None else {"ratio_by_formula": round(by_formula, 5)}) | {"verdict": verdict}


def _written(error: float) -> Setting:
    """Shorten an error; JSON has no infinity."""
    return float(f"{error:.5g}") if isfinite(error) else "infinite"


def _expected_ratio(table: Measured, epsilon: str) -> float:
    """Return our sum's error over that of Laplace noise on the sum itself."""
    return _alone(table, epsilon) / _laplace_error(table, epsilon)


def _laplace_error(table: Measured, epsilon: str) -> float:
    """Return the error of a sum alone as all peers release it: its largest summand is its sensitivity."""
    return sqrt(2) * max(abs(table.low), abs(table.high)) / float(epsilon)


def _alone(table: Measured, epsilon: str) -> float:
    """Return the error of a sum that is asked for by itself, in the form that the product takes."""
    if not may_stand_alone(table.lattice, 1):
        return _expected(table, epsilon)["sum"]
    r = exp(-float(epsilon) / LoneSum(table.lattice).reach)
    return sqrt(2 * r) / (1 - r)


def _expected(table: Measured, epsilon: str) -> dict[str, float]:
    """Return the errors of our count and sum that follow from the noise: of the mean there is no closed form."""
    r = exp(-float(epsilon) / table.width)
    deviation = sqrt(2 * r) / (1 - r) / table.width
    return {"count": sqrt(2) * deviation, "sum": sqrt(table.high**2 + table.low**2) * deviation}


def _settings(table: Measured, epsilon: str, mode: str, found: Sequence[Answers]) -> dict[str, Setting]:
    """Return what is needed to measure a row again."""
    about: dict[str, Setting] = {"rows": len(table.values), "cells": len(table.cells), "low": table.low}
    about |= {"high": table.high, "epsilon": float(epsilon), "mode": mode, "adjacency": "add_remove"}
    about |= {"repeats": REPEATS, "peers_repeats": {asked.peer.name: asked.peer.repeats for asked in found}}
    return machine("numpy") | about | {"peers": {asked.peer.name: dict(asked.report["versions"]) for asked in found}}


def _largest(ratios: Mapping[tuple[str, str], list[tuple[float, str, bool | None]]]) -> list[Row]:
    """Say of each question where we are worst beside the best peer."""
    rows = []
    for (mode, statistic), measured in ratios.items():
        if measured:
            ratio, where, _ = max(measured)
            how = ", by formula" if mode == "sum" else ""
            what = (
                f"the {statistic} {TITLES[mode]}: our RMSE over the best peer's, the largest of {len(measured)}{how}"
            )
            holds = all(each[2] for each in measured)
            settings: dict[str, Setting] = machine("numpy") | {
                "where": where,
                "ratios": [each[0] for each in measured],
            }
            rows.append(Row(what, ratio, "ratio", "1, up to its doubt", holds, settings=settings))
    return rows


def _arguments() -> argparse.Namespace:
    """Read where the data and the peers are."""
    parser = argparse.ArgumentParser(description="noisy counts, sums and means beside the peers")
    data, others = os.environ.get("SUDARE_BENCHMARK_DATA"), os.environ.get("SUDARE_BENCHMARK_PEERS")
    parser.add_argument("--data", type=Path, default=Path(data) if data else None, required=data is None)
    parser.add_argument("--peers", type=Path, default=Path(others) if others else None)
    parser.add_argument("--kept", type=Path, default=Path("build") / "statistics")
    return parser.parse_args()


if __name__ == "__main__":
    main()
