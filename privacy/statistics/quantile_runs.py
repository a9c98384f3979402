"""The candidates of a quantile in runs of equal distance: between two neighbouring values of a cell, and at each one.

The work is in the number of different values of a cell, never in the width of the lattice. How candidates weigh is
public: a multiple of each power of ten in `scales`, counted in steps from 0, weighs as much more as this power.
People round, so that many rows have round values.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from contracts.domains.trees import QuantileChoices

RunNumbers = NDArray[np.int64]


@dataclass(frozen=True)
class QuantileRuns:
    """Runs of candidates of one quantile in one cell.

    Args:
        first: the smallest offset of each run, ascending, shape (runs,).
        last: the largest one.
        distances: of their candidates from the quantile, times `unit` [rows / unit].
        weights: of all candidates of a run together.
        unit: by what distances are multiplied, so that they are whole.
    """

    first: RunNumbers
    last: RunNumbers
    distances: RunNumbers
    weights: RunNumbers
    unit: int


def quantile_runs(
    choices: QuantileChoices, place: int, offsets: RunNumbers, rows: RunNumbers, ends: tuple[int | None, int | None]
) -> QuantileRuns:
    """Put the candidates of a quantile into runs.

    Args:
        choices: lattice, quantiles and weights.
        place: which quantile.
        offsets: the different offsets of the cell's rows, ascending.
        rows: how many rows have each.
        ends: the quantiles that were chosen before, between which it lies; None where there is none. Rows at them
            count as outside.
    Returns:
        QuantileRuns: private, for a grant alone.
    """
    low, high = ends[0] or 0, choices.lattice.width if ends[1] is None else ends[1]
    inside = np.unique(np.concatenate([offsets[(offsets >= low) & (offsets <= high)], [low, high]]))
    # Each value is a run, and so is what lies between it and the next one.
    first = np.concatenate([inside, inside[:-1] + 1])
    last = np.concatenate([inside, inside[1:] - 1])
    order = np.argsort(first, kind="stable")
    first, last = (each[order][(first <= last)[order]] for each in (first, last))
    before, total = np.concatenate([[0], np.cumsum(rows)]), int(rows.sum())
    p, unit = Fraction(choices.shares[place]).as_integer_ratio()
    too_high = unit * before[np.searchsorted(offsets, first, side="left")] - p * total
    too_low = p * total - unit * before[np.searchsorted(offsets, last, side="right")]
    # A row at an end of the range moves what a row beyond it does.
    too_high[first == ends[0]] = 0
    too_low[last == ends[1]] = 0
    distances = np.maximum(0, np.maximum(too_high, too_low))
    return QuantileRuns(first, last, distances, _weights(choices, first, last), unit)


def candidate(choices: QuantileChoices, first: int, last: int, drawn: int) -> int:
    """Return the candidate of a run that a number below its weight stands for: each for as many as it weighs."""
    for scale in choices.scales:
        start = -(-(first + choices.origin) // scale) * scale - choices.origin
        weight = max(0, (last - start) // scale + 1) * scale
        if drawn < weight:
            return start + drawn // scale * scale
        drawn -= weight
    raise ValueError(f"{drawn} more than the run from {first} to {last} weighs")


def _weights(choices: QuantileChoices, first: RunNumbers, last: RunNumbers) -> RunNumbers:
    """Add up the weights of all candidates of each run."""
    origin = choices.origin
    found = np.zeros(first.shape, dtype=np.int64)
    for scale in choices.scales:
        found += scale * ((last + origin) // scale - (first + origin - 1) // scale)
    return found
