"""What every peer's script for statistics does around the peer: read the questions, ask, keep the noisy answers.

Standard input: JSON {"data": Parquet of region, sex and value, "cells": [[region, sex], ...], "low", "high",
"questions": [[mode, epsilon], ...], "repeats", "out"}. A mode is

- `sum` or `mean`: that statistic alone, with all of epsilon,
- `together`: count, sum and mean in one query, as the peer itself asks for them,
- `derived`: count and sum alone are asked for, and the mean is their ratio, where the peer does not do so by itself.

`out` becomes an npz of `mode/epsilon/statistic` -> float64, shape (repeats, cells); standard output: JSON
{"seconds", "versions"}. The privacy unit is one row, added or removed; epsilon is the whole query's.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np

SHARES = {
    "alone-q10": {"q10": 0.1},
    "alone-q50": {"q50": 0.5},
    "alone-q90": {"q90": 0.9},
    "three": {"q10": 0.1, "q50": 0.5, "q90": 0.9},
}
"""The quantiles that a mode of the benchmark of quantiles asks for."""
Cell = tuple[str, str]
Noisy = dict[str, Any]
"""Statistic -> float64, shape (repeats, cells)."""
Ask = Callable[[str, float, int], Noisy]
"""(mode, epsilon, repeats) -> the noisy statistics."""


@dataclass(frozen=True)
class Grouped:
    """A table that is grouped by region and sex.

    Args:
        path: the Parquet file.
        cells: the declared keys (region, sex), in the order of the answers.
        low: what values are clipped to from below.
        high: what values are clipped to from above.
    """

    path: str
    cells: tuple[Cell, ...]
    low: int
    high: int

    def row(self, found: Mapping[Cell, float]) -> Any:
        """Put one answer of the query into the order of the cells."""
        return np.array([found[cell] for cell in self.cells], dtype=np.float64)

    def rows(self, answers: Iterable[Mapping[str, Mapping[Cell, float]]]) -> Noisy:
        """Stack the answers of all repeats, statistic by statistic."""
        made = [{name: self.row(found) for name, found in answer.items()} for answer in answers]
        return {name: np.stack([answer[name] for answer in made]) for name in made[0]}


def ratio(noisy: Noisy) -> Noisy:
    """Add the mean as noisy sum over noisy count, which is taken as 1 at least."""
    return {**noisy, "mean": noisy["sum"] / np.maximum(noisy["count"], 1)}


def main(connect: Callable[[Grouped], Ask], *packages: str) -> None:
    """Ask every question of standard input, write the answers and report."""
    asked = json.load(sys.stdin)
    cells = tuple((region, sex) for region, sex in asked["cells"])
    begun, kept = time.perf_counter(), {}
    warnings.simplefilter("ignore")
    with redirect_stdout(sys.stderr):
        ask = connect(Grouped(asked["data"], cells, asked["low"], asked["high"]))
        for mode, epsilon in asked["questions"]:
            for statistic, values in ask(mode, float(epsilon), asked["repeats"]).items():
                kept[f"{mode}/{epsilon}/{statistic}"] = values
            print(f"{mode}, epsilon {epsilon}: {time.perf_counter() - begun:.0f} s so far", flush=True)
    np.savez_compressed(asked["out"], **kept)
    seconds = round(time.perf_counter() - begun, 1)
    print(json.dumps({"seconds": seconds, "versions": {package: version(package) for package in packages}}))
