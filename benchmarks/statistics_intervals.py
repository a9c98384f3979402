"""Do 95 % intervals of statistics hold in cells of every size, and how long are they beside an oracle's?

    python -m benchmarks.statistics_intervals

2,000 releases are simulated for each size of a cell, each distribution of values, each noise. A row names the worst
coverage over all of them: with a coverage of 95 % it is below `FLOOR` with probability 1e-6 in the whole table. The
oracle knows the number of rows: its interval of a mean or a ratio is that of the noise over the true size. Its length
is compared where it is shorter than half the clip, in the median over releases. Of a variance the oracle knows mean
and variance too, for the noise's weights; it is compared where its interval is shorter than half, and than a quarter,
of all that is possible.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import product
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from benchmarks.results import Row, Setting, machine, write
from contracts.domains.addends import Addends, LoneSum, moments_of
from contracts.domains.lattice import ValueLattice
from contracts.domains.trees import ValueTree
from contracts.release.statistics import StatisticsTable
from privacy.accounting.events import CountNoise
from privacy.grant.sampled_noise import SampledNoise
from privacy.marginals.cell_sums import cell_sum_event
from privacy.marginals.sensitivity import GaussianNoise, LaplaceNoise
from privacy.noise.random_bytes import SecureBytes
from privacy.statistics.noise_sums import mixed_quantile, quantile
from privacy.statistics.table import NoisyNumbers, table_values

RELEASES: Final = 2000
SIZES: Final = (1, 2, 5, 20, 100, 1000, 10_000)
EPSILONS: Final = (Fraction(1, 10), Fraction(1))
NOISES: Final = ("laplace", "gaussian")
INCOME: Final = ValueLattice("income", Decimal(0), Decimal(1000), Decimal(1), counts_missing=False)
HOURS: Final = ValueLattice("hours", Decimal(0), Decimal(100), Decimal(1), counts_missing=False)
TREE: Final = ValueTree(INCOME, Decimal(10))
MOMENTS: Final = moments_of(INCOME, 1)
BALANCE: Final = LoneSum(ValueLattice("balance", Decimal(-300), Decimal(700), Decimal(1), counts_missing=False))
TABLE: Final = StatisticsTable.model_validate(
    {
        "by": [],
        "of": [
            "count",
            {"sum": "income"},
            {"mean": "income"},
            {"ratio": {"sum": "income"}, "over": {"sum": "hours"}},
            {"quantiles": [0.1, 0.5, 0.9], "of": "income", "resolution": 10},
        ],
    }
)
SPREAD: Final = StatisticsTable.model_validate(
    {"by": [], "of": ["count", {"sum": "income"}, {"mean": "income"}, {"variance": "income"}, {"sd": "income"}]}
)
SIZED: Final = StatisticsTable.model_validate(
    {"by": [], "of": [{"effective_size": "people"}], "survey_weight": "people"}
)
PEOPLE: Final = ValueLattice("people", Decimal(0), Decimal(400), Decimal(1), False)
ALONE: Final = StatisticsTable.model_validate({"by": [], "of": [{"sum": "balance"}]})
FLOOR: Final = float(binom.ppf(1e-6 / 1000, RELEASES, 0.95)) / RELEASES
MOST_LENGTH: Final = 1.3
VALUES: Final = ("uniform", "heavy zeros", "all alike", "at both ends")
SHAPES: Final = (*VALUES, "all at the lower end", "two points", "near the upper end")


def main() -> None:
    """Simulate, and write results/statistics_intervals.json."""
    settings: dict[str, Setting] = machine("numpy", "scipy")
    settings |= {"releases": RELEASES, "sizes": ", ".join(map(str, SIZES)), "values": ", ".join(SHAPES)}
    settings |= {
        "epsilon": "0.1 and 1, over three draws; of moments and of sums alone for one",
        "floor": f"{FLOOR:.4f}, which 95 % keeps but for 1e-6",
    }
    covered: dict[str, list[float]] = {}
    lengths: dict[str, list[float]] = {}
    for noise, epsilon, size, values in product(NOISES, EPSILONS, SIZES, VALUES):
        for name, share, ratio in _simulated(noise, epsilon, size, values):
            covered.setdefault(name, []).append(share)
            lengths.setdefault(name, []).extend([] if ratio is None else [ratio])
    for noise, epsilon, size, values in product(NOISES, EPSILONS, SIZES, SHAPES):
        terms = noise, epsilon, size, values
        for name, share, ratio in (*_spread(*terms), *_alone(*terms), *_sized(*terms)):
            covered.setdefault(name, []).append(share)
            lengths.setdefault(name, []).extend([] if ratio is None else [ratio])
    rows = []
    for name, shares in covered.items():
        what = f"worst coverage of {name}, over all sizes, values and noises"
        rows.append(Row(what, round(min(shares), 4), "share", 0.95, min(shares) >= FLOOR, settings=settings))
        if lengths[name]:
            longest = max(lengths[name])
            what = f"longest interval of {name} beside an oracle's that knows the size"
            rows.append(Row(what, round(longest, 3), "times", MOST_LENGTH, longest <= MOST_LENGTH, settings=settings))
    write("statistics_intervals", rows)


def _simulated(noise: str, epsilon: Fraction, size: int, values: str) -> Iterator[tuple[str, float, float | None]]:
    """Yield for each statistic the share of releases whose interval holds, and its length beside the oracle's."""
    random = np.random.default_rng([size, VALUES.index(values)])
    income, hours = _offsets(values, size, INCOME.width, random), random.integers(20, 60, size)
    drawn, events = {}, {}
    for lattice, exact in ((INCOME, _sums(income, INCOME)), (HOURS, _sums(hours, HOURS)), (TREE, _counts(income))):
        event = events[lattice.key] = cell_sum_event(_noise(noise, epsilon / 3), lattice, **_RELATION)
        noisy = np.tile(exact, (RELEASES, 1))
        noisy = noisy + SampledNoise(SecureBytes()).integers(noisy.size, event=event).reshape(noisy.shape)
        drawn[lattice.key] = NoisyNumbers(noisy, event, lattice)
    found = table_values(TABLE, drawn, np.zeros(RELEASES, dtype=np.bool_))
    ordered = np.sort(income)
    true = {"count": size, "sum_income": income.sum(), "mean_income": income.mean()}
    true |= {"ratio_income_over_hours": income.sum() / hours.sum()}
    true |= {f"q{100 * p:g}_income": ordered[int(np.ceil(p * size)) - 1] for p in (0.1, 0.5, 0.9)}
    for name, value in true.items():
        low, high = found[f"{name}_low"], found[f"{name}_high"]
        oracle = _oracle(name, float(value), size, float(hours.sum()), events)
        length = None if oracle is None else float(np.median(high - low)) / oracle
        yield name, float(np.mean((low <= value + 1e-9) & (value - 1e-9 <= high))), length


def _noisy(exact: NDArray[np.int64], noise: str, epsilon: Fraction, addends: Addends) -> NoisyNumbers:
    """Return many draws of the numbers of one cell."""
    event = cell_sum_event(_noise(noise, epsilon), addends, **_RELATION)
    noisy = np.tile(exact, (RELEASES, 1))
    noisy = noisy + SampledNoise(SecureBytes()).integers(noisy.size, event=event).reshape(noisy.shape)
    return NoisyNumbers(noisy, event, addends)


def _spread(noise: str, epsilon: Fraction, size: int, values: str) -> Iterator[tuple[str, float, float | None]]:
    """Yield the same for all that is said of moments; the charge is this draw's."""
    random = np.random.default_rng([size, SHAPES.index(values)])
    income, width = _offsets(values, size, INCOME.width, random), INCOME.width
    parts = [((width - income) ** 2).sum(), (2 * income * (width - income)).sum(), (income**2).sum()]
    drawn = _noisy(np.array(parts) * (MOMENTS.whole // width**2), noise, epsilon, MOMENTS)
    found = table_values(SPREAD, {"income": drawn}, np.zeros(RELEASES, dtype=np.bool_))
    mean, variance = income.mean() / width, income.var() / width**2
    true = {"count": size, "sum_income": income.sum(), "mean_income": income.mean()}
    true |= {"variance_income": income.var(), "sd_income": income.std()}
    weights = [mean**2 - variance, mean * (1 - mean) + variance, (1 - mean) ** 2 - variance]
    oracle = 2 * quantile(drawn.event, weights, 0.95) / (size * MOMENTS.whole) * width**2
    for name, value in true.items():
        low, high = found[f"{name}_low"], found[f"{name}_high"]
        share, told = float(np.mean((low <= value + 1e-6) & (value - 1e-6 <= high))), f"{name}, drawn with moments"
        yield told, share, None
        for part, most in (("half", 8), ("a quarter", 16)) if name == "variance_income" else ():
            ratio = float(np.median(high - low)) / oracle
            yield f"{told}, where the oracle's is below {part}", share, ratio if oracle < width**2 / most else None


def _alone(noise: str, epsilon: Fraction, size: int, values: str) -> Iterator[tuple[str, float, float | None]]:
    """Yield the same for a sum alone."""
    random = np.random.default_rng([size, SHAPES.index(values)])
    true = int((_offsets(values, size, BALANCE.lattice.width, random) + BALANCE.low_steps).sum())
    drawn = _noisy(np.array([true]), noise, epsilon, BALANCE)
    found = table_values(ALONE, {"balance": drawn}, np.zeros(RELEASES, dtype=np.bool_))
    low, high = found["sum_balance_low"], found["sum_balance_high"]
    yield "sum_balance, drawn alone", float(np.mean((low <= true) & (true <= high))), None


def _sized(noise: str, epsilon: Fraction, size: int, values: str) -> Iterator[tuple[str, float, float | None]]:
    """Yield the same for an effective sample size; the oracle knows the sums that the tangent is taken at."""
    random, width = np.random.default_rng([size, SHAPES.index(values)]), PEOPLE.width
    weights = _offsets(values, size, width, random)
    squares, rest = int((weights**2).sum()), int((weights * (width - weights)).sum())
    drawn = _noisy(np.array([squares, rest]), noise, epsilon, replace(PEOPLE, weight=PEOPLE))
    found = table_values(SIZED, {PEOPLE.column: drawn}, np.zeros(RELEASES, dtype=np.bool_))
    low, high = found["effective_size_people_low"], found["effective_size_people_high"]
    true = float(weights.sum()) ** 2 / squares if squares else 0.0
    share, part = float(np.mean((low <= true) & (true <= high))), squares / max(squares + rest, 1)
    yield "effective_size_people", share, None
    if part:
        oracle = 2 * quantile(drawn.event, [(2 * part - 1) / part**2, 2 / part], 0.95) / width**2
        ratio = float(np.median(high - low)) / oracle
        yield (
            "effective_size_people, where the oracle's is below a tenth",
            share,
            ratio if oracle < true / 10 else None,
        )


def _oracle(name: str, value: float, size: int, hours: float, events: dict[str, CountNoise]) -> float | None:
    """Return the length of the oracle's interval; None where it is no shorter than half the clip, or is none."""
    own = events["income"]
    if name == "mean_income":
        share = value / INCOME.width
        length = 2 * quantile(own, [1 - share, share], 0.95) / size
        return length if length < INCOME.width / 2 else None
    if name == "ratio_income_over_hours":
        length = 2 * mixed_quantile([(1.0, own), (max(value, 1e-9), events["hours"])], 0.95) / hours
        return length if length < max(value, 1.0) / 2 else None
    return None


_RELATION: Final = {"adjacency": "add_remove", "rows_per_unit": 1}


def _noise(kind: str, epsilon: Fraction) -> LaplaceNoise | GaussianNoise:
    return LaplaceNoise(epsilon) if kind == "laplace" else GaussianNoise(epsilon * epsilon / 2)


def _offsets(values: str, size: int, width: int, random: np.random.Generator) -> NDArray[np.int64]:
    drawn = random.integers(0, width + 1, size)
    if values == "heavy zeros":
        return np.where(random.random(size) < 0.9, 0, drawn)
    if values == "all alike":
        return np.full(size, width // 3)
    if values == "all at the lower end":
        return np.zeros(size, np.int64)
    if values == "two points":
        return np.where(drawn < width // 5, 9 * width // 10, 19 * width // 20)
    if values == "near the upper end":
        return width - drawn // 100
    return np.where(drawn < width // 2, 0, width) if values == "at both ends" else drawn


def _sums(offsets: NDArray[np.int64], lattice: ValueLattice) -> NDArray[np.int64]:
    return np.array([offsets.sum(), lattice.width * offsets.size - offsets.sum()])


def _counts(offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the counts of all nodes of the tree."""
    firsts = np.array([TREE.first(leaf) for leaf in range(TREE.leaves)])
    leaves = np.bincount(np.searchsorted(firsts, offsets, side="right") - 1, minlength=TREE.leaves)
    levels = [np.add.reduceat(leaves, np.arange(0, TREE.leaves, each)) for each in TREE.level_leaves]
    return np.concatenate(levels).astype(np.int64)


if __name__ == "__main__":
    main()
