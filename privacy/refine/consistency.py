"""Consistency: noisy tables that share columns are made to agree on every margin that they share.

Where (one letter each)
    y_t   noisy table t, each cell with noise of variance v_t        x_t   its estimate
    S     a set of columns that two or more tables share             m_t   the margin of x_t over S
    p_t   how many possible cells of table t add up to a cell of its margin over S

The shared sets are all intersections of two or more tables' columns, the empty one (the total) among them. They are
taken from the smallest to the largest, and for each S the margins of all tables that have it are replaced by their
average, weighted by 1 / (v_t p_t); what that adds to a cell of the margin is spread equally over the possible cells
that it is the sum of:
    a = sum m_t / (v_t p_t) / sum 1 / (v_t p_t)                       x_t += (a - m_t) / p_t
One such step is the orthogonal projection, in the norm  sum ||x_t||² / v_t,  onto the tables that agree on S.

Claim 1: without structural zeros one pass over the sets makes the tables agree on all of them.
    Let T be a set taken before S, and t a table that has both. What the step at S adds to t has the margin zero over
    every R = T ∩ S: R is an intersection of tables that is smaller than S (were R = S, S would lie in T and would
    have been taken first), so all tables that have S already agree on R, and the average has that margin too. A
    change that is spread equally has, over T, the margin that it has over T ∩ S, spread equally: zero.
Claim 2: what one pass gives is the weighted least-squares estimate, so no unbiased linear one has less variance.
    Split a table into its orthogonal effects, one for each subset A of its columns. The tables agree if and only if
    the effects of A agree over all tables that have A; noise of one variance a cell makes the effects independent,
    and in the margin over A the effect of table t has a variance in proportion to v_t n_t (n_t its number of cells).
    The least-squares estimate of an effect is thus the average with weights 1 / (v_t n_t) over the tables that have
    A. The first step that touches A is at the intersection S of all tables that have A; the tables that have S are
    just these, and v_t p_t = v_t n_t / n_S has the same proportions. Later steps find the effect in agreement and
    leave it.
With structural zeros the cells are no longer alike and one pass is not enough: passes are repeated. Each is a round
of projections onto subspaces, so that they tend to the projection onto their intersection, the least-squares estimate
given the zeros (von Neumann, Halperin). A total that is known exactly is never changed, only followed.

`nearest_tables` is the same with no cell below zero, by Dykstra's algorithm: passes and cutting off at zero in turn,
what is cut off being carried over. It tends to the nearest tables, in that norm, that agree and have no cell below 0.

Source: Hay et al. 2010, Qardaji, Yang and Li 2014 (PriView: the order of the steps, equal variances);
Boyle and Dykstra 1986. The weights, and claim 2 for unequal variances and numbers of cells, are derived above.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

import numpy as np
from numpy.typing import NDArray

from contracts.contract.impossible_cells import Clique
from privacy.arrays import Floats

MOST_PASSES: Final = 200
SETTLED: Final = 2.0**-20
"""Passes end when no cell moves by more than this [units]."""
NEAR: Final = 2.0**-8
"""Rounds of Dykstra's algorithm end when no cell is further than this below zero [units]."""
MOST_ROUNDS: Final = 400
LEAST_ROUNDS: Final = 20
MOST_CELL_ROUNDS: Final = 2**30
"""Of large tables fewer rounds are made, so that cells times rounds stays below this; it takes about two minutes."""


@dataclass(frozen=True)
class NoisyTable:
    """A table with noise of one variance in every cell.

    Args:
        clique: its columns, each once; empty for a total.
        values: finite, one axis a column [units].
        variance: of the noise in each cell, > 0; 0 for a total that is known exactly [units²].
        possible: the cells that may hold something; the others are known to be zero.
    Raises:
        ValueError: an argument out of range.
    """

    clique: Clique
    values: NDArray[np.float64] | NDArray[np.int64]
    variance: float
    possible: NDArray[np.bool_]

    def __post_init__(self) -> None:
        if len(set(self.clique)) < len(self.clique) or self.values.ndim != len(self.clique):
            raise ValueError("clique must name each axis of values once")
        if self.possible.shape != self.values.shape:
            raise ValueError(f"possible must have the shape of values, {self.values.shape}")
        if not 0 <= self.variance < np.inf or not np.isfinite(self.values).all():
            raise ValueError("variance must be finite and at least 0, values must be finite")
        if self.variance <= 0 and self.clique:
            raise ValueError("variance must be above 0; only a total may be known exactly")


def shared_cliques(cliques: Sequence[Iterable[str]]) -> tuple[Clique, ...]:
    """Return every set of columns that is the intersection of two or more cliques, the smaller ones first.

    Args:
        cliques: the columns of each table.
    Returns:
        tuple: each with its columns in alphabetical order, sets of one size in alphabetical order.
    """
    shared: set[frozenset[str]] = set()
    seen: set[frozenset[str]] = set()
    for clique in map(frozenset, cliques):
        # Each clique meets all cliques and all intersections so far, which closes the family under intersection.
        shared |= {clique & other for other in seen | shared}
        seen.add(clique)
    return tuple(sorted((tuple(sorted(each)) for each in shared), key=lambda clique: (len(clique), clique)))


class Agreement:
    """What must agree among some tables.

    Args:
        tables: the tables, in an order that decides nothing but the last bits of sums.
    Raises:
        ValueError: two tables of the same columns, or a column with two sizes.
    """

    def __init__(self, tables: Sequence[NoisyTable]) -> None:
        sets = [frozenset(table.clique) for table in tables]
        sizes: dict[str, int] = {}
        for table in tables:
            for name, size in zip(table.clique, table.values.shape, strict=True):
                if sizes.setdefault(name, size) != size:
                    raise ValueError(f"column {name!r} has {sizes[name]} values in one table and {size} in another")
        if len(set(sets)) < len(sets):
            raise ValueError("tables must have different sets of columns")
        self._tables = tuple(tables)
        self._steps = [_step(tables, clique) for clique in shared_cliques([table.clique for table in tables])]
        # Without structural zeros one pass is exact (claim 1).
        self._one_pass = all(bool(table.possible.all()) for table in tables)

    def estimates(self) -> tuple[Floats, ...]:
        """Return the weighted least-squares estimates of all tables, which agree (module, claims 1 and 2) [units]."""
        return self._settled([np.where(table.possible, table.values, 0.0) for table in self._tables])

    def nearest_tables(self) -> tuple[Floats, ...]:
        """Return the nearest tables without a negative cell that agree, up to what `disagreement` says [units]."""
        inside = list(self.estimates())
        cut = [np.zeros_like(values) for values in inside]
        above = inside
        for _ in range(self._rounds):
            # What the round before cut off is given back and cut anew (Boyle and Dykstra 1986).
            wanted = [values + rest for values, rest in zip(inside, cut, strict=True)]
            above = [np.maximum(values, 0.0) for values in wanted]
            # The projection left no cell far below 0: its positive part is the answer.
            if max((float(np.max(-values, initial=0.0)) for values in inside), default=0.0) <= NEAR:
                break
            cut = [values - kept for values, kept in zip(wanted, above, strict=True)]
            inside = list(self._settled(above))
        return tuple(np.maximum(values, 0.0) for values in inside)

    def disagreements(self, tables: Sequence[Floats | NDArray[np.int64]]) -> tuple[float, ...]:
        """Return, for each table, how far a margin of it lies from the same margin of another one at most [units].

        Args:
            tables: in the order and shapes of the tables.
        """
        worst = [0.0] * len(tables)
        for step in self._steps:
            margins = [view.margin(tables[view.table]) for view in step.views]
            lowest, highest = np.min(margins, axis=0), np.max(margins, axis=0)
            for view, margin in zip(step.views, margins, strict=True):
                gap = float(np.max(np.maximum(highest - margin, margin - lowest)))
                worst[view.table] = max(worst[view.table], gap)
        return tuple(worst)

    @property
    def _rounds(self) -> int:
        cells = sum(table.values.size for table in self._tables)
        return max(LEAST_ROUNDS, min(MOST_ROUNDS, MOST_CELL_ROUNDS // max(1, cells)))

    def _settled(self, values: Sequence[Floats]) -> tuple[Floats, ...]:
        """Take all steps once, or until nothing moves where structural zeros make the cells unlike."""
        current = [each.copy() for each in values]
        for _ in range(1 if self._one_pass else MOST_PASSES):
            moved = max((step.take(current) for step in self._steps), default=0.0)
            if moved <= SETTLED:
                break
        return tuple(current)


@dataclass(frozen=True)
class _View:
    """One table as a step sees it: which axes are summed, how the rest is laid out, what stands behind each sum."""

    table: int
    summed: tuple[int, ...]
    order: tuple[int, ...]
    possible: NDArray[np.bool_] | None
    behind: Floats
    weight: Floats

    def margin(self, values: Floats | NDArray[np.int64]) -> Floats:
        """Sum a table over the columns that are not shared, the shared ones in alphabetical order."""
        return np.asarray(values.sum(axis=self.summed, dtype=np.float64)).transpose(self.order)

    def add(self, values: Floats, change: Floats) -> float:
        """Spread a change of the margin equally over the possible cells behind it; return the largest of a cell."""
        share = _divided(change, self.behind)
        spread = np.expand_dims(share.transpose(np.argsort(self.order)), self.summed)
        values += spread if self.possible is None else np.where(self.possible, spread, 0.0)
        return float(np.max(np.abs(share), initial=0.0))


@dataclass(frozen=True)
class _LeastSquaresStep:
    """One shared set of columns and the tables that have it."""

    views: tuple[_View, ...]
    exact: Floats | None
    total_weight: Floats

    def take(self, values: Sequence[Floats]) -> float:
        """Make the tables agree on this set, in place; return the largest change of a cell."""
        margins = [view.margin(values[view.table]) for view in self.views]
        average = self.exact
        if average is None:
            weighted = sum(
                (view.weight * margin for view, margin in zip(self.views, margins, strict=True)),
                np.zeros_like(self.total_weight),
            )
            average = _divided(weighted, self.total_weight)
        return max(
            view.add(values[view.table], average - margin) for view, margin in zip(self.views, margins, strict=True)
        )


def _divided(above: Floats, below: Floats) -> Floats:
    """Divide where the divisor is above 0; the rest is 0."""
    fit = below > 0
    return np.asarray(np.where(fit, above / np.where(fit, below, 1.0), 0.0))


def _step(tables: Sequence[NoisyTable], clique: Clique) -> _LeastSquaresStep:
    views = tuple(_views(tables, clique))
    exact = [np.asarray(table.values, np.float64) for table in tables if table.variance <= 0]
    # A margin's cell with nothing possible behind it in one table is zero in all.
    barred = np.any([view.behind <= 0 for view in views], axis=0)
    views = tuple(_barred(view, barred) for view in views)
    weights = sum((view.weight for view in views), np.zeros_like(views[0].weight))
    return _LeastSquaresStep(views, exact[0] if exact and not clique else None, weights)


def _barred(view: _View, barred: NDArray[np.bool_]) -> _View:
    """Give no weight to margins that some table knows to be zero, so that their average is zero."""
    return _View(view.table, view.summed, view.order, view.possible, view.behind, np.where(barred, 0.0, view.weight))


def _views(tables: Sequence[NoisyTable], clique: Clique) -> Iterator[_View]:
    """Yield the tables that have a set of columns."""
    for number, table in enumerate(tables):
        if not set(clique) <= set(table.clique):
            continue
        kept = [name for name in table.clique if name in clique]
        summed = tuple(place for place, name in enumerate(table.clique) if name not in clique)
        order = tuple(kept.index(name) for name in clique)
        whole = bool(table.possible.all())
        if whole:
            cells = prod(table.values.shape[place] for place in summed)
            behind = np.full([table.values.shape[table.clique.index(name)] for name in clique], float(cells))
        else:
            behind = np.asarray(table.possible.sum(axis=summed, dtype=np.float64)).transpose(order)
        variance = table.variance * behind
        # 1 / (v_t p_t); 0 for a total that is known exactly, which is followed instead.
        weight = _divided(np.ones_like(behind), variance)
        yield _View(number, summed, order, None if whole else table.possible, behind, weight)
