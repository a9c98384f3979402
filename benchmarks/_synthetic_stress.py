"""Rows whose label depends on many columns at once: what classifiers learn from ours, and from private evolution's.

Parities of 2 to 5 signs and three structural causal models (`benchmarks._stress_tables`), epsilon 1,
delta 1 / (n ln n) for n rows, as in the evaluation of Tab-PE. Private evolution is written anew after its description
(`benchmarks._private_evolution`), since its package is in no registry. Its rows are 1,000, ours as many as were read.
Ours see numbers in equal bins of their public range, and values are drawn uniformly from the bins. For
`private_evolution` the bins are finer, and lie in their order.

A figure is the accuracy on 5,000 other rows of numbers, of that of three learners which does best with the rows in
question: a random forest, 15 nearest neighbours, boosted trees.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import log, sqrt
from statistics import mean, stdev
from time import process_time
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from benchmarks._private_evolution import evolved
from benchmarks._stress_tables import KINDS, LABEL, ROWS, TEST_ROWS, Numbers, StressTable, causal, numbers_of, parity
from benchmarks._synthetic_bench import Bench
from benchmarks._synthetic_paper import EPSILON, TRIALS
from benchmarks.results import Row, Setting, machine

ORDERS: Final = (2, 3, 4, 5)
LOW_ORDER: Final = 3
"""The parity on which a degree that does not cover it is tried too."""
DELTA: Final = f"{1 / (ROWS * log(ROWS)):.3e}"
POPULATIONS_OF_PARITY: Final = 20
POPULATIONS_OF_CAUSAL: Final = 15
BINS_OF_PARITY: Final = 4
BINS_OF_CAUSAL: Final = 16
BINS_OF_EVOLUTION: Final = 64
"""Chosen on causal models of other seeds, with members and rounds; see docs/synthetic.md."""
EVOLUTION: Final = "private_evolution"
TRIALS_OF_CAUSAL: Final = 1
"""Of the others of ours."""
MOST_LEARNED: Final = 10_000
_DEVIATIONS: Final = 2.0
Wanted = dict[str, tuple[str, dict[str, Any], int]]
"""By name: the generator, its options, how many trials; the first stands beside the other private evolution, and so
does ours."""


@dataclass(frozen=True)
class Learned:
    """What classifiers reached with rows, trial by trial.

    Args:
        by_learner: accuracies of each learner.
        seconds: of processor, trial by trial.
    """

    by_learner: Mapping[str, list[float]]
    seconds: list[float]

    @property
    def best(self) -> list[float]:
        """Return the accuracies of the learner that does best on the mean."""
        return max(self.by_learner.values(), key=mean)

    @property
    def variance(self) -> float:
        """Return that of the mean of `best`: between trials, and for the rows that are tested, the same in all."""
        between = stdev(self.best) ** 2 / len(self.best) if len(self.best) > 1 else 0.0
        return between + mean(self.best) * (1 - mean(self.best)) / TEST_ROWS


def stress(bench: Bench) -> list[Row]:
    """All tables; ours must not be below private evolution by more than two standard errors of the difference."""
    rows = [row for order in ORDERS for row in of_parity(bench, order)]
    return rows + [row for kind in KINDS for row in of_causal(bench, kind)]


def of_parity(bench: Bench, order: int) -> list[Row]:
    """The parity of so many signs."""
    wanted: Wanted = {
        f"aim of degree {order + 1}": ("aim", {"degree": order + 1}, len(TRIALS)),
        f"privbayes of degree {order}": ("privbayes", {"degree": order}, 1),
        EVOLUTION: (EVOLUTION, {"label": LABEL, "rounds": POPULATIONS_OF_PARITY - 1}, len(TRIALS)),
    }
    if order == LOW_ORDER:
        wanted[f"aim of degree {order}"] = ("aim", {"degree": order}, 1)
    return _of_table(bench, parity(order), BINS_OF_PARITY, POPULATIONS_OF_PARITY, wanted)


def of_causal(bench: Bench, kind: str) -> list[Row]:
    """A structural causal model."""
    wanted: Wanted = {
        "aim of degree 3": ("aim", {"degree": 3}, TRIALS_OF_CAUSAL),
        "privbayes": ("privbayes", {}, 1),
        "mst": ("mst", {}, 1),
        "latent_factors": ("latent_factors", {}, 1),
        EVOLUTION: (EVOLUTION, {"label": LABEL}, len(TRIALS)),
    }
    return _of_table(bench, causal(kind), BINS_OF_CAUSAL, POPULATIONS_OF_CAUSAL, wanted)


def _of_table(bench: Bench, table: StressTable, bins: int, populations: int, wanted: Wanted) -> list[Row]:
    given: dict[str, Setting] = machine("sudare", "scikit-learn", "xgboost-cpu")
    given |= {"rows": ROWS, "epsilon": EPSILON, "delta": DELTA, "bins": bins, "populations": populations}
    real = _learned(lambda seed: (table.numbers, table.labels, 0.0), 1, table)
    other = _learned(lambda seed: _evolved(table, populations, seed), len(TRIALS), table)
    rows = [_row(table, "real rows", real, given), _row(table, "private evolution", other, given)]
    for name, (method, options, trials) in wanted.items():
        finer = BINS_OF_EVOLUTION if method == EVOLUTION else bins
        what = (finer, method, options)
        found = _learned(lambda seed, what=what: _ours(bench, table, seed, *what), trials, table)
        beside = other if name in (next(iter(wanted)), EVOLUTION) else None
        rows.append(_row(table, name, found, given | {"bins": finer}, beside))
        print(rows[-1].what, rows[-1].measured, "private evolution", rows[-1].peer, flush=True)
    return rows


def _row(
    table: StressTable, name: str, found: Learned, given: dict[str, Setting], other: Learned | None = None
) -> Row:
    reached = mean(found.best)
    settings = given | {each: list(trials) for each, trials in found.by_learner.items()}
    settings |= {"cpu_seconds": list(found.seconds)}
    what, unit = f"{table.name}, {name}: accuracy", "share of rows"
    if other is None:
        return Row(what, round(reached, 4), unit, settings=settings)
    target = mean(other.best)
    apart = sqrt(found.variance + other.variance)
    settings |= {"se_of_difference": round(apart, 4)}
    held = reached >= target - _DEVIATIONS * apart
    return Row(what, round(reached, 4), unit, round(target, 4), held, peer=round(target, 4), settings=settings)


def _learned(
    made: Callable[[int], tuple[Numbers, NDArray[np.int64], float]], trials: int, table: StressTable
) -> Learned:
    by_learner: dict[str, list[float]] = {name: [] for name in _learners()}
    seconds = []
    for seed in TRIALS[:trials]:
        numbers, labels, took = made(seed)
        kept = np.random.default_rng(seed).permutation(len(numbers))[:MOST_LEARNED]
        for name, learner in _learners().items():
            reached = learner.fit(numbers[kept], labels[kept]).predict(table.test_numbers) == table.test_labels
            by_learner[name].append(round(float(reached.mean()), 4))
        seconds.append(round(took, 2))
    return Learned(by_learner, seconds)


def _evolved(table: StressTable, populations: int, seed: int) -> tuple[Numbers, NDArray[np.int64], float]:
    begun = process_time()
    numbers, labels = evolved(table, populations, epsilon=float(EPSILON), delta=float(DELTA), seed=seed)
    return numbers, labels, process_time() - begun


def _ours(
    bench: Bench, table: StressTable, seed: int, bins: int, method: str, options: dict[str, Any]
) -> tuple[Numbers, NDArray[np.int64], float]:
    cells = table.binned(bins)
    terms: dict[str, Any] = {"epsilon": EPSILON, "delta": DELTA, "options": options}
    numbers = cells.columns[:-1] if method == EVOLUTION else ()
    made = bench.runs.ours(method, cells, seed=seed, numbers=numbers, **terms)
    codes = made.rows.codes.astype(np.int64)
    return numbers_of(codes[:, :-1], bins, seed), codes[:, -1], float(made.report["cpu_seconds"])


def _learners() -> dict[str, Any]:
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.neighbors import KNeighborsClassifier
    from xgboost import XGBClassifier

    return {
        "random forest": RandomForestClassifier(50, random_state=0, n_jobs=1),
        "15 nearest neighbours": KNeighborsClassifier(15),
        "boosted trees": XGBClassifier(random_state=0, n_jobs=1),
    }
