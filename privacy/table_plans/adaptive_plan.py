"""The plan of adaptive tables: two draws a table, and from which noisy total on a group gets each level.

A function of spec and contract alone. It reads no rows. Both draws are charged beforehand: what the second one costs
does not depend on what the first one decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from math import ceil, floor, sqrt

import numpy as np
from numpy.typing import NDArray

from contracts.contract.contract import Contract
from contracts.contract.impossible_cells import Clique
from contracts.release.adaptive.detail_levels import DetailCells, detail_cells
from contracts.release.adaptive.product import AUTO, AdaptiveProduct, AdaptiveTable, wanted_error
from privacy.accounting.amounts import ATTO, PICO, delta_down, loss_up
from privacy.accounting.calculus import PureCalculus
from privacy.accounting.convert import best_epsilon, rho_for
from privacy.accounting.events import CountNoise
from privacy.marginals.sensitivity import GaussianNoise, LaplaceNoise, Noise, noise_event
from privacy.marginals.uncertainty import half_width, variance
from privacy.table_plans.split import NoiseKind

CONFIDENCE = 0.95
LEAST_VARIANCE = 1e-9


@dataclass(frozen=True)
class AdaptiveDraw:
    """One draw of a table.

    Args:
        key: name of the draw inside the run.
        clique: its columns.
        share: share of the release's budget.
        noise: its cost.
        event: the event it will be, sensitivity and scale included.
        variance: variance of the noise in one number [rows²].
        half_width: 95 % of noises lie within plus or minus this [rows].
    """

    key: str
    clique: Clique
    share: Fraction
    noise: Noise
    event: CountNoise
    variance: float
    half_width: int


@dataclass(frozen=True)
class AdaptiveTablePlan:
    """A table with its two draws.

    Args:
        cells: the table on its contract.
        totals: the draw of the totals of all groups.
        counts: the draw of the counts of all groups at their levels.
        thresholds: from which noisy total on a group gets each level but the first, increasing [rows].
    """

    cells: DetailCells
    totals: AdaptiveDraw
    counts: AdaptiveDraw
    thresholds: tuple[int, ...]

    @property
    def name(self) -> str:
        """The name of the table."""
        return self.cells.table.name

    @property
    def noise(self) -> NoiseKind:
        """The kind of both draws' noise."""
        return "laplace" if isinstance(self.counts.noise, LaplaceNoise) else "gaussian"

    @property
    def sizes(self) -> tuple[int, ...]:
        """Cells of each level."""
        return tuple(level.cells for level in self.cells.levels)

    @property
    def cell_of(self) -> tuple[NDArray[np.int64], ...]:
        """Of each level its cell for each cell of a group."""
        return tuple(level.cell_of for level in self.cells.levels)

    def chosen(self, totals: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the level of each group by its noisy total, int64, shape (groups,). Post-processing."""
        return np.searchsorted(np.array(self.thresholds), totals.reshape(-1), side="right").astype(np.int64)


@dataclass(frozen=True)
class AdaptivePlan:
    """All draws of a release of adaptive tables, with what they cost together.

    Args:
        tables: in the order in which they are drawn.
        epsilon: ε of all draws composed, at `delta` [10⁻¹²], rounded up.
        delta: δ [10⁻¹⁸].
    """

    tables: tuple[AdaptiveTablePlan, ...]
    epsilon: int
    delta: int

    @property
    def draws(self) -> tuple[AdaptiveDraw, ...]:
        """All draws, in their order: of each table its totals, then its counts."""
        return tuple(draw for table in self.tables for draw in (table.totals, table.counts))

    @property
    def events(self) -> tuple[CountNoise, ...]:
        """The events of the draws, in order."""
        return tuple(draw.event for draw in self.draws)

    @property
    def public_total(self) -> None:
        """No declared total is kept."""
        return None

    @property
    def noise_epsilon(self) -> None:
        """The noise is planned for the spec's own epsilon."""
        return None

    @property
    def options(self) -> None:
        """No product of this kind has any."""
        return None

    @property
    def most_cells(self) -> int:
        """Numbers that are drawn where every group gets the most detail."""
        return sum(table.cells.groups * (1 + table.sizes[-1]) for table in self.tables)


def with_variances(plan: AdaptivePlan, events: Sequence[CountNoise]) -> AdaptivePlan:
    """Return the plan with the variances that its draws really had: calibration may differ between machines."""
    spreads = iter(map(_spread, events))
    tables = []
    for table in plan.tables:
        totals = replace(table.totals, variance=next(spreads))
        tables.append(replace(table, totals=totals, counts=replace(table.counts, variance=next(spreads))))
    return replace(plan, tables=tuple(tables))


def _spread(event: CountNoise) -> float:
    """Return the variance of the noise, and where that is 0 as a float, the least that may be divided by."""
    return max(LEAST_VARIANCE, variance(event))


def totals_key(table: str) -> str:
    """Name the draw of the totals of groups."""
    return f"groups:{table}"


def counts_key(table: str) -> str:
    """Name the draw of the counts of groups at their levels."""
    return f"levels:{table}"


def plan_adaptive(product: AdaptiveProduct, contract: Contract, *, epsilon: Decimal, delta: Decimal) -> AdaptivePlan:
    """Split a charge over the tables of a product, and over the two draws of each.

    Args:
        product: which fits the contract.
        contract: its contract.
        epsilon: what the release may cost.
        delta: > 0 for Gaussian noise; Laplace noise spends none.
    Returns:
        AdaptivePlan: data-free.
    Raises:
        AmountRefused: the charge is too small for so many draws.
    Privacy: reads no data; the composed ε of the events is at most `epsilon`.
    """
    pure = product.mechanism == "laplace"
    units = 0 if pure else delta_down(delta)
    budget = Fraction(epsilon) if pure else rho_for(Fraction(epsilon), Fraction(delta))
    weights = sum(Fraction(table.weight) for table in product.tables)
    shares = []
    for table in product.tables:
        own, first = Fraction(table.weight) / weights, Fraction(table.adapt.share)
        shares += [own * first, own * (1 - first)]
    parts = [floor(budget * share * PICO) for share in shares]
    # Rounded down, one by one; the last part takes what the rounding left.
    parts[-1] = floor(budget * PICO) - sum(parts[:-1])
    tables = []
    for place, table in enumerate(product.tables):
        drawn = []
        terms = zip((totals_key, counts_key), (table.by, table.clique), (2 * place, 2 * place + 1), strict=True)
        for key, clique, at in terms:
            noise = (LaplaceNoise if pure else GaussianNoise)(Fraction(parts[at], PICO))
            event = noise_event(noise, adjacency=contract.adjacency, rows_per_unit=contract.unit.max_rows_per_unit)
            wide = _spread(event), half_width(event, CONFIDENCE)
            drawn.append(AdaptiveDraw(key(table.name), clique, shares[at], noise, event, *wide))
        cells = detail_cells(table, contract)
        tables.append(AdaptiveTablePlan(cells, drawn[0], drawn[1], thresholds(table, cells, drawn[1])))
    events = [draw.event for table in tables for draw in (table.totals, table.counts)]
    cost = PureCalculus().cost(events) if pure else loss_up(best_epsilon(events, Fraction(units, ATTO))[0])
    return AdaptivePlan(tuple(tables), cost, units)


def thresholds(table: AdaptiveTable, cells: DetailCells, counts: AdaptiveDraw) -> tuple[int, ...]:
    """Return from which noisy total on a group gets each level but the first.

    Formula: cells · half width of a count / relative error, rounded up. From there on a cell of average size has a
        95 % interval within that share of its count. The number of cells, the noise and the share are public.
    """
    adapt = table.adapt
    if adapt.thresholds != AUTO:
        return tuple(int(number) for number in adapt.thresholds)
    wanted = Fraction(wanted_error(adapt))
    return tuple(ceil(level.cells * max(1, counts.half_width) / wanted) for level in cells.levels[1:])


@dataclass(frozen=True)
class ExpectedLevel:
    """What a level's numbers are off by, as its noise tells; nothing of it is about data.

    Args:
        level: name of the level.
        cells: of a group.
        least: the smallest noisy total of a group that gets it; None for the first level [rows].
        cell_error: standard error of a cell [rows].
        total_error: standard error of a group's total [rows].
        at_least: the 95 % half width of a cell, as a share of an average cell's count at the smallest total; None for
            the first level.
    """

    level: str
    cells: int
    least: int | None
    cell_error: float
    total_error: float
    at_least: float | None


def expected_levels(plan: AdaptiveTablePlan) -> tuple[ExpectedLevel, ...]:
    """Return the expected errors of each level, before anything is charged."""
    found = []
    totals, counts = plan.totals.variance, plan.counts.variance
    for place, level in enumerate(plan.cells.levels):
        least = None if place == 0 else plan.thresholds[place - 1]
        cell, total = level_variances(totals, counts, level.cells)
        share = None if least is None else plan.counts.half_width * level.cells / least
        found.append(ExpectedLevel(level.name, level.cells, least, sqrt(cell), sqrt(total), share))
    return tuple(found)


def level_variances(totals: float, counts: float, cells: float) -> tuple[float, float]:
    """Return the variances of a cell and of the total of a group, from both draws by least squares [rows²].

    Formula, with u the variance of the noisy total, v that of a count, m cells:
        cell  v (1 - v / (u + m v)),  total  u m v / (u + m v).
    """
    both = totals + cells * counts
    return counts * (1 - counts / both), totals * cells * counts / both
