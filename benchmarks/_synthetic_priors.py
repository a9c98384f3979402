"""Does a public prior help where it is near, and do no harm where it is not? AIM and MST with one and without.

    adult    half of the 30,162 rows are confidential, the other half is the prior
    ma       7,634 rows of Massachusetts are confidential, 27,253 of the nation are the prior, 23 columns

Biased priors are made of the near one:

    relabelled    every column's labels are permuted: wrong columns, and a wrong dependence
    shuffled      every column is shuffled by itself: right columns, and no dependence
    half          every other column is shuffled with the others: a part of the dependence is gone

Trials of one seed differ in their noise, so a difference has the standard error of both.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchmarks._synthetic_bench import Bench, ratio_of_means, settings_of
from benchmarks._synthetic_data import SEED, Categorical, acs_of_two, adult
from benchmarks._synthetic_paper import DELTA
from benchmarks.results import Row

EPSILON: Final = "0.1"
METHODS: Final = ("aim", "mst")
TRIALS: Final = tuple(range(1, 11))
NEAR_AT_MOST: Final = 0.80
BIASED_AT_MOST: Final = 1.03
NEAR: Final = "near"
BIASED: Final = "relabelled"


def priors(bench: Bench, data: Path | None) -> list[Row]:
    """The 2-way error with each prior over that without, at epsilon 0.1."""
    tables = [halves(adult())] + ([acs_of_two(data)] if data is not None else [])
    return [row for table, near in tables for method in METHODS for row in _of_one(bench, method, table, near)]


def halves(table: Categorical) -> tuple[Categorical, Categorical]:
    """Return two random halves of a table."""
    drawn = np.random.default_rng(SEED).permutation(len(table.codes))
    parts = np.array_split(drawn, 2)
    one, other = (
        Categorical(f"{table.name}-half-{number}", table.labels, table.codes[part], table.target)
        for number, part in enumerate(parts, 1)
    )
    return one, other


def spoiled(near: Categorical) -> dict[str, Categorical]:
    """Return the priors that are made of a near one, by name."""
    random = np.random.default_rng(SEED)
    codes: dict[str, NDArray[np.integer]] = {"relabelled": near.codes.copy()}  # type: ignore[type-arg]
    for place, size in enumerate(near.shape):
        codes["relabelled"][:, place] = random.permutation(size)[near.codes[:, place]]
    codes["shuffled"] = np.stack([random.permutation(column) for column in near.codes.T], axis=1)
    codes["half"] = near.codes.copy()
    codes["half"][:, ::2] = near.codes[random.permutation(len(near.codes)), ::2]
    named = {name: f"{near.name}-{name}" for name in codes}
    return {name: Categorical(named[name], near.labels, found, near.target) for name, found in codes.items()}


def _of_one(bench: Bench, method: str, table: Categorical, near: Categorical) -> list[Row]:
    without = [bench.runs.ours(method, table, seed=seed, epsilon=EPSILON, delta=DELTA) for seed in TRIALS]
    alone = bench.errors(without, table)["2"]
    rows = []
    for name, prior in {NEAR: near, **spoiled(near)}.items():
        made = [
            bench.runs.ours(method, table, seed=seed, epsilon=EPSILON, delta=DELTA, prior=prior) for seed in TRIALS
        ]
        errors = bench.errors(made, table)["2"]
        ratio, error = ratio_of_means(errors, alone)
        target = NEAR_AT_MOST if name == NEAR else BIASED_AT_MOST
        settings = settings_of(table, made[:1]) | {"epsilon": EPSILON, "trials": len(TRIALS)}
        settings |= {"ratio_se": round(error, 3)}
        settings |= {"with": [round(each, 4) for each in errors], "without": [round(each, 4) for each in alone]}
        settings |= {"began": sum("begins with" in str(each.report["notes"]) for each in made)}
        what = f"{table.name}, epsilon {EPSILON}: {method}'s 2-way error with the prior {name!r} over that without"
        rows.append(Row(what, round(ratio, 3), "ratio", target=target, holds=ratio <= target, settings=settings))
    return rows
