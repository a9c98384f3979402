"""The plan of a release of statistics once its private clips are found: which lattices, moves and noise draws have.

The parts of the charge stay what they were, so that nothing of the price depends on a clip: with Laplace noise each
later draw costs its epsilon, with Gaussian noise its rho, whatever the width (docs/derivations.md, section 2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import prod

import numpy as np
from numpy.typing import NDArray

from contracts.contract.contract import Contract
from contracts.domains.value_lattices import ValueLattice
from contracts.domains.value_magnitudes import ValueMagnitudes
from contracts.release.statistics import StatisticsTable
from privacy.marginals.cell_sums import cell_sum_event
from privacy.marginals.sensitivity import LaplaceNoise, marginal_moves
from privacy.marginals.uncertainty import variance
from privacy.statistics.plan import StatisticsDraw, StatisticsPlan
from privacy.statistics.private_clips import FoundClip, LaterDraw, find_clip

_MEAN = "mean"


def find_clips(
    plan: StatisticsPlan,
    tables: Sequence[StatisticsTable],
    contract: Contract,
    histograms: Mapping[str, NDArray[np.int64]],
) -> dict[str, FoundClip]:
    """Find the clip of each draw that needs one.

    Args:
        plan: as it was charged.
        tables: those of the product.
        contract: its contract.
        histograms: the noisy counts of each histogram of magnitudes, by its key.
    Returns:
        dict: the clip of each such draw, by its key.
    Privacy: post-processing.
    """
    by_name, drawn = {table.name: table for table in tables}, {draw.key: draw for draw in plan.clips}
    found = {}
    for draw in plan.draws:
        if draw.clip is None:
            continue
        histogram = drawn[draw.clip]
        if not isinstance(histogram.addends, ValueMagnitudes):
            raise TypeError(f"{draw.clip} is no histogram of magnitudes")
        counts = [int(count) for count in histograms[draw.clip].reshape(-1)]
        later = _later(draw, by_name[draw.table], contract)
        found[draw.key] = find_clip(counts, histogram.addends, event=histogram.event, later=later)
    return found


def _later(draw: StatisticsDraw, table: StatisticsTable, contract: Contract) -> LaterDraw:
    """Return what the rule may know of a draw: its cells, its noise, and what is published of it."""
    moves = marginal_moves(contract.adjacency, contract.unit.max_rows_per_unit)
    if isinstance(draw.noise, LaplaceNoise):
        spread = 2 * Fraction(sum(map(abs, moves))) ** 2 / draw.noise.epsilon**2
    else:
        spread = Fraction(sum(move * move for move in moves)) / (2 * draw.noise.rho)
    column = None if draw.addends is None else draw.addends.column
    kinds = {each.what for each in table.of if column in {term.column for term in each.terms}}
    return LaterDraw(prod(draw.shape[:-1]), spread, kinds <= {_MEAN, "quantiles"})


def narrowed_plan(plan: StatisticsPlan, lattices: Mapping[str, ValueLattice], contract: Contract) -> StatisticsPlan:
    """Return a plan whose draws have the lattices that were found, by key; the others stay as they are.

    Privacy: public parameters alone; parts of the charge are those of `plan`.
    """
    terms = {"adjacency": contract.adjacency, "rows_per_unit": contract.unit.max_rows_per_unit}
    draws = []
    for draw in plan.draws:
        if draw.key in lattices:
            lattice = lattices[draw.key]
            event = cell_sum_event(draw.noise, lattice, **terms)  # type: ignore[arg-type]
            draw = replace(draw, addends=lattice, event=event, variance=variance(event))
        draws.append(draw)
    return replace(plan, draws=tuple(draws))
