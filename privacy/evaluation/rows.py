"""Can a classifier tell made-up rows from real ones? The propensity mean-squared error (pMSE), against its null.

Formula:  pMSE = 1/N * sum over all N rows of (p_i - c)^2, p_i the fitted chance that row i is made up, c their share.
It is 0 where nothing tells them apart, and c (1 - c) where everything does. Even two samples of one population are
told apart a little by a classifier with parameters to fit; `expected` is that, and pMSE / expected the ratio to read:
about 1 where the made-up rows could be another sample of the same people, larger the more they differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, combinations_with_replacement
from math import comb, prod
from statistics import fmean
from typing import Any, Final, NoReturn

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


# --- The α-way error.


AxisNumbers = tuple[int, ...]


@dataclass(frozen=True)
class WorkloadError:
    """Distances of all marginals of a workload.

    Args:
        cliques: places of the columns of each marginal.
        distances: L1 distance of the raw counts over the number of real rows (or of shares), one a marginal.
    """

    cliques: tuple[AxisNumbers, ...]
    distances: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The mean distance."""
        return float(np.mean(self.distances))


def alpha_way_error(real: EncodedRows, synthetic: EncodedRows, *, alpha: int, shares: bool = False) -> WorkloadError:
    """Measure the error over all marginals of `alpha` columns.

    Formula:  L(D, D') = 1/(k |D|) * sum over the k cliques r of |r| = alpha of ||p_r(D) - p_r(D')||_1, raw counts.
    It lies between 0 and 1 + |D'|/|D|; half of it is the total variation distance that some programs print.

    Args:
        real: the rows that are imitated, |D| of them.
        synthetic: the imitation, of any number of rows.
        alpha: columns of each marginal, from 1 to as many as there are.
        shares: compare the shares of the rows that lie in each cell, for tables of unequal size; at most 2.
    Returns:
        WorkloadError: of the class of its inputs; private when either is.
    Raises:
        ValueError: alpha is out of range, or the tables do not have the same columns.
    Source: Miura et al. 2025, definition 3.1 with all weights 1.
    """
    if not 1 <= alpha <= len(real.columns):
        raise ValueError(f"alpha must lie between 1 and {len(real.columns)}, the number of columns, not {alpha}")
    return workload_error(real, synthetic, list(combinations(range(len(real.columns)), alpha)), shares=shares)


def workload_error(
    real: EncodedRows, synthetic: EncodedRows, cliques: Sequence[AxisNumbers], *, shares: bool = False
) -> WorkloadError:
    """Measure the distances of the marginals of `cliques`; see `alpha_way_error`."""
    check_comparable(real, synthetic)
    return WorkloadError(
        tuple(cliques), tuple(_distance(real, synthetic, clique, shares=shares) for clique in cliques)
    )


def counts_error(real: Sequence[NDArray[np.int64]], synthetic: Sequence[NDArray[np.float64]]) -> float:
    """Return the mean L1 distance of marginals, over the number of real rows; for marginals out of a model.

    Args:
        real: exact counts, each marginal with the same total [rows].
        synthetic: counts of the same shapes [rows].
    """
    distances = [
        float(np.abs(exact - other).sum()) / exact.sum() for exact, other in zip(real, synthetic, strict=True)
    ]
    return float(np.mean(distances))


def _distance(real: EncodedRows, synthetic: EncodedRows, clique: AxisNumbers, *, shares: bool) -> float:
    """Compute ||p(D) - p(D')||_1 / |D| over the populated cells; of shares, || p(D)/|D| - p(D')/|D'| ||_1."""
    cells = prod(real.shape[place] for place in clique)
    ours, theirs = real.numbers(clique), synthetic.numbers(clique)
    if cells > len(ours) + len(theirs):
        _, numbers = np.unique(np.concatenate([ours, theirs]), return_inverse=True)
        ours, theirs = numbers[: len(ours)], numbers[len(ours) :]
        cells = int(numbers.max()) + 1
    counts, others = np.bincount(ours, minlength=cells), np.bincount(theirs, minlength=cells)
    if shares:
        return float(np.abs(counts / len(ours) - others / max(len(theirs), 1)).sum())
    return int(np.abs(counts - others).sum()) / len(ours)


# --- How far made-up rows of two linked tables are from the real ones.


@dataclass(frozen=True, eq=False, repr=False)
class LinkedCodes:
    """The rows of both tables; private or released, whoever made them knows.

    Args:
        parents: rows of the parent table.
        children: rows of the child table, each with the columns of its parent beside its own.
        owners: which parent each child belongs to, any whole numbers; None where nobody knows.
    """

    parents: EncodedRows
    children: EncodedRows
    owners: NDArray[np.int64] | None

    @property
    def own(self) -> tuple[int, ...]:
        """The places of the child table's own columns."""
        names = self.children.columns
        return tuple(place for place, name in enumerate(names) if name not in self.parents.columns)


@dataclass(frozen=True)
class LinkedErrors:
    """What was found.

    Args:
        size: the column of sizes.
        parents: the α-way error of the parent table, by α.
        across: pairs of a column of the parent and one of the child, over the rows of children.
        children: pairs of the child's columns.
        siblings: pairs of columns of two different children of one parent; by names of the columns. None where it is
            not known which children belong together.
    """

    size: str
    parents: Mapping[int, WorkloadError]
    across: WorkloadError
    children: WorkloadError
    siblings: Mapping[tuple[str, str], float] | None
    names: tuple[str, ...]
    parent_names: tuple[str, ...]

    @property
    def sizes(self) -> float:
        """The distance of the sizes."""
        return self.parents[1].distances[self.parent_names.index(self.size)]

    @property
    def sibling_error(self) -> float | None:
        """The mean of the pairs of siblings."""
        return None if self.siblings is None else fmean(self.siblings.values())

    def to_json(self) -> dict[str, Any]:
        """Return the numbers as JSON."""

        def named(error: WorkloadError, names: Sequence[str]) -> dict[str, Any]:
            pairs = zip(error.cliques, error.distances, strict=True)
            marginals = [{"columns": [names[place] for place in clique], "error": one} for clique, one in pairs]
            return {"mean": error.mean, "by_marginal": marginals}

        siblings = None
        if self.siblings is not None:
            each = [{"columns": list(pair), "error": error} for pair, error in self.siblings.items()]
            siblings = {"mean": self.sibling_error, "by_pair": each}
        return {
            "sizes": self.sizes,
            "parents": {str(alpha): named(error, self.parent_names) for alpha, error in self.parents.items()},
            "across": named(self.across, self.names),
            "children": named(self.children, self.names),
            "siblings": siblings,
        }


def linked_errors(real: LinkedCodes, made: LinkedCodes, *, size: str) -> LinkedErrors:
    """Compare made-up rows of two tables with the real ones.

    Args:
        real, made: with the same columns.
        size: the parents' column that counts their children.
    Returns:
        LinkedErrors: of the class of its inputs; private when either is.
    Raises:
        ValueError: other columns or cells, or no real rows of either table.
    """
    own = real.own
    above = [place for place in range(len(real.children.columns)) if place not in own]
    across: list[tuple[int, ...]] = [(one, other) for one in above for other in own]
    inside: list[tuple[int, ...]] = list(combinations(own, 2)) or [own]
    degrees = [alpha for alpha in (1, 2) if alpha <= len(real.parents.columns)]
    known = real.owners is not None and made.owners is not None
    return LinkedErrors(
        size,
        {alpha: alpha_way_error(real.parents, made.parents, alpha=alpha) for alpha in degrees},
        workload_error(real.children, made.children, across),
        workload_error(real.children, made.children, inside),
        _sibling_errors(real, made) if known else None,
        real.children.columns,
        real.parents.columns,
    )


def _sibling_errors(real: LinkedCodes, made: LinkedCodes) -> dict[tuple[str, str], float]:
    """Return the distance of each pair of columns of two different children, over the real ordered pairs."""
    names, errors = real.children.columns, {}
    for one, other in combinations_with_replacement(real.own, 2):
        exact, found = (_sibling_counts(rows, one, other) for rows in (real, made))
        errors[names[one], names[other]] = float(np.abs(exact - found).sum()) / max(1.0, float(exact.sum()))
    return errors


def _sibling_counts(rows: LinkedCodes, one: int, other: int) -> NDArray[np.float64]:
    """Count the ordered pairs of two different children of one parent by a column of the first and one of the second.

    Formula: over all parents, the outer product of both columns' counts, less each child with itself
    """
    _, owners = np.unique(np.asarray(rows.owners), return_inverse=True)
    parents = int(owners.max(initial=-1)) + 1
    codes, shape = rows.children.codes, rows.children.shape
    counts = []
    for place in (one, other):
        table = np.zeros((parents, shape[place]))
        np.add.at(table, (owners, codes[:, place]), 1.0)
        counts.append(table)
    with_itself = np.zeros((shape[one], shape[other]))
    np.add.at(with_itself, (codes[:, one], codes[:, other]), 1.0)
    both: NDArray[np.float64] = counts[0].T @ counts[1] - with_itself
    return both


# --- How much every pair of columns tells about each other, and how well made-up rows keep it.


def mutual_information(rows: EncodedRows) -> NDArray[np.float64]:
    """Compute the mutual information of all pairs of columns.

    Formula:  I(X, Y) = sum P(x, y) log(P(x, y) / (P(x) P(y))), natural logarithm.

    Args:
        rows: at least one row.
    Returns:
        A symmetric matrix, shape (columns, columns) [nats]; the entropies of the columns stand in its diagonal.
    Raises:
        ValueError: there are no rows.
    Source: Miura et al. 2025, section 3.2.
    """
    if not len(rows.codes):
        raise ValueError("there must be at least one row")
    width = len(rows.columns)
    found = np.diag([_entropy(rows, (place,)) for place in range(width)])
    for left, right in combinations(range(width), 2):
        shared = found[left, left] + found[right, right] - _entropy(rows, (left, right))
        found[left, right] = found[right, left] = max(shared, 0.0)
    return found


def mutual_information_errors(real: EncodedRows, synthetic: EncodedRows) -> dict[tuple[int, int], float]:
    """Return the absolute difference of mutual information of each pair of columns, by place [nats].

    Raises:
        ValueError: the tables do not have the same columns, fewer than two of them, or no rows.
    """
    check_comparable(real, synthetic)
    width = len(real.columns)
    if width < 2:
        raise ValueError("there must be at least two columns")
    found = np.abs(mutual_information(real) - mutual_information(synthetic))
    return {(left, right): float(found[left, right]) for left, right in combinations(range(width), 2)}


def mutual_information_error(real: EncodedRows, synthetic: EncodedRows) -> float:
    """Return the mean absolute difference of mutual information over all pairs of columns [nats].

    Raises:
        ValueError: as `mutual_information_errors`.
    Source: Miura et al. 2025, figure 8.
    """
    return float(np.mean(list(mutual_information_errors(real, synthetic).values())))


def _entropy(rows: EncodedRows, clique: tuple[int, ...]) -> float:
    """Compute the entropy of a marginal [nats]."""
    _, counts = np.unique(rows.numbers(clique), return_counts=True)
    shares = counts / len(rows.codes)
    return float(-(shares * np.log(shares)).sum())


# --- How strongly every pair of columns is associated, and how well made-up rows keep it.


_MOST_CELLS = 10_000_000


def association(rows: EncodedRows, left: int, right: int) -> float | None:
    """Compute Cramér's V of two columns, a correlation for columns of labels, from 0 to 1.

    Formula:  V = sqrt(chi^2 / (n (min(r, c) - 1))) over the r and c labels that occur; 0 where one is alone.

    Args:
        rows: at least one row.
        left, right: places of the columns.
    Returns:
        V; None for a pair of more than 10 million cells.
    Source: Cramér 1946, Mathematical Methods of Statistics.
    """
    one, ours = np.unique(rows.codes[:, left], return_inverse=True)
    two, theirs = np.unique(rows.codes[:, right], return_inverse=True)
    least = min(len(one), len(two)) - 1
    if least == 0:
        return 0.0
    if len(one) * len(two) > _MOST_CELLS:
        return None
    counted = np.bincount(ours * len(two) + theirs, minlength=len(one) * len(two)).reshape(len(one), len(two))
    counts: NDArray[np.float64] = counted.astype(np.float64)
    number = counts.sum()
    expected = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / number
    return float(np.sqrt(np.sum((counts - expected) ** 2 / expected) / (number * least)))


def association_errors(real: EncodedRows, synthetic: EncodedRows) -> dict[tuple[int, int], float]:
    """Return the absolute difference of Cramér's V of each pair of columns, by place.

    Raises:
        ValueError: the tables do not have the same columns, or no rows.
    """
    check_comparable(real, synthetic)
    if not len(synthetic.codes):
        raise ValueError("there must be at least one made-up row")
    found = {}
    for left, right in combinations(range(len(real.columns)), 2):
        ours, theirs = association(real, left, right), association(synthetic, left, right)
        if ours is not None and theirs is not None:
            found[left, right] = abs(ours - theirs)
    return found


# --- Yardsticks.


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


# --- What an evaluation found, in a type that says that it may not leave (DESIGN law 5).


MOST_MARGINALS: Final = 20_000


@dataclass(frozen=True)
class Scores:
    """How close made-up rows come to others.

    Args:
        columns: the columns that were compared.
        errors: the α-way error, by α; an order with more than `MOST_MARGINALS` marginals is left out.
        mutual_information: absolute difference for each pair of columns, by place [nats]; empty for one column.
        accuracies: share of rows whose target a classifier predicts that was trained on the made-up rows, by
            classifier; empty where no target was named.
        association: absolute difference of Cramér's V for each pair of columns, by place; a pair of too many cells is
            left out.
        propensity: how far classifiers tell the made-up rows from the others, by classifier.
        yardsticks: the same scores of other rows, by name; to be read beside these.
        learned_from_real: the accuracies of classifiers that were trained on four fifths of the other rows, and
            tested on the last fifth.
        majority: share of the most frequent cell of the target; None where none was named.
        linked: of two linked tables, errors of the parent table, across, and of children of one parent; None else.
    """

    columns: tuple[str, ...]
    errors: Mapping[int, WorkloadError]
    mutual_information: Mapping[tuple[int, int], float]
    accuracies: Mapping[str, float]
    association: Mapping[tuple[int, int], float] = field(default_factory=dict)
    propensity: Mapping[str, Propensity] = field(default_factory=dict)
    yardsticks: Mapping[str, Yardstick] = field(default_factory=dict)
    learned_from_real: Mapping[str, float] = field(default_factory=dict)
    majority: float | None = None
    linked: LinkedErrors | None = None

    @property
    def association_error(self) -> float | None:
        """The mean over all pairs; None for one column."""
        return fmean(self.association.values()) if self.association else None

    @property
    def mutual_information_error(self) -> float | None:
        """The mean over all pairs [nats]; None for one column."""
        return fmean(self.mutual_information.values()) if self.mutual_information else None

    def to_json(self) -> dict[str, Any]:
        """Return the numbers as JSON, with the distance of every marginal."""
        return {
            "columns": list(self.columns),
            "alpha_way_error": {
                str(alpha): {
                    "mean": error.mean,
                    "by_marginal": [
                        {"columns": [self.columns[place] for place in clique], "error": distance}
                        for clique, distance in zip(error.cliques, error.distances, strict=True)
                    ],
                }
                for alpha, error in self.errors.items()
            },
            "mutual_information_error": self.mutual_information_error,
            "mutual_information_error_by_pair": [
                {"columns": [self.columns[left], self.columns[right]], "error": error}
                for (left, right), error in self.mutual_information.items()
            ],
            "association_error": self.association_error,
            "association_error_by_pair": [
                {"columns": [self.columns[left], self.columns[right]], "error": error}
                for (left, right), error in self.association.items()
            ],
            "propensity": {
                name: {"pmse": each.pmse, "expected": each.expected, "ratio": each.ratio}
                for name, each in self.propensity.items()
            },
            "accuracy": dict(self.accuracies),
            "yardsticks": {
                **{name: each.to_json() for name, each in self.yardsticks.items()},
                "accuracy": {"learned_from_real": dict(self.learned_from_real), "majority_class": self.majority},
            },
            **({} if self.linked is None else {"linked": self.linked.to_json()}),
        }


@dataclass(frozen=True, repr=False, eq=False)
class PrivateScores:
    """Scores against confidential rows: for the auditor alone.

    They cost no budget because they never leave: no record, log, orchestrator result or error shows them.

    Args:
        scores: the numbers.
    """

    scores: Scores

    def __repr__(self) -> str:
        """Show no number."""
        return "PrivateScores(for the auditor alone)"

    def __reduce__(self) -> NoReturn:
        """Refuse pickling: scores against real rows must not land in a result store or a cache."""
        raise TypeError("PrivateScores cannot be pickled: scores against real rows stay with the auditor")


def compare(
    real: EncodedRows,
    synthetic: EncodedRows,
    *,
    degrees: tuple[int, ...] = (1, 2, 3),
    shares: bool = False,
    accuracies: Mapping[str, float] | None = None,
    propensity: Mapping[str, Propensity] | None = None,
    yardsticks: Mapping[str, Yardstick] | None = None,
    learned_from_real: Mapping[str, float] | None = None,
    majority: float | None = None,
) -> PrivateScores:
    """Compare made-up rows with those that they imitate.

    Args:
        real: the rows that are imitated.
        synthetic: the imitation.
        degrees: the α of the errors; those beyond the number of columns, or of more than `MOST_MARGINALS` marginals,
            are left out.
        shares: compare shares of the rows rather than counts, for tables of unequal size.
        accuracies: what classifiers reached, when they were trained.
        propensity: how far classifiers told the tables apart, when they were asked.
        yardsticks, learned_from_real, majority: what other rows, and other learners, reach.
    Returns:
        PrivateScores: whatever the rows are, for nobody is asked whether they are confidential.
    Raises:
        ValueError: the tables do not have the same columns, or there are no rows.
    """
    width = len(real.columns)
    asked = [alpha for alpha in degrees if alpha <= width and comb(width, alpha) <= MOST_MARGINALS]
    errors = {alpha: alpha_way_error(real, synthetic, alpha=alpha, shares=shares) for alpha in asked}
    information = mutual_information_errors(real, synthetic) if width > 1 else {}
    associations = association_errors(real, synthetic) if width > 1 and len(synthetic.codes) else {}
    told = dict(accuracies or {}), associations, dict(propensity or {})
    beside = dict(yardsticks or {}), dict(learned_from_real or {}), majority
    return PrivateScores(Scores(real.columns, errors, information, *told, *beside))
