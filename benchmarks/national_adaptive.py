"""Adaptive tables on the American Community Survey, places by races, against fixed detail at the same epsilon.

    python -m benchmarks.national_adaptive --data DIR

`--data DIR` (or SUDARE_BENCHMARK_DATA) holds nist_acs/national2019.csv.gz: 27,253 rows, counted by the contract of
`examples/acs` in 32 places by 10 races (320 groups, most of them small). The levels are the total, sex, sex by four
ages, sex by twenty ages; sex and age have a cell for missing values besides. Draws are those of the shipped queries,
from the operating system's random bytes, 40 times for each epsilon.

What both publish: of each group the cells of the coarser of the two levels, added up where one of them has more. The
errors of fixed detail are the least of three ways to publish it:

- noisy counts at the whole charge, as they are;
- the same, moved to the nearest counts that are not negative and add up to their sum (`refine: simplex`);
- noisy totals and counts with the same shares and the same estimation as the adaptive table.
"""

from __future__ import annotations

import argparse
import gzip
import os
import shutil
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import combinations
from math import sqrt
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.results import Row, Setting, machine, write
from contracts.contract.contract import Contract
from contracts.contract.odcs import load_contract
from contracts.release.adaptive.product import AdaptiveProduct
from contracts.release.source import Source
from privacy.accounting.events import CountNoise
from privacy.arrays import Floats
from privacy.grant.queries.level_counts import LevelCountQuery
from privacy.grant.queries.query import DrawStage, Relation, silent
from privacy.grant.sampled_noise import SampledNoise
from privacy.marginals.counts import PrivateCounts
from privacy.marginals.group_levels import level_starts, level_sums
from privacy.marginals.sensitivity import GaussianNoise
from privacy.noise.random_bytes import SecureBytes
from privacy.refine.place_families import project_families
from privacy.snapshots.shared_scan import count_marginals
from privacy.table_plans.adaptive_counts import detail_counts
from privacy.table_plans.adaptive_plan import AdaptiveTablePlan, plan_adaptive
from tasks.ingest import ingest

EPSILONS: Final = ("0.5", "1", "2", "4")
DELTA: Final = Decimal("1e-9")
DRAWS: Final = 40
MOST: Final = 0.8
CONTRACT: Final = Path(__file__).parents[1] / "examples" / "acs" / "acs.contract.yaml"
BY: Final = ("PUMA", "RAC1P")
LEVELS: Final = [[], ["SEX"], ["SEX", {"AGEP": "0..99 by 25"}], ["SEX", "AGEP"]]
_FAR: Final = 10**12
Exact = NDArray[np.int64]


def main() -> None:
    """Measure, and write results/national_adaptive.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    named = os.environ.get("SUDARE_BENCHMARK_DATA")
    parser.add_argument("--data", type=Path, default=Path(named) if named else None, required=named is None)
    contract = load_contract(CONTRACT)
    exact = counted(parser.parse_args().data / "nist_acs" / "national2019.csv.gz", contract)
    base: dict[str, Setting] = {**machine("numpy", "duckdb"), "delta": str(DELTA), "draws": DRAWS, "share": 0.1}
    write("national_adaptive", [row for epsilon in EPSILONS for row in compared(epsilon, contract, exact, base)])


def counted(rows: Path, contract: Contract) -> Exact:
    """Take the survey in, and return its exact counts, shape (groups, cells of the last level)."""
    clique = (*BY, "SEX", "AGEP")
    with TemporaryDirectory() as place:
        folder = Path(place)
        with gzip.open(rows) as packed, (folder / "acs.csv").open("wb") as plain:
            shutil.copyfileobj(packed, plain)
        table = ingest(
            Source(path=folder / "acs.csv"),
            contract,
            folder=folder / "private",
            key=b"benchmark" * 4,
            memory_limit="1GB",
        )
        counts = count_marginals(table.path, {clique: contract.shape(clique)}, threads=2)[clique]
    return counts.reshape(contract.cells(BY), -1)


def planned(epsilon: str, contract: Contract) -> AdaptiveTablePlan:
    """Plan the table; thresholds by the noise, half of a count."""
    adapt = {"share": "0.1", "levels": LEVELS, "thresholds": "auto", "relative_error": "0.5"}
    product = AdaptiveProduct.model_validate({"kind": "adaptive", "tables": [{"by": BY, "adapt": adapt}]})
    (table,) = plan_adaptive(product, contract, epsilon=Decimal(epsilon), delta=DELTA).tables
    return table


def drawn(plan: AdaptiveTablePlan, exact: Exact, chosen: Exact, noise: GaussianNoise) -> Exact:
    """Draw counts of all groups at given levels by the shipped query."""
    clique = plan.cells.table.clique
    handle = PrivateCounts.of_nobody(clique, plan.cells.contract.shape(clique))
    query = LevelCountQuery(handle, len(BY), plan.sizes, plan.cell_of, chosen, noise)
    relation = Relation("add_remove", 1)
    query.check(relation)
    event: CountNoise = query.event(relation)
    stage = DrawStage(relation, 0, None, silent)
    return query.sample((exact,), event=event, noise=SampledNoise(SecureBytes()), stage=stage)


def coarser(plan: AdaptiveTablePlan, values: Floats, of: Exact, to: Exact) -> Floats:
    """Add up numbers of groups at their levels `of` to the levels `to`, of which none is finer."""
    maps: dict[tuple[int, int], Exact] = {}
    for fine, coarse in {*zip(of.tolist(), to.tolist(), strict=True)}:
        maps[fine, coarse] = np.zeros(plan.sizes[fine], dtype=np.int64)
        maps[fine, coarse][plan.cell_of[fine]] = plan.cell_of[coarse]
    parts, starts = [], level_starts(plan.sizes, of)
    for group, (fine, coarse) in enumerate(zip(of.tolist(), to.tolist(), strict=True)):
        own = values[starts[group] : starts[group + 1]]
        parts.append(np.bincount(maps[fine, coarse], weights=own, minlength=plan.sizes[coarse]))
    return np.concatenate(parts)


def fixed(plan: AdaptiveTablePlan, exact: Exact, level: int) -> Mapping[str, Floats]:
    """Publish every group at one level, in three ways."""
    chosen, noises = np.full(len(exact), level), (plan.totals.noise, plan.counts.noise)
    whole = sum((each.rho for each in noises if isinstance(each, GaussianNoise)), Fraction(0))
    noisy = drawn(plan, exact, chosen, GaussianNoise(whole)).astype(np.float64)
    simplex = project_families(noisy[:, None], np.array([0]), np.array([[max(0.0, noisy.sum())]]))[:, 0]
    totals = drawn(plan, exact, np.zeros(len(exact), np.int64), plan.totals.noise)
    counts = drawn(plan, exact, chosen, plan.counts.noise)
    below, above = [-_FAR] * level, [_FAR] * (len(plan.thresholds) - level)
    alike = detail_counts(replace(plan, thresholds=(*below, *above)), totals, counts)
    return {"noisy": noisy, "simplex": simplex, "with totals": alike.counts[0].astype(np.float64)}


def compared(epsilon: str, contract: Contract, exact: Exact, base: dict[str, Setting]) -> list[Row]:
    """Compare the adaptive table with fixed detail at each level."""
    plan, last = planned(epsilon, contract), len(LEVELS) - 1
    ours, others = np.zeros(last + 1), {way: np.zeros(last + 1) for way in ("noisy", "simplex", "with totals")}
    got, held, ordered = np.zeros(last + 1), [], []
    for _ in range(DRAWS):
        totals = drawn(plan, exact, np.zeros(len(exact), np.int64), plan.totals.noise)
        chosen = plan.chosen(totals)
        counts = detail_counts(plan, totals, drawn(plan, exact, chosen, plan.counts.noise))
        true = level_sums(exact, plan.sizes, plan.cell_of, chosen)
        held.append(np.mean((counts.counts[1] <= true) & (true <= counts.counts[2])))
        got += np.bincount(chosen, minlength=last + 1)
        ordered.append(concordant(exact.sum(axis=1), chosen))
        for level in range(1, last + 1):
            both = np.minimum(chosen, level)
            wanted = level_sums(exact, plan.sizes, plan.cell_of, both)
            ours[level] += np.square(coarser(plan, counts.counts[0].astype(float), chosen, both) - wanted).sum()
            for way, values in fixed(plan, exact, level).items():
                one = np.full(len(exact), level)
                others[way][level] += np.square(coarser(plan, values, one, both) - wanted).sum()
    settings = {**base, "epsilon": epsilon, "thresholds": str(list(plan.thresholds))}
    rows = []
    for level in range(last, 0, -1):
        ratios = {way: sqrt(ours[level] / found[level]) for way, found in others.items()}
        what = f"epsilon {epsilon}: RMSE of what both publish, over fixed detail by {plan.cells.levels[level].name}"
        told = {**settings, **{f"over {way}": round(ratio, 3) for way, ratio in ratios.items()}}
        most, target = round(max(ratios.values()), 4), MOST if level == last else None
        holds = None if target is None else most <= target
        rows.append(Row(what, most, "ratio", target=target, holds=holds, settings=told))
    told = {
        **settings,
        **{f"groups, {each.name}": round(n / DRAWS, 1) for each, n in zip(plan.cells.levels, got, strict=True)},
    }
    what = f"epsilon {epsilon}: pairs of groups at two levels, the larger group in more detail"
    share = round(float(np.mean(ordered)), 4)
    rows.append(Row(what, share, "share", target=0.99, holds=share >= 0.99, settings=told))
    what = f"epsilon {epsilon}: 95 % intervals that hold their cell"
    share = round(float(np.mean(held)), 4)
    rows.append(Row(what, share, "share", target=0.95, holds=share >= 0.95, settings=settings))
    return rows


def concordant(sizes: Exact, chosen: Exact) -> float:
    """Return of the pairs of groups at different levels the share in which the larger group has more detail."""
    pairs = [(a, b) for a, b in combinations(range(len(sizes)), 2) if chosen[a] != chosen[b] and sizes[a] != sizes[b]]
    return float(np.mean([(sizes[a] > sizes[b]) == (chosen[a] > chosen[b]) for a, b in pairs]))


if __name__ == "__main__":
    main()
