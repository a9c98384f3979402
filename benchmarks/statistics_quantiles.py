"""Noisy quantiles by region and sex, and over all rows, beside OpenDP and PipelineDP.

    python -m benchmarks.statistics_quantiles --data DIR --peers DIR [--kept DIR]

The median, 0.1 and 0.9 of three columns: asked for together, and the median alone, each with all of epsilon. All get
the same rows, keys, bounds and epsilon; the unit is one row, added or removed. Peers and repeats are in each row.
The error is the root mean square over cells and repeats, against the exact quantile of the clipped values; beside it
stands that of the rank, by which the values of so many rows would have to be moved. Ours pays for 95 % intervals and
counts from the same epsilon, which no peer gives, by the method that `auto` takes. OpenDP is asked twice, with about
1,024 candidates at even distances and with round ones (each hour, each 100 USD); the best of all is chosen row by
row. SmartNoise SQL 1.0.10 has no quantiles.

A row holds where our error is no larger than the best peer's, up to three standard errors of their ratio.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from math import inf
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from benchmarks._quantiles_peers import Answers, answers
from benchmarks._statistics_data import Measured, tables
from benchmarks.results import Row, Setting, machine, write
from benchmarks.statistics import Error, _comparison, _error, _written
from contracts.domains.lattice import ValueLattice
from contracts.domains.trees import QuantileChoices, ValueTree, usual_resolution
from privacy.grant.queries.quantile_choice import base_rate, chosen_quantiles
from privacy.grant.sampled_noise import SampledNoise
from privacy.marginals.cell_sums import cell_sum_event
from privacy.marginals.sensitivity import LaplaceNoise
from privacy.noise.random_bytes import SecureBytes
from privacy.statistics.estimates import Estimates
from privacy.statistics.quantiles import ChosenQuantiles, choice_rank_error, estimate_quantiles, tree_rank_error

EPSILONS: Final = ("0.1", "1")
REPEATS: Final = 100
COLUMNS: Final = ("Adult hours-per-week", "Adult capital-gain", "ACS income")
SHARES: Final = {"q10": Decimal("0.1"), "q50": Decimal("0.5"), "q90": Decimal("0.9")}
MODES: Final = {"three": ("q10", "q50", "q90"), "alone-q50": ("q50",)}
TITLES: Final = {"three": "of three quantiles together", "alone-q50": "alone"}
METHODS: Final = ("exponential", "tree", "exponential alone")
CHOICE_SHARES: Final = {"exponential": Fraction(3, 4), "tree": Fraction(0), "exponential alone": Fraction(99, 100)}
"""What choices get of the charge; what intervals get is the rest: usually a quarter, the least is a hundredth."""
PRICES: Final = {
    "verdict": "intervals having a quarter of the charge where quantiles are chosen",
    "verdict_beside_short_intervals": "intervals having a hundredth of it",
}
"""What is said of the rows, by what the intervals cost."""
Floats = NDArray[np.float64]


def main() -> None:
    """Measure everything and write results/statistics_quantiles.json."""
    asked = _arguments()
    rows: list[Row] = []
    for table in (each for each in tables(asked.data) if each.name in COLUMNS):
        together = ("all",) * len(table.values)
        for grouped in (replace(table, name=f"{table.name} overall", regions=together, sexes=together), table):
            found = answers(grouped, EPSILONS, peers=asked.peers, kept=asked.kept)
            for mode, names in MODES.items():
                for epsilon in EPSILONS:
                    ours = {method: ours_repeated(grouped, names, epsilon, method) for method in METHODS}
                    rows += [_row(grouped, mode, epsilon, name, ours, found) for name in names]
                    print(rows[-1].what, rows[-1].measured, rows[-1].peer, rows[-1].holds, flush=True)
    write("statistics_quantiles", [*(_misses(rows, key) for key in PRICES), *rows])


def _misses(rows: list[Row], key: str) -> Row:
    """Count the rows in which the best peer errs less, whatever our intervals cost."""
    larger = [row.what for row in rows if row.settings[key] == "larger"]
    what = f"rows of {len(rows)} in which our error is larger, {PRICES[key]}"
    return Row(what, float(len(larger)), "rows", 0.0, not larger, settings={"rows": [*larger]})


def ours_repeated(table: Measured, names: tuple[str, ...], epsilon: str, method: str) -> dict[str, Estimates]:
    """Release the quantiles many times; shape (repeats, cells) each, by name."""
    lattice = ValueLattice("value", Decimal(table.low), Decimal(table.high), Decimal(1), counts_missing=False)
    tree, shares = ValueTree(lattice, usual_resolution(lattice)), _shares(names)
    share = CHOICE_SHARES[method]
    noise, relation = SampledNoise(SecureBytes()), {"adjacency": "add_remove", "rows_per_unit": 1}
    event = cell_sum_event(LaplaceNoise(Fraction(epsilon) * (1 - share)), tree, **relation)  # type: ignore[arg-type]
    exact = np.stack([_tree_counts(values - table.low, tree) for values in cell_values(table)])
    noisy = np.tile(exact, (REPEATS, 1, 1))
    noisy = noisy + noise.integers(noisy.size, event=event).reshape(noisy.shape)
    found = estimate_quantiles(noisy, tree, shares, event=event, confidence=0.95)
    if share:
        choices = QuantileChoices(lattice, shares)
        base = base_rate(choices, Fraction(epsilon) * share, **relation)  # type: ignore[arg-type]
        cells = [np.unique(values - table.low, return_counts=True) for values in cell_values(table)]
        chosen = np.array(
            [[chosen_quantiles(choices, *each, base=base, noise=noise) for each in cells] for _ in range(REPEATS)]
        )
        found = ChosenQuantiles(chosen, choices).placed(found, shares)
    return dict(zip(names, found, strict=True))


def cell_values(table: Measured) -> list[NDArray[np.int64]]:
    """Return the clipped values of each cell, ascending."""
    clipped = np.clip(table.values, table.low, table.high)
    keys = np.array(["\t".join(each) for each in zip(table.regions, table.sexes, strict=True)])
    return [np.sort(clipped[keys == "\t".join(cell)]) for cell in table.cells]


def _tree_counts(offsets: NDArray[np.int64], tree: ValueTree) -> NDArray[np.int64]:
    firsts = np.array([tree.first(leaf) for leaf in range(tree.leaves)])
    leaves = np.bincount(np.searchsorted(firsts, offsets, side="right") - 1, minlength=tree.leaves)
    levels = [np.add.reduceat(leaves, np.arange(0, tree.leaves, each)) for each in tree.level_leaves]
    return np.concatenate(levels).astype(np.int64)


def rank_errors(table: Measured, noisy: Floats, share: Decimal) -> Floats:
    """Return by how many rows each answer is beside its rank, shape (repeats, cells) [rows]."""
    p, found = float(share), np.empty(noisy.shape)
    for cell, values in enumerate(cell_values(table)):
        below, upper = (np.searchsorted(values, noisy[:, cell], side=side) for side in ("left", "right"))  # type: ignore[call-overload]
        rank = p * len(values)
        found[:, cell] = np.maximum(0, np.maximum(below - rank, rank - upper))
    return found


def taken(table: Measured, names: tuple[str, ...]) -> str:
    """Return the method that `auto` takes."""
    lattice = ValueLattice("value", Decimal(table.low), Decimal(table.high), Decimal(1), counts_missing=False)
    tree, choices = ValueTree(lattice, usual_resolution(lattice)), QuantileChoices(lattice, _shares(names))
    share = CHOICE_SHARES["exponential"]
    by_tree = tree_rank_error(tree, choices, "laplace", "add_remove")
    return "tree" if by_tree <= choice_rank_error(choices, "laplace", "add_remove", share=share) else "exponential"


def _shares(names: tuple[str, ...]) -> tuple[Decimal, ...]:
    return tuple(SHARES[name] for name in names)


def _exact(table: Measured, share: Decimal) -> Floats:
    values = [each[int(np.ceil(float(share) * len(each) - 1e-9)) - 1] for each in cell_values(table)]
    return np.array(values, dtype=np.float64)


def _row(
    table: Measured,
    mode: str,
    epsilon: str,
    name: str,
    ours: Mapping[str, Mapping[str, Estimates]],
    found: list[Answers],
) -> Row:
    """Compare one quantile with the best peer's."""
    share = SHARES[name]
    exact = _exact(table, share)
    own = {method: _error(each[name].values, exact) for method, each in ours.items()}
    theirs = {peer: values for asked in found for peer, values in asked.of(mode, epsilon, name).items()}
    errors: dict[str, Error] = {peer: _error(values, exact) for peer, values in theirs.items()}
    best = min(errors, key=lambda peer: errors[peer].size)
    method = taken(table, MODES[mode])
    mine = own[method]
    comparison = _compared(mine, errors[best])
    alone = own["exponential alone"] if method == "exponential" else mine
    comparison |= {"verdict_beside_short_intervals": _compared(alone, errors[best])["verdict"]}
    ranks: dict[str, Setting] = {peer: _root(rank_errors(table, values, share)) for peer, values in theirs.items()}
    covered: dict[str, Setting] = {}
    lengths: dict[str, Setting] = {}
    for each, estimates in ours.items():
        found_here = estimates[name]
        ranks[f"Sudare, {each}"] = _root(rank_errors(table, found_here.values, share))
        covered[each] = float(np.mean((found_here.lower <= exact) & (exact <= found_here.upper)))
        lengths[each] = float(np.median(found_here.upper - found_here.lower))
    settings = machine("numpy") | {"rows": len(table.values), "cells": len(table.cells), "low": table.low}
    settings |= {"high": table.high, "epsilon": float(epsilon), "adjacency": "add_remove", "repeats": REPEATS}
    settings |= {"peers": {asked.peer.name: dict(asked.report["versions"]) for asked in found}}
    settings |= {"peers_repeats": {asked.peer.name: len(next(iter(asked.noisy.values()))) for asked in found}}
    settings |= comparison | {"peers_rmse": {peer: _written(error.size) for peer, error in errors.items()}}
    settings |= {"method": method, "rmse_by_method": {each: _written(error.size) for each, error in own.items()}}
    settings |= {"rank_rmse": ranks, "coverage": covered, "median_interval": lengths}
    least, holds = errors[best].size, comparison["verdict"] != "larger"
    what = f"{table.name}, epsilon {epsilon}: RMSE of {name} {TITLES[mode]}"
    return Row(what, mine.size, table.unit, least, holds, peer=f"{best}: {least:.4g}", settings=settings)


def _compared(mine: Error, best: Error) -> dict[str, Setting]:
    """Compare an error with the best peer's, either of which may be 0."""
    if best.size == 0:
        same = mine.size == 0
        return {"ratio": 1.0 if same else "infinite", "verdict": "not to be told apart" if same else "larger"}
    if mine.size == 0:
        return {"ratio": 0.0, "verdict": "smaller"}
    return dict(_comparison(mine, best, None))


def _root(errors: Floats) -> float:
    return float(f"{np.sqrt(np.mean(errors**2)):.4g}") if np.isfinite(errors).all() else inf


def _arguments() -> argparse.Namespace:
    """Read where the data and the peers are."""
    parser: Any = argparse.ArgumentParser(description="noisy quantiles beside the peers")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--peers", type=Path, required=True)
    parser.add_argument("--kept", type=Path, default=Path("build") / "quantiles")
    found: argparse.Namespace = parser.parse_args()
    return found


if __name__ == "__main__":
    main()
