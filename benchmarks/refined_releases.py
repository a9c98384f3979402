"""All two-way tables of a public file in one release with Gaussian noise: does `refine: auto` make any worse?

    python -m benchmarks.refined_releases [--data DIR] [--draws 20]

`--data DIR`, or SUDARE_BENCHMARK_DATA, holds adult/ and nist_acs/. Columns of more than 20 values are cut at their
quantiles, which is fine for a public file. All tables share rho = 1/57, about (1, 1e-6), and the total is estimated
from all of them. A table counts as worse where its mean squared error over the draws is above 1.01² times that of its
noise by more than three standard errors. Then the processor time of a table, beside that of the choice of one method,
which is what `auto` is with Laplace noise.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable, Mapping
from fractions import Fraction
from itertools import combinations
from math import sqrt
from pathlib import Path
from time import process_time
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.refinement import SEED, Counts, arguments, noise, refined
from benchmarks.results import Row, Setting, machine, write
from contracts.release.tables.tables import Refine
from privacy.accounting.events import DiscreteGaussian
from privacy.noise.random_bytes import SeededBytes
from privacy.refine.methods import CellEvidence, best_method, estimate
from privacy.refine.tables import estimate_total, table_sum

MOST_VALUES: Final = 20
POOLED: Final = {"adult/adult_full": 0.78, "nist_acs/national2019": 0.735, "nist_acs/ma2019": 0.645}
"""Files, and the most that the RMSE of `auto` over none may be in all their tables together."""
METHODS: Final = {name: Refine.model_validate({"method": name}) for name in ("auto", "simplex", "empirical_bayes")}
SIDES: Final = ((6, 6), (30, 30), (100, 100), (300, 400), (1000, 1000))
TIMES: Final = {10_000: 5.0, 1_000_000: 2.0}
"""Cells up to which time may grow so many times."""


def codes_of(path: Path) -> dict[str, Counts]:
    """Read each column of a file as codes of at most about 20 values."""
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return {name: _codes([row[name] for row in rows]) for name in rows[0]}


def _codes(texts: list[str]) -> Counts:
    names, codes = np.unique(np.array(texts), return_inverse=True)
    numbers = np.array([_number(name) for name in names.tolist()])[codes]
    known = ~np.isnan(numbers)
    if names.size > MOST_VALUES and known.mean() > 0.2:
        edges = np.unique(np.quantile(numbers[known], np.linspace(0, 1, 11)))
        bins = np.where(known, np.searchsorted(edges, numbers, side="right"), edges.size + 1)
        codes = np.unique(bins, return_inverse=True)[1]
    return codes.astype(np.int64)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")


def count(codes: Mapping[str, Counts], pair: tuple[str, str]) -> Counts:
    """Return the two-way table of a pair of columns."""
    first, second = (codes[name] for name in pair)
    shape = int(first.max()) + 1, int(second.max()) + 1
    return np.bincount(np.ravel_multi_index((first, second), shape), minlength=shape[0] * shape[1]).reshape(shape)


def squared_errors(truths: list[Counts], draws: int) -> dict[str, NDArray[np.float64]]:
    """Return the mean squared errors of each method, and of none, shape (tables, draws)."""
    event, source = DiscreteGaussian(Fraction(len(truths) * 57, 2), (1,)), SeededBytes(SEED)
    errors = {name: np.zeros((len(truths), draws)) for name in ("none", *METHODS)}
    for draw in range(draws):
        noisy = [truth + noise(event, truth.shape, source) for truth in truths]
        total = estimate_total(table_sum(each, np.zeros(each.shape, np.bool_), event) for each in noisy)
        for at, (truth, each) in enumerate(zip(truths, noisy, strict=True)):
            made = {name: refined(each, terms, event, total, ()) for name, terms in METHODS.items()}
            for name, values in (made | {"none": each}).items():
                errors[name][at, draw] = np.mean((values - truth) ** 2.0)
    return errors


def release(name: str, truths: list[Counts], draws: int, base: dict[str, Setting]) -> list[Row]:
    """Give the rows of one file."""
    errors = squared_errors(truths, draws)
    excess = errors["auto"] - 1.01**2 * errors["none"]
    worse = int(np.sum(excess.mean(axis=1) > 3 * excess.std(axis=1, ddof=1) / sqrt(draws)))
    ratios = {each: np.sqrt(found.mean(axis=1) / errors["none"].mean(axis=1)) for each, found in errors.items()}
    over = ratios["auto"] / np.minimum.reduce([ratios[each] for each in ("none", "simplex", "empirical_bayes")])
    pooled = {each: sqrt(found.mean() / errors["none"].mean()) for each, found in errors.items()}
    settings = base | {"draws": draws, "seed": SEED, "worst table": round(float(ratios["auto"].max()), 3)}
    peer = f"simplex {pooled['simplex']:.3f}, empirical Bayes {pooled['empirical_bayes']:.3f}"
    title = f"{name.split('/')[1]}, {len(truths)} two-way tables, epsilon 1"
    figures = [
        ("tables that auto makes worse than their noise", worse, "tables", 0.0, None),
        ("RMSE of auto over that of the noise, all tables", pooled["auto"], "x", POOLED[name], peer),
        ("RMSE of auto over the best method's, mean", float(over.mean()), "x", 0.98, None),
        ("RMSE of auto over the best method's, 95 % of the tables", float(np.quantile(over, 0.95)), "x", 1.12, None),
    ]
    return [
        Row(f"{title}: {what}", round(found, 4), unit, f"<= {most:g}", found <= most, peer=other, settings=settings)
        for what, found, unit, most, other in figures
    ]


def times(base: dict[str, Setting]) -> list[Row]:
    """Give the time of `auto` for one table beside that of the choice of one method, which it replaces."""
    rows, auto, event = [], METHODS["auto"], DiscreteGaussian(Fraction(3000), (1,))
    for shape in SIDES:
        falling = np.outer(*(1 / np.arange(1, side + 1) for side in shape))
        truth = np.rint(1_000_000 * falling / falling.sum()).astype(np.int64)
        noisy = truth + noise(event, shape, SeededBytes(SEED))
        cells = CellEvidence(noisy, np.zeros(shape, np.bool_), event, (), int(truth.sum()), estimated=True)
        ways: tuple[Callable[[], object], ...] = (lambda: estimate(cells, auto), lambda: best_method(cells, auto))  # noqa: B023
        found = [min(_seconds(way) for _ in range(7)) for way in ways]
        most = next(times for up_to, times in TIMES.items() if noisy.size <= up_to)
        ratio, what = found[0] / found[1], f"{noisy.size:,} cells: time of auto over that of the best method's choice"
        peer = f"{found[0]:.3f} s, {found[1]:.3f} s"
        rows.append(Row(what, round(ratio, 3), "x", f"<= {most:g}", ratio <= most, peer=peer, settings=base))
    return rows


def _seconds(way: Callable[[], object]) -> float:
    start = process_time()
    way()
    return process_time() - start


def main() -> None:
    """Measure everything and write results/refined_releases.json."""
    asked, base = arguments("whole releases with Gaussian noise, refined by auto", draws=20), machine("numpy")
    rows = times(base)
    for name in POOLED if asked.data else ():
        codes = codes_of(asked.data / f"{name}.csv.gz")
        rows += release(name, [count(codes, pair) for pair in combinations(codes, 2)], asked.draws, base)
    write("refined_releases", rows)


if __name__ == "__main__":
    main()
