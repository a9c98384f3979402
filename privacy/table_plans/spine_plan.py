"""The plan of counts by place: every table at each of its levels, with its share of the charge.

A function of spec and contract alone. It reads no rows; of the places it needs how many each level has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import floor, prod
from typing import TYPE_CHECKING

from contracts.contract.contract import Contract
from contracts.contract.impossible_cells import Clique
from contracts.release.spine.product import SpineProduct
from privacy.accounting.amounts import ATTO, PICO, delta_down, loss_up
from privacy.accounting.convert import best_epsilon, rho_for
from privacy.accounting.events import CountNoise
from privacy.marginals.sensitivity import GaussianNoise, noise_event
from privacy.marginals.uncertainty import half_width, variance
from privacy.table_plans.spec_plan import SpecPlan

if TYPE_CHECKING:
    from decimal import Decimal

    from contracts.release.spine.places import PlaceTree

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
