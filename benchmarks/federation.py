"""Training across five sites that are not alike, at record-level epsilon 1, beside pooled and local DP-SGD.

Adult's complete rows; a fifth is held out, the others are shared out by education and income (Dirichlet 0.5). One
network, one number of rounds and one expected batch for all; each number is the mean over the splits. The sites are
in one process: what carries the rounds changes no number, and `test_federation_loopback` runs over Flower.
`--data DIR` holds adult/adult_full.csv.gz. `--rows` measures P3GM across the sites instead (`_federation_rows`), into
results/federation_rows.json.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from statistics import fmean, pstdev
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, Final

import numpy as np
import torch

from benchmarks._federation_data import ALPHA, SITES, Split, accuracy, learner, split
from benchmarks._federation_rows import made_up_rows
from benchmarks._federation_runs import DELTA, EPSILON, NORM, Rounds, central, local, pooled, without_privacy
from benchmarks.results import Row, Setting, machine, write
from privacy.federation.plan import Trust
from privacy.learning.learners import Classifier

SEEDS: Final = (0, 1, 2)
ROUNDS: Final = Rounds(steps=100, batch=4000)
RATE: Final = 0.05
POINTS: Final = 2.0
DATA: Final = Path(__file__).parents[1] / "data"
SHARES: Final = Trust("sites", secure_aggregation=True, server=None, fewest=4, colluding=1, sites_per_person=1)
SERVER: Final = Trust("server", secure_aggregation=False, server="office", fewest=4, colluding=0, sites_per_person=1)
OVERLAP: Final = Trust("sites", secure_aggregation=True, server=None, fewest=4, colluding=1, sites_per_person=2)
Scores = dict[str, float]


def main() -> None:
    """Measure and write results/federation.json, or results/federation_rows.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--rows", action="store_true", help="made-up rows of P3GM instead of classifiers")
    given = parser.parse_args()
    data = given.data
    torch.set_num_threads(1)
    if given.rows:
        write("federation_rows", made_up_rows(data, SHARES, SERVER))
        return
    scores = [_scores(split(data, seed=seed), seed) for seed in SEEDS]
    write("federation", _rows(scores, split(data, seed=SEEDS[0])))


def _scores(parted: Split, seed: int) -> Scores:
    """Return the accuracy of every way on the rows that were held out."""
    model, everyone = learner(parted.layout, rate=RATE, hidden=()), np.concatenate(parted.sites)
    with TemporaryDirectory() as folder:
        place = Path(folder)
        scored: Scores = {}

        def score(name: str, made: Callable[[Classifier], Any]) -> None:
            begun = perf_counter()
            scored[name] = accuracy(model, parted.layout, made(model), parted.test)
            scored[f"{name} seconds"] = perf_counter() - begun

        score("pooled", lambda m: pooled(parted.layout, everyone, m, ROUNDS, place / "pooled"))
        score("shares", lambda m: central(parted, m, ROUNDS, SHARES, place / "shares"))
        score("server", lambda m: central(parted, m, ROUNDS, SERVER, place / "server"))
        score("overlap", lambda m: central(parted, m, ROUNDS, OVERLAP, place / "overlap"))
        average, models = local(parted, model, ROUNDS, place / "local")
        score("local", lambda m: average)
        each = [accuracy(model, parted.layout, one, parted.test) for one in models]
        scored |= {"local mean": fmean(each), "local least": min(each), "local best": max(each)}
        free = {"rounds": 10, "batch": 64, "seed": seed}
        score("fedavg", lambda m: without_privacy(parted.layout, parted.sites, m, **free))
        score("pooled without", lambda m: without_privacy(parted.layout, [everyone], m, **free))
    return scored


def _rows(scores: list[Scores], first: Split) -> list[Row]:
    settings: dict[str, Setting] = {
        **machine("numpy", "torch", "cryptography"),
        "sites": len(SITES),
        "rows_of_sites_in_the_first_split": list(first.rows),
        "dirichlet": ALPHA,
        "splits": len(scores),
        "epsilon": float(EPSILON),
        "delta": float(DELTA),
        "rounds": ROUNDS.steps,
        "batch": ROUNDS.batch,
        "clipping_norm": float(NORM),
        "learning_rate": RATE,
        "network": "logistic regression on one entry a cell",
    }

    def row(what: str, name: str, target: float | str | None = None, holds: bool | None = None) -> Row:
        values = [score[name] for score in scores]
        spread: dict[str, Setting] = {"each": [round(value, 5) for value in values]}
        seconds = [score[f"{name} seconds"] for score in scores if f"{name} seconds" in score]
        spread |= {"standard_deviation": round(pstdev(values), 5), "seconds": [round(each, 1) for each in seconds]}
        return Row(what, round(fmean(values), 5), "accuracy", target, holds, settings=settings | spread)

    pooled_ = fmean(score["pooled"] for score in scores)
    least = round(pooled_ - POINTS / 100, 5)
    shares, server = (fmean(score[name] for score in scores) for name in ("shares", "server"))
    return [
        row("pooled, without privacy", "pooled without"),
        row("FedAvg, without privacy", "fedavg"),
        row("pooled DP-SGD, epsilon 1", "pooled"),
        row(
            "across sites, epsilon 1, noise in shares for 4 survivors, 1 of them curious",
            "shares",
            least,
            shares >= least,
        ),
        row("across sites, epsilon 1, noise by a trusted server", "server", least, server >= least),
        row("across sites, epsilon 1 for people with rows at up to 2 sites", "overlap"),
        row("local DP-SGD at each site, epsilon 1, average of the models", "local"),
        row("local DP-SGD at each site, epsilon 1, mean over sites", "local mean"),
        row("local DP-SGD at each site, epsilon 1, the worst site", "local least"),
    ]


if __name__ == "__main__":
    main()
