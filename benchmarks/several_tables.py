"""Releases of several tables beside no refinement: is whole numbers on a shared total ever worse?

    python -m benchmarks.several_tables

Tables of one release keep the average of their sums where they gain (privacy/refine/tables). Measured on made-up
tables of the same rows: releases of two to six tables, of 2 to 10^6 cells, at ε from 0.01 to 10 per table; then
tables that are made to agree, and the levels of a hierarchy, which have to add up in whole numbers whatever that
costs. A row gives the worst ratio of root mean square errors over three or four kinds of tables: of a release, its
tables counting the same, or of each level. It holds where none is above 1 by more than 5 standard errors. Neighbours
that replace a row have the noise of half the ε.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from itertools import combinations
from math import sqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.refinement import SEED, STANDARD_ERRORS, Counts, made_up, noise
from benchmarks.results import Row, Setting, machine, write
from contracts.release.tables.tables import Refine
from privacy.accounting.events import CountNoise, DiscreteGaussian, DiscreteLaplace
from privacy.noise.random_bytes import SeededBytes
from privacy.refine.consistency import KnownTotal, MeasuredTable, MeasuredTree, refine_together, refine_tree
from privacy.refine.hierarchy import quadtree, split_budget
from privacy.refine.tables import estimate_total, refine_table, table_sum

RELEASES: Final = ((6, 6), (12, 12, 12), (16,) * 6, (100,) * 3, (2, 1000), (1000, 10_000), (1000, 1_000_000))
EPSILONS: Final = tuple(map(Fraction, ("1/100", "1/10", "1", "3", "10")))
SIGMAS_SQUARED: Final = tuple(map(Fraction, ("1/5", "2", "200")))
CELL_DRAWS: Final = 600_000
FEWEST_DRAWS: Final = 10
MOST_DRAWS: Final = 100
SIDE: Final = 8
DEPTH: Final = 2
Errors = NDArray[np.float64]
"""Mean squared errors of one draw, two a table: refined, and as it was measured."""


def several(base: dict[str, Setting]) -> list[Row]:
    """Give the rows of releases whose tables are refined one by one."""
    kinds: list[tuple[str, CountNoise, bool]] = [
        *((f"epsilon {float(each):g}", DiscreteLaplace(each, (1,)), True) for each in EPSILONS),
        *((f"sigma² {float(each):g}", DiscreteGaussian(each, (1,)), True) for each in SIGMAS_SQUARED),
        *((f"epsilon {each}, fractions", DiscreteLaplace(Fraction(each), (1,)), False) for each in (1, 10)),
    ]
    rows = []
    for cells in RELEASES:
        draws = max(FEWEST_DRAWS, min(MOST_DRAWS, CELL_DRAWS // sum(cells)))
        for name, event, integers in kinds:
            terms = Refine(method="simplex", integers=integers)
            found = {
                kind: _drawn(lambda source: one_by_one(truths, event, terms, source), draws)  # noqa: B023
                for kind, truths in _same_rows(cells).items()
            }
            title = f"tables of {', '.join(f'{each:,}' for each in cells)} cells, {name}: simplex over no refinement"
            rows.append(_row(title, found, base | {"draws": draws}))
    return rows


def _same_rows(cells: Sequence[int]) -> dict[str, list[Counts]]:
    """Give made-up tables of several sizes and as many rows: the first cell takes what is missing."""
    tables: dict[str, list[Counts]] = {}
    for name in made_up(cells[0]):
        truths = [made_up(each)[name].astype(np.int64) for each in cells]
        most = max(int(truth.sum()) for truth in truths)
        for truth in truths:
            truth[0] += most - int(truth.sum())
        tables[name] = truths
    return tables


def one_by_one(truths: Sequence[Counts], event: CountNoise, terms: Refine, source: SeededBytes) -> Errors:
    """Measure the tables of a release once, and refine each as the release does."""
    noisy = [truth + noise(event, truth.shape, source) for truth in truths]
    zeros = [np.zeros(truth.shape, np.bool_) for truth in truths]
    shared = estimate_total(table_sum(*each, event) for each in zip(noisy, zeros, strict=True))
    made = [
        refine_table(values, terms, impossible=impossible, total=shared, event=event, ordered=()).values
        for values, impossible in zip(noisy, zeros, strict=True)
    ]
    return _squared(made, noisy, truths)


def agreeing(base: dict[str, Setting]) -> list[Row]:
    """Give the rows of tables that are made to agree: on columns that they share, or on the total alone."""
    place = np.indices((4, 4, 4)).sum(axis=0)
    cubes = {"full": np.full(place.shape, 1000), "one cell": np.where(place, 0, 50_000)}
    pairs = list(combinations(range(3), 2))
    sharing = {name: [cube.sum(axis=3 - sum(pair)) for pair in pairs] for name, cube in cubes.items()}
    apart = {name: [truth.reshape(-1) for truth in truths] for name, truths in sharing.items()}
    layouts = {
        "that share columns": (sharing, [tuple("ABC"[axis] for axis in pair) for pair in pairs]),
        "without a common column": (apart, [("A",), ("B",), ("C",)]),
    }
    rows = []
    for layout, (tables, cliques) in layouts.items():
        for epsilon in (*EPSILONS[1:4], Fraction(5)):
            for integers in (True, False):
                event = DiscreteLaplace(epsilon, (1,))
                terms = Refine(method="simplex", consistent=True, integers=integers)
                found = {
                    name: _drawn(lambda source: together(truths, cliques, event, terms, source), MOST_DRAWS)  # noqa: B023
                    for name, truths in tables.items()
                }
                counts = "" if integers else ", fractions"
                of = f"3 tables of 16 cells {layout}, epsilon {float(epsilon):g}{counts}"
                rows.append(
                    _row(f"{of}: simplex, consistent over no refinement", found, base | {"draws": MOST_DRAWS})
                )
    return rows


def together(
    truths: Sequence[Counts],
    cliques: Sequence[tuple[str, ...]],
    event: CountNoise,
    terms: Refine,
    source: SeededBytes,
) -> Errors:
    """Measure the tables of a release once, and make them agree."""
    noisy = [truth + noise(event, truth.shape, source) for truth in truths]
    zeros = [np.zeros(truth.shape, np.bool_) for truth in truths]
    measured = [MeasuredTable(*each, event) for each in zip(cliques, noisy, zeros, strict=True)]
    total = estimate_total(table_sum(*each, event) for each in zip(noisy, zeros, strict=True)).value
    made = refine_together(measured, terms, total=KnownTotal(total, None))
    return _squared([each.values for each in made], noisy, truths)


def levels(base: dict[str, Setting]) -> list[Row]:
    """Give the rows of a mesh in three levels: each level beside its own noisy counts."""
    parents = quadtree(SIDE, SIDE, DEPTH)
    sizes = [parents[0].max() + 1, *(each.size for each in parents)]
    shares = split_budget(sizes, weights=[1.0] * len(sizes), noise="laplace", total_known=False)
    meshes = {name: table.reshape(SIDE, SIDE) for name, table in made_up(SIDE * SIDE).items() if name != "Zipf"}
    rows = []
    for epsilon in (*EPSILONS[1:3], Fraction(5), Fraction(10)):
        events = [DiscreteLaplace(epsilon * share, (1,)) for share in shares]
        for integers in (True, False):

            def made(
                mesh: Counts, source: SeededBytes, events: Sequence[CountNoise] = events, integers: bool = integers
            ) -> Errors:
                truths = [mesh.reshape(-1)]
                for parent in reversed(parents):
                    truths.insert(0, np.bincount(parent, weights=truths[0]).astype(np.int64))
                noisy = [truth + noise(each, truth.shape, source) for truth, each in zip(truths, events, strict=True)]
                zeros = [np.zeros(truth.shape, np.bool_) for truth in truths]
                tree = refine_tree(MeasuredTree(noisy, zeros, events, parents), total=None, integers=integers)
                return _squared([*(each.values for each in tree.coarser), tree.values], noisy, truths)

            found = {
                name: _drawn(lambda source: made(table, source), MOST_DRAWS)  # noqa: B023
                for name, table in meshes.items()
            }
            counts = "" if integers else ", fractions"
            mesh = f"{SIDE} x {SIDE} in {len(sizes)} levels, epsilon {float(epsilon):g}{counts}"
            title = f"{mesh}: hierarchy over no refinement"
            rows.append(_row(title, found, base | {"draws": MOST_DRAWS}, alone=True))
    return rows


def _squared(made: Iterable[NDArray[np.int64] | Errors], noisy: Sequence[Counts], truths: Sequence[Counts]) -> Errors:
    """Return the mean squared errors of each table, refined and noisy, shape (2, tables)."""
    pairs = [
        (np.mean((values - truth) ** 2.0), np.mean((raw - truth) ** 2.0))
        for values, raw, truth in zip(made, noisy, truths, strict=True)
    ]
    return np.array(pairs).T


def _drawn(made: Callable[[SeededBytes], Errors], draws: int) -> Errors:
    """Repeat a release; shape (draws, 2, tables)."""
    source = SeededBytes(SEED)
    return np.array([made(source) for _ in range(draws)])


def _row(title: str, found: dict[str, Errors], base: dict[str, Setting], *, alone: bool = False) -> Row:
    """Give the worst ratio over the kinds of tables: of whole releases, or of each table (level) alone."""
    ratios: dict[str, float] = {}
    worst_excess = 0.0
    for name, errors in found.items():
        parts = range(errors.shape[2])
        for chosen, of in (
            [([part], f"{name}, level {part + 1}") for part in parts] if alone else [(list(parts), name)]
        ):
            refined, raw = errors[:, 0, chosen].mean(axis=1), errors[:, 1, chosen].mean(axis=1)
            ratios[of] = _ratio(float(refined.mean()), float(raw.mean()))
            worst_excess = max(worst_excess, _excess(refined - raw))
    worst = max(ratios, key=lambda name: ratios[name])
    settings: dict[str, Setting] = {
        "seed": SEED,
        "worst table": worst,
        "standard errors above 1": round(worst_excess, 1),
    }
    settings["ratios"] = {name: round(ratio, 3) for name, ratio in ratios.items()}
    target = f"<= 1 within {STANDARD_ERRORS} standard errors"
    holds = worst_excess <= STANDARD_ERRORS
    return Row(
        f"{title}, RMSE, worst of {len(ratios)}",
        round(ratios[worst], 4),
        "x",
        target,
        holds,
        settings=base | settings,
    )


def _ratio(refined: float, raw: float) -> float:
    """Return the ratio of root mean square errors; 1 where no noise was drawn and nothing was changed."""
    return sqrt(refined / raw) if raw else 1.0 if not refined else float("inf")


def _excess(added: NDArray[np.float64]) -> float:
    """Return by how many of its standard errors the mean lies above 0."""
    return float(added.mean() / max(added.std() / sqrt(added.size), 1e-12))


def main() -> None:
    """Measure everything and write results/several_tables.json."""
    base = machine("numpy")
    write("several_tables", [*several(base), *agreeing(base), *levels(base)])


if __name__ == "__main__":
    main()
