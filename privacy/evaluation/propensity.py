"""Can a classifier tell made-up rows from real ones? The propensity mean-squared error (pMSE), against its null.

Formula:  pMSE = 1/N * sum over all N rows of (p_i - c)^2, p_i the fitted chance that row i is made up, c their share.
It is 0 where nothing tells them apart, and c (1 - c) where everything does. Even two samples of one population are
told apart a little by a classifier with parameters to fit; `expected` is that, and pMSE / expected the ratio to read:
about 1 where the made-up rows could be another sample of the same people, larger the more they differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np
from numpy.typing import NDArray

from privacy.arrays import Floats
from privacy.evaluation.cells import EncodedRows, check_comparable

MOST_PARAMETERS: Final = 1000
_STEPS: Final = 50
_RIDGE: Final = 1e-6
_STEEPEST: Final = 30.0


@dataclass(frozen=True)
class Propensity:
    """How far a classifier tells made-up rows from real ones.

    Args:
        pmse: the mean-squared error of its propensities [dimensionless].
        expected: what it would be for two samples of one population.
    """

    pmse: float
    expected: float

    @property
    def ratio(self) -> float:
        """The error over what two samples of one population would give; 1 where both are 0."""
        return self.pmse / self.expected if self.expected else float(1 if not self.pmse else np.inf)


@dataclass(frozen=True, eq=False, repr=False)
class Pooled:
    """Real and made-up rows together: each distinct row once.

    Args:
        codes: the distinct rows, shape (distinct, columns).
        rows: how often each stands in both tables, shape (distinct,) [rows].
        made: how often it is made up, shape (distinct,) [rows].
    """

    codes: NDArray[np.int64]
    rows: NDArray[np.int64]
    made: NDArray[np.int64]

    @property
    def share(self) -> float:
        """The share of made-up rows."""
        return float(self.made.sum() / self.rows.sum())

    def pmse(self, propensities: Floats) -> float:
        """Return the pMSE of fitted propensities, one for each distinct row."""
        return float(np.average((propensities - self.share) ** 2, weights=self.rows))


def pool(real: EncodedRows, synthetic: EncodedRows) -> Pooled:
    """Put both tables together.

    Raises:
        ValueError: the tables do not have the same columns, or one has no rows.
    """
    check_comparable(real, synthetic)
    if not len(synthetic.codes):
        raise ValueError("there must be at least one made-up row")
    both = np.concatenate([real.codes, synthetic.codes]).astype(np.int64)
    distinct, place = np.unique(both, axis=0, return_inverse=True)
    rows = np.bincount(place.reshape(-1), minlength=len(distinct))
    return Pooled(distinct, rows, np.bincount(place.reshape(-1)[len(real.codes) :], minlength=len(distinct)))


def logistic_propensity(pooled: Pooled) -> Propensity | None:
    """Fit a logistic regression on the columns' labels, without interactions, and return its pMSE.

    For two samples of one population the sum of (p_i - c)^2 is, to first order, a quadratic form of rank k - 1 in the
    scores, each of variance c (1 - c): expected = (k - 1) c (1 - c) / N for k parameters. Rows drawn from a
    model that was itself fitted to the real rows have 1 - c times this, which is the null of the source.

    Returns:
        Propensity; None where there would be more than 1,000 parameters.
    Source: Snoke, Raab, Nowok, Dibben, Slavkovic 2018, General and specific utility measures for synthetic data.
    """
    columns = [np.unique(column, return_inverse=True) for column in pooled.codes.T]
    sizes = [len(labels) for labels, _ in columns]
    if 1 + sum(size - 1 for size in sizes) > MOST_PARAMETERS:
        return None
    design = _Design([np.asarray(codes).reshape(-1) for _, codes in columns], sizes)
    rows, made, share = pooled.rows.astype(np.float64), pooled.made.astype(np.float64), pooled.share
    parameters = int(np.linalg.matrix_rank(design.squares(rows), hermitian=True))
    expected = (parameters - 1) * share * (1 - share) / float(rows.sum())
    return Propensity(pooled.pmse(_fitted(design, rows, made)), expected)


class _Design:
    """A one-hot design with an intercept, without its matrix: the first label of each column has no parameter."""

    def __init__(self, codes: list[NDArray[np.int64]], sizes: list[int]) -> None:
        self._codes, self._sizes = codes, sizes
        self._starts = np.cumsum([1, *(size - 1 for size in sizes)])

    @property
    def parameters(self) -> int:
        return int(self._starts[-1])

    def times(self, weights: Floats) -> Floats:
        """Return X @ weights, one value for each row."""
        found = np.full(len(self._codes[0]), weights[0])
        for codes, size, start in zip(self._codes, self._sizes, self._starts, strict=False):
            found += np.concatenate([[0.0], weights[start : start + size - 1]])[codes]
        return found

    def sums(self, values: Floats) -> Floats:
        """Return X' @ values, one for each parameter."""
        parts = [np.bincount(codes, values, size)[1:] for codes, size in zip(self._codes, self._sizes, strict=True)]
        return np.concatenate([[values.sum()], *parts])

    def squares(self, values: Floats) -> Floats:
        """Return X' diag(values) X, out of the weighted marginals of pairs of columns."""
        sums = self.sums(values)
        found = np.diag(sums)
        found[0], found[:, 0] = sums, sums
        for one, two in combinations(range(len(self._sizes)), 2):
            wide = self._sizes[two]
            both = np.bincount(self._codes[one] * wide + self._codes[two], values, self._sizes[one] * wide)
            block = both.reshape(-1, wide)[1:, 1:]
            rows, columns = (slice(self._starts[each], self._starts[each + 1]) for each in (one, two))
            found[rows, columns], found[columns, rows] = block, block.T
        return found


def _fitted(design: _Design, rows: Floats, synthetic: Floats) -> Floats:
    """Fit by Newton's method, with steps halved until they help; a ridge of 1e-6 keeps labels of one table finite."""
    weights = np.zeros(design.parameters)
    weights[0] = np.log(synthetic.sum() / (rows.sum() - synthetic.sum()))

    def loss(at: Floats) -> float:
        scores = design.times(at)
        return float(rows @ np.logaddexp(0.0, scores) - synthetic @ scores + _RIDGE / 2 * (at @ at))

    before = loss(weights)
    for _ in range(_STEPS):
        chances = _chances(design.times(weights))
        slope = design.sums(rows * chances - synthetic) + _RIDGE * weights
        curved = design.squares(rows * chances * (1 - chances)) + _RIDGE * np.eye(len(weights))
        step = np.linalg.solve(curved, slope)
        length = 1.0
        while (after := loss(weights - length * step)) > before and length > 1e-6:
            length /= 2
        if after > before:
            break
        weights, gained, before = weights - length * step, before - after, after
        if gained <= 1e-9 * (1 + abs(before)):
            break
    return _chances(design.times(weights))


def _chances(scores: Floats) -> Floats:
    bounded: Floats = 1 / (1 + np.exp(-np.clip(scores, -_STEEPEST, _STEEPEST)))
    return bounded
