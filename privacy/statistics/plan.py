"""The plan of a release of statistics: what is drawn for each table, and what share of the charge each draw gets.

A function of spec and contract alone. A table has one draw for each column that it adds up, since counts, sums and
means of a column come of the same numbers, and one for each column whose quantiles it gives; a table of counts alone
has one draw of its marginal.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from math import floor, isqrt, prod
from typing import Literal

import numpy as np

from contracts.contract.contract import Contract
from contracts.contract.impossible_cells import Clique
from contracts.domains.quantile_choices import QuantileChoices
from contracts.domains.value_lattices import ValueLattice
from contracts.domains.value_trees import ValueTree
from contracts.release.statistics import StatisticsProduct, StatisticsTable
from privacy.accounting.amounts import ATTO, PICO, delta_down, loss_up
from privacy.accounting.calculus import PureCalculus
from privacy.accounting.convert import best_epsilon, rho_for
from privacy.accounting.events import CountNoise, ExponentialMechanism
from privacy.marginals.cell_sums import cell_sum_event
from privacy.marginals.sensitivity import GaussianNoise, LaplaceNoise, noise_event
from privacy.marginals.uncertainty import variance
from privacy.statistics.chosen_quantiles import ChosenQuantiles
from privacy.statistics.quantile_method import CHOICE_SHARE, table_choices
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
class PlannedChoices:
    """Quantiles of a column that the release will have chosen.

    Args:
        key: name of the draw inside the run.
        table: the table that it is for.
        clique: columns that rows are grouped by.
        choices: the column with its lattice, and the quantiles.
        shape: of the offsets that are chosen.
        share: share of the release's budget.
        event: what all choices cost together.
    """

    key: str
    table: str
    clique: Clique
    choices: QuantileChoices
    shape: tuple[int, ...]
    share: Fraction
    event: ExponentialMechanism


@dataclass(frozen=True)
class StatisticsPlan:
    """All draws of a release, with what they cost together.

    Args:
        draws: in the order in which they are drawn.
        choices: quantiles that are chosen, after these draws.
        epsilon: ε of all draws composed, at `delta` [10⁻¹²], rounded up.
        delta: δ [10⁻¹⁸]; 0 when the guarantee is pure.
        mechanism: the kind of noise of every draw.
    """

    draws: tuple[StatisticsDraw, ...]
    choices: tuple[PlannedChoices, ...]
    epsilon: int
    delta: int
    mechanism: Literal["laplace", "gaussian"]

    @property
    def events(self) -> tuple[CountNoise | ExponentialMechanism, ...]:
        """The events of the draws, in order."""
        return (*(draw.event for draw in self.draws), *(each.event for each in self.choices))

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
        return sum(
            prod(shape) for shape in [*(draw.shape for draw in self.draws), *(each.shape for each in self.choices)]
        )

    def of_table(self, name: str) -> tuple[StatisticsDraw, ...]:
        """Return the draws of a table, in their order."""
        return tuple(draw for draw in self.draws if draw.table == name)

    def choices_of(self, name: str) -> tuple[PlannedChoices, ...]:
        """Return what is chosen for a table."""
        return tuple(each for each in self.choices if each.table == name)


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
        chosen = {
            each.choices.column: ChosenQuantiles(np.zeros((1, each.choices.parts), dtype=np.int64), each.choices)
            for each in plan.choices_of(table.name)
        }
        table_values(table, drawn, np.zeros(1, dtype=np.bool_), chosen=chosen)


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
    budget = Fraction(epsilon) if product.mechanism == "laplace" else rho_for(Fraction(epsilon), Fraction(delta))
    wanted, chosen = list(_wanted(product, contract)), list(wanted_choices(product, contract))
    parts = _split(budget, [*(share for *_, share in wanted), *(share for *_, share in chosen)])
    draws = tuple(_planned(product, contract, *each, part) for each, part in zip(wanted, parts, strict=False))
    choices = tuple(
        _planned_choices(product, contract, *each, part)
        for each, part in zip(chosen, parts[len(wanted) :], strict=True)
    )
    events = [*(draw.event for draw in draws), *(each.event for each in choices)]
    spent_delta = delta_down(delta) if product.mechanism == "gaussian" else 0
    spent = (
        loss_up(best_epsilon(events, Fraction(spent_delta, ATTO))[0]) if spent_delta else PureCalculus().cost(events)
    )
    return StatisticsPlan(draws, choices, spent, spent_delta, product.mechanism)


def wanted_choices(
    product: StatisticsProduct, contract: Contract
) -> Iterator[tuple[StatisticsTable, str, QuantileChoices, Fraction]]:
    """Yield which quantiles are chosen, each with its key, and with its share of what its tree would get."""
    shares = shares_by_weight([Fraction(table.weight) for table in product.tables])
    for table, share in zip(product.tables, shares, strict=True):
        part = share / len(table.draws(contract)) * CHOICE_SHARE
        for each in table_choices(table, contract, product.mechanism):
            yield table, f"table:{table.name}/{each.key_name}", each, part


def _wanted(
    product: StatisticsProduct, contract: Contract
) -> Iterator[tuple[StatisticsTable, str, ValueLattice | ValueTree | None, Fraction]]:
    """Yield what is drawn, with its share: tables by weight, draws of a table alike."""
    shares = shares_by_weight([Fraction(table.weight) for table in product.tables])
    for table, share in zip(product.tables, shares, strict=True):
        draws = table.draws(contract)
        chosen = {each.column for each in table_choices(table, contract, product.mechanism)}
        for key, addends in draws:
            both = isinstance(addends, ValueTree) and addends.column in chosen
            yield table, key, addends, share / len(draws) * (1 - CHOICE_SHARE if both else 1)


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


def _planned_choices(
    product: StatisticsProduct,
    contract: Contract,
    table: StatisticsTable,
    key: str,
    choices: QuantileChoices,
    share: Fraction,
    part: Fraction,
) -> PlannedChoices:
    """Plan a private choice; of a rho it has the bounded range epsilon with epsilon^2 / 8 = rho, rounded down."""
    units = part * PICO if product.mechanism == "laplace" else isqrt(floor(8 * part * PICO * PICO))
    shape = (*contract.shape(table.by), choices.parts)
    event = ExponentialMechanism(Fraction(floor(units), PICO))
    return PlannedChoices(key, table.name, table.by, choices, shape, share, event)
