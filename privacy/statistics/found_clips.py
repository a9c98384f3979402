"""The plan of a release of statistics once its private clips are found: which lattices, moves and noise draws have.

The parts of the charge stay what they were, so that nothing of the price depends on a clip: with Laplace noise each
later draw costs its epsilon, with Gaussian noise its rho, whatever the width (docs/derivations.md, section 2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import prod
from typing import Final

import numpy as np
from numpy.typing import NDArray

from contracts.contract.contract import Contract
from contracts.domains.value_lattices import ValueLattice
from contracts.domains.value_magnitudes import ValueMagnitudes
from contracts.release.statistics_table import StatisticsTable
from privacy.marginals.sensitivity import LaplaceNoise, marginal_moves, moved_noise
from privacy.marginals.uncertainty import variance
from privacy.statistics.plan import StatisticsDraw, StatisticsPlan
from privacy.statistics.private_clips import FoundClip, LaterDraw, find_clip

FORETOLD: Final = (4, 16, 256)
"""Parts of the bounds for which a plan tells how wide intervals would be."""
_MEANS: Final = frozenset({"mean", "quantiles"})


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
    return LaterDraw(prod(draw.shape[:-1]), spread, kinds <= _MEANS)


def narrowed_plan(plan: StatisticsPlan, lattices: Mapping[str, ValueLattice]) -> StatisticsPlan:
    """Return a plan whose draws have the lattices that were found, by key; the others stay as they are.

    Privacy: public parameters alone; parts of the charge are those of `plan`.
    """
    draws = [_narrowed(draw, lattices[draw.key]) if draw.key in lattices else draw for draw in plan.draws]
    return replace(plan, draws=tuple(draws))


def narrower_plans(plan: StatisticsPlan) -> dict[str, StatisticsPlan]:
    """Return what the plan may become: for some parts of the bounds, in words, the plan with such clips everywhere.

    What a clip will be is not known before the charge; how wide intervals are with a few narrower ones is.
    """
    found = {}
    for parts in FORETOLD:
        lattices = {
            draw.key: _part_of(ValueMagnitudes(draw.addends.lattice), parts)
            for draw in plan.draws
            if draw.clip is not None and isinstance(draw.addends, ValueLattice)
        }
        if lattices:
            found[f"clip 1/{parts} of the bounds"] = narrowed_plan(plan, lattices)
    return found


def _part_of(magnitudes: ValueMagnitudes, parts: int) -> ValueLattice:
    """Return the bins within a part of the distance from 0 to both bounds; at least one step."""
    zero, width = magnitudes.zero, magnitudes.lattice.width
    low = max([first for first, _ in magnitudes.bins if (zero - first) * parts >= zero], default=0)
    high = min([last for _, last in magnitudes.bins if (last - zero) * parts >= width - zero], default=width)
    return magnitudes.narrowed(low, high)


def _narrowed(draw: StatisticsDraw, lattice: ValueLattice) -> StatisticsDraw:
    """Return a draw over a part of its lattice: it moves as many widths, and has the same part of the charge."""
    if not isinstance(draw.addends, ValueLattice):
        raise TypeError(f"{draw.key} adds nothing up")
    moves = tuple(move // draw.addends.width * lattice.width for move in draw.event.moves)
    event = moved_noise(draw.noise, moves)
    return replace(draw, addends=lattice, event=event, variance=variance(event))
