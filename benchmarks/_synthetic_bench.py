"""What the sections of the synthetic benchmark share: three trials of ours, three of a peer, and how they compare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import hypot, sqrt
from statistics import mean, stdev
from typing import Any, Final

from benchmarks._synthetic_data import Categorical
from benchmarks._synthetic_paper import DELTA, EPSILON, METHODS, TRIALS
from benchmarks._synthetic_peers import Made, Peer, Runs
from benchmarks.results import Row, Setting, machine

ALPHAS: Final = ("1", "2", "3")
LISTED_COLUMNS: Final = 30


@dataclass(frozen=True)
class Bench:
    """What the sections share.

    Args:
        runs: runs programs.
        peers: those that are installed.
    """

    runs: Runs
    peers: Mapping[str, Peer]

    def ours(
        self,
        method: str,
        table: Categorical,
        *,
        epsilon: str = EPSILON,
        adjacency: str = "add_remove",
        trials: Sequence[int] = TRIALS,
    ) -> list[Made]:
        """Run one of our methods, three trials unless others are asked for."""
        generator, options = METHODS[method]
        given: dict[str, Any] = {"epsilon": epsilon, "delta": DELTA, "adjacency": adjacency, "options": options}
        return [self.runs.ours(generator, table, seed=seed, **given) for seed in trials]

    def theirs(
        self, name: str, method: str, table: Categorical, *, epsilon: str = EPSILON, trials: Sequence[int] = TRIALS
    ) -> list[Made]:
        """Run a peer's method, three trials; none when the peer is not installed."""
        peer = self.peers.get(name)
        if peer is None:
            return []
        given: dict[str, Any] = {"epsilon": epsilon, "delta": DELTA}
        return [self.runs.peer(peer, method, table, seed=seed, **given) for seed in trials]

    def errors(self, made: Sequence[Made], table: Categorical) -> dict[str, list[float]]:
        """Return the α-way errors of every trial, by α; without those α for which a wide table has too many sets."""
        errors = [self.runs.scores(each, table)["alpha_way_error"] for each in made]
        measured = [alpha for alpha in ALPHAS if all(alpha in each for each in errors)]
        return {alpha: [each[alpha]["mean"] for each in errors] for alpha in measured}


def ratio_of_means(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, float]:
    """Return the mean of ours over that of theirs, and the ratio's standard error; one trial adds none to it."""
    errors = [stdev(each) / sqrt(len(each)) / mean(each) if len(each) > 1 else 0.0 for each in (ours, theirs)]
    ratio = mean(ours) / mean(theirs)
    return ratio, ratio * hypot(*errors)


def no_higher(what: str, ours: Sequence[float], theirs: Sequence[float], settings: dict[str, Setting]) -> Row:
    """Compare means over the trials; the target is the peer's."""
    peer = round(mean(theirs), 4) if theirs else None
    about: dict[str, Setting] = {"sd": round(stdev(ours), 4), "trials": list(ours), "peer_trials": list(theirs)}
    holds = mean(ours) <= mean(theirs) if theirs else None
    return Row(what, round(mean(ours), 4), "L1 / N", target=peer, holds=holds, peer=peer, settings=settings | about)


def timed(
    what: str, made: Sequence[Made], target: float, theirs: Sequence[Made], settings: dict[str, Setting]
) -> Row:
    seconds = mean(each.report["seconds"] for each in made)
    peer = round(mean(each.report["seconds"] for each in theirs), 1) if theirs else None
    return Row(what, round(seconds, 1), "s", target=target, holds=seconds <= target, peer=peer, settings=settings)


def settings_of(table: Categorical, made: Sequence[Made]) -> dict[str, Setting]:
    """Return the machine, the table, and what was run."""
    settings: dict[str, Setting] = machine("numpy", "scipy", "scikit-learn", "xgboost-cpu")
    peaks: list[Setting] = [each.report["peak_gigabytes"] for each in made]
    settings |= {"rows": len(table.codes), "shape": _shape(table.shape), "epsilon": EPSILON, "delta": DELTA}
    return settings | {"adjacency": "add_remove", "runs": [each.name for each in made], "peak_gigabytes": peaks}


def _shape(shape: Sequence[int]) -> Setting:
    """Return the cells of each column; of many columns the least and the most."""
    if len(shape) <= LISTED_COLUMNS:
        return list(shape)
    return f"{len(shape)} columns of {min(shape)} to {max(shape)} cells"


def versions_of(theirs: Sequence[Made]) -> Setting:
    if not theirs:
        return "not installed"
    versions: dict[str, Setting] = dict(theirs[0].report["versions"])
    return {"runs": [each.name for each in theirs], "versions": versions}
