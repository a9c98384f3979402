"""Weighted counts and means of ACS by place beside OpenDP, PipelineDP and SmartNoise SQL, with the same clip.

    python -m benchmarks.statistics_weighted --data DIR [--peers DIR] [--kept DIR]

`--data`, `--peers` and `--kept` are those of `benchmarks.statistics`. The weight is PWGTP, the people for whom a row
stands, clipped to [0, 400]; 20 places, 27,253 rows; epsilon is 1; the unit is one row, added or removed. The truth is
the weighted count, or mean, of what is clipped. Peers have no survey weights. A weighted count is their sum of the
weight with all of epsilon. A weighted mean is the ratio of two sums with half of epsilon each: of the product of
weight and value, and of the weight. They are asked for the product of the value as it is, and of its distance
from the middle of its clip, which is the better way; both are made of clipped numbers before they see them. The best
of all counts. Ours is one draw: what it hides is the product of the largest weight and the width of the clip.

A row holds where our error is no larger than the best peer's, up to three standard errors of their ratio. Of a count
both errors are known by formula: Laplace noise of scale 400 / epsilon for all.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from benchmarks._statistics_data import ACS, MISSING, Measured, _rows
from benchmarks._statistics_peers import Answers, answers
from benchmarks.results import Row, Setting, machine, write
from benchmarks.statistics import REPEATS, SEED, _arguments, _comparison, _error
from contracts.domains.addends import WeightedCount
from contracts.domains.lattice import ValueLattice
from contracts.release.statistics import StatisticsTable
from privacy.grant.sampled_noise import SampledNoise
from privacy.marginals.cell_sums import cell_sum_event
from privacy.marginals.sensitivity import LaplaceNoise
from privacy.noise.random_bytes import SeededBytes
from privacy.statistics.table import NoisyNumbers, table_values

CLIP: Final = 400
WEIGHT: Final = ValueLattice("weight", Decimal(0), Decimal(CLIP), Decimal(1), counts_missing=True)
COLUMNS: Final = (("age", "years", "AGEP", 0, 100),)
ASKED: Final = ("opendp", "smartnoise", "pipelinedp")
HALF: Final = "0.5"
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def main() -> None:
    """Measure counts and means, and write results/statistics_weighted.json."""
    asked = _arguments()
    rows: list[Row] = []
    for name, unit, column, low, high in COLUMNS:
        people = [row for row in _rows(asked.data / ACS) if row[column] != MISSING]
        places = tuple(row["PUMA"] for row in people)
        weights = np.minimum(np.array([int(row["PWGTP"]) for row in people]), CLIP)
        values = np.clip(np.array([int(float(row[column])) for row in people]), low, high)
        named = [_summed(f"ACS weight of {name}", "people", places, weights, 0, CLIP)]
        named.append(_summed(f"ACS weight times {name}", unit, places, weights * values, 0, CLIP * high))
        half = (high - low) // 2
        centred = weights * (values - low - half)
        named.append(_summed(f"ACS weight times centred {name}", unit, places, centred, -CLIP * half, CLIP * half))
        lattice = ValueLattice(name, Decimal(low), Decimal(high), Decimal(1), False, WEIGHT)
        theirs = [_answers(table, asked) for table in named]
        rows += _rows_of(name, unit, named, lattice, theirs)
    write("statistics_weighted", rows)


def _summed(name: str, unit: str, places: tuple[str, ...], values: Integers, low: int, high: int) -> Measured:
    """Return a column to be added up by place; the second key is the same for all."""
    return Measured(name, unit, places, ("all",) * len(places), values, low, high)


def _answers(table: Measured, asked: Any) -> list[Answers]:
    """Ask the peers for the sum alone."""
    kept: Path = asked.kept / "weighted"
    return answers(table, ("1", HALF), peers=asked.peers, kept=kept, only=ASKED, modes=("sum",))


def _rows_of(
    name: str, unit: str, named: list[Measured], lattice: ValueLattice, theirs: list[list[Answers]]
) -> list[Row]:
    weight, product, _ = named
    total, middle = weight.exact["sum"], float(lattice.low + (lattice.high - lattice.low) / 2)
    exact = product.exact["sum"] / total
    means: dict[str, Floats] = {}
    for place, other in enumerate(theirs[0]):
        below = other.of("sum", HALF, "sum")[other.peer.name]
        for found, add, how in ((theirs[1], 0.0, ""), (theirs[2], middle, ", centred")):
            above = found[place].of("sum", HALF, "sum")[other.peer.name]
            with np.errstate(divide="ignore", invalid="ignore"):
                ratio = add + above / below
            means[f"{other.peer.name}{how}"] = np.clip(ratio, float(lattice.low), float(lattice.high))
    counts = {each.peer.name: values for each in theirs[0] for values in [each.of("sum", "1", "sum")[each.peer.name]]}
    ours_count = _ours(total, None, lattice)["count"]
    ours_mean = _ours(total, product.exact["sum"], lattice)[f"mean_{name}"]
    versions: dict[str, Setting] = {each.peer.name: dict(each.report["versions"]) for each in theirs[0]}
    settings: dict[str, Setting] = machine("numpy") | {"rows": len(weight.values), "cells": len(weight.cells)}
    settings |= {"clip": CLIP, "low": float(lattice.low), "high": float(lattice.high), "epsilon": 1.0}
    settings |= {"repeats": REPEATS, "peers": versions, "adjacency": "add_remove"}
    return [
        _row(f"people with a known {name} by place", ours_count, counts, total, "people", settings, by_formula=1.0),
        _row(f"weighted mean of {name} by place", ours_mean, means, exact, unit, settings, by_formula=None),
    ]


def _ours(total: Floats, products: Floats | None, lattice: ValueLattice) -> dict[str, Floats]:
    """Release counts, or means, of each place many times, by the shipped code."""
    addends = WeightedCount(WEIGHT) if products is None else lattice
    what: Any = "count" if products is None else {"mean": lattice.column}
    table = StatisticsTable.model_validate({"by": [], "of": [what], "survey_weight": "weight"})
    if products is None:
        exact = total[:, None]
    else:
        above = products - float(lattice.low) * total
        exact = np.stack([above, lattice.width * total - above], axis=-1)
    numbers = np.broadcast_to(exact.astype(np.int64), (REPEATS, *exact.shape))
    event = cell_sum_event(LaplaceNoise(Fraction(1)), addends, adjacency="add_remove", rows_per_unit=1)
    noise = SampledNoise(SeededBytes(SEED)).integers(numbers.size, event=event).reshape(numbers.shape)
    drawn = {addends.key: NoisyNumbers(numbers + noise, event, addends)}
    return table_values(table, drawn, np.zeros(numbers.shape[:-1], dtype=np.bool_))  # type: ignore[arg-type]


def _row(
    what: str,
    ours: Floats,
    peers: dict[str, Floats],
    exact: Floats,
    unit: str,
    settings: dict[str, Setting],
    *,
    by_formula: float | None,
) -> Row:
    mine, theirs = _error(ours, exact), {name: _error(values, exact) for name, values in peers.items()}
    named = f"ACS, epsilon 1: RMSE of {what}"
    if not theirs:
        return Row(named, mine.size, unit, settings=settings)
    best = min(theirs, key=lambda name: theirs[name].size)
    compared = _comparison(mine, theirs[best], by_formula)
    told = settings | compared | {"peers_rmse": {name: float(f"{each.size:.5g}") for name, each in theirs.items()}}
    peer, holds = f"{best}: {theirs[best].size:.4g}", compared["verdict"] != "larger"
    target: float | str = float(f"{theirs[best].size:.4g}")
    if by_formula is not None:
        target = f"by formula {2**0.5 * CLIP:.5g}, for all"
    return Row(named, float(f"{mine.size:.5g}"), unit, target, holds, peer=peer, settings=told)


if __name__ == "__main__":
    main()
