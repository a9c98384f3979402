"""Scores of a private choice: how much a marginal would tell, and how far one privacy unit moves that number.

A score is computed from exact counts inside a grant; it knows its sensitivity itself, from clique, weight, adjacency
and contribution bound (DESIGN law 1). Scores are rationals, so that the choice is exact.

Mutual information under replace_one, n rows, both public, one row a unit: replacing one row changes n I, in nats, by
at most S(n) = 2 log((n + 1) / 2) + (n - 1) log((n + 1) / (n - 1)). Under add_remove n itself is private, and with
several rows a unit it is no invariant either: no such bound is offered there. S grows with n. So that the bound does
not stand on the declared n being true, the score of a table with m > n rows is multiplied by S(n) / S(m), float error
included. Neighbours have the same m, and each score moves by at most S(m); or m and m - 1, where a `select:` or a
period drops the other row, and then by at most 0.92 S(n) (docs/derivations.md, section 2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from privacy.marginals.sensitivity import marginal_moves

if TYPE_CHECKING:
    from contracts.contract.contract import Adjacency
    from contracts.contract.impossible_cells import Clique
    from privacy.marginals.counts import PrivateCounts

_STEP: Final = Fraction(1, 1024)
"""Mutual information is rounded to multiples of it [nats x rows]."""
_FLOAT_ERROR: Final = 2.0**-48
"""Bounds the relative error of a sum of c log c by `math.fsum`: each term is off by less than 4 units of 2^-53."""


@dataclass(frozen=True, eq=False)
class DistanceScore:
    """weight * (||counts - prediction||_1 - bias): how far the counts are from what is already known.

    A copy of the prediction is kept, which nobody can change.

    Args:
        prediction: released or public counts, whole numbers in the marginal's shape [rows].
        weight: > 0 [dimensionless].
        bias: what noise alone would make of the distance [rows].
    Source: AIM, McKenna et al. 2022, algorithm 2 line 11 (weight w_r, bias sqrt(2/pi) sigma n_r); MST: weight 1,
        bias 0.
    """

    prediction: NDArray[np.int64]
    weight: Fraction
    bias: Fraction

    def __post_init__(self) -> None:
        """Copy the prediction."""
        kept = np.array(self.prediction)
        kept.flags.writeable = False
        object.__setattr__(self, "prediction", kept)

    def sensitivity(self, adjacency: Adjacency, rows_per_unit: int) -> Fraction:
        """Return weight * L1: weight * k under add_remove, weight * 2k under replace_one."""
        return self.weight * sum(marginal_moves(adjacency, rows_per_unit))


@dataclass(frozen=True, eq=False)
class MutualInformationScore:
    """n * I(first column; the others) in nats, rounded: how much they tell about each other.

    Args:
        rows: n, > 1; a grant accepts the contract's declared total only [rows].
    Source: PrivBayes, Zhang et al. 2017, lemma 4.1 (times n, natural logarithm); in the module's docstring.
    """

    rows: int

    def sensitivity(self, adjacency: Adjacency, rows_per_unit: int) -> Fraction:
        """Return S(n), with the rounding of both neighbours' scores added.

        Raises:
            ValueError: n is not public (add_remove, or several rows a unit), or fewer than two rows.
        """
        if adjacency != "replace_one" or rows_per_unit != 1:
            raise ValueError(
                "mutual information needs a public number of rows: adjacency replace_one, one row a unit"
            )
        if self.rows < 2:
            raise ValueError(f"rows must be at least 2, not {self.rows}")
        return Fraction(_most_change(self.rows)) + 2 * _STEP


Score = DistanceScore | MutualInformationScore


@dataclass(frozen=True, eq=False)
class Candidate:
    """One marginal that may be chosen.

    Args:
        counts: handle on its exact counts.
        score: how good a choice it is.
    """

    counts: PrivateCounts
    score: Score

    @property
    def clique(self) -> Clique:
        """The columns of the marginal."""
        return self.counts.clique


def score_of(score: Score, counts: NDArray[np.int64]) -> Fraction:
    """Return the score of exact counts; private, for a grant alone.

    Args:
        score: its sensitivity is `score.sensitivity`; a prediction has the shape of the counts.
        counts: exact counts; of mutual information the first axis is held against the others.
    """
    if isinstance(score, DistanceScore):
        # Whole numbers, then rationals: no float rounding enters the choice.
        return score.weight * (int(np.abs(counts - score.prediction).sum(dtype=np.int64)) - score.bias)
    table = counts.reshape(counts.shape[0], -1)
    # n I = Σ n_ab log n_ab - Σ n_a log n_a - Σ n_b log n_b + n log n
    parts = (table, table.sum(axis=1), table.sum(axis=0), np.array([table.sum()]))
    both, left, right, whole = (_entropy_sum(part) for part in parts)
    rows = int(table.sum())
    # More rows than declared would move the score further than S(n): it is scaled down to that (module docstring).
    share = 1.0 if rows <= score.rows else _most_change(score.rows) / _most_change(rows)
    return Fraction(round((both - left - right + whole) * share / float(_STEP))) * _STEP


def _most_change(rows: int) -> float:
    """Bound how far replacing one of n rows moves a computed n I: S(n), and the float errors of both scores.

    A score's float error: four sums of at most n log n.
    """
    # log1p(2 / (n - 1)) is log((n + 1) / (n - 1)) without cancellation where n is large.
    change = 2 * math.log((rows + 1) / 2) + (rows - 1) * math.log1p(2 / (rows - 1))
    return change * (1 + 1e-12) + 8 * rows * math.log(rows) * _FLOAT_ERROR


def _entropy_sum(counts: NDArray[np.int64]) -> float:
    """Compute the sum of c log c."""
    positive = counts[counts > 0].astype(np.float64)
    # fsum is rounded once, so that the sum does not depend on the order of cells.
    return math.fsum((positive * np.log(positive)).tolist())
