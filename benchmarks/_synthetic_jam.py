"""Our AIM with a public prior beside mbi's JAM with the same public rows, which are one half of Adult.

JAM's sensitivities are those of replacement, so ours are too here, and the number of rows is public for both. Some of
its marginals are computed in another way (`peers.mbi_projection`). The biased prior has the labels of every column
permuted.
"""

from __future__ import annotations

from statistics import mean
from typing import Any, Final

from benchmarks._synthetic_bench import Bench, ratio_of_means, settings_of, versions_of
from benchmarks._synthetic_data import adult
from benchmarks._synthetic_paper import DELTA
from benchmarks._synthetic_priors import BIASED, NEAR, halves, spoiled
from benchmarks.results import Row

EPSILONS: Final = ("0.1", "1")
TRIALS: Final = (0, 1, 2)


def beside_jam(bench: Bench) -> list[Row]:
    """The 2-way error of ours with a prior over that of mbi's JAM with the same public rows, on half of Adult.

    Each trial of ours, and one of theirs, which takes minutes.
    """
    table, near = halves(adult())
    rows = []
    for epsilon in EPSILONS:
        for name, prior in {NEAR: near, BIASED: spoiled(near)[BIASED]}.items():
            given: dict[str, Any] = {"epsilon": epsilon, "delta": DELTA, "adjacency": "replace_one", "prior": prior}
            made = [bench.runs.ours("aim", table, seed=seed, **given) for seed in TRIALS]
            theirs = bench.theirs("mbi", "jam-numpy", table, epsilon=epsilon, trials=TRIALS[:1], prior=prior)
            errors = bench.errors(made, table)["2"]
            settings = settings_of(table, made) | {"epsilon": epsilon, "adjacency": "replace_one"}
            settings |= {"ours": list(errors), "peer": versions_of(theirs)}
            what = f"{table.name}, epsilon {epsilon}: aim's 2-way error with the prior {name!r}"
            if not theirs:
                rows.append(Row(what, round(mean(errors), 4), "L1 / N", settings=settings))
                continue
            other = bench.errors(theirs, table)["2"]
            ratio, error = ratio_of_means(errors, other)
            settings |= {"theirs": list(other), "ratio_se": round(error, 3)}
            settings |= {"peer_seconds": [each.report["cpu_seconds"] for each in theirs]}
            rows.append(
                Row(
                    f"{what} over that of mbi's JAM",
                    round(ratio, 3),
                    "ratio",
                    target=1.0,
                    holds=ratio <= 1,
                    peer=round(mean(other), 4),
                    settings=settings,
                )
            )
    return rows
