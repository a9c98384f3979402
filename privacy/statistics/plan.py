"""The plan of a release of statistics: what is drawn for each table, and what share of the charge each draw gets.

A function of spec and contract alone. A table has one draw for each column that it adds up, since counts, sums and
means of a column come of the same numbers, and one for each column whose quantiles it gives; a table of counts alone
has one draw of its marginal. A column whose clip is private has one draw more, a histogram of magnitudes over all
rows: each draw that needs it gives a share of its part. The later draw's part is fixed, and its moves are not known
before the clip is: the charge has a budget for all such draws, of the sum of their parts
(`privacy.accounting.adaptive`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from math import floor, prod, sqrt
from typing import Final, Literal

import numpy as np

from contracts.contract.contract import Contract
from contracts.contract.impossible_cells import Clique
from contracts.domains.addends import Addends
from contracts.domains.value_lattices import ValueLattice
from contracts.domains.value_magnitudes import ValueMagnitudes
from contracts.domains.value_trees import ValueTree
from contracts.release.statistic_forms import COUNT
from contracts.release.statistics import StatisticsProduct
from privacy.accounting.amounts import ATTO, PICO, delta_down, loss_up
from privacy.accounting.calculus import PureCalculus
from privacy.accounting.convert import best_epsilon, rho_for
from privacy.accounting.events import CountNoise, PrivacyEvent, Pure, ZeroConcentrated
from privacy.accounting.key_selection import failures
from privacy.marginals.cell_sums import cell_sum_event
from privacy.marginals.sensitivity import GaussianNoise, LaplaceNoise, noise_event
from privacy.marginals.uncertainty import variance
from privacy.statistics.choices import PlannedChoices, plan_choices, wanted_choices
from privacy.statistics.chosen_quantiles import ChosenQuantiles
from privacy.statistics.key_counts import KeyCountNumbers
from privacy.statistics.quantile_method import column_choice_share, table_choices
from privacy.statistics.refined_counts import refine_counts
from privacy.statistics.selections import PlannedSelection, plan_selections, selection_shares
from privacy.statistics.shares import draw_shares
from privacy.statistics.table_values import NoisyNumbers, noisy_counts, table_values
from privacy.table_plans.spec_plan import SpecPlan

_LARGEST: Final = 2**60
"""Noise beyond is no number of 64 bits."""


@dataclass(frozen=True)
class StatisticsDraw:
    """One draw that the release will ask its grant for.

    Args:
        key: name of the draw inside the run.
        table: the table that it is for; empty of a histogram of magnitudes.
        clique: columns that rows are grouped by.
        addends: the column that is added up, or its tree of counts, or the weight by which rows are counted; None
            where rows are counted alone, and each once.
        shape: of the numbers that are drawn.
        share: share of the release's budget.
        noise: kind of noise and its cost.
        event: the event it will be, sensitivity and scale included.
        variance: variance of the noise in one number [steps², or rows²; of weighed rows, times weight steps²].
        clip: the histogram in which its clip is found; until then its lattice is that of the bounds. None of others.
    """

    key: str
    table: str
    clique: Clique
    addends: Addends | None
    shape: tuple[int, ...]
    share: Fraction
    noise: LaplaceNoise | GaussianNoise
    event: CountNoise
    variance: float
    clip: str | None = None

    @property
    def weight(self) -> ValueLattice | None:
        """The lattice of the survey weight; None where every row counts once."""
        return None if self.addends is None else self.addends.weight


@dataclass(frozen=True)
class StatisticsPlan(SpecPlan):
    """All draws of a release, with what they cost together.

    Args:
        draws: those of the tables, in the order in which they are drawn; of a table with selected keys the shape is
            that of one of them.
        epsilon: ε of all draws composed, at `delta` [10⁻¹²], rounded up.
        delta: δ [10⁻¹⁸]; 0 when the guarantee is pure.
        mechanism: the kind of noise of every draw.
        selections: of keys, drawn before all others.
        clips: the histograms of magnitudes, which are drawn next.
        choices: quantiles that are chosen, after all others.
    """

    draws: tuple[StatisticsDraw, ...]
    epsilon: int
    delta: int
    mechanism: Literal["laplace", "gaussian"]
    selections: tuple[PlannedSelection, ...] = ()
    clips: tuple[StatisticsDraw, ...] = ()
    choices: tuple[PlannedChoices, ...] = ()

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        """What the charge plans, in the order of the draws; the budget of private clips last."""
        selected = (each.event for each in self.selections)
        return (*selected, *planned_events((*self.clips, *self.draws), self.choices))

    @property
    def number(self) -> int:
        """How many draws there are."""
        return len(self.selections) + len(self.clips) + len(self.draws) + len(self.choices)

    @property
    def public_total(self) -> None:
        """A declared total replaces no noisy count."""
        return None

    @property
    def numbers(self) -> int:
        """Numbers of all draws together."""
        shapes = [draw.shape for draw in (*self.clips, *self.draws)]
        return sum(prod(shape) for shape in [*shapes, *(each.shape for each in self.choices)])

    def of_table(self, name: str) -> tuple[StatisticsDraw, ...]:
        """Return the draws of a table, in their order."""
        return tuple(draw for draw in self.draws if draw.table == name)

    def counted_with_keys(self, name: str) -> PlannedSelection | None:
        """Return the draw that selects the keys of a table and counts their rows; None where no draw does."""
        return next((each for each in self.selections if each.table == name and each.counted_rows is not None), None)

    def choices_of(self, name: str) -> tuple[PlannedChoices, ...]:
        """Return the quantiles of a table that are chosen."""
        return tuple(each for each in self.choices if each.table == name)


def rehearse(product: StatisticsProduct, plan: StatisticsPlan) -> None:
    """Make the numbers of two cells of each table: what cannot be made fails before the charge.

    One cell has no noise in it, the other four deviations of it.

    Raises:
        ArithmeticError, ValueError: a statistic cannot be computed under this plan.
    Privacy: reads no data.
    """
    possible, counted = np.zeros(2, dtype=np.bool_), {}
    for table in product.tables:
        drawn: dict[str | None, NoisyNumbers] = {}
        for draw in plan.of_table(table.name):
            addends = draw.addends
            values = np.zeros(2 if addends is None else (2, addends.parts), dtype=np.int64)
            values[1] = min(round(4 * sqrt(draw.variance)), _LARGEST)
            drawn[None if addends is None else addends.key] = NoisyNumbers(values, draw.event, addends)
        counts, counted_so = None, plan.counted_with_keys(table.name)
        if counted_so is not None and counted_so.counted_rows is not None:
            counts = KeyCountNumbers(np.zeros(2, dtype=np.int64), counted_so.event, counted_so.counted_rows)
        chosen = {
            each.choices.column: ChosenQuantiles(np.zeros((2, each.choices.parts), dtype=np.int64), each.choices)
            for each in plan.choices_of(table.name)
        }
        rule = product.minimum_frequency
        table_values(table, drawn, possible, chosen=chosen, minimum_frequency=rule, counted=counts)
        if product.refine is not None and any(each.what == COUNT for each in table.of):
            counted[table.name] = noisy_counts(list(drawn.values()), possible)
    if product.refine is not None:
        refine_counts(counted, product.refine, public_total=None)


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
    (histograms, wanted), chosen = wanted_draws(product, contract), list(wanted_choices(product, contract))
    shares = selection_shares(product, contract)
    units = delta_down(delta) if product.mechanism == "gaussian" or shares else 0
    selections = tuple(plan_selections(product, contract, shares, Fraction(epsilon), units))
    rest = Fraction(epsilon) - sum((each.epsilon for each in selections), Fraction(0))
    left = Fraction(units - failures(each.event for each in selections), ATTO) if selections else Fraction(delta)
    budget = rest if product.mechanism == "laplace" else rho_for(rest, left)
    drawn = 1 - sum(shares.values(), Fraction(0))
    shared = [*(each.share for each in (*histograms, *wanted)), *(each.share for each in chosen)]
    parts = iter(_split(budget, [each / drawn for each in shared]))
    clips = tuple(_planned(product, contract, each, next(parts)) for each in histograms)
    draws = tuple(_planned(product, contract, each, next(parts)) for each in wanted)
    choices = tuple(plan_choices(each, contract, next(parts), product.mechanism) for each in chosen)
    plan = StatisticsPlan(draws, 0, 0, product.mechanism, selections, clips, choices)
    if product.mechanism == "gaussian":
        return replace(plan, epsilon=loss_up(best_epsilon(plan.events, Fraction(units, ATTO))[0]), delta=units)
    spent = failures(plan.events)
    return replace(plan, epsilon=PureCalculus(spent).cost(plan.events), delta=spent)


def planned_events(
    draws: Sequence[StatisticsDraw], choices: Sequence[PlannedChoices] = ()
) -> tuple[PrivacyEvent, ...]:
    """Return what a charge plans: the events of draws and choices, and a budget where the run finds the clip."""
    events: list[PrivacyEvent] = [draw.event for draw in draws if draw.clip is None]
    events += [each.event for each in choices]
    later = [draw.noise for draw in draws if draw.clip is not None]
    pure = sum((noise.epsilon for noise in later if isinstance(noise, LaplaceNoise)), Fraction(0))
    rho = sum((noise.rho for noise in later if isinstance(noise, GaussianNoise)), Fraction(0))
    return (*events, *([Pure(pure)] if pure else ()), *([ZeroConcentrated(rho)] if rho else ()))


@dataclass(frozen=True)
class WantedDraw:
    """A draw with its share, before it is priced; fields as of `StatisticsDraw`."""

    key: str
    table: str
    clique: Clique
    addends: Addends | None
    share: Fraction
    clip: str | None = None


def wanted_draws(product: StatisticsProduct, contract: Contract) -> tuple[list[WantedDraw], list[WantedDraw]]:
    """Return histograms of magnitudes, and what is drawn for tables, with the shares of `split`."""
    shares = draw_shares(product, contract)
    given: dict[ValueMagnitudes, Fraction] = {}
    found: list[WantedDraw] = []
    for table in product.tables:
        private = table.private_clips
        chosen = {each.column for each in table_choices(table, contract, product.mechanism)}
        for key, addends in table.draws(contract):
            own, clip = shares[key], None
            if isinstance(addends, ValueLattice) and addends.column in private:
                magnitudes = ValueMagnitudes(addends)
                part = own * Fraction(private[addends.column].share)
                given[magnitudes] = given.get(magnitudes, Fraction(0)) + part
                own, clip = own - part, magnitudes.draw_key
            if isinstance(addends, ValueTree) and addends.column in chosen:
                own *= 1 - column_choice_share(table, addends.column)
            found.append(WantedDraw(key, table.name, table.by, addends, own, clip))
    histograms = [WantedDraw(each.draw_key, "", (), each, share) for each, share in given.items()]
    return histograms, found


def _split(budget: Fraction, shares: list[Fraction]) -> list[Fraction]:
    """Split a budget into whole units of 10⁻¹², rounded down; the last part takes what the rounding left."""
    units = [floor(budget * share * PICO) for share in shares[:-1]]
    units.append(floor(budget * PICO) - sum(units))
    return [Fraction(part, PICO) for part in units]


def _planned(product: StatisticsProduct, contract: Contract, wanted: WantedDraw, part: Fraction) -> StatisticsDraw:
    noise: LaplaceNoise | GaussianNoise = (
        LaplaceNoise(part) if product.mechanism == "laplace" else GaussianNoise(part)
    )
    rows, shape, addends = contract.unit.max_rows_per_unit, contract.shape(wanted.clique), wanted.addends
    if addends is None:
        event = noise_event(noise, adjacency=contract.adjacency, rows_per_unit=rows)
    else:
        cells = prod(shape)
        event = cell_sum_event(noise, addends, adjacency=contract.adjacency, rows_per_unit=rows, cells=cells)
        shape = (*shape, addends.parts)
    terms = wanted.key, wanted.table, wanted.clique, addends, shape, wanted.share
    return StatisticsDraw(*terms, noise, event, variance(event), wanted.clip)
