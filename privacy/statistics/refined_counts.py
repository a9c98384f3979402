"""Refined counts of statistics: not negative, whole, and with one total in all tables of a release.

Where (one letter each)
    t   a table that publishes counts      n_t   its cells that can hold somebody      v_t   variance of a noisy count

Each noisy table adds up to the exact total plus noise of variance n_t v_t. The total is the average of these sums,
weighted by 1 / (n_t v_t), or the one that the contract declares public. Each table is then projected by `negative_l2`
onto the counts of that total, and rounded to whole numbers that keep it. All rows are in one cell of every table, so
all tables have the same total; with survey weights, all tables of one weight. Weighted counts are whole numbers of
steps of the weight.

Noisy counts are fractions where they are read off sums. They are rounded to a grain before the projection, so that
the projection is exact in whole numbers and the same on every machine. The grain is 1/1024; all tables of one weight
have a coarser one, a power of two, where a noisy count would leave 2^61 grains. Refined counts are multiples of a
unit, which is 1, and a larger power of two where the total would leave 2^50 units. The projection's doubles are then
off by less than half a unit in sum, and doubles hold every refined count exactly. Grain and unit follow from noisy
counts, and the unit from a public total.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from math import fsum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from contracts.domains.value_lattices import ValueLattice
from contracts.release.tables.product import Refine
from privacy.arrays import Floats
from privacy.refine.negative_l2 import negative_l2
from privacy.refine.rounding import round_to_total

_FINEST: Final = 1024
"""Grains of a row, or of a step of the weight, where counts are small enough."""
_MOST_GRAINS: Final = 2**61
"""Differences of two such numbers stay within int64."""
_MOST_UNITS: Final = 2**50
"""An eighth of what doubles hold exactly: a projected cell may be off by three roundings."""
_LEAST_VARIANCE: Final = 1e-300
"""Noise that is almost never there has a variance of 0 in doubles; its precision must stay finite."""


@dataclass(frozen=True, eq=False)
class NoisyCounts:
    """The noisy counts of a table.

    Args:
        values: unbiased, shape of the cells [rows, or steps of the weight].
        variance: of the noise in one of them [squares of these].
        impossible: cells that the contract excludes, same shape.
        weight: the lattice of the survey weight; None where every row counts once.
    """

    values: Floats
    variance: float
    impossible: NDArray[np.bool_]
    weight: ValueLattice | None


def refine_counts(
    tables: Mapping[str, NoisyCounts], terms: Refine, *, public_total: int | None
) -> dict[str, NDArray[np.int64] | Floats]:
    """Refine the counts of all tables of a release.

    Args:
        tables: by name.
        terms: method simplex, or negative_l2 with a lambda.
        public_total: the rows, where the contract declares them public; not of weighted tables.
    Returns:
        By name, in the shape of the cells: rows, int64; of weighted tables sums of weights, float64.
    Raises:
        ValueError: another method.
    Privacy: post-processing.
    Source: negative ℓ2 paper, eq. 11 and section 2.4, as `privacy.refine.negative_l2` and `rounding`.
    """
    strength = Decimal(0) if terms.method == "simplex" else terms.lambda_
    if not isinstance(strength, Decimal):
        raise ValueError(f"counts of statistics are not refined by {terms.method} with lambda {terms.lambda_}")
    found: dict[str, NDArray[np.int64] | Floats] = {}
    for weight in dict.fromkeys(each.weight for each in tables.values()):
        alike = {name: each for name, each in tables.items() if each.weight == weight}
        known = public_total if weight is None else None
        total = common_total(list(alike.values())) if known is None else known
        grains, unit = _grains(list(alike.values())), _unit(total)
        found |= {
            name: _refined(each, round(total / unit), grains, unit, float(strength)) for name, each in alike.items()
        }
    return {name: found[name] for name in tables}


def common_total(tables: list[NoisyCounts]) -> int:
    """Return the average of the tables' sums, by precision; whole, and not below 0. Post-processing."""
    known = [each for each in tables if not each.impossible.all()]
    if not known:
        return 0
    precisions = [1 / ((~each.impossible).sum() * max(each.variance, _LEAST_VARIANCE)) for each in known]
    sums = [fsum(each.values[~each.impossible].tolist()) for each in known]
    average = fsum(a * b for a, b in zip(precisions, sums, strict=True)) / fsum(precisions)
    return max(0, round(average))


def _grains(tables: list[NoisyCounts]) -> float:
    """Return how many grains a row has, or a step of the weight: a power of two, below 1 where counts are huge."""
    reach = max((float(np.abs(each.values[~each.impossible]).max(initial=0.0)) for each in tables), default=0.0)
    grains = float(_FINEST)
    while reach * grains > _MOST_GRAINS:
        grains /= 2
    return grains


def _unit(total: int) -> int:
    """Return of what number refined counts are multiples: 1, or a power of two where the total is huge."""
    unit = 1
    while total > _MOST_UNITS * unit:
        unit *= 2
    return unit


def _refined(table: NoisyCounts, units: int, grains: float, unit: int, strength: float) -> NDArray[np.int64] | Floats:
    """Project a table's counts onto those that add up to so many units."""
    possible, found = ~table.impossible, np.zeros(table.values.shape, dtype=np.int64)
    if possible.any():
        whole = np.rint(table.values[possible] * grains).astype(np.int64)
        projected = negative_l2(whole, float(units) * unit * grains, lambda_=strength)
        found[possible] = round_to_total(projected / grains / unit, units)
    if table.weight is None:
        return found * unit
    return np.asarray(found.astype(np.float64) * unit * float(table.weight.step), dtype=np.float64)
