"""Every refinement beside no refinement at all, with the total estimated as releases do: is it ever worse?

    python -m benchmarks.refinement [--data DIR] [--draws 6]

`--data DIR`, or SUDARE_BENCHMARK_DATA, holds adult/, bank/ and nist_acs/.

First made-up tables of 2 to 10^6 cells under simplex, at ε from 0.01
to 10, beside the way that it replaces: a twentieth of ε for a total of its own, onto which the table is moved. Then
small tables of real data (one, two and three columns) under every method. Each table has a release of its own; errors
are means over the draws of a table's root mean square error. A method's regret is its error over that of the best
method for the table, no refinement included; that best one is found after the fact, so that regrets come out high.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import prod, sqrt
from pathlib import Path
from statistics import mean
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchmarks._neural_data import acs, adult, bank
from benchmarks._neural_tables import Number, Table
from benchmarks.results import Row, Setting, machine, write
from contracts.release.tables.tables import Refine
from privacy.accounting.events import CountNoise, DiscreteGaussian, DiscreteLaplace
from privacy.grant.sampled_noise import SampledNoise
from privacy.noise.random_bytes import SeededBytes
from privacy.refine.consistency import KnownTotal, MeasuredTable, refine_together
from privacy.refine.tables import NoisySum, estimate_total, refine_table, table_sum

SEED: Final = 20262
Counts = NDArray[np.int64]
SIZES: Final = (2, 6, 12, 100, 1000, 10_000, 100_000, 1_000_000)
EPSILONS: Final = (Fraction(1, 100), Fraction(1, 10), Fraction(1), Fraction(10))
ROWS: Final = 50_000
CELL_DRAWS: Final = 2_000_000
FEWEST_DRAWS: Final = 8
TOTAL_SHARE: Final = Fraction(1, 20)
"""What a measured total would take of the charge."""
STANDARD_ERRORS: Final = 5
REGRETS: Final = (1.03, 1.2)
MOST_CELLS: Final = 3000
TABLES: Final = 5
"""Of each file and number of columns."""
SIMPLEX: Final = Refine(method="simplex")
METHODS: Final = {
    "none": Refine(method="none"),
    "simplex": SIMPLEX,
    "negative_l2": Refine.model_validate({"method": "negative_l2", "lambda": "auto"}),
    "empirical_bayes": Refine(method="empirical_bayes"),
    "neighbourhood": Refine(method="neighbourhood"),
    "auto": Refine(method="auto"),
}
TOGETHER: Final = {
    "simplex, table by table": SIMPLEX,
    "simplex, consistent": Refine(method="simplex", consistent=True),
    "none, consistent": Refine(method="none", consistent=True, integers=False),
}
SMALL_COLUMN: Final = 10


@dataclass(frozen=True)
class Small:
    """A small table of real data, with its ordered axes."""

    truth: Counts
    ordered: tuple[int, ...]


def made_up(cells: int) -> dict[str, Counts]:
    """Tables of 50,000 rows or more: full, half empty, falling by Zipf's law, all rows in one cell."""
    place = np.arange(cells)
    falling = 1 / (1 + place)
    return {
        "full": np.full(cells, max(ROWS // cells, 1000)),
        "half empty": np.where(place % 2, 0, max(2 * ROWS // cells, 1)),
        "Zipf": np.rint(ROWS * falling / falling.sum()).astype(np.int64),
        "one cell": np.where(place, 0, ROWS),
    }


def noise(event: CountNoise, shape: tuple[int, ...], source: SeededBytes) -> Counts:
    """Draw the event's noise."""
    return SampledNoise(source).integers(prod(shape), event=event).reshape(shape)


def refined(
    noisy: Counts, terms: Refine, event: CountNoise, total: int | NoisySum, ordered: tuple[int, ...]
) -> Counts:
    """Refine as a release does: onto the average of its noisy sums, or onto a whole number."""
    possible = np.zeros(noisy.shape, np.bool_)
    made = refine_table(noisy, terms, impossible=possible, total=total, event=event, ordered=ordered)
    return np.asarray(made.values, np.int64)


def own_total(noisy: Counts, event: CountNoise) -> NoisySum:
    """Return the total that a release of this table alone estimates."""
    return estimate_total([table_sum(noisy, np.zeros(noisy.shape, np.bool_), event)])


def rmse(made: Counts, truth: Counts) -> float:
    """Root mean square error of one table [units]."""
    return float(np.sqrt(np.mean((made - truth) ** 2.0)))


def sizes(base: dict[str, Setting]) -> list[Row]:
    """Give, for each size and ε, the worst ratio of simplex to no refinement over the made-up tables."""
    rows = []
    for cells in SIZES:
        draws = max(FEWEST_DRAWS, min(400, CELL_DRAWS // cells))
        for epsilon in EPSILONS:
            found = {name: _simplex(truth, epsilon, draws) for name, truth in made_up(cells).items()}
            worst = max(found, key=lambda name: found[name][0])
            ratio = found[worst][0]
            settings: dict[str, Setting] = {"draws": draws, "seed": SEED, "worst table": worst}
            settings["measured total, ratios"] = {name: round(each[2], 3) for name, each in found.items()}
            settings["estimated total, ratios"] = {name: round(each[0], 3) for name, each in found.items()}
            what = (
                f"{cells:,} cells, epsilon {float(epsilon):g}: RMSE of simplex over no refinement, worst of 4 tables"
            )
            peer = f"a measured total: {max(each[2] for each in found.values()):.3f}"
            holds = all(each[1] <= STANDARD_ERRORS for each in found.values())
            target = f"<= 1 within {STANDARD_ERRORS} standard errors"
            rows.append(Row(what, round(ratio, 4), "x", target, holds, peer=peer, settings=base | settings))
    return rows


def _simplex(truth: Counts, epsilon: Fraction, draws: int) -> tuple[float, float, float]:
    """Return simplex over none, the excess in standard errors, and the same ratio with a measured total."""
    source, pairs, before = SeededBytes(SEED), [], []
    whole, less = DiscreteLaplace(epsilon, (1,)), DiscreteLaplace(epsilon * (1 - TOTAL_SHARE), (1,))
    alone = DiscreteLaplace(epsilon * TOTAL_SHARE, (1,))
    for _ in range(draws):
        noisy = truth + noise(whole, truth.shape, source)
        made = refined(noisy, SIMPLEX, whole, own_total(noisy, whole), ())
        pairs.append((rmse(made, truth), rmse(noisy, truth)))
        noisy = truth + noise(less, truth.shape, source)
        total = int(truth.sum() + noise(alone, (1,), source)[0])
        before.append(rmse(refined(noisy, SIMPLEX, less, total, ()), truth))
    refined_errors, raw = np.array(pairs).T
    if not raw.any():
        return 1.0 if not refined_errors.any() else float("inf"), 0.0, 1.0
    added = refined_errors - raw
    excess = float(added.mean() / max(added.std() / sqrt(draws), 1e-12))
    return float(refined_errors.mean() / raw.mean()), excess, float(mean(before) / raw.mean())


def real_tables(data: Path) -> dict[int, list[Small]]:
    """Take tables of one, two and three columns from each file, evenly over all that are small enough."""
    found: dict[int, list[Small]] = {1: [], 2: [], 3: []}
    for made in (adult(data), acs(data), bank(data)):
        for ways, tables in found.items():
            tables += list(_of(made, ways))
    return found


def _of(made: Table, ways: int) -> Iterator[Small]:
    """Count tables of one file."""
    sizes_of = {name: column.size for name, column in made.columns.items()}  # type: ignore[union-attr]
    fit = [names for names in combinations(sizes_of, ways) if prod(sizes_of[name] for name in names) <= MOST_CELLS]
    for names in fit[:: max(1, len(fit) // TABLES)][:TABLES]:
        yield _counted(made, names)


def _counted(made: Table, names: Sequence[str]) -> Small:
    """Count one table."""
    columns = [made.columns[name] for name in names]
    codes = [column.codes(made.values[name]) for name, column in zip(names, columns, strict=True)]  # type: ignore[union-attr]
    shape = tuple(column.size for column in columns)  # type: ignore[union-attr]
    truth = np.bincount(np.ravel_multi_index(codes, shape), minlength=prod(shape)).reshape(shape)
    ordered = tuple(place for place, column in enumerate(columns) if isinstance(column, Number))
    return Small(truth.astype(np.int64), ordered[-2:])


def methods(tables: dict[int, list[Small]], draws: int, base: dict[str, Setting]) -> list[Row]:
    """Compare every method with none, and `auto` with the best method for each table."""
    rows = []
    kinds: list[tuple[str, Callable[[], CountNoise]]] = [
        ("Laplace, epsilon 0.1", lambda: DiscreteLaplace(Fraction(1, 10), (1,))),
        ("Laplace, epsilon 1", lambda: DiscreteLaplace(Fraction(1), (1,))),
        ("Gaussian, sigma 5", lambda: DiscreteGaussian(Fraction(25), (1,))),
    ]
    for noise_name, event in kinds:
        every = []
        for ways, some in tables.items():
            found = [_errors(table, event(), draws) for table in some]
            every += found
            rows += _against_none(f"{ways}-way tables, {noise_name}", found, draws, base)
        rows += _regret(f"all small tables, {noise_name}", every, draws, base)
    return rows


def _errors(table: Small, event: CountNoise, draws: int) -> dict[str, float]:
    """Return the mean RMSE of each method that fits the table."""
    source = SeededBytes(SEED)
    fit = {name: terms for name, terms in METHODS.items() if name != "neighbourhood" or table.ordered}
    found: dict[str, list[float]] = {name: [] for name in fit}
    for _ in range(draws):
        noisy = table.truth + noise(event, table.truth.shape, source)
        total = own_total(noisy, event)
        for name, terms in fit.items():
            found[name].append(rmse(refined(noisy, terms, event, total, table.ordered), table.truth))
    return {name: mean(each) for name, each in found.items()}


def _against_none(title: str, found: Sequence[dict[str, float]], draws: int, base: dict[str, Setting]) -> list[Row]:
    """Give the mean ratio of each method's error to no refinement's, and the worst table's."""
    rows = []
    for name in METHODS:
        ratios = [errors[name] / errors["none"] for errors in found if name in errors]
        if name == "none" or not ratios:
            continue
        settings: dict[str, Setting] = {"tables": len(ratios), "draws": draws, "worst table": round(max(ratios), 3)}
        what = f"{title}: RMSE of {name} over no refinement, mean"
        rows.append(Row(what, round(mean(ratios), 4), "x", settings=base | settings))
    return rows


def _regret(title: str, found: Sequence[dict[str, float]], draws: int, base: dict[str, Setting]) -> list[Row]:
    """Give the regret of `auto`: mean, and of the worst table."""
    regrets = [errors["auto"] / min(error for name, error in errors.items() if name != "auto") for errors in found]
    settings = base | {"tables": len(regrets), "draws": draws}
    return [
        Row(
            f"{title}: {which} regret of auto", round(value, 4), "x", f"<= {most:g}", value <= most, settings=settings
        )
        for which, value, most in zip(("mean", "worst"), (mean(regrets), max(regrets)), REGRETS, strict=True)
    ]


def together(data: Path, draws: int, base: dict[str, Setting]) -> list[Row]:
    """Compare all two-way tables of six columns in one release: each by itself, and made consistent."""
    rows = []
    for made in (adult(data), acs(data), bank(data)):
        names = [name for name, column in made.columns.items() if column.size <= SMALL_COLUMN][:6]  # type: ignore[union-attr]
        cliques = list(combinations(names, 2))
        truths = [_counted(made, clique).truth for clique in cliques]
        event, source = DiscreteLaplace(Fraction(1, len(cliques)), (1,)), SeededBytes(SEED)
        found: dict[str, list[float]] = {name: [] for name in ("none", *TOGETHER)}
        for _ in range(draws):
            noisy = [truth + noise(event, truth.shape, source) for truth in truths]
            possible = [np.zeros(truth.shape, np.bool_) for truth in truths]
            kept = estimate_total(table_sum(*each, event) for each in zip(noisy, possible, strict=True))
            measured = [MeasuredTable(*each, event) for each in zip(cliques, noisy, possible, strict=True)]
            found["none"].append(_of_all(noisy, truths))
            for name, terms in TOGETHER.items():
                if terms.consistent:
                    tables = refine_together(measured, terms, total=KnownTotal(kept.value, None))
                    values = [table.values for table in tables]
                else:
                    values = [refined(each, terms, event, kept, ()) for each in noisy]
                found[name].append(_of_all(values, truths))
        for name in TOGETHER:
            what = f"{made.name}, 15 two-way tables, epsilon 1: RMSE of {name} over no refinement"
            ratio = mean(found[name]) / mean(found["none"])
            rows.append(Row(what, round(ratio, 4), "x", "<= 1", ratio <= 1, settings=base | {"draws": draws}))
    return rows


def _of_all(made: Sequence[NDArray[np.int64] | NDArray[np.float64]], truths: Sequence[Counts]) -> float:
    """Root mean square error over all cells of several tables [units]."""
    squares = [np.sum((values - truth) ** 2.0) for values, truth in zip(made, truths, strict=True)]
    return sqrt(float(sum(squares)) / sum(truth.size for truth in truths))


def arguments(description: str, *, draws: int) -> argparse.Namespace:
    """Read where the data are, and how many draws are made."""
    parser = argparse.ArgumentParser(description=description)
    named = os.environ.get("SUDARE_BENCHMARK_DATA")
    parser.add_argument("--data", type=Path, default=Path(named) if named else None)
    parser.add_argument("--draws", type=int, default=draws)
    return parser.parse_args()


def main() -> None:
    """Measure everything and write results/refinement.json."""
    asked, base = arguments("every refinement beside no refinement", draws=6), machine("numpy")
    rows = sizes(base)
    if asked.data is None:
        print("tables of real data are left out: no --data and no SUDARE_BENCHMARK_DATA")
    else:
        rows += methods(real_tables(asked.data), asked.draws, base) + together(asked.data, asked.draws, base)
    write("refinement", rows)


if __name__ == "__main__":
    main()
