"""The plan of counts by place: every table at each of its levels, with its share of the charge.

A function of spec and contract alone. It reads no rows; of the places it needs how many each level has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from math import floor, prod
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from contracts.contract.contract import Contract
from contracts.contract.impossible_cells import Clique
from contracts.release.spine.place_margins import PlaceTree, impossible_cells
from contracts.release.spine.product import SpineProduct
from privacy.accounting.amounts import ATTO, PICO, delta_down, loss_up
from privacy.accounting.events import CountNoise
from privacy.accounting.renyi import best_epsilon, rho_for
from privacy.arrays import Floats
from privacy.marginals.count_noise import half_width, variance
from privacy.marginals.sensitivity import GaussianNoise, noise_event
from privacy.refine.estimates import (
    PIECE_CELLS,
    CrossingTree,
    LevelTable,
    MeasuredSpine,
    PublicMargin,
    crossed,
    each_level,
    estimate_upwards,
    final_variances,
    implied_margins,
    row_totals,
)
from privacy.refine.place_counts import whole_counts
from privacy.refine.simplex import over_pieces
from privacy.refine.whole_counts import interval_ends, margin_deviations
from privacy.table_plans.spec_plan import SpecPlan

if TYPE_CHECKING:
    from decimal import Decimal


CONFIDENCE = 0.95


@dataclass(frozen=True)
class PlaceDraw:
    """One table at one level.

    Args:
        key: name of the draw inside the run.
        table: name of the table.
        level: name of the level.
        clique: the column of places, then the columns of the table, in the contract's order.
        shape: places of the level, cells of each column.
        share: share of the release's budget.
        noise: its cost.
        event: the event it will be, sensitivity and scale included.
        variance: variance of the noise in one cell [rows²].
        half_width: 95 % of noises lie within plus or minus this [rows].
    """

    key: str
    table: str
    level: str
    clique: Clique
    shape: tuple[int, ...]
    share: Fraction
    noise: GaussianNoise
    event: CountNoise
    variance: float
    half_width: int


@dataclass(frozen=True)
class SpinePlan(SpecPlan):
    """All measurements down a tree of places, with what they cost together.

    Args:
        draws: in the order in which they are drawn.
        epsilon: ε of all draws composed, at `delta` [10⁻¹²], rounded up.
        delta: δ [10⁻¹⁸].
        columns: all columns that are counted by, but for places, in the contract's order.
        shape: cells of each.
        sizes: places of each level, by its name.
        public_total: the declared public number of rows, if there is one; it is kept.
        tree: the places, where their file was read; a stranger finds them in the version.
    """

    draws: tuple[PlaceDraw, ...]
    epsilon: int
    delta: int
    columns: Clique
    shape: tuple[int, ...]
    sizes: Mapping[str, int]
    public_total: int | None
    tree: PlaceTree | None = None

    @property
    def events(self) -> tuple[CountNoise, ...]:
        """The events of the draws, in order."""
        return tuple(draw.event for draw in self.draws)

    @property
    def cells(self) -> int:
        """Numbers that are drawn."""
        return sum(prod(draw.shape) for draw in self.draws)


def place_draw_key(table: str, level: str) -> str:
    """Name a draw inside its run."""
    return f"table:{table}/{level}"


def place_file(table: str, level: str) -> str:
    """Name the files of a table at a level."""
    return f"{table}.{level}"


def detail_columns(product: SpineProduct, contract: Contract) -> Clique:
    """Return all columns that are counted by, but for places, in the contract's order."""
    return tuple(name for name in product.names(contract) if name != product.spine.column)


def plan_spine(
    product: SpineProduct,
    contract: Contract,
    *,
    epsilon: Decimal,
    delta: Decimal,
    sizes: Mapping[str, int],
    tree: PlaceTree | None = None,
) -> SpinePlan:
    """Split a charge over the tables and levels of a product.

    Args:
        product: which fits the contract.
        contract: its contract.
        epsilon: what the release may cost.
        delta: > 0.
        sizes: places of each level, by its name.
        tree: the places.
    Returns:
        SpinePlan: data-free.
    Raises:
        AmountRefused: the charge is too small for so many draws.
    Privacy: reads no data; the composed ε of the events is at most `epsilon`.
    """
    units, columns = delta_down(delta), detail_columns(product, contract)
    budget, shares = rho_for(Fraction(epsilon), Fraction(delta)), level_shares(product)
    parts = [floor(budget * share * PICO) for share in shares.values()]
    # Rounded down, one by one; the last part takes what the rounding left.
    parts[-1] = floor(budget * PICO) - sum(parts[:-1])
    draws = []
    for (table, level), part in zip(product.draws, parts, strict=True):
        kept = tuple(name for name in columns if name in table.columns)
        noise = GaussianNoise(Fraction(part, PICO))
        event = noise_event(noise, adjacency=contract.adjacency, rows_per_unit=contract.unit.max_rows_per_unit)
        key = place_draw_key(table.name, level)
        terms = key, table.name, level, (product.spine.column, *kept), (sizes[level], *contract.shape(kept))
        draws.append(PlaceDraw(*terms, shares[key], noise, event, variance(event), half_width(event, CONFIDENCE)))
    total = None if contract.total is None else contract.total.value
    cost = loss_up(best_epsilon(tuple(draw.event for draw in draws), Fraction(units, ATTO))[0])
    return SpinePlan(tuple(draws), cost, units, columns, contract.shape(columns), dict(sizes), total, tree)


def with_variances(plan: SpinePlan, variances: Sequence[float]) -> SpinePlan:
    """Return the plan with the variances that its draws really had: calibration may differ between machines."""
    drawn = zip(plan.draws, variances, strict=True)
    return replace(plan, draws=tuple(replace(draw, variance=each) for draw, each in drawn))


def level_shares(product: SpineProduct) -> dict[str, Fraction]:
    """Return the share of the budget of each draw, by its key: its table's share times that of its level in it."""
    tables = sum(Fraction(table.weight) for table in product.tables)
    found = {}
    for table in product.tables:
        levels = product.levels_of(table)
        every = sum(map(Fraction, levels.values()))
        for level, weight in levels.items():
            share = Fraction(table.weight) / tables * Fraction(weight) / every
            found[place_draw_key(table.name, level)] = share
    return found


# --- The tables that follow from what was measured down a tree of places.


PlaceColumns = Mapping[str, NDArray[np.int64]]


def measured_spine(plan: SpinePlan, tree: PlaceTree, noisy: Mapping[str, NDArray[np.int64]]) -> MeasuredSpine:
    """Put together what was measured at the levels of one tree.

    Args:
        plan: gives the noise of each draw.
        tree: the places.
        noisy: noisy counts by key of the draw, shape (places, cells ...), in the order of this tree.
    """
    at = {level: number for number, level in enumerate(tree.levels)}
    tables: list[list[LevelTable]] = [[] for _ in tree.levels]
    for draw in plan.draws:
        if draw.level in at:
            tables[at[draw.level]].append(LevelTable(noisy[draw.key], kept_columns(plan, draw), draw.variance))
    known = {
        at[level]: PublicMargin(tuple(name in own.columns for name in plan.columns), own.counts)
        for level, own in tree.public.items()
    }
    if plan.public_total is not None and not known:
        known[0] = row_totals(np.array([plan.public_total], dtype=np.int64), len(plan.columns))
    margins = implied_margins(known, tree.parents)
    return MeasuredSpine(plan.shape, tree.parents, tree.sizes, tuple(map(tuple, tables)), margins)


def crossing_tree(
    plan: SpinePlan, first: PlaceTree, tree: PlaceTree, noisy: Mapping[str, NDArray[np.int64]]
) -> CrossingTree:
    """Estimate a further tree upwards, from its own levels, the whole and the smallest places.

    Args:
        plan: gives the noise of each draw.
        first, tree: the first tree and the further one.
        noisy: as of `measured_spine`, of the first tree.
    """
    place = np.empty(first.sizes[-1], dtype=np.int64)
    place[first.codes] = np.arange(first.sizes[-1])
    order = place[tree.codes]
    last = {draw.key for draw in plan.draws if draw.level == tree.levels[-1]}
    own = {key: values[order] if key in last else values for key, values in noisy.items()}
    return CrossingTree(estimate_upwards(measured_spine(plan, tree, own)), order)


def kept_columns(plan: SpinePlan, draw: PlaceDraw) -> tuple[bool, ...]:
    """Return which of all columns a draw has."""
    return tuple(name in draw.clique[1:] for name in plan.columns)


@dataclass(frozen=True, eq=False)
class LevelCounts:
    """Counts and estimates of the places of a level.

    Args:
        counts: whole, shape (places, cells) [rows].
        values: the estimates before they were made whole [rows].
        variances: of the estimates, by place and set of columns [rows²].
        impossible: the cells that cannot hold anybody (`impossible_cells`).
    """

    counts: NDArray[np.int64]
    values: Floats
    variances: Floats
    impossible: NDArray[np.bool_]


@dataclass(frozen=True)
class SpineCounts:
    """Counts and estimates of all levels.

    Args:
        plan: what was drawn.
        levels: of all trees, by name.
    """

    plan: SpinePlan
    levels: Mapping[str, LevelCounts]

    def table(self, draw: PlaceDraw) -> PlaceColumns:
        """Return the published columns of a table at its level: counts and the ends of their intervals."""
        kept, shape, level = kept_columns(self.plan, draw), self.plan.shape, self.levels[draw.level]
        left_out = tuple(axis for axis, own in enumerate(kept, start=1) if not own)
        nobody, places = level.impossible, draw.shape[0]
        deviations = margin_deviations(level.variances, shape, kept).reshape(-1, *[1] * (len(draw.shape) - 1))
        # The table of all columns is what was counted: no second copy of it is made.
        counts = level.counts.reshape(draw.shape) if all(kept) else np.empty(draw.shape, dtype=np.int64)
        lower, upper = (np.empty(draw.shape, dtype=np.int64) for _ in range(2))
        step = max(1, PIECE_CELLS // prod(shape))

        def fill(low: int) -> None:
            here = slice(low, low + step)
            if left_out:
                counts[here] = level.counts[here].reshape(-1, *shape).sum(axis=left_out)
            values = level.values[here].reshape(-1, *shape).sum(axis=left_out)
            lower[here], upper[here] = interval_ends(values, deviations[here], counts[here])
            own = nobody if nobody.shape[0] == 1 else nobody[here]
            empty = np.broadcast_to(own.reshape(-1, *shape).all(axis=left_out), lower[here].shape)
            lower[here][empty], upper[here][empty] = 0, 0

        over_pieces(fill, range(0, places, step))
        return {"count": counts, "lower": lower, "upper": upper}


def spine_counts(
    plan: SpinePlan, tree: PlaceTree, contract: Contract, noisy: Mapping[str, NDArray[np.int64]]
) -> SpineCounts:
    """Estimate all levels of all trees, and make whole counts of them. Post-processing; as for `measured_spine`."""
    estimate, column = estimate_upwards(measured_spine(plan, tree, noisy)), plan.draws[0].clique[0]
    others = [crossing_tree(plan, tree, each, noisy) for each in tree.others]
    moved = partial(crossed, estimate, others) if others else None
    impossible, variances = impossible_cells(contract, column, plan.columns, tree), final_variances(estimate)
    levels = {}
    for number, counts, values in whole_counts(estimate, total=plan.public_total, impossible=impossible, moved=moved):
        levels[tree.levels[number]] = LevelCounts(counts, values, variances[number], impossible[number])
    for each, crossing in zip(tree.others, others, strict=True):
        smallest = levels[tree.levels[-1]].counts[crossing.order]
        levels |= _further_levels(each, crossing, smallest, impossible_cells(contract, column, plan.columns, each))
    return SpineCounts(plan, levels)


def _further_levels(
    tree: PlaceTree, crossing: CrossingTree, smallest: NDArray[np.int64], impossible: tuple[NDArray[np.bool_], ...]
) -> dict[str, LevelCounts]:
    """Return the levels between whole and smallest places of a further tree: sums of the same smallest places."""
    counts, variances = [smallest], final_variances(crossing.estimate)
    for level in range(len(tree.levels) - 2, 0, -1):
        starts = crossing.estimate.measured.starts(level)[:-1]
        counts.insert(0, np.add.reduceat(counts[0], starts, axis=0))
    found = {}
    for level, values in enumerate(each_level(crossing.estimate)):
        if 0 < level < len(tree.levels) - 1:
            flat = values.reshape(values.shape[0], -1)
            found[tree.levels[level]] = LevelCounts(counts[level - 1], flat, variances[level], impossible[level])
    return found
