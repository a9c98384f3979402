"""How long a model takes to fit noisy pairs of Adult, cold and warm, at several noise levels and model sizes.

The nine categorical columns of Adult, all one-way tables, and the pairs furthest from independence until the model
reaches a size; Gaussian noise from a seed (nothing here is a release). Beside it stand plain and accelerated mirror
descent, on the same tables and marginals, until they have the misfit that the first temperature's answer has, or a
time limit passes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations
from time import perf_counter, process_time
from typing import Final, TypeVar

import numpy as np

from benchmarks._mirror_descent import accelerated, plain
from benchmarks._synthetic_data import Categorical, adult
from benchmarks.results import Row, Setting, machine, write
from contracts.contract.impossible_cells import Clique
from privacy.marginals.domain import CellDomain
from privacy.marginals.estimation import MarginalEstimate, estimate
from privacy.marginals.fit_objective import FitObjective
from privacy.marginals.measured import Measured, combine
from privacy.marginals.sampling import sample
from privacy.marginals.seeds import PostProcessingSeed
from privacy.marginals.triangulation import model_size

CASES: Final = ((5.0, 84.0), (5.0, 5.0), (5.0, 0.1), (80.0, 5.0))
Result = TypeVar("Result")
LIMIT: Final = 120.0
WARM_TARGET: Final = 1.0
ROWS: Final = 10_000_000


def main() -> None:
    """Measure every case and write results/estimation.json."""
    table = adult()
    rows: list[Row] = []
    for cap, sigma in CASES:
        rows += _case(table, cap, sigma)
    write("estimation", rows)


def _case(table: Categorical, cap: float, sigma: float) -> list[Row]:
    domain, measured = _measured(table, cap, sigma)
    total = len(table.codes)
    first, cold = _timed(lambda: estimate(domain, measured, total=total, steps=1))
    before = estimate(domain, measured[:-1], total=total, steps=1)
    _, warm = _timed(lambda: estimate(domain, measured, total=total, steps=1, start=before.model))
    last, final = _timed(lambda: estimate(domain, measured, total=total, start=first.model))
    pairs = list(combinations(domain.columns, 2))
    _, asked = _timed(lambda: last.model.marginals(pairs))
    settings: dict[str, Setting] = {
        "pairs": len(measured) - len(domain.columns),
        "model_mb": round(first.model.tree.size_mb, 1),
        "sigma": sigma,
        "converged": first.converged and last.converged,
        **machine("numpy"),
    }
    name = f"{settings['model_mb']} MB, sigma {sigma:g}"
    large = cap > 5
    found = [
        Row(f"one step, from nothing: {name}", cold, "s", settings=settings),
        Row(
            f"one step, after one more pair: {name}",
            warm,
            "s",
            None if large else WARM_TARGET,
            None if large else warm <= WARM_TARGET,
            settings=settings,
        ),
        Row(f"all steps, at the end: {name}", final, "s", settings=settings),
        Row(f"all 36 pairs of the model: {name}", asked, "s", settings=settings),
    ]
    if not large:
        found += _mirror_rows(domain, measured, first, cold, name, settings)
    if (cap, sigma) == CASES[0]:
        _, drawn = _timed(lambda: sample(last.model, ROWS, seed=PostProcessingSeed(1)))
        found.append(Row(f"sampling {ROWS:,} rows: {name}", drawn, "s", settings=settings))
    return found


def _mirror_rows(
    domain: CellDomain,
    measured: list[Measured],
    fit: MarginalEstimate,
    cold: float,
    name: str,
    settings: dict[str, Setting],
) -> list[Row]:
    methods: dict[str, Callable[[FitObjective], Iterator[float]]] = {"plain": plain, "accelerated": accelerated}
    rows = []
    for method, search in methods.items():
        objective = FitObjective(domain, combine(domain, measured), {}, fit.model.total)
        seconds, steps, loss = _until(search(objective), fit.loss)
        settings = {**settings, "steps": steps, "misfit": loss, "ours": fit.loss, "our_steps": fit.iterations}
        what = f"{method} mirror descent to the misfit of one step: {name}"
        rows.append(Row(what, seconds, "s", f"> {cold:.2f} (ours)", seconds > cold, settings=settings))
    return rows


def _until(losses: Iterator[float], goal: float) -> tuple[float, int, float]:
    """Return the seconds and steps until the misfit is at most the goal, or the limit."""
    start = process_time()
    for steps, loss in enumerate(losses, start=1):
        if loss <= goal or process_time() - start > LIMIT:
            return process_time() - start, steps, loss
    raise AssertionError("a descent does not end")


def _measured(table: Categorical, cap: float, sigma: float) -> tuple[CellDomain, list[Measured]]:
    """Return the noisy one-way tables and pairs."""
    columns = tuple(table.labels)
    domain = CellDomain(columns, tuple(len(labels) for labels in table.labels.values()))
    pairs = sorted(combinations(columns, 2), key=lambda pair: -_dependence(table, domain, pair))
    chosen: list[Clique] = []
    for pair in pairs:
        if model_size(domain, [*chosen, pair]) <= cap:
            chosen.append(pair)
    generator = np.random.default_rng(1)
    measured = []
    for clique in [*((column,) for column in columns), *chosen]:
        counts = _counts(table, domain, clique)
        noise = np.rint(generator.normal(0, sigma, counts.shape)).astype(np.int64)
        measured.append(Measured(clique, counts + noise, sigma**2))
    return domain, measured


def _counts(table: Categorical, domain: CellDomain, clique: Clique) -> np.ndarray:
    shape = domain.sizes(clique)
    codes = tuple(table.codes[:, domain.place(name)] for name in clique)
    return np.bincount(np.ravel_multi_index(codes, shape), minlength=int(np.prod(shape))).reshape(shape)


def _dependence(table: Categorical, domain: CellDomain, pair: Clique) -> float:
    """Return the L1 distance of a pair's counts from independence."""
    counts = _counts(table, domain, pair)
    return float(np.abs(counts - np.outer(counts.sum(axis=1), counts.sum(axis=0)) / counts.sum()).sum())


def _timed(work: Callable[[], Result]) -> tuple[Result, float]:
    start = perf_counter()
    return work(), perf_counter() - start


if __name__ == "__main__":
    main()
