"""Whether `auto` chooses well: its error beside the better of independent columns and a spanning tree.

Errors are the mean L1 distance of all pairs over the number of rows, three trials of each generator. `auto` is told
the number of rows in one digit.
"""

from __future__ import annotations

from math import hypot, sqrt
from statistics import mean, stdev
from typing import Final

from benchmarks._synthetic_bench import Bench, ratio_of_means, settings_of
from benchmarks._synthetic_data import Categorical
from benchmarks._synthetic_paper import DELTA, TRIALS
from benchmarks.results import Row

AUTO_EPSILONS: Final = ("0.1", "1")
_DEVIATIONS: Final = 2.0


def chosen_by_auto(bench: Bench, table: Categorical) -> list[Row]:
    """`auto` over the better of independent columns and MST: no worse than two standard errors of the difference."""
    rows = []
    about = int(float(f"{len(table.codes):.1g}"))
    for epsilon in AUTO_EPSILONS:
        made = {
            name: [
                bench.runs.ours(name, table, seed=seed, epsilon=epsilon, delta=DELTA, options=options)
                for seed in TRIALS
            ]
            for name, options in (("auto", {"rows_about": about}), ("independent", None), ("mst", None))
        }
        errors = {name: bench.errors(each, table)["2"] for name, each in made.items()}
        better = min(("independent", "mst"), key=lambda name: mean(errors[name]))
        apart = _DEVIATIONS * hypot(*(stdev(errors[name]) / sqrt(len(TRIALS)) for name in ("auto", better)))
        ratio, error = ratio_of_means(errors["auto"], errors[better])
        settings = settings_of(table, made["auto"]) | {"epsilon": epsilon, "rows_about": about, "better": better}
        settings |= {name: list(found) for name, found in errors.items()}
        settings |= {"ratio_se": round(error, 3), "notes": list(made["auto"][0].report["notes"])}
        held = mean(errors["auto"]) <= mean(errors[better]) + apart
        what = f"{table.name}, epsilon {epsilon}: auto's 2-way error over the better of independent and mst"
        rows.append(Row(what, round(ratio, 3), "ratio", target=1.0, holds=held, settings=settings))
    return rows
