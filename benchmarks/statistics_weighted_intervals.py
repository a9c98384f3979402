"""Do 95 % intervals of weighted statistics hold in cells of every size, and how long are they beside an oracle's?

    python -m benchmarks.statistics_weighted_intervals

As `benchmarks.statistics_intervals`, with survey weights: from 0 to 40 in steps of a half. Most rows weigh little and
a few as much as the clip allows, or all weigh alike, or all weigh the most. The size of a cell is then the sum of its
weights, and that is what the oracle knows. Weighted quantiles, means, ratios, sums and counts, and counts of a table
without anything else, are compared with those of the weighted rows. At a coverage of 95 % one of all shares is below
`FLOOR` with probability 1e-6.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import product
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from benchmarks.results import Row, Setting, machine, write
from benchmarks.statistics_intervals import (
    EPSILONS,
    HOURS,
    INCOME,
    MOST_LENGTH,
    NOISES,
    RELEASES,
    SIZES,
    TABLE,
    TREE,
    VALUES,
    _noise,
    _offsets,
)
from contracts.domains.addends import Addends, WeightedCount
from contracts.domains.lattice import ValueLattice
from contracts.domains.trees import ValueTree
from contracts.release.statistics import StatisticsTable
from privacy.grant.sampled_noise import SampledNoise
from privacy.marginals.cell_sums import cell_sum_event
from privacy.noise.random_bytes import SecureBytes
from privacy.statistics.noise_sums import quantile
from privacy.statistics.table import Columns, NoisyNumbers, table_values

WEIGHT: Final = ValueLattice("weight", Decimal(0), Decimal(40), Decimal("0.5"), counts_missing=False)
WEIGHTS: Final = ("a few heavy", "all alike", "all the heaviest")
WEIGHED: Final = TABLE.model_validate({**TABLE.model_dump(), "survey_weight": "weight"})
FLOOR: Final = float(binom.ppf(1e-6 / 3000, RELEASES, 0.95)) / RELEASES
ALONE: Final = StatisticsTable.model_validate({"by": [], "of": ["count"], "survey_weight": "weight"})
_STEP: Final = float(WEIGHT.step)
Whole = NDArray[np.int64]


def main() -> None:
    """Simulate, and write results/statistics_weighted_intervals.json."""
    settings: dict[str, Setting] = machine("numpy", "scipy")
    settings |= {"releases": RELEASES, "sizes": ", ".join(map(str, SIZES)), "values": ", ".join(VALUES)}
    settings |= {"weights": ", ".join(WEIGHTS), "epsilon": "0.1 and 1, over three draws"}
    settings |= {"floor": f"{FLOOR:.4f}, which 95 % keeps but for 1e-6"}
    covered: dict[str, list[float]] = {}
    lengths: list[float] = []
    for noise, epsilon, size, values, weights in product(NOISES, EPSILONS, SIZES, VALUES, WEIGHTS):
        for name, share, ratio in _simulated(noise, epsilon, size, values, weights):
            covered.setdefault(name, []).append(share)
            lengths += [] if ratio is None else [ratio]
    rows = []
    for name, shares in covered.items():
        what = f"worst coverage of weighted {name}, over all sizes, values, weights and noises"
        rows.append(Row(what, round(min(shares), 4), "share", 0.95, min(shares) >= FLOOR, settings=settings))
    what = "longest interval of weighted mean_income beside an oracle's that knows the size"
    rows.append(
        Row(what, round(max(lengths), 3), "times", MOST_LENGTH, max(lengths) <= MOST_LENGTH, settings=settings)
    )
    write("statistics_weighted_intervals", rows)


def _simulated(
    noise: str, epsilon: Fraction, size: int, values: str, weights: str
) -> Iterator[tuple[str, float, float | None]]:
    """Yield for each statistic the share of releases whose interval holds, and a mean's length by the oracle's."""
    random = np.random.default_rng([size, VALUES.index(values), WEIGHTS.index(weights)])
    income, hours = _offsets(values, size, INCOME.width, random), random.integers(20, 60, size)
    weight = _weights(weights, size, random)
    asked: list[tuple[Addends, Whole]] = [
        (replace(INCOME, weight=WEIGHT), _sums(income, INCOME.width, weight)),
        (replace(HOURS, weight=WEIGHT), _sums(hours, HOURS.width, weight)),
        (replace(TREE, lattice=replace(INCOME, weight=WEIGHT)), _counts(income, weight)),
    ]
    drawn = {each.key: _drawn(each, exact, noise, epsilon / 3) for each, exact in asked}
    found: Columns = table_values(WEIGHED, drawn, np.zeros(RELEASES, dtype=np.bool_))  # type: ignore[arg-type]
    true = _true(income, hours, weight)
    for name, value in true.items():
        low, high = found[f"{name}_low"], found[f"{name}_high"]
        oracle = _oracle(value, weight, drawn["income"]) if name == "mean_income" else None
        length = None if oracle is None else float(np.median(high - low)) / oracle
        yield name, _share(value, low, high), length
    alone: Any = {"count": _drawn(WeightedCount(WEIGHT), np.array([weight.sum()]), noise, epsilon / 3)}
    found = table_values(ALONE, alone, np.zeros(RELEASES, dtype=np.bool_))
    yield "count alone", _share(true["count"], found["count_low"], found["count_high"]), None


def _share(value: float, low: NDArray[Any], high: NDArray[Any]) -> float:
    slack = 1e-9 * max(1.0, abs(value))
    return float(np.mean((low <= value + slack) & (value - slack <= high)))


def _drawn(addends: Addends, exact: Whole, noise: str, epsilon: Fraction) -> NoisyNumbers:
    """Release the numbers of a cell many times."""
    event = cell_sum_event(_noise(noise, epsilon), addends, adjacency="add_remove", rows_per_unit=1)
    noisy = np.tile(exact, (RELEASES, 1))
    noisy = noisy + SampledNoise(SecureBytes()).integers(noisy.size, event=event).reshape(noisy.shape)
    return NoisyNumbers(noisy, event, addends)


def _weights(kind: str, size: int, random: np.random.Generator) -> Whole:
    """Return weights in steps; at least one is above 0."""
    if kind == "all alike":
        return np.full(size, 6)
    if kind == "all the heaviest":
        return np.full(size, WEIGHT.width)
    light = random.integers(0, 6, size)
    light[random.random(size) < 0.02] = WEIGHT.width
    light[0] = max(1, light[0])
    return light


def _true(income: Whole, hours: Whole, weight: Whole) -> dict[str, float]:
    """Return the statistics of the weighted rows, each derived from them by itself."""
    total = weight.sum()
    order = np.argsort(income, kind="stable")
    reached = np.cumsum(weight[order])
    true = {"count": _STEP * total, "sum_income": _STEP * (weight * income).sum()}
    true |= {"mean_income": (weight * income).sum() / total}
    true |= {"ratio_income_over_hours": (weight * income).sum() / (weight * hours).sum()}
    for p in (0.1, 0.5, 0.9):
        true[f"q{100 * p:g}_income"] = income[order][np.searchsorted(reached, p * total - 1e-9)]
    return {name: float(value) for name, value in true.items()}


def _oracle(value: float, weight: Whole, drawn: NoisyNumbers) -> float | None:
    """Return the length of the interval of who knows the sum of the weights; None where it tells next to nothing."""
    share = value / INCOME.width
    length = 2 * quantile(drawn.event, [1 - share, share], 0.95) / float(weight.sum())
    return length if length < INCOME.width / 2 else None


def _sums(offsets: Whole, width: int, weight: Whole) -> Whole:
    return np.array([(weight * offsets).sum(), (weight * (width - offsets)).sum()])


def _counts(offsets: Whole, weight: Whole) -> Whole:
    """Return the weighted counts of all nodes of the tree."""
    tree: ValueTree = TREE
    firsts = np.array([tree.first(leaf) for leaf in range(tree.leaves)])
    leaves = np.zeros(tree.leaves, dtype=np.int64)
    np.add.at(leaves, np.searchsorted(firsts, offsets, side="right") - 1, weight)
    levels = [np.add.reduceat(leaves, np.arange(0, tree.leaves, each)) for each in tree.level_leaves]
    return np.concatenate(levels)


if __name__ == "__main__":
    main()
