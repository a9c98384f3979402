"""Refined counts of statistics: not negative, whole, and with one total in all tables of a release.

Where (one letter each)
    t   a table that publishes counts      n_t   its cells that can hold somebody      v_t   variance of a noisy count

Each noisy table adds up to the exact total plus noise of variance n_t v_t. The total is the average of these sums,
weighted by 1 / (n_t v_t), or the one that the contract declares public. Each table is then projected by `negative_l2`
onto the counts of that total, and rounded to whole numbers that keep it. All rows are in one cell of every table, so
all tables have the same total; with survey weights, all tables of one weight. Weighted counts are whole numbers of
steps of the weight.

Noisy counts are fractions where they are read off sums. They are rounded to 1/1024 before the projection, so that the
projection is exact and the same on every machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from math import fsum

import numpy as np
from numpy.typing import NDArray

from contracts.domains.value_lattices import ValueLattice
from contracts.release.tables.product import Refine
from privacy.arrays import Floats
from privacy.refine.negative_l2 import negative_l2
from privacy.refine.rounding import round_to_total

_GRAIN = 1024


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
    totals: dict[ValueLattice | None, int] = {} if public_total is None else {None: public_total}
    for each in tables.values():
        if each.weight not in totals:
            alike = [other for other in tables.values() if other.weight == each.weight]
            totals[each.weight] = common_total(alike)
    return {name: _refined(each, totals[each.weight], float(strength)) for name, each in tables.items()}


def common_total(tables: list[NoisyCounts]) -> int:
    """Return the average of the tables' sums, by precision; whole, and not below 0. Post-processing."""
    known = [each for each in tables if not each.impossible.all()]
    if not known:
        return 0
    precisions = [1 / ((~each.impossible).sum() * each.variance) for each in known]
    sums = [fsum(each.values[~each.impossible].tolist()) for each in known]
    average = fsum(a * b for a, b in zip(precisions, sums, strict=True)) / fsum(precisions)
    return max(0, round(average))


def _refined(table: NoisyCounts, total: int, strength: float) -> NDArray[np.int64] | Floats:
    """Project a table's counts onto those that add up to the total."""
    possible, found = ~table.impossible, np.zeros(table.values.shape, dtype=np.int64)
    if possible.any():
        grains = np.rint(table.values[possible] * _GRAIN).astype(np.int64)
        projected = negative_l2(grains, float(total) * _GRAIN, lambda_=strength)
        found[possible] = round_to_total(projected / _GRAIN, total)
    if table.weight is None:
        return found
    return np.asarray(found.astype(np.float64) * float(table.weight.step), dtype=np.float64)
