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
from itertools import pairwise
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from contracts.contract.contract import Contract
from contracts.contract.impossible_cells import Clique
from contracts.message import message
from contracts.release.tables.levels import levels_of, parents
from contracts.release.tables.tables import CONSISTENT_METHODS, Refine, TableSpec
from privacy.accounting.events import CountNoise
from privacy.arrays import Floats, Numbers
from privacy.marginals.count_noise import variance
from privacy.refine.hierarchy import Parents, consistent_variances, make_consistent, project_tree, round_tree
from privacy.refine.intervals import noise_intervals, refined_intervals
from privacy.refine.methods import Method
from privacy.refine.posterior import STEP
from privacy.refine.simplex import project_simplex, round_to_total
from privacy.refine.tables import NO_SUM, Coarser, Refined

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


# --- Refinement of all tables of a release together, so that they agree on what they share.


TOTAL_OF_ALL: Final = message(
    "The total is the average of the measured total and of all tables' sums, weighted by their noise."
)


@dataclass(frozen=True)
class MeasuredTable:
    """A noisy marginal as it was drawn.

    Args:
        columns: its columns.
        noisy: noisy counts over the declared domain, one axis a column [units].
        impossible: declared structural zeros, same shape.
        event: the noise.
    """

    columns: tuple[str, ...]
    noisy: NDArray[np.int64]
    impossible: NDArray[np.bool_]
    event: CountNoise

    def as_table(self) -> NoisyTable:
        """Return the table as consistency sees it."""
        return NoisyTable(self.columns, self.noisy, variance(self.event), ~self.impossible)


@dataclass(frozen=True)
class KnownTotal:
    """The release's total.

    Args:
        value: measured or declared [units].
        event: the noise of a measured one; None where it is declared public, and exact.
    """

    value: int
    event: CountNoise | None

    def as_table(self) -> NoisyTable:
        """Return the total as a table without columns."""
        spread = 0.0 if self.event is None else variance(self.event)
        return NoisyTable((), np.asarray(float(self.value)), spread, np.ones((), np.bool_))


def refine_together(
    tables: Sequence[MeasuredTable], terms: Refine, *, total: KnownTotal | None
) -> tuple[Refined, ...]:
    """Refine noisy tables so that they agree on every margin that they share.

    Args:
        tables: of different sets of columns.
        terms: method "none" or "simplex", and whether the counts are whole.
        total: the release's total; None only with method "none".
    Returns:
        tuple: for each table its refinement, with the largest difference between a margin of it and the same margin
        of another table.
    Raises:
        ValueError: another method, no total, or every cell a structural zero while the total is positive.
    Privacy: post-processing; deterministic.
    """
    if terms.method not in CONSISTENT_METHODS:
        raise ValueError(f"method must be one of {', '.join(CONSISTENT_METHODS)}, not {terms.method!r}")
    known = [] if total is None else [total.as_table()]
    agreement = Agreement([*(table.as_table() for table in tables), *known])
    if terms.method == "none":
        made: list[Numbers] = [_steady(values) for values in agreement.estimates()[: len(tables)]]
        return _stated(tables, made, terms, None, ())
    if total is None:
        raise ValueError("method 'simplex' needs a total")
    # The total took part as a table without columns, the last one.
    estimate = total.value if total.event is None else round(float(agreement.estimates()[-1]))
    notes = [TOTAL_OF_ALL] * (total.event is not None) + [NO_SUM] * (estimate < 0)
    reached = KnownTotal(max(0, estimate), None)
    # Again, with the total fixed at a whole number: the nearest tables that agree and have no cell below 0.
    nearest = Agreement([*(table.as_table() for table in tables), reached.as_table()]).nearest_tables()
    made = [_with_total(table, values, reached.value, terms) for table, values in zip(tables, nearest, strict=False)]
    return _stated(tables, made, terms, reached.value, tuple(notes))


def _steady(values: Floats) -> Floats:
    """Drop the last bits, which differ between machines."""
    steady: Floats = np.rint(values / STEP) * STEP
    return steady


def _with_total(table: MeasuredTable, values: Floats, total: int, terms: Refine) -> Numbers:
    """Return a table with exactly the total: nearly consistent values, moved onto the simplex, rounded if wanted."""
    possible = ~table.impossible
    projected = _steady(project_simplex(values[possible], total))
    counts: Numbers = round_to_total(projected, total) if terms.integers else projected
    whole: NDArray[Any] = np.zeros(values.shape, dtype=counts.dtype)
    whole[possible] = counts
    return whole


def _stated(
    tables: Sequence[MeasuredTable],
    values: Sequence[Numbers],
    terms: Refine,
    total: int | None,
    notes: tuple[str, ...],
) -> tuple[Refined, ...]:
    """State what was made of each table, with its intervals and with how far it is from agreeing."""
    gaps = Agreement([table.as_table() for table in tables]).disagreements(values)
    method: Method = "none" if terms.method == "none" else "simplex"
    refined = []
    for table, counts, gap in zip(tables, values, gaps, strict=True):
        if method == "none":
            ends = noise_intervals(table.noisy, table.event).holding(counts).with_zeros(table.impossible)
        else:
            ends = refined_intervals(table.noisy, counts, table.event, impossible=table.impossible)
        refined.append(Refined(counts, total, notes, method, None, None, {}, ends, disagreement=gap))
    return tuple(refined)


# --- Refinement of a table that was measured at several resolutions.


@dataclass(frozen=True)
class MeasuredTree:
    """The noisy counts of a table at all its resolutions, coarsest first, the table itself last.

    Args:
        noisy: noisy counts of each level, in its shape [units].
        impossible: of each level, the cells that cannot hold anybody.
        events: the noise of each level.
        parents: for each level but the first, the row-major number of the cell above.
    """

    noisy: Sequence[NDArray[np.int64]]
    impossible: Sequence[NDArray[np.bool_]]
    events: Sequence[CountNoise]
    parents: Parents


def measured_tree(
    table: TableSpec, contract: Contract, noisy: Sequence[NDArray[np.int64]], events: Sequence[CountNoise]
) -> MeasuredTree:
    """Put together what was measured of a table with a hierarchy.

    Args:
        table: the table.
        contract: its contract.
        noisy: noisy counts of its levels, coarsest first, and then its own; any shape [units].
        events: their noise.
    Raises:
        ValueError: other numbers of counts than the levels have cells.
    """
    levels = levels_of(table, contract)
    impossible = [*(level.impossible(table.columns) for level in levels), contract.impossible(table.columns)]
    shaped = [values.reshape(mask.shape) for values, mask in zip(noisy, impossible, strict=True)]
    return MeasuredTree(shaped, impossible, tuple(events), parents(levels, table, contract))


def refine_tree(tree: MeasuredTree, *, total: int | None, integers: bool) -> Refined:
    """Make the levels of a table consistent by weighted least squares, then non-negative and whole from the top down.

    Structural zeros, and coarser cells of which they are all, are zero and take no part.

    Args:
        tree: what was measured.
        total: sum that is kept, noisy or declared public; a negative one becomes 0 with a note. None to add up to
            what the levels themselves estimate, to the nearest whole number [units].
        integers: whole counts, by largest remainders within each parent.
    Returns:
        Refined: the table, and under `coarser` its levels, coarsest first.
    Raises:
        ValueError: the levels do not partition each other, or there is no possible cell while the total is positive.
    Privacy: post-processing; deterministic.
    Source: Hay, Rastogi, Miklau, Suciu 2010 (consistency); rounding from the top down as in `round_tree`.
    """
    possible = [~mask.reshape(-1) for mask in tree.impossible]
    noisy = [values.reshape(-1)[kept] for values, kept in zip(tree.noisy, possible, strict=True)]
    above = _among_possible(tree.parents, possible)
    # A total below zero is no total of counts: it is set to 0, with a note.
    known = None if total is None else max(total, 0)
    estimates = make_consistent(noisy, [variance(event) for event in tree.events], above, total=known)
    # Without a given total the table adds up to the levels' own estimate, rounded.
    reached = round(float(estimates[0].sum())) if known is None else known
    notes = (NO_SUM,) if (reached if total is None else total) < 0 else ()
    finish = round_tree if integers else project_tree
    counts = finish(estimates, above, total=max(reached, 0))
    tables = list(map(_whole_table, counts, possible, tree.noisy))
    # The last level is the table itself; those before it are its coarser resolutions.
    *coarser, finest = [
        Coarser(table, refined_intervals(values, table, event, impossible=mask))
        for table, values, event, mask in zip(tables, tree.noisy, tree.events, tree.impossible, strict=True)
    ]
    ends = finest.intervals
    return Refined(finest.values, max(reached, 0), notes, "hierarchy", None, None, {}, ends, coarser=tuple(coarser))


def expected_variances(sizes: Sequence[int], variances: Sequence[float], *, total_known: bool) -> tuple[float, ...]:
    """Return the error variance of a cell of each level after consistency, for a tree with equal families [units²].

    Making counts non-negative and whole comes after that, and mostly makes it less.
    """
    return tuple(map(float, consistent_variances(sizes, np.array(variances), total_known)))


def _among_possible(parents: Parents, possible: Sequence[NDArray[np.bool_]]) -> list[NDArray[np.int64]]:
    """Number the parents among the possible cells only."""
    # The running number of possible cells is the new number of each.
    numbers = [np.cumsum(kept) - 1 for kept in possible]
    return [
        number[parent[kept]].astype(np.int64)
        for parent, number, (_, kept) in zip(parents, numbers[:-1], pairwise(possible), strict=True)
    ]


def _whole_table(counts: Numbers, possible: NDArray[np.bool_], like: NDArray[np.int64]) -> NDArray[Any]:
    """Put one count for each possible cell back into its level, with 0 elsewhere."""
    table: NDArray[Any] = np.zeros(possible.size, dtype=counts.dtype)
    table[possible] = counts
    return table.reshape(like.shape)
