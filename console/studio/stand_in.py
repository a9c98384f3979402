"""A made-up table at the plan's noise: what a release would look like, drawn from nothing that is private.

Sizes follow 1, 1/2, 1/3, ... of a number that a person slides; they know nothing of any row. Nor is anything drawn at
random: noisy numbers stand where the noise falls in as many equal parts of its law as there are rows in the picture.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, product
from math import ceil, copysign, exp, log, log1p
from statistics import NormalDist
from typing import Any, Final

import numpy as np
from markupsafe import Markup

from console.studio.outlook_lines import number_text
from contracts.contract.contract import Contract
from tasks.records.charts.charts import count_bar

USUAL_SIZE: Final = 10_000
_MOST_BARS: Final = 12
_MOST_NAMED_CELLS: Final = 10_000
_EULER: Final = 0.5772156649015329
_GOLDEN: Final = 0.6180339887498949
_NORMAL: Final = NormalDist()
_REACH_95: Final = 0.975
_SUM: Final = "sum_"


@dataclass(frozen=True)
class StandInBar:
    """One line of the picture.

    Args:
        name: labels of the cell, or the statistic; empty where the cell is known by its rank alone.
        rank: of the cell among all, 1 for the largest; 0 where it is named, or no cell.
        rows: of the cell, where a statistic depends on them; else 0.
        made_up, noisy, reach: the number, the same with noise, and the half width of its 95 % interval, as texts.
        bar: both as a picture.
    """

    name: str
    rank: int
    rows: int
    made_up: str
    noisy: str
    reach: str
    bar: Markup


@dataclass(frozen=True)
class StandIn:
    """A made-up table.

    Args:
        size: how many rows it has.
        cells: how many cells.
        clear: how many of them hold more rows than the noise reaches; None where it holds no counts.
        bars: what is drawn of it.
    """

    size: int
    cells: int
    clear: int | None
    bars: tuple[StandInBar, ...]


def stand_in(line: dict[str, Any], contract: Contract | None, size: int) -> StandIn | None:
    """Draw a made-up table with the noise that is planned for a table.

    Args:
        line: a line of the outlook: its columns, cells, noise and reach, or its statistics.
        contract: whose labels name the cells; without it they are known by rank.
        size: rows of the made-up table, at least 1.
    Returns:
        StandIn: None where the plan foretells no interval.
    Privacy: a function of contract, plan and a slider; no row, no randomness.
    """
    cells = line["cells"]
    if not cells or not line["expected"]:
        return None
    counts = [each for each in line["expected"] if each["statistic"] == "count"]
    bars = list(_counted(line, contract, size, ceil(counts[0]["half_width_95"]))) if counts else []
    bars += [bar for error in line["expected"] for bar in _statistic(line, error, size / cells)]
    clear = None if not counts else _clear(cells, size, ceil(counts[0]["half_width_95"]))
    return StandIn(size, cells, clear, tuple(bars)) if bars else None


def made_up_count(rank: int, cells: int, size: int) -> int:
    """Return the rows of a cell of the made-up table: sizes are 1, 1/2, 1/3, ... of the largest."""
    return round(size / rank / _harmonic(cells))


def noise_parts(noise: str, reach: float, parts: int) -> list[float]:
    """Return where noise falls: the middle of each of so many equally likely parts, in an order that looks like none.

    Args:
        noise: kind of the event, `discrete_laplace` or `discrete_gaussian`; every other is taken for Laplace noise.
        reach: half width of the interval that holds 95 % of it.
        parts: how many.
    """
    law = _gaussian if noise == "discrete_gaussian" else _laplace
    order = sorted(range(parts), key=lambda place: (place * _GOLDEN) % 1)
    return [reach * law((place + 0.5) / parts) for place in order]


def _laplace(share: float) -> float:
    """Quantile of Laplace noise whose 95 % lie within 1: |x| has the tail 0.05^x."""
    away = 2 * share - 1
    return copysign(log1p(-abs(away)) / log(1 - 0.95), away)


def _gaussian(share: float) -> float:
    return _NORMAL.inv_cdf(share) / _NORMAL.inv_cdf(_REACH_95)


def _harmonic(cells: int) -> float:
    """Return 1 + 1/2 + ... + 1/cells; beyond a thousand by its expansion, good to nine digits."""
    if cells <= 1000:
        return sum(1 / rank for rank in range(1, cells + 1))
    return log(cells) + _EULER + 1 / (2 * cells)


def _clear(cells: int, size: int, reach: float) -> int:
    """Count the cells with more rows than the noise reaches."""
    return min(cells, int(size / _harmonic(cells) / max(reach, 1.0)))


def _counted(line: dict[str, Any], contract: Contract | None, size: int, reach: float) -> Iterator[StandInBar]:
    cells, names = line["cells"], _names(line, contract)
    ranks = sorted(range(1, cells + 1), key=lambda rank: (rank * _GOLDEN) % 1) if names else _some_ranks(cells)
    counts = [made_up_count(rank, cells, size) for rank in ranks]
    shifts = noise_parts(line["noise"], reach, len(ranks))
    scale = (0.0, max(counts) + reach)
    for place, (rank, count, shift) in enumerate(zip(ranks, counts, shifts, strict=True)):
        noisy = count + round(shift)
        bar = count_bar(count, (noisy - reach, noisy, noisy + reach), scale)
        name, known = (names[place], 0) if names else ("", rank)
        yield StandInBar(name, known, 0, number_text(count), number_text(noisy), number_text(reach), bar)


def _some_ranks(cells: int) -> list[int]:
    """Pick cells from the largest to the smallest, evenly by the logarithm of their rank."""
    steps = range(_MOST_BARS)
    return sorted({round(exp(log(cells) * step / (_MOST_BARS - 1))) for step in steps} if cells > 1 else {1})


def _names(line: dict[str, Any], contract: Contract | None) -> list[str]:
    """Name the cells of a small table by their labels, without those that the contract excludes."""
    names = line["columns"]
    known = set() if contract is None else {column.name for column in contract.columns}
    if contract is None or not names or not known.issuperset(names) or contract.cells(names) > _MOST_NAMED_CELLS:
        return []
    out = contract.impossible(names).reshape(-1)
    labels = product(*(contract.column(name).domain.labels for name in names))
    possible = (" × ".join(each) for each, excluded in zip(labels, np.asarray(out), strict=True) if not excluded)
    found = list(islice(possible, _MOST_BARS + 1))
    return found if len(found) == line["cells"] <= _MOST_BARS else []


def _statistic(line: dict[str, Any], error: dict[str, Any], rows: float) -> Iterator[StandInBar]:
    """Draw one statistic of a cell: in the middle of its bounds, with what noise may add."""
    name, reach = error["statistic"], error["half_width_95"]
    of = error.get("rows", 0)
    low, high = next((ends for column, ends in line["bounds"].items() if name.endswith(f"_{column}")), (0.0, 0.0))
    if error.get("ranks"):
        low, high, value = 0.0, rows, rows * float(name[1:].split("_")[0]) / 100
    elif name.startswith(_SUM):
        low, high = min(low, 0.0) * rows, max(high, 0.0) * rows
        value = (low + high) / 2
    elif name.startswith("mean_"):
        value = (low + high) / 2
    elif "clip" in error:  # the largest spread that the bounds allow
        low, high, value = 0.0, error["clip"], error["clip"] / 2
    else:
        return
    if high <= low or "if" in error:
        return
    [shift] = noise_parts(line["noise"], reach, 2)[:1]
    bar = _centred(value, value + shift, reach, (low, high))
    yield StandInBar(name, 0, of, number_text(value), number_text(value + shift), number_text(reach), bar)


def _centred(value: float, noisy: float, reach: float, scale: tuple[float, float]) -> Markup:
    """Draw a value within its bounds; the bar begins at the lower one."""
    low, high = scale
    moved: Sequence[float] = (noisy - reach - low, noisy - low, noisy + reach - low)
    return count_bar(value - low, (moved[0], moved[1], moved[2]), (0.0, high - low))
