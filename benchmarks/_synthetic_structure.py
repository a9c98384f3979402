"""Is structure worth its charge? AIM beside independent columns and a tree, where it can hardly be afforded."""

from __future__ import annotations

from statistics import mean, stdev
from typing import Final

from benchmarks._synthetic_bench import Bench, settings_of
from benchmarks._synthetic_data import Categorical
from benchmarks._synthetic_paper import DELTA, TRIALS
from benchmarks.results import Row

AT_MOST: Final = {"0.1": 1.0, "1": 0.75}
VERY_WIDE: Final = ("gaussian_copula", "latent_factors", "aim")
VERY_WIDE_AT_MOST: Final = 0.7
VERY_WIDE_SECONDS: Final = 300.0
VERY_WIDE_GIGABYTES: Final = 2.0


def affordable(bench: Bench, table: Categorical) -> list[Row]:
    """AIM's error of pairs over the better of independent columns and MST, at a small and a middle epsilon."""
    rows = []
    for epsilon, target in AT_MOST.items():
        made = {
            name: [
                bench.runs.ours(name, table, seed=seed, epsilon=epsilon, delta=DELTA, options=None) for seed in TRIALS
            ]
            for name in ("independent", "mst", "aim")
        }
        errors = {name: bench.errors(each, table)["2"] for name, each in made.items()}
        other = min(mean(errors["independent"]), mean(errors["mst"]))
        ratio = mean(errors["aim"]) / other
        settings = settings_of(table, made["aim"]) | {"epsilon": epsilon, "adjacency": "add_remove"}
        settings |= {name: list(found) for name, found in errors.items()}
        settings |= {"sd": round(stdev(errors["aim"]), 4)}
        what = f"{table.name}, epsilon {epsilon}: aim's 2-way error over the better of independent and mst"
        rows.append(Row(what, round(ratio, 3), "ratio", target=target, holds=ratio <= target, settings=settings))
    return rows


def very_wide(bench: Bench, table: Categorical) -> list[Row]:
    """120 columns, one run of each: error over MST's, time, memory."""
    made = {
        name: bench.runs.ours(name, table, seed=TRIALS[0], epsilon="1", delta=DELTA, options=None)
        for name in ("mst", *VERY_WIDE)
    }
    errors = {name: bench.errors([each], table)["2"][0] for name, each in made.items()}
    rows = []
    for name in VERY_WIDE:
        report, settings = made[name].report, settings_of(table, [made[name]]) | dict(errors)
        for what, value, unit, target in (
            ("2-way error over mst's", errors[name] / errors["mst"], "ratio", VERY_WIDE_AT_MOST),
            ("time of the run", report["seconds"], "s", VERY_WIDE_SECONDS),
            ("peak memory", report["peak_gigabytes"], "GB", VERY_WIDE_GIGABYTES),
        ):
            what, held = f"{table.name}, {name}, {what}", value <= target
            rows.append(Row(what, round(value, 3), unit, target=target, holds=held, settings=settings))
    return rows
