"""The minimum-frequency rule where rows are counted by what was added up: which cells say too little to be published.

`privacy.marginals.suppression` is the rule for noisy counts of one number. Here a count is read off several numbers:

    sums, moments   the noisy numbers of the cell together, over the steps W that each row hands out
    a tree          the nodes of its first level together, and the rows without a value

A cell is published if this count is at least the threshold k + t. The grant sets all numbers of other cells to 0
before it writes a draw down. So no noisy number of a suppressed cell is stored, and it reads as suppressed afterwards
too: its count is 0, and k is at least 1. Where a table has several draws, each is tested by itself, and a cell of the
table is suppressed where one of them is: what is published of a cell came from draws that all passed.

With N the noise of the count, a cell of x rows is published with probability P(N >= k + t - x) at most. For x < k
that is at most P(N >= t + 1). `t: auto` is the least whole t for which a bound of the noise's quantiles keeps this
to `at_most`. The bound never understates the noise, so t may be one or so above the least possible one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from math import ceil, floor
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from contracts.domains.addends import Addends
from contracts.domains.value_lattices import ValueLattice
from contracts.domains.value_sums import ValueMoments
from contracts.domains.value_trees import ValueTree
from contracts.release.tables.minimum_frequency import MinimumFrequency
from privacy.accounting.events import CountNoise
from privacy.arrays import Floats
from privacy.marginals.suppression import Threshold, published_below, threshold_for
from privacy.statistics.noise_quantiles import MOST_WEIGHTS, even_quantile, quantile, six_digits_up
from privacy.statistics.rank_noise import weighted_bounds

_CHANCES: Final = tuple(Decimal(digits).scaleb(power) for power in range(-15, -1) for digits in range(10, 100))
"""Probabilities of two digits, ascending, from 10⁻¹⁴ to 0.99: one of them bounds how often the rule errs."""
_HALF: Final = Decimal("0.49")


def counts_rows(addends: Addends | None) -> bool:
    """Tell whether a draw tells how many rows a cell has: not a sum alone, and no weight in their place."""
    if addends is None:
        return True
    return isinstance(addends, ValueLattice | ValueMoments | ValueTree) and addends.weight is None


@dataclass(frozen=True)
class CellThreshold:
    """The rule on one draw of sums, moments or a tree of counts.

    Args:
        k: the least exact count that the rule lets out [rows].
        t: the margin for noise [rows].
        addends: what is added up; it counts rows.
    """

    k: int
    t: int
    addends: Addends

    @property
    def value(self) -> int:
        """Least noisy count that is published."""
        return self.k + self.t

    def suppressed(self, values: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which cells are suppressed; `values` of shape (*cells, parts). Post-processing."""
        return np.asarray(_counted(self.addends, values) < float(self.value))

    def hidden(self, numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which numbers are of suppressed cells, in any shape whose rows are those of the cells in order."""
        cells = numbers.reshape(-1, self.addends.parts)
        return np.repeat(self.suppressed(cells), self.addends.parts).reshape(numbers.shape)

    def censored(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the noisy numbers with all of a suppressed cell set to 0. Post-processing."""
        return np.where(self.hidden(values), np.int64(0), values)


def cell_threshold(terms: MinimumFrequency, addends: Addends, event: CountNoise) -> CellThreshold:
    """Find the threshold of a draw from public parameters.

    Args:
        terms: the rule of the spec.
        addends: what is added up.
        event: the noise of each number.
    Raises:
        ValueError: nothing of it counts rows.
    Privacy: reads no data.
    """
    if not counts_rows(addends):
        raise ValueError(f"{addends.column}: what is added up does not count rows")
    t = terms.t if isinstance(terms.t, int) else _margin(addends, event, terms.at_most or Decimal(0))
    return CellThreshold(terms.k, t, addends)


def draw_threshold(terms: MinimumFrequency, addends: Addends | None, event: CountNoise) -> CellThreshold | Threshold:
    """Return the threshold of a draw; of counts alone, where there are no addends, that of `suppression`."""
    return threshold_for(terms, event) if addends is None else cell_threshold(terms, addends, event)


def suppressed_cells(
    terms: MinimumFrequency, drawn: Iterable[tuple[NDArray[np.int64], Addends | None, CountNoise]]
) -> NDArray[np.bool_]:
    """Return which cells of a table are suppressed: those that a draw of it suppresses. Post-processing.

    Args:
        terms: the rule.
        drawn: the noisy numbers of each draw, what was added up, and its noise.
    """
    masks = [draw_threshold(terms, addends, event).suppressed(values) for values, addends, event in drawn]
    return np.asarray(np.logical_or.reduce(masks))


def rule_of_draw(terms: MinimumFrequency, addends: Addends | None, event: CountNoise) -> dict[str, Any]:
    """Say what the rule is on one draw, as the record tells it. Reads no data.

    Returns:
        dict: k, t and the threshold; a bound of how often a cell of fewer than k rows is published; and from how many
        rows on a cell is published in at least 97.5 % of releases.
    """
    threshold = draw_threshold(terms, addends, event)
    chance = (
        published_below(threshold, event)
        if isinstance(threshold, Threshold)
        else str(_chance(threshold.addends, event, threshold.t))
    )
    mostly = ceil(threshold.value + _upper(addends, event, 0.025))
    told = {"k": threshold.k, "t": threshold.t, "threshold": threshold.value}
    return {**told, "published_although_below_k": chance, "mostly_published_from": mostly}


def _counted(addends: Addends, values: NDArray[np.int64]) -> Floats:
    """Return the noisy rows of each cell; added up one by one, so that every machine gets the same bits."""
    if isinstance(addends, ValueTree):
        nodes = [*range(addends.level_nodes[0]), *([addends.parts - 1] if addends.lattice.counts_missing else [])]
        whole = 1
    elif isinstance(addends, ValueLattice | ValueMoments):
        nodes, whole = list(range(addends.parts)), addends.whole
    else:
        raise ValueError(f"{addends.column}: what is added up does not count rows")
    total: Floats = np.zeros(values.shape[:-1])
    for node in nodes:
        total = total + values[..., node].astype(np.float64)
    return total / whole


@lru_cache(maxsize=256)
def _upper(addends: Addends | None, event: CountNoise, exceeding: float) -> float:
    """Return what the noise of a cell's count exceeds with probability at most `exceeding` [rows]."""
    if addends is None:
        return even_quantile([(1.0, event)], 1 - 2 * exceeding)
    if isinstance(addends, ValueTree):
        nodes = addends.level_nodes[0] + addends.lattice.counts_missing
        return float(weighted_bounds(event, [(nodes, 0, 0)], (1.0, 1.0, 1.0), exceeding)[0])
    if not isinstance(addends, ValueLattice | ValueMoments):
        raise ValueError(f"{addends.column}: what is added up does not count rows")
    weights, confidence = [1 / addends.whole] * addends.parts, 1 - 2 * exceeding
    if addends.parts <= MOST_WEIGHTS:
        return six_digits_up(quantile(event, weights, confidence))
    return six_digits_up(even_quantile([(weight, event) for weight in weights], confidence))


def _margin(addends: Addends, event: CountNoise, at_most: Decimal) -> int:
    """Return a t with P(noise >= t + 1) <= at_most: the noise lies above its bound no more often."""
    # A little less is asked for: 1 - 2 p has 16 digits only.
    return floor(_upper(addends, event, float(min(at_most, _HALF) * Decimal("0.999"))))


def _chance(addends: Addends, event: CountNoise, t: int) -> Decimal:
    """Return the least probability of two digits that bounds P(noise >= t + 1); never above 0.5, as it is even."""
    low, high = 0, len(_CHANCES) - 1
    while low < high:
        middle = (low + high) // 2
        chance = _CHANCES[middle]
        holds = chance > _HALF or _upper(addends, event, float(chance * Decimal("0.999"))) < t + 1
        low, high = (low, middle) if holds else (middle + 1, high)
    return min(_CHANCES[low], Decimal("0.50"))
