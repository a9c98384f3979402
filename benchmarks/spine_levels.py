"""Counts by place, level by level: what shares allow, and what many releases show.

    python -m benchmarks.spine_levels [--releases 40]

Two questions about the nation of `_nation`:

1. At full size: how long is the interval of a cell of the largest table beside that of its own draw alone? Least
   squares has the least variance of all unbiased linear estimates (Gauss and Markov), so that no such estimate of the
   same draws has shorter ones. It needs no data: variances follow from the tree and the shares. Beside it the even
   split of a table over its levels, and how far its sum of variances over levels lies above the least of any split.
2. At 6,000 blocks, over many releases: which share of exact counts lies in its interval, by level and size class, and
   the error beside a baseline like TopDown's. Both with a standard error over releases: cells of one release share
   noise, and count as one observation. Noise is normal, rounded to whole numbers.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import sqrt
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from benchmarks._nation import CELLS, LEVELS, SHAPE, SIZES, cells_of, parents_of
from benchmarks._spine_baselines import from_the_top, own_measurements
from benchmarks.results import Row, Setting, machine, write
from privacy.refine.estimates import (
    LevelTable,
    MeasuredSpine,
    SpineEstimate,
    estimate_upwards,
    final_variances,
    implied_margins,
    row_totals,
    upward_variances,
)
from privacy.refine.place_counts import whole_counts
from privacy.refine.whole_counts import interval_ends, margin_deviations

SHARES: Final = (0.01, 0.01, 0.01, 0.27, 0.70)
"""Of a table over the levels, as `benchmarks.national_spine` has them."""
TABLES: Final = {(True, True, True): 0.8, (True, False, False): 0.1, (False, False, True): 0.1}
"""Shares of the tables, by the columns that they keep."""
RHO: Final = 0.075
"""About what epsilon 3 at delta 1e-10 is, under replace_one."""
SMALL: Final = (1, 47, 190, 2_000, 6_000)
CLASSES: Final = ((0, 0), (1, 9), (10, 99), (100, 999), (1000, 10**12))
FEWEST: Final = 200
"""Cells of a class in each release, from which on its coverage is told."""
SPREAD: Final = (1.0, 400.0)
"""People of a block: between these, evenly in logarithms; some blocks of a nation are empty, and a third here."""


def measured_at(
    sizes: Sequence[int],
    parents: Sequence[NDArray[np.int64]],
    shares: Sequence[float],
    exact: Sequence[NDArray[np.int64]] | None,
    totals: Mapping[int, NDArray[np.int64]],
    random: np.random.Generator,
) -> MeasuredSpine:
    """Return what would be drawn: noise about the exact counts, or zeros where only variances are asked for."""
    levels = []
    for level, size in enumerate(sizes):
        tables = []
        for kept, share in TABLES.items():
            variance = 1 / (RHO * share * shares[level])
            shape = (size, *(cells for cells, own in zip(SHAPE, kept, strict=True) if own))
            if exact is None:
                tables.append(LevelTable(np.broadcast_to(np.int64(0), shape), kept, variance))
                continue
            left_out = tuple(axis for axis, own in enumerate(kept, start=1) if not own)
            true = exact[level].reshape(size, *SHAPE).sum(axis=left_out)
            noise = np.rint(random.normal(0, sqrt(variance), shape)).astype(np.int64)
            tables.append(LevelTable(true + noise, kept, variance))
        levels.append(tuple(tables))
    margins = {level: row_totals(own, len(SHAPE)) for level, own in totals.items()}
    known = implied_margins(margins, parents)
    return MeasuredSpine(SHAPE, tuple(parents), tuple(sizes), tuple(levels), known)


def lengths(sizes: Sequence[int], shares: Sequence[float]) -> list[float]:
    """Return, by level, the deviation of a cell over that of its own draw; totals of regions are public."""
    random = np.random.default_rng(22)
    parents = parents_of(tuple(sizes), random)
    measured = measured_at(sizes, parents, shares, None, {1: np.ones(sizes[1], dtype=np.int64)}, random)
    estimate = SpineEstimate(measured, (), upward_variances(measured))
    ratios = []
    for level, variances in enumerate(final_variances(estimate)):
        mean = float(np.mean(margin_deviations(variances, SHAPE, (True, True, True)) ** 2))
        ratios.append(sqrt(mean / measured.tables[level][0].variance))
    return ratios


def over_the_least(shares: Sequence[float]) -> tuple[float, list[float]]:
    """Return the sum of variances over levels over the least of any split, in a tree of even families; that split."""
    families = [below / above for above, below in pairwise(SIZES)]

    def total(split: Any) -> float:
        own = 1 / split
        up = [float(own[-1])]
        for level in range(len(SIZES) - 2, -1, -1):
            up.insert(0, 1 / (1 / own[level] + 1 / (families[level] * up[0])))
        found = [up[0]]
        for level, family in enumerate(families, start=1):
            found.append(up[level] * (1 - 1 / family) + found[-1] / family**2)
        return sum(found)

    def split_of(logs: Any) -> Any:
        return np.asarray(np.exp(logs) / np.exp(logs).sum())

    minimize: Any = optimize.minimize
    options = {"maxiter": 20_000, "maxfev": 20_000, "xatol": 1e-9, "fatol": 1e-10}
    start = np.zeros(len(SIZES))
    best = minimize(lambda logs: total(split_of(logs)), start, method="Nelder-Mead", options=options)
    return total(np.asarray(shares)) / float(best.fun), split_of(best.x).tolist()


def one_release(
    exact: Sequence[NDArray[np.int64]], parents: Sequence[NDArray[np.int64]], random: np.random.Generator
) -> dict[str, float]:
    """Return coverage by level and class, and squared errors by level, ours and the baseline's."""
    totals = {1: exact[1].sum(axis=1)}
    measured = measured_at(SMALL, parents, SHARES, exact, totals, random)
    estimate, nobody = estimate_upwards(measured), [np.zeros((1, CELLS), dtype=np.bool_)] * len(LEVELS)
    spreads, total, found = final_variances(estimate), int(totals[1].sum()), dict[str, float]()
    for level, counts, values in whole_counts(estimate, total=total, impossible=nobody):
        truth, name = exact[level], LEVELS[level]
        deviations = margin_deviations(spreads[level], SHAPE, (True, True, True))[:, None]
        lower, upper = interval_ends(values, deviations, counts)
        holds = (lower <= truth) & (truth <= upper)
        for low, high in CLASSES:
            inside = (truth >= low) & (truth <= high)
            if inside.sum() >= FEWEST:
                found[f"{name}, counts from {low} to {high}"] = float(holds[inside].mean())
        found[f"ours {name}"] = float(np.mean((counts - truth) ** 2))
    for level, counts in enumerate(from_the_top(measured, *own_measurements(measured), total=total)):
        found[f"topdown {LEVELS[level]}"] = float(np.mean((counts - exact[level]) ** 2))
    return found


def people(random: np.random.Generator) -> NDArray[np.int64]:
    """Return how many people live in each block: a third is empty."""
    logs = np.log(SPREAD)
    found = np.exp(random.uniform(logs[0], logs[1], SMALL[-1])) * (random.random(SMALL[-1]) > 1 / 3)
    return np.rint(found).astype(np.int64)


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """Return a mean over releases and its standard error."""
    return float(np.mean(values)), float(np.std(values, ddof=1) / sqrt(len(values)))


def _over_releases(releases: int, base: dict[str, Setting]) -> list[Row]:
    random = np.random.default_rng(2026)
    parents = parents_of(SMALL, random)
    exact = [np.concatenate(list(cells_of(people(random), random))).astype(np.int64)]
    for parent in reversed(parents):
        exact.insert(0, np.add.reduceat(exact[0], np.flatnonzero(np.diff(parent, prepend=-1)), axis=0))
    found = [one_release(exact, parents, random) for _ in range(releases)]
    rows, settings = [], {**base, "blocks": SMALL[-1], "releases": releases}
    for name in found[0]:
        if "counts from" in name:
            share, error = mean_and_error([each[name] for each in found])
            told: dict[str, Setting] = {**settings, "standard error [%]": round(100 * error, 3)}
            told["deviation of one release [%]"] = round(100 * error * sqrt(releases), 2)
            # A shortfall is what four standard errors do not explain: less than 1e-4 of a class that has 95 %.
            holds = bool(share + 4 * error >= 0.95)
            rows.append(
                Row(f"{name}: 95 % intervals that hold", round(100 * share, 2), "%", 95.0, holds, settings=told)
            )
    for level in LEVELS:
        ours, theirs = (np.array([each[f"{who} {level}"] for each in found]) for who in ("ours", "topdown"))
        ratio = sqrt(ours.mean() / theirs.mean())
        # The delta method: the error of half the relative difference of two means over the same releases.
        apart = (ours - ours.mean()) / ours.mean() - (theirs - theirs.mean()) / theirs.mean()
        error = ratio / 2 * float(np.std(apart, ddof=1)) / sqrt(releases)
        told = {**settings, "standard error": round(error, 4)}
        most = 0.8 if level in ("city", "area") else 1.0
        what = f"{level}: RMSE over that like TopDown, over all releases"
        rows.append(Row(what, round(ratio, 4), "ratio", most, bool(ratio - 4 * error <= most), settings=told))
    return rows


def main() -> None:
    """Compute, simulate, print and write the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--releases", type=int, default=40)
    releases = parser.parse_args().releases
    base: dict[str, Setting] = {**machine("numpy", "scipy"), "rho": RHO}
    even, rows = [1 / len(SIZES)] * len(SIZES), []
    for name, shares in (("shares 1:1:1:27:70", SHARES), ("even shares", even)):
        for level, ratio in zip(LEVELS, lengths(SIZES, shares), strict=True):
            what = f"{name}, {level}: shortest interval that least squares allows, over a draw's own"
            target = 0.7 if level in LEVELS[:3] and shares is SHARES else None
            holds = None if target is None else ratio <= target
            rows.append(Row(what, round(ratio, 4), "ratio", target, holds, settings=base))
    over, best = over_the_least(even)
    told: dict[str, Setting] = {**base, "least": ", ".join(f"{share:.3f}" for share in best)}
    rows.append(
        Row(
            "even shares: sum of variances over levels, over the least",
            round(over, 4),
            "ratio",
            1.05,
            bool(over <= 1.05),
            settings=told,
        )
    )
    write("spine_levels", [*rows, *_over_releases(releases, base)])


if __name__ == "__main__":
    main()
