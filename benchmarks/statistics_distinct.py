"""Keys that nobody declared, people by cell and different values by cell, beside OpenDP, PipelineDP and SmartNoise.

    python -m benchmarks.statistics_distinct --peers DIR [--kept DIR]

1. **Published keys** of a Zipf table of a million people with one key each (exponent 1.5, seed 5), at epsilon 1 and
   delta 1e-8: how many keys our rule publishes, on average over many coins, beside the best peer's, and beside the
   optimum, which is computed here from the source's theorem in rational numbers, without our code. OpenDP and
   SmartNoise publish a key where its noisy count passes a threshold, so each of their keys has a count. So a second
   row compares our keys that have counts, of one draw. A third one gives the least chance, over all numbers of
   people, that the interval of such a count holds given that its key is published; it is computed, not simulated.
2. **People and different values by cell** at epsilon 1: 12,000 people with three rows each in six cells, each counted
   alone with all of epsilon. The error is the root mean square over cells and repeats, and the one that follows from
   the noise: discrete Laplace of inverse scale epsilon / 3. PipelineDP counts people alone; SmartNoise counts no
   different values of groups.

A row of keys holds where ours are no fewer than the best peer's, up to three standard errors; a row of errors where
ours by formula is no larger than the best peer's simulated one, up to three standard errors of that.

Source of the optimum: Desfontaines, Voss, Gipson, Mandayam 2022, theorem 1.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from fractions import Fraction
from math import exp, sqrt
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from benchmarks._distinct_peers import Answers, Floats, People, Question, answers
from benchmarks.results import Row, Setting, machine, write
from contracts.domains.addends import DistinctCount
from privacy.accounting.events import key_selection
from privacy.accounting.key_law import KeyCountLaw, key_count_law
from privacy.grant.sampled_noise import SampledNoise
from privacy.marginals.cell_sums import cell_sum_event
from privacy.marginals.sensitivity import LaplaceNoise
from privacy.noise.choice import noisy_key_counts, selected
from privacy.noise.random_bytes import SecureBytes
from privacy.statistics.key_counts import key_interval

EPSILON: Final = "1"
DELTA: Final = Fraction(1, 10**8)
ATTO: Final = 10**18
ZIPF: Final = 1.5
PEOPLE: Final = 1_000_000
COINS: Final = 2000
"""Selections of ours that are averaged."""
CELLS: Final = 6
ROWS: Final = 3
NOISES: Final = 200_000
"""Noisy numbers of ours whose root mean square is taken."""
STANDARD_ERRORS: Final = 3
KEYS: Final = (
    Question("PipelineDP", "keys", 200),
    Question("PipelineDP", "keys_counts", 8),
    Question("OpenDP", "keys_counts", 10),
    Question("SmartNoise SQL", "keys_counts", 5),
)
COUNTS: Final = {
    "units": (Question("OpenDP", "units", 1000), Question("PipelineDP", "units", 30)),
    "values": (Question("OpenDP", "values", 1000),),
}
TITLES: Final = {"units": "people by cell", "values": "different values by cell"}


def main() -> None:
    """Measure everything and write results/statistics_distinct.json."""
    asked = _arguments()
    zipf = zipf_people()
    found = answers(zipf, KEYS, epsilon=EPSILON, peers=asked.peers, kept=asked.kept)
    rows = _key_rows(np.bincount(zipf.key), found)
    people = several_rows()
    for mode, questions in COUNTS.items():
        found = answers(people, questions, epsilon=EPSILON, peers=asked.peers, kept=asked.kept)
        rows.append(_count_row(mode, people, found))
    write("statistics_distinct", rows)


def zipf_people(people: int = PEOPLE) -> People:
    """Make up people, each with one key; few keys have many people, and most keys have one."""
    drawn = np.random.default_rng(5).zipf(ZIPF, people)
    _, key = np.unique(drawn, return_inverse=True)
    nothing = np.zeros(people, dtype=np.int64)
    return People("zipf", np.arange(people), key.astype(np.int64), nothing, 1, 0, float(DELTA))


def several_rows() -> People:
    """Make up 12,000 people with three rows each, in cells at random; few values have many rows."""
    chance, people = np.random.default_rng(3), 12_000
    person, rows = np.repeat(np.arange(people), ROWS), people * ROWS
    key = chance.integers(0, CELLS, rows)
    return People("several_rows", person, key, np.minimum(chance.zipf(1.4, rows), 2000), ROWS, CELLS, 0.0)


def optimal_chances(epsilon: Fraction, delta: Fraction, most: int) -> list[float]:
    """Return with which probability the optimal rule publishes a key of 0, 1, ... people, by the theorem.

        p(0) = 0,   p(n) = min(exp(e) p(n-1) + d,   1 - exp(-e) (1 - p(n-1) - d),   1)

    Args:
        epsilon: e, of the selection.
        delta: d, of the selection.
        most: up to which number of people.
    """
    growth, chances = Fraction(exp(epsilon)), [Fraction(0)]
    while len(chances) <= most and chances[-1] < 1:
        last = chances[-1]
        chances.append(
            min(growth * last + delta, 1 - (1 - last - delta) / growth, Fraction(1)).limit_denominator(2**200)
        )
    return [float(each) for each in chances]


def published_keys(units: NDArray[np.int64], epsilon: Fraction) -> Floats:
    """Return how many keys each of many selections publishes, drawn as a run draws them; shape (COINS,)."""
    event = key_selection(epsilon, int(DELTA * ATTO), 1)
    coin: dict[str, Any] = {"epsilon": event.epsilon, "delta": event.delta, "source": SecureBytes()}
    return np.array([int(selected(units, **coin).sum()) for _ in range(COINS)], dtype=np.float64)


def counted_keys(units: NDArray[np.int64], epsilon: Fraction) -> Floats:
    """Return how many keys each of many draws publishes that count keys too, as a run draws; shape (COINS,)."""
    law, source = key_count_law(epsilon, DELTA, rows_per_unit=1), SecureBytes()
    found = [int(noisy_key_counts(units, law=law, source=source)[0].sum()) for _ in range(COINS)]
    return np.array(found, dtype=np.float64)


def least_coverage(law: KeyCountLaw) -> tuple[int, float]:
    """Return the number of people whose interval holds least often given publication, and how often that is."""
    chances, found = (0, *law.chances), []
    for n in range(1, 3 * len(chances)):
        held = 0
        for index in range(1, min(n, len(law.chances)) + 1):
            _, lower, upper = key_interval(law, n - index + law.least)
            held += (lower <= n <= upper) * (chances[index] - chances[index - 1])
        found.append((held / chances[min(n, len(law.chances))], n))
    share, people = min(found)
    return people, share


def _coverage_row(title: str) -> Row:
    """Say how often intervals hold, in the worst size."""
    people, share = least_coverage(key_count_law(Fraction(EPSILON), DELTA, rows_per_unit=1))
    settings: dict[str, Setting] = machine("numpy") | {"worst_people": people, "computed": "in whole numbers"}
    what = f"{title}: 95 % intervals of their counts, given publication, in the worst size"
    return Row(what, share, "coverage", ">= 0.95", share >= 0.95, settings=settings)


def _key_rows(units: NDArray[np.int64], found: Sequence[Answers]) -> list[Row]:
    """Compare our keys with the peers' and with the optimum: all of epsilon, then beside counts.

    Args:
        units: how many people have each key, shape (keys,).
        found: what the peers said.
    """
    ours, counted = published_keys(units, Fraction(EPSILON)), counted_keys(units, Fraction(EPSILON))
    chances = np.array(optimal_chances(Fraction(EPSILON), DELTA, int(units.max())))
    optimum = float(chances[np.minimum(units, len(chances) - 1)].sum())
    mean, sure = float(ours.mean()), _standard_error(ours)
    settings = machine("numpy") | {"people": int(units.sum()), "keys": len(units), "zipf": ZIPF, "epsilon": 1.0}
    settings |= {"delta": float(DELTA), "adjacency": "add_remove", "selections": COINS, "standard_error": sure}
    settings |= {"peers": {each.question.peer: dict(each.report["versions"]) for each in found}}
    settings |= {"peers_keys": {f"{each.question.peer}, {each.question.mode}": _described(each) for each in found}}
    title = "Zipf table of a million people, epsilon 1, delta 1e-8: keys published"
    rows = [
        _keys_row(title, ours, found, settings),
        _keys_row(f"{title}, each with a count", counted, [e for e in found if e.question.mode != "keys"], settings),
        _coverage_row(title),
    ]
    what = f"{title}, distance to the optimum of any rule"
    near = abs(mean - optimum) <= STANDARD_ERRORS * sure
    told: dict[str, Setting] = {"optimum": round(optimum, 4), "ours": round(mean, 4)}
    most = STANDARD_ERRORS * sure
    return [*rows, Row(what, abs(mean - optimum), "keys", f"<= {most:.2g}", near, settings=settings | told)]


def _keys_row(what: str, ours: Floats, found: Sequence[Answers], settings: dict[str, Setting]) -> Row:
    """Compare keys with those of the best peer."""
    mean, own = float(ours.mean()), _standard_error(ours)
    if not found:
        return Row(what, mean, "keys", settings=settings)
    best = max(found, key=lambda each: float(each.noisy.mean()))
    least, theirs = float(best.noisy.mean()), _standard_error(best.noisy[:, 0])
    holds = mean >= least - STANDARD_ERRORS * sqrt(own**2 + theirs**2)
    return Row(what, mean, "keys", least, holds, peer=f"{best.question.peer}: {least:.5g}", settings=settings)


def _count_row(mode: str, people: People, found: Sequence[Answers]) -> Row:
    """Compare the error of one kind of distinct count."""
    counted = DistinctCount(None if mode == "units" else "value", None, True)
    noise = LaplaceNoise(Fraction(EPSILON))
    event = cell_sum_event(noise, counted, adjacency="add_remove", rows_per_unit=ROWS, cells=CELLS)
    drawn = SampledNoise(SecureBytes()).integers(NOISES, event=event).astype(np.float64)
    exact = [len(np.unique(_counted(people, mode)[people.key == cell])) for cell in range(CELLS)]
    errors = {each.question.peer: each.noisy - np.array(exact) for each in found}
    simulated, formula = _root(drawn), laplace_error(Fraction(EPSILON) / ROWS)
    settings = machine("numpy") | {"people": len(people.person) // ROWS, "rows_per_unit": ROWS, "cells": CELLS}
    settings |= {"epsilon": 1.0, "adjacency": "add_remove", "noisy_numbers": NOISES}
    settings |= {"rmse_by_formula": formula, "rmse_simulated": simulated, "standard_error": _root_error(drawn)}
    settings |= {"peers": {each.question.peer: dict(each.report["versions"]) for each in found}}
    told = {
        name: {"rmse": _root(each), "standard_error": _root_error(each), "numbers": each.size}
        for name, each in errors.items()
    }
    settings |= {"peers_rmse": dict(told)}
    what = f"12,000 people with three rows each, epsilon 1: RMSE of {TITLES[mode]}"
    if not errors:
        return Row(what, formula, "people" if mode == "units" else "values", settings=settings)
    best = min(told, key=lambda name: float(told[name]["rmse"]))
    least = float(told[best]["rmse"])
    holds = formula <= least + STANDARD_ERRORS * float(told[best]["standard_error"])
    unit = "people" if mode == "units" else "values"
    return Row(what, formula, unit, least, holds, peer=f"{best}: {least:.4g}", settings=settings)


def laplace_error(inverse_scale: Fraction) -> float:
    """Return the standard deviation of discrete Laplace noise: sqrt(2 r) / (1 - r), r = exp(-t)."""
    ratio = exp(-float(inverse_scale))
    return sqrt(2 * ratio) / (1 - ratio)


def _counted(people: People, mode: str) -> NDArray[np.int64]:
    return people.person if mode == "units" else people.value


def _described(found: Answers) -> dict[str, Setting]:
    drawn = found.noisy[:, 0]
    error = _standard_error(drawn)
    told: dict[str, Setting] = {"mean": float(drawn.mean()), "standard_error": error, "repeats": len(drawn)}
    return told | {"each_with_a_count": found.question.mode != "keys", "seconds": found.report["seconds"]}


def _standard_error(numbers: Floats) -> float:
    return float(np.std(numbers, ddof=1) / sqrt(len(numbers)))


def _root(errors: Floats) -> float:
    return float(np.sqrt(np.mean(errors**2)))


def _root_error(errors: Floats) -> float:
    """Return the standard error of a root mean square, from the spread of the squares."""
    return float(np.std(errors**2) / sqrt(errors.size) / (2 * _root(errors)))


def _arguments() -> argparse.Namespace:
    """Read where the peers are."""
    parser: Any = argparse.ArgumentParser(description="keys and distinct counts beside the peers")
    parser.add_argument("--peers", type=Path, required=True)
    parser.add_argument("--kept", type=Path, default=Path("build") / "distinct")
    found: argparse.Namespace = parser.parse_args()
    return found


if __name__ == "__main__":
    main()
