"""The minimum-frequency rule where rows are counted by what was added up: which cells say too little to be published.

`privacy.marginals.suppression` is the rule for noisy counts of one number. Here a count is read off several numbers:

    sums, moments   the noisy numbers of the cell together, over the steps W that each row hands out

Nodes of a tree, and rows that are counted apart because they have no value, are counts of their own, of fewer rows
than the cell has. No rule on the cell speaks of them: such draws are refused.

A cell passes a draw if this count is at least the threshold k + t. The grant sets all numbers of other cells to 0
before it writes a draw down. So no noisy number of a cell that does not pass is stored, and it reads as suppressed
afterwards too: its count is 0, and k is at least 1. Where a table has several draws, each is tested by itself, and is
written down before the next is made. A cell of the table is suppressed where it does not pass one of them.

With N_i the noise of the count of draw i, a cell of x < k rows passes it with probability P(N_i >= t_i + 1) at most.
Numbers of a cell are published where it passes any of the table's n draws, which has at most the sum of these
probabilities. `t: auto` is the least whole t_i for which a bound of the noise's quantiles keeps each probability to
`at_most` / n. The bound never understates the noise, so t may be one or so above the least possible one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from math import ceil, floor, nextafter
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from contracts.domains.addends import Addends, ValueMoments
from contracts.domains.lattice import ValueLattice
from contracts.reading.scalars import plain_text
from contracts.release.tables.tables import MinimumFrequency
from privacy.accounting.events import CountNoise
from privacy.arrays import Floats
from privacy.marginals.suppression import Threshold, published_below, threshold_for
from privacy.statistics.noise_sums import MOST_WEIGHTS, even_quantile, quantile, six_digits_up

_CHANCES: Final = tuple(Decimal(digits).scaleb(power) for power in range(-15, -1) for digits in range(10, 100))
"""Probabilities of two digits, ascending, from 10⁻¹⁴ to 0.99: one of them bounds how often the rule errs."""
_HALF: Final = Decimal("0.49")
_UNCOUNTED: Final = "what is added up does not count the rows of a cell, or counts some of them apart"


def counts_rows(addends: Addends | None) -> bool:
    """Tell whether a draw tells how many rows a cell has, and no number of some of them.

    A sum alone does not, nor do weights. A tree, and rows without a value that are counted apart, tell of some rows.
    """
    if addends is None:
        return True
    if not isinstance(addends, ValueLattice | ValueMoments) or addends.weight is not None:
        return False
    return not addends.lattice.counts_missing


@dataclass(frozen=True)
class CellThreshold:
    """The rule on one draw of sums or moments.

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
        terms: the rule on this draw, of which a table may have several (`MinimumFrequency.shared_by`).
        addends: what is added up.
        event: the noise of each number.
    Raises:
        ValueError: nothing of it counts rows.
    Privacy: reads no data.
    """
    if not counts_rows(addends):
        raise ValueError(f"{addends.column}: {_UNCOUNTED}")
    t = terms.t if isinstance(terms.t, int) else _margin(addends, event, terms.at_most or Decimal(0))
    return CellThreshold(terms.k, t, addends)


def draw_threshold(terms: MinimumFrequency, addends: Addends | None, event: CountNoise) -> CellThreshold | Threshold:
    """Return the threshold of a draw; of counts alone, where there are no addends, that of `suppression`."""
    return threshold_for(terms, event) if addends is None else cell_threshold(terms, addends, event)


def suppressed_cells(
    terms: MinimumFrequency, drawn: Sequence[tuple[NDArray[np.int64], Addends | None, CountNoise]]
) -> NDArray[np.bool_]:
    """Return which cells of a table are suppressed: those that a draw of it suppresses. Post-processing.

    Args:
        terms: the rule on the table.
        drawn: the noisy numbers of each draw, what was added up, and its noise.
    """
    each = terms.shared_by(len(drawn))
    masks = [draw_threshold(each, addends, event).suppressed(values) for values, addends, event in drawn]
    return np.asarray(np.logical_or.reduce(masks))


def rule_of_table(terms: MinimumFrequency, draws: Sequence[tuple[str, Addends | None, CountNoise]]) -> dict[str, Any]:
    """Say what the rule is on a table, as the record tells it. Reads no data.

    Args:
        terms: the rule on the table.
        draws: its draws: key, what is added up, and noise.
    Returns:
        dict: k; a bound of how often any number of a cell of fewer than k rows is published, over all draws together;
        from how many rows on a cell is published in at least 97.5 % of releases; and t and threshold of each draw.
    """
    shared = terms.shared_by(len(draws))
    thresholds = [draw_threshold(shared, addends, event) for _, addends, event in draws]
    chances = [_published_below(threshold, event) for threshold, (_, _, event) in zip(thresholds, draws, strict=True)]
    # t: auto keeps to `at_most`, also where the sum of probabilities rounded up does not show it.
    chance = min(sum(chances, Decimal(0)), terms.at_most or Decimal(1))
    missed = 0.025 / len(draws)
    mostly = (
        ceil(threshold.value + _upper(addends, event, missed))
        for threshold, (_, addends, event) in zip(thresholds, draws, strict=True)
    )
    return {
        "k": terms.k,
        "published_although_below_k": plain_text(chance),
        "mostly_published_from": max(mostly),
        "draws": [
            {"draw": key, "t": threshold.t, "threshold": threshold.value}
            for threshold, (key, _, _) in zip(thresholds, draws, strict=True)
        ],
    }


def _published_below(threshold: CellThreshold | Threshold, event: CountNoise) -> Decimal:
    """Bound how often a cell of fewer than k rows passes a draw."""
    if isinstance(threshold, Threshold):
        return Decimal(published_below(threshold, event))
    return _chance(threshold.addends, event, threshold.t)


def _counted(addends: Addends, values: NDArray[np.int64]) -> Floats:
    """Return the noisy rows of each cell; added up one by one, so that every machine gets the same bits."""
    if not isinstance(addends, ValueLattice | ValueMoments):
        raise ValueError(f"{addends.column}: {_UNCOUNTED}")
    total: Floats = np.zeros(values.shape[:-1])
    for part in range(addends.parts):
        total = total + values[..., part].astype(np.float64)
    return total / addends.whole


@lru_cache(maxsize=256)
def _upper(addends: Addends | None, event: CountNoise, exceeding: float) -> float:
    """Return what the noise of a cell's count exceeds with probability at most `exceeding` [rows]."""
    # 1 - 2 p has 16 digits only: the next larger number asks for no more than p.
    confidence = nextafter(1 - 2 * exceeding, 1)
    if addends is None:
        return even_quantile([(1.0, event)], confidence)
    if not isinstance(addends, ValueLattice | ValueMoments):
        raise ValueError(f"{addends.column}: {_UNCOUNTED}")
    weights = [1 / addends.whole] * addends.parts
    if addends.parts <= MOST_WEIGHTS:
        return six_digits_up(quantile(event, weights, confidence))
    return six_digits_up(even_quantile([(weight, event) for weight in weights], confidence))


def _margin(addends: Addends, event: CountNoise, at_most: Decimal) -> int:
    """Return a t with P(noise >= t + 1) <= at_most: the noise lies above its bound no more often."""
    # A little less is asked for: quantiles are found up to their last digits only.
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
