"""The plan of a release of statistics: what is drawn for each table, and what share of the charge each draw gets.

A function of spec and contract alone. A table has one draw for each column that it adds up, since counts, sums and
means of a column come of the same numbers, and one for each column whose quantiles it gives; a table of counts alone
has one draw of its marginal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from math import floor, prod
from typing import Literal

import numpy as np

from contracts.contract.contract import Contract
from contracts.contract.impossible_cells import Clique
from contracts.domains.value_lattices import ValueLattice
from contracts.domains.value_trees import ValueTree
from contracts.release.statistics import StatisticsProduct, StatisticsTable
from privacy.accounting.amounts import ATTO, PICO, delta_down, loss_up
from privacy.accounting.calculus import PureCalculus
from privacy.accounting.convert import best_epsilon, rho_for
from privacy.accounting.events import CountNoise
from privacy.accounting.key_selection import KeySelection, failures, key_selection
from privacy.marginals.cell_sums import cell_sum_event
from privacy.marginals.sensitivity import GaussianNoise, LaplaceNoise, noise_event
from privacy.marginals.uncertainty import variance
from privacy.statistics.table_values import NoisyNumbers, table_values
from privacy.table_plans.split import shares_by_weight


@dataclass(frozen=True)
class StatisticsDraw:
    """One draw that the release will ask its grant for.

    Args:
        key: name of the draw inside the run.
        table: the table that it is for.
        clique: columns that rows are grouped by.
        addends: the column that is added up, or its tree of counts; None where rows are counted alone.
        shape: of the numbers that are drawn.
        share: share of the release's budget.
        noise: kind of noise and its cost.
        event: the event it will be, sensitivity and scale included.
        variance: variance of the noise in one number [steps², or rows²].
    """

    key: str
    table: str
    clique: Clique
    addends: ValueLattice | ValueTree | None
    shape: tuple[int, ...]
    share: Fraction
    noise: LaplaceNoise | GaussianNoise
    event: CountNoise
    variance: float


@dataclass(frozen=True)
class PlannedSelection:
    """A selection of keys that nobody declared, before the draws of its table.

    Args:
        key: name of the draw inside the run.
        table: the table that it is for.
        column: the column of texts.
        share: share of the release's epsilon.
        epsilon: what it costs [dimensionless].
        failure: what it may fail with beside that [10⁻¹⁸].
        event: the event it will be, for as many keys of a unit as it has rows.
    """

    key: str
    table: str
    column: str
    share: Fraction
    epsilon: Fraction
    failure: int
    event: KeySelection


@dataclass(frozen=True)
class StatisticsPlan:
    """All draws of a release, with what they cost together.

    Args:
        draws: in the order in which they are drawn; of a table with selected keys the shape is that of one of them.
        epsilon: ε of all draws composed, at `delta` [10⁻¹²], rounded up.
        delta: δ [10⁻¹⁸]; 0 when the guarantee is pure.
        mechanism: the kind of noise of every draw.
        selections: of keys, drawn before all others.
    """

    draws: tuple[StatisticsDraw, ...]
    epsilon: int
    delta: int
    mechanism: Literal["laplace", "gaussian"]
    selections: tuple[PlannedSelection, ...] = ()

    @property
    def events(self) -> tuple[CountNoise | KeySelection, ...]:
        """The events of selections and draws, in order."""
        return (*(each.event for each in self.selections), *(draw.event for draw in self.draws))

    @property
    def public_total(self) -> None:
        """A declared total replaces no noisy count."""
        return None

    @property
    def noise_epsilon(self) -> None:
        """The noise is planned for the spec's own epsilon."""
        return None

    @property
    def options(self) -> None:
        """Statistics have no options."""
        return None

    @property
    def numbers(self) -> int:
        """Numbers of all draws together."""
        return sum(prod(draw.shape) for draw in self.draws)

    def of_table(self, name: str) -> tuple[StatisticsDraw, ...]:
        """Return the draws of a table, in their order."""
        return tuple(draw for draw in self.draws if draw.table == name)


def rehearse(product: StatisticsProduct, plan: StatisticsPlan) -> None:
    """Make the numbers of one cell of each table from noise of nothing: what cannot be made fails before the charge.

    Raises:
        ArithmeticError, ValueError: a statistic cannot be computed under this plan.
    Privacy: reads no data.
    """
    for table in product.tables:
        drawn: dict[str | None, NoisyNumbers] = {}
        for draw in plan.of_table(table.name):
            addends = draw.addends
            values = np.zeros(1 if addends is None else (1, addends.parts), dtype=np.int64)
            drawn[None if addends is None else addends.key] = NoisyNumbers(values, draw.event, addends)
        table_values(table, drawn, np.zeros(1, dtype=np.bool_))


def plan_statistics(
    product: StatisticsProduct, contract: Contract, *, epsilon: Decimal, delta: Decimal
) -> StatisticsPlan:
    """Split a charge over the draws of a product.

    Args:
        product: which fits the contract.
        contract: its contract.
        epsilon: what the release may cost.
        delta: > 0 where the noise is Gaussian.
    Returns:
        StatisticsPlan: data-free.
    Raises:
        AmountRefused: the charge is too small for so many draws.
    Privacy: reads no data; the composed ε of the events is at most `epsilon`.
    """
    wanted, shares = list(_wanted(product, contract)), _selection_shares(product, contract)
    units = delta_down(delta) if product.mechanism == "gaussian" or shares else 0
    selections = tuple(_selections(product, contract, shares, Fraction(epsilon), units))
    rest = Fraction(epsilon) - sum((each.epsilon for each in selections), Fraction(0))
    left = Fraction(units - failures(each.event for each in selections), ATTO) if selections else Fraction(delta)
    budget = rest if product.mechanism == "laplace" else rho_for(rest, left)
    drawn = 1 - sum(shares.values(), Fraction(0))
    parts = _split(budget, [share / drawn for *_, share in wanted])
    draws = tuple(_planned(product, contract, *each, part) for each, part in zip(wanted, parts, strict=True))
    events = [*(each.event for each in selections), *(draw.event for draw in draws)]
    spent_delta = units if product.mechanism == "gaussian" else failures(events)
    if product.mechanism == "gaussian":
        spent = loss_up(best_epsilon(events, Fraction(spent_delta, ATTO))[0])
    else:
        spent = PureCalculus(spent_delta).cost(events)
    return StatisticsPlan(draws, spent, spent_delta, product.mechanism, selections)


def _wanted(
    product: StatisticsProduct, contract: Contract
) -> Iterator[tuple[StatisticsTable, str, ValueLattice | ValueTree | None, Fraction]]:
    """Yield what is drawn, with its share: tables by weight, draws of a table alike, its selection of keys too."""
    shares = shares_by_weight([Fraction(table.weight) for table in product.tables])
    for table, share in zip(product.tables, shares, strict=True):
        draws = table.draws(contract)
        parts = len(draws) + (table.key_choice == "private")
        yield from ((table, *each, share / parts) for each in draws)


def _selection_shares(product: StatisticsProduct, contract: Contract) -> dict[str, Fraction]:
    """Return the share of epsilon of each selection of keys, by its table: that of a draw of the table."""
    first = {table.name: share for table, _, _, share in _wanted(product, contract)}
    return {table.name: first[table.name] for table in product.tables if table.key_choice == "private"}


def _selections(
    product: StatisticsProduct, contract: Contract, shares: Mapping[str, Fraction], epsilon: Fraction, delta: int
) -> Iterator[PlannedSelection]:
    """Yield the selections of keys, which have delta alike: all of it, or half of it beside Gaussian noise."""
    groups = contract.unit.max_rows_per_unit
    for table in product.tables:
        if table.name in shares:
            [column] = contract.texts(table.by)
            part = Fraction(floor(epsilon * shares[table.name] * PICO), PICO)
            failure = delta // len(shares) // (1 if product.mechanism == "laplace" else 2)
            event = key_selection(part, failure, groups)
            key = f"table:{table.name}/keys"
            yield PlannedSelection(key, table.name, column, shares[table.name], part, failure, event)


def _split(budget: Fraction, shares: list[Fraction]) -> list[Fraction]:
    """Split a budget into whole units of 10⁻¹², rounded down; the last part takes what the rounding left."""
    units = [floor(budget * share * PICO) for share in shares[:-1]]
    units.append(floor(budget * PICO) - sum(units))
    return [Fraction(part, PICO) for part in units]


def _planned(
    product: StatisticsProduct,
    contract: Contract,
    table: StatisticsTable,
    key: str,
    addends: ValueLattice | ValueTree | None,
    share: Fraction,
    part: Fraction,
) -> StatisticsDraw:
    noise: LaplaceNoise | GaussianNoise = (
        LaplaceNoise(part) if product.mechanism == "laplace" else GaussianNoise(part)
    )
    rows, shape = contract.unit.max_rows_per_unit, contract.shape(table.by)
    if addends is None:
        event = noise_event(noise, adjacency=contract.adjacency, rows_per_unit=rows)
    else:
        event = cell_sum_event(noise, addends, adjacency=contract.adjacency, rows_per_unit=rows)
        shape = (*shape, addends.parts)
    return StatisticsDraw(key, table.name, table.by, addends, shape, share, noise, event, variance(event))
