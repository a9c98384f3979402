"""What the intervals of refined cells hold: over all cells, and over those of each size, on tables of known truth.

    python -m benchmarks.intervals [--mesh japan2020_mesh500m_pop.parquet] [--draws 100]

The national mesh may also be named by SUDARE_BENCHMARK_MESH; without it its rows are left out. Three kinds compete on
the same exact discrete Laplace noise of scale 1/ε a table: the published intervals, beside counts refined by `auto`;
noise alone, cut off at zero; and the parametric bootstrap from the fitted prior (of all cells, or of the cells
around). One draw of Adult is of all 28 two-way tables of eight of its columns.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations
from math import sqrt
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Final

import duckdb
import numpy as np
from numpy.typing import NDArray

from benchmarks._tables_data import national_mesh, simulated_mesh
from benchmarks.results import Row, Setting, machine, write
from contracts.contract.odcs import load_contract
from contracts.release.tables.tables import Refine
from contracts.sql.encoding import encode_select
from privacy.accounting.events import DiscreteLaplace
from privacy.noise.discrete_laplace import discrete_laplace
from privacy.noise.random_bytes import SeededBytes
from privacy.refine.empirical_bayes import empirical_bayes
from privacy.refine.intervals import CONFIDENCE, noise_intervals, refined_intervals
from privacy.refine.spatial import spatial_bayes
from privacy.refine.tables import estimate_total, refine_table, table_sum

SEED: Final = 20261
REPEATS: Final = 7
ADULT: Final = Path(__file__).parents[1] / "examples" / "adult"
ADULT_COLUMNS: Final = (
    "age", "education", "occupation", "marital-status", "workclass", "native-country", "capital-gain", "income",
)  # fmt: skip
SIZES: Final = (("0", 0, 1), ("1-9", 1, 10), ("10-99", 10, 100), ("100-", 100, None))
LEAST: Final = 0.93
STANDARD_ERRORS: Final = 4
Counts = NDArray[np.int64]
Ends = tuple[Counts, Counts]


@dataclass(frozen=True)
class Table:
    """A table whose exact counts are known, with its ordered axes."""

    truth: Counts
    ordered: tuple[int, ...]


@dataclass
class Tally:
    """Cells, cells whose interval holds the truth, and summed lengths, by size of the truth."""

    cells: dict[str, int] = field(default_factory=dict)
    held: dict[str, int] = field(default_factory=dict)
    length: dict[str, float] = field(default_factory=dict)

    def add(self, truth: Counts, ends: Ends) -> None:
        """Count one table."""
        lower, upper = ends
        held, length = (lower <= truth) & (truth <= upper), upper - lower
        for name, low, high in SIZES:
            inside = (truth >= low) if high is None else (truth >= low) & (truth < high)
            self.cells[name] = self.cells.get(name, 0) + int(inside.sum())
            self.held[name] = self.held.get(name, 0) + int(held[inside].sum())
            self.length[name] = self.length.get(name, 0.0) + float(length[inside].sum())

    @property
    def overall(self) -> float:
        """Share of all cells that are held."""
        return sum(self.held.values()) / sum(self.cells.values())

    def worst(self) -> tuple[str, float, float]:
        """Return the size that is held least: its name, the share, and the standard error of a share of 95 %."""
        found = {name: self.held[name] / cells for name, cells in self.cells.items() if cells}
        name = min(found, key=lambda size: found[size])
        return name, found[name], sqrt(CONFIDENCE * (1 - CONFIDENCE) / self.cells[name])

    def by_size(self) -> dict[str, Setting]:
        """Return cells, held [per cent] and mean length for each size."""
        return {
            name: [cells, round(100 * self.held[name] / cells, 2), round(self.length[name] / cells, 2)]
            for name, cells in self.cells.items()
            if cells
        }


def published(table: Table, noisy: Counts, event: DiscreteLaplace) -> Ends:
    """The intervals of a release of this table alone, beside counts refined by auto to the estimated total."""
    impossible = np.zeros(noisy.shape, np.bool_)
    made = refine_table(
        noisy,
        Refine(method="auto"),
        impossible=impossible,
        total=estimate_total([table_sum(noisy, impossible, event)]),
        event=event,
        ordered=table.ordered,
    )
    return made.intervals.lower, made.intervals.upper


def noise_alone(table: Table, noisy: Counts, event: DiscreteLaplace) -> Ends:
    """Noisy count plus or minus the reach of the noise, cut off at zero."""
    made = noise_intervals(noisy, event)
    return np.maximum(made.lower, 0), np.maximum(made.upper, 0)


def bootstrap(table: Table, noisy: Counts, event: DiscreteLaplace) -> Ends:
    """What the prior of all cells makes likely behind a noisy value."""
    return empirical_bayes(noisy, event).intervals()


def bootstrap_around(table: Table, noisy: Counts, event: DiscreteLaplace) -> Ends:
    """The same, given the cells around."""
    around = spatial_bayes(np.moveaxis(noisy, table.ordered, range(-len(table.ordered), 0)), event, axes=2)
    return around.intervals()


KINDS: Final[dict[str, Callable[[Table, Counts, DiscreteLaplace], Ends]]] = {
    "published": published,
    "noise alone, cut off at 0": noise_alone,
    "bootstrap, prior of all cells": bootstrap,
    "bootstrap, given the cells around": bootstrap_around,
}


def main() -> None:
    """Measure everything and write results/intervals.json."""
    asked = _arguments()
    base = machine("numpy", "cryptography", "duckdb")
    rows = _rows("64 x 64 mesh", [Table(simulated_mesh(64), (0, 1))], (0.1, 1.0, 10.0), asked.draws, base)
    rows += _rows("Adult, two-way tables", _adult(), (0.1, 1.0), 5, base)
    if asked.mesh is None:
        print("the national mesh is left out: no --mesh and no SUDARE_BENCHMARK_MESH")
    else:
        rows += _rows("national mesh", [Table(national_mesh(asked.mesh), (0, 1))], (0.1, 1.0), 1, base)
    write("intervals", [*rows, _seconds(base)])


def _rows(
    title: str, tables: list[Table], epsilons: tuple[float, ...], draws: int, base: dict[str, Setting]
) -> list[Row]:
    """Compare all kinds at each ε."""
    rows = []
    for epsilon in epsilons:
        tallies = {name: Tally() for name in KINDS if "around" not in name or len(tables) == 1}
        for table, noisy, event in _noisy(tables, epsilon, draws):
            for name, tally in tallies.items():
                tally.add(table.truth, KINDS[name](table, noisy, event))
        settings = base | {"draws": draws, "seed": SEED, "noise": f"discrete Laplace, scale 1/{epsilon:g}"}
        for name, tally in tallies.items():
            rows += _compared(f"{title}, epsilon {epsilon:g}, {name}", tally, settings, goal=name == "published")
    return rows


def _noisy(tables: list[Table], epsilon: float, draws: int) -> Iterator[tuple[Table, Counts, DiscreteLaplace]]:
    """Yield every table of every draw with its noise."""
    event, source = DiscreteLaplace(Fraction(str(epsilon)), (1,)), SeededBytes(SEED)
    for _ in range(draws):
        for table in tables:
            noise = discrete_laplace(table.truth.size, inverse_scale=event.inverse_scale, source=source)
            yield table, table.truth + noise.reshape(table.truth.shape), event


def _compared(title: str, tally: Tally, settings: dict[str, Setting], *, goal: bool) -> list[Row]:
    """Give the share of cells held, over all cells and over those of the size that is held least."""
    size, least, error = tally.worst()
    settings = settings | {"cells_held_percent_and_mean_length_by_size": tally.by_size()}
    return [
        Row(
            f"{title}: all cells held",
            round(100 * tally.overall, 2),
            "%",
            target=f">= {100 * LEAST:g}" if goal else None,
            holds=tally.overall >= LEAST if goal else None,
            settings=settings,
        ),
        Row(
            f"{title}: least held, cells of {size}",
            round(100 * least, 2),
            "%",
            target=f">= {100 * CONFIDENCE:g}, {STANDARD_ERRORS} standard errors" if goal else None,
            holds=least >= CONFIDENCE - STANDARD_ERRORS * error if goal else None,
            settings=settings | {"standard_error_percent": round(100 * error, 3)},
        ),
    ]


def _adult() -> list[Table]:
    """Count the two-way tables of the example."""
    contract = load_contract(ADULT / "adult.odcs.yaml")
    relation = f"(SELECT * FROM read_parquet('{ADULT / 'adult.parquet'}'))"
    with duckdb.connect() as connection:
        present = [line[0] for line in connection.execute(f"DESCRIBE {relation}").fetchall()]
        codes = connection.execute(encode_select(contract, columns_present=present, relation=relation)).fetchnumpy()
    tables = []
    for pair in combinations(ADULT_COLUMNS, 2):
        cells = np.ravel_multi_index([codes[name].astype(np.int64) for name in pair], contract.shape(pair))
        counts = np.bincount(cells, minlength=contract.cells(pair)).astype(np.int64)
        tables.append(Table(counts.reshape(contract.shape(pair)), contract.ordered_axes(pair)))
    return tables


def _seconds(base: dict[str, Setting]) -> Row:
    """Time the intervals of 4096 × 4096 cells."""
    event = DiscreteLaplace(Fraction(1, 10), (1,))
    noise = discrete_laplace(4096**2, inverse_scale=event.inverse_scale, source=SeededBytes(SEED))
    noisy = simulated_mesh(4096) + noise.reshape(4096, 4096)
    counts, impossible = np.maximum(noisy, 0), np.zeros(noisy.shape, np.bool_)
    taken = []
    for _ in range(REPEATS):
        start = perf_counter()
        refined_intervals(noisy, counts, event, impossible=impossible)
        taken.append(perf_counter() - start)
    settings = base | {"repeats": REPEATS, "statistic": "median"}
    seconds = median(taken)
    return Row("intervals of 16,777,216 cells", round(seconds, 3), "s", "<= 1", seconds <= 1, settings=settings)


def _arguments() -> argparse.Namespace:
    """Read where the mesh is and how many draws are wanted."""
    parser = argparse.ArgumentParser(description="what the intervals of refined cells hold")
    named = os.environ.get("SUDARE_BENCHMARK_MESH")
    parser.add_argument("--mesh", type=Path, default=Path(named) if named else None)
    parser.add_argument("--draws", type=int, default=100)
    return parser.parse_args()


if __name__ == "__main__":
    main()
