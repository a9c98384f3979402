"""Yardsticks: what a score would be of other rows than the made-up ones, so that a number can be read.

    bootstrap             as many rows, drawn from the real ones with replacement: hardly anything comes closer
    independent columns   each column of the real rows shuffled by itself: single columns kept, nothing between them
    majority class        the share of the most frequent cell of a target: what is told without having learned

Good rows lie near the first, and rows that learned nothing lie at the second or beyond.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations
from math import comb
from statistics import fmean
from typing import Any, Final

import numpy as np

from privacy.evaluation.association import association_errors
from privacy.evaluation.cells import EncodedRows
from privacy.evaluation.errors import AxisNumbers, workload_error
from privacy.evaluation.mutual_information import mutual_information_error

BOOTSTRAP: Final = "bootstrap"
INDEPENDENT: Final = "independent columns"
MOST_CLIQUES: Final = 300
"""Of more marginals of one order a yardstick takes so many, drawn at random; the scores themselves take all."""


@dataclass(frozen=True)
class Yardstick:
    """The scores of a yardstick's rows; of the class of the real rows.

    Args:
        errors: mean α-way error, by α.
        mutual_information: mean error over the pairs of columns [nats]; None for one column.
        association: mean error of Cramér's V; None for one column.
        propensity: pMSE ratio by classifier.
    """

    errors: Mapping[int, float]
    mutual_information: float | None = None
    association: float | None = None
    propensity: Mapping[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the numbers as JSON."""
        return {
            "alpha_way_error": {str(alpha): error for alpha, error in self.errors.items()},
            "mutual_information_error": self.mutual_information,
            "association_error": self.association,
            "propensity_ratio": dict(self.propensity),
        }


def bootstrap(rows: EncodedRows, random: np.random.Generator) -> EncodedRows:
    """Draw as many rows with replacement."""
    return EncodedRows(rows.columns, rows.shape, rows.codes[random.integers(0, len(rows.codes), len(rows.codes))])


def independent(rows: EncodedRows, random: np.random.Generator) -> EncodedRows:
    """Shuffle each column by itself."""
    return EncodedRows(rows.columns, rows.shape, random.permuted(rows.codes, axis=0))


def majority(rows: EncodedRows, target: str) -> float:
    """Return the share of the most frequent cell of a column."""
    counts = np.bincount(rows.codes[:, rows.columns.index(target)].astype(np.int64))
    return float(counts.max() / len(rows.codes))


def yardstick(
    real: EncodedRows,
    other: EncodedRows,
    *,
    degrees: tuple[int, ...],
    random: np.random.Generator,
    shares: bool = False,
    propensity: Mapping[str, float] | None = None,
) -> Yardstick:
    """Score a yardstick's rows against the real ones, as made-up rows are scored.

    Args:
        real: the real rows.
        other: the yardstick's.
        degrees: the α of the errors; those beyond the number of columns are left out.
        random: draws marginals where there are very many.
        shares: compare shares of the rows rather than counts.
        propensity: pMSE ratios, where classifiers were asked.
    Privacy: private where the real rows are; for the auditor alone.
    """
    width = len(real.columns)
    errors = {
        alpha: workload_error(real, other, _cliques(width, alpha, random), shares=shares).mean
        for alpha in degrees
        if alpha <= width
    }
    if width < 2:
        return Yardstick(errors, propensity=dict(propensity or {}))
    associations = association_errors(real, other)
    association = fmean(associations.values()) if associations else None
    return Yardstick(errors, mutual_information_error(real, other), association, dict(propensity or {}))


def _cliques(width: int, alpha: int, random: np.random.Generator) -> list[AxisNumbers]:
    """Return all sets of so many columns, or some of very many."""
    if comb(width, alpha) <= MOST_CLIQUES:
        return list(combinations(range(width), alpha))
    drawn: set[AxisNumbers] = set()
    while len(drawn) < MOST_CLIQUES:
        drawn.add(tuple(sorted(int(place) for place in random.choice(width, alpha, replace=False))))
    return sorted(drawn)
