"""The plan of a release of statistics: what is drawn for each table, and what share of the charge each draw gets.

A function of spec and contract alone. A table has one draw for each column that it adds up, since counts, sums and
means of a column come of the same numbers, and one for each column whose quantiles it gives; a table of counts alone
has one draw of its marginal. A column whose clip is private has one draw more, a histogram of magnitudes over all
rows: each draw that needs it gives a share of its part. The later draw's part is fixed, and its moves are not known
before the clip is: the charge has a budget for all such draws, of the sum of their parts
(`privacy.accounting.renyi`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from math import floor, isqrt, log10, prod, sqrt
from typing import Final, Literal

import numpy as np

from contracts.contract.contract import Contract
from contracts.contract.impossible_cells import Clique
from contracts.domains.addends import Addends, DistinctCount, LoneSum, ValueMagnitudes, ValueMoments
from contracts.domains.lattice import ValueLattice
from contracts.domains.trees import QuantileChoices, ValueTree
from contracts.release.statistics import COUNT, EFFECTIVE_SIZE, SPREADS, Statistic, StatisticsProduct, StatisticsTable
from contracts.release.survey_weight import groups_of
from privacy.accounting.amounts import ATTO, PICO, delta_down, loss_up
from privacy.accounting.calculus import PureCalculus
from privacy.accounting.events import (
    CountNoise,
    ExponentialMechanism,
    KeySelection,
    PrivacyEvent,
    Pure,
    ZeroConcentrated,
    failures,
    key_selection,
)
from privacy.accounting.key_law import KeyCountLaw, keep_chances, key_count_law
from privacy.accounting.renyi import best_epsilon, rho_for
from privacy.marginals.cell_sums import cell_sum_event
from privacy.marginals.count_noise import half_width, variance
from privacy.marginals.sensitivity import GaussianNoise, LaplaceNoise, moved_noise, noise_event
from privacy.statistics.estimates import LARGEST, usual_margin
from privacy.statistics.key_counts import KeyCountNumbers, expected_half_width
from privacy.statistics.noise_sums import even_quantile, mixed_quantile, quantile
from privacy.statistics.quantiles import (
    ChosenQuantiles,
    column_choice_share,
    rank_bounds,
    table_choices,
    tree_count_error,
)
from privacy.statistics.shares import draw_shares
from privacy.statistics.table import (
    CONFIDENCE,
    MOST_AVERAGED,
    NoisyNumbers,
    count_terms,
    noisy_counts,
    refine_counts,
    table_values,
)
from privacy.table_plans.spec_plan import SpecPlan

# --- Selections of keys that nobody declared, as a release plans them.


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
        event: the event it will be: for as many keys of a unit as it may have; of all its rows together where they
            are counted, too.
        counted_rows: rows of one unit at most, where the draw counts the rows of its keys, too; None where it selects
            keys alone.
    """

    key: str
    table: str
    column: str
    share: Fraction
    epsilon: Fraction
    failure: int
    event: KeySelection
    counted_rows: int | None = None

    @property
    def law(self) -> KeyCountLaw | None:
        """The law of the counts; None where keys are selected alone."""
        if self.counted_rows is None:
            return None
        return key_count_law(self.event.epsilon, self.event.delta, rows_per_unit=self.counted_rows)


def selection_shares(product: StatisticsProduct, contract: Contract) -> dict[str, Fraction]:
    """Return the share of epsilon of each selection of keys, by its table."""
    shares = draw_shares(product, contract)
    keys = {table.name: table.selection_key for table in product.tables}
    return {name: shares[key] for name, key in keys.items() if key is not None}


def plan_selections(
    product: StatisticsProduct, contract: Contract, shares: Mapping[str, Fraction], epsilon: Fraction, delta: int
) -> Iterator[PlannedSelection]:
    """Yield the selections of keys, which have delta alike: all of it, or half of it beside Gaussian noise.

    Args:
        product: which fits the contract.
        contract: its contract.
        shares: of epsilon, by table.
        epsilon: of the release.
        delta: of the release [10⁻¹⁸].
    Raises:
        AmountRefused: epsilon is too small for the chances of so many keys.
    Privacy: reads no data.
    """
    rows = contract.unit.max_rows_per_unit
    for table in product.tables:
        if table.name in shares:
            [column] = contract.texts(table.by)
            part = Fraction(floor(epsilon * shares[table.name] * PICO), PICO)
            failure = delta // len(shares) // (1 if product.mechanism == "laplace" else 2)
            counted = rows if table.counts_with_keys else None
            event = key_selection(part, failure, groups_of(table.at_most_groups, contract) if counted is None else 1)
            key = f"table:{table.name}/keys"
            planned = PlannedSelection(key, table.name, column, shares[table.name], part, failure, event, counted)
            # What no draw could compute is refused before the charge.
            _ = keep_chances(event.epsilon, event.delta) if counted is None else planned.law
            yield planned


# --- Quantiles that a release will have chosen by the exponential mechanism.


@dataclass(frozen=True)
class WantedChoices:
    """Quantiles of a column that are chosen, before they are priced; fields as of `PlannedChoices`."""

    key: str
    table: str
    clique: Clique
    choices: QuantileChoices
    share: Fraction


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


def wanted_choices(product: StatisticsProduct, contract: Contract) -> Iterator[WantedChoices]:
    """Yield which quantiles are chosen, each with its key, and with its share of what its tree would get."""
    shares = draw_shares(product, contract)
    for table in product.tables:
        trees = {addends.column: key for key, addends in table.draws(contract) if isinstance(addends, ValueTree)}
        for each in table_choices(table, contract, product.mechanism):
            part = shares[trees[each.column]] * column_choice_share(table, each.column)
            yield WantedChoices(f"table:{table.name}/{each.key_name}", table.name, table.by, each, part)


def plan_choices(
    wanted: WantedChoices, contract: Contract, part: Fraction, mechanism: Literal["laplace", "gaussian"]
) -> PlannedChoices:
    """Plan a private choice; of a rho it has the bounded range epsilon with epsilon^2 / 8 = rho, rounded down.

    Args:
        wanted: what is chosen.
        contract: its contract.
        part: of the charge, an epsilon for Laplace noise, else a rho.
        mechanism: the product's noise.
    Privacy: reads no data.
    """
    units = part * PICO if mechanism == "laplace" else isqrt(floor(8 * part * PICO * PICO))
    shape, event = (
        (*contract.shape(wanted.clique), wanted.choices.parts),
        ExponentialMechanism(Fraction(floor(units), PICO)),
    )
    return PlannedChoices(wanted.key, wanted.table, wanted.clique, wanted.choices, shape, wanted.share, event)


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


# --- How far off each statistic of a plan is expected to be, from the declared noise alone.


SIZES: Final = (100, 1000, 10_000)
"""Rows of a cell for which the interval of a mean is foretold: it depends on them."""


@dataclass(frozen=True)
class ExpectedError:
    """The half width of a statistic's 95 % interval.

    Args:
        statistic: its column in the published file.
        rows: rows with a value in a cell, for a mean or a ratio; None where they do not matter. Where rows are
            weighed, the sum of their weights.
        half_width: of the interval; of a mean in the middle of its clip, where it is shortest; of a variance with
            values spread evenly over the clip [the statistic's units].
        clip: the length of a mean's clip, or of all that a variance or a number of values may be: no interval is
            longer; None of others.
        ranks: whether the half width is one of ranks, as of a quantile: how many rows further up or down the value
            may stand. How far apart these values are depends on the data.
        weighed: whether rows have a survey weight: then ranks and counts are sums of weights.
        counted_once: whether it is of units or distinct values, into which no weight enters, or an effective size.
        widest: of a mean, the half width at an end of its clip, where it is longest; None of others.
    """

    statistic: str
    rows: int | None
    half_width: float
    clip: float | None = None
    ranks: bool = False
    weighed: bool = False
    counted_once: bool = False
    widest: float | None = None


def expected_errors(
    table: StatisticsTable, draws: Sequence[StatisticsDraw], counted: PlannedSelection | None = None
) -> tuple[ExpectedError, ...]:
    """Foretell the interval of each statistic of a table. Reads public parameters only.

    `counted` is the draw that selects its keys and counts them. Its counts are foretold for keys that are sure to be
    published; of others an interval reaches down to 1.

    With a survey weight, noise is in steps of the weight. Means are foretold for cells of `SIZES` times the power of
    ten that the largest weight reaches.
    """
    found = _errors_in_steps(table, draws, counted)
    weight = draws[0].weight if draws else None
    if weight is None:
        return found
    step, scale = float(weight.step), 10 ** max(0, floor(log10(weight.high)))
    return tuple(
        each
        if each.counted_once
        else replace(each, half_width=each.half_width * step, weighed=True)
        if each.rows is None
        else replace(
            each,
            rows=each.rows * scale,
            half_width=each.half_width * step / scale,
            widest=None if each.widest is None else each.widest * step / scale,
            weighed=True,
        )
        for each in found
    )


def clip_costs(draws: Sequence[StatisticsDraw]) -> tuple[tuple[Decimal, float], ...]:
    """Foretell the interval of a table's counts at the clip of its survey weight, and at a half and a quarter of it.

    Returns:
        The upper end of each clip, and the half width of a count's interval under it; nothing without a weight.
    Privacy: reads public parameters only.
    """
    weight = draws[0].weight if draws else None
    if weight is None:
        return ()
    found, draws = [], [draw for draw in draws if not isinstance(draw.addends, DistinctCount)]
    for steps in dict.fromkeys(max(1, weight.width // part) for part in (1, 2, 4)):
        clipped = replace(weight, high=weight.step * steps)
        narrower = [_with_weight(draw, clipped, Fraction(steps, weight.width)) for draw in draws]
        found.append((clipped.high, count_error(narrower) * float(weight.step)))
    return tuple(found)


def _with_weight(draw: StatisticsDraw, weight: ValueLattice, share: Fraction) -> StatisticsDraw:
    """Return a draw with another largest weight, `share` of what it was, that costs as much."""
    event = moved_noise(draw.noise, tuple(int(move * share) for move in draw.event.moves))
    addends = draw.addends
    if isinstance(addends, ValueTree):
        changed: Addends = replace(addends, lattice=replace(addends.lattice, weight=weight))
    elif isinstance(addends, ValueMoments):
        changed = replace(addends, lattice=replace(addends.lattice, weight=weight))
    else:
        changed = replace(addends, weight=weight)  # type: ignore[type-var, assignment]
    return replace(draw, addends=changed, event=event, variance=variance(event))


def _errors_in_steps(
    table: StatisticsTable, draws: Sequence[StatisticsDraw], counted: PlannedSelection | None
) -> tuple[ExpectedError, ...]:
    """Foretell the interval of each statistic, of rows that count once or once for each step of their weight.

    Formula: with A the noise above and B the noise below, a count errs by (A + B + M) / width, a sum by
    (high A + low B) / width, a mean q of n rows by about (high - low) ((1 - q) A - q B) / (n width). A quantile errs
    by the noise of its rank, at the boundary where it is largest. An effective size errs by 8 (B - A) / width^2 where
    weights are a quarter of their clip and rows are many.
    """
    found: list[ExpectedError] = []
    by_key = {draw.addends.key: draw for draw in draws if draw.addends is not None}
    for each in table.of:
        if each.what == COUNT:
            law = None if counted is None else counted.law
            width = count_error(draws) if law is None else expected_half_width(law)
            found.append(ExpectedError(each.name, None, width))
            continue
        draw = by_key[str(each.key)]
        if isinstance(draw.addends, ValueTree):
            found += _rank_errors(each, draw.addends, draw)
            continue
        if isinstance(draw.addends, DistinctCount):
            width = float(half_width(draw.event, CONFIDENCE))
            most = None if draw.addends.values is None else float(draw.addends.values)
            found.append(ExpectedError(each.name, None, width, most, counted_once=True))
            continue
        if isinstance(draw.addends, LoneSum):
            margin = quantile(draw.event, [float(draw.addends.lattice.step)], CONFIDENCE)
            found.append(ExpectedError(each.name, None, margin))
            continue
        if isinstance(draw.addends, ValueMoments):
            found += _moment_errors(each, draw.addends, draw)
            continue
        if not isinstance(draw.addends, ValueLattice):
            raise ValueError(f"{draw.key} adds nothing up")
        low, high, width = float(draw.addends.low), float(draw.addends.high), draw.addends.width
        if each.what == EFFECTIVE_SIZE:
            margin = usual_margin(draw.event, width, CONFIDENCE)
            found.append(ExpectedError(each.name, None, margin, counted_once=True))
            continue
        if each.what == "sum":
            margin = quantile(draw.event, [high / width, low / width], CONFIDENCE)
            found.append(ExpectedError(each.name, None, margin))
            continue
        if each.over is not None:
            found += _ratio_errors(each, draw, by_key[str(each.over.key)])
            continue
        margin, widest = (
            quantile(draw.event, weights, CONFIDENCE) * (high - low) / width for weights in ([0.5, 0.5], [1.0])
        )
        found += [ExpectedError(each.name, rows, margin / rows, high - low, widest=widest / rows) for rows in SIZES]
    return tuple(found)


def _moment_errors(statistic: Statistic, moments: ValueMoments, draw: StatisticsDraw) -> list[ExpectedError]:
    """Foretell a sum or a mean as of two sums; a variance, or its root, of values spread evenly over the clip.

    With X, Y, Z the noises at the lower end, between and at the upper end, the mean errs by (Z - X) / 2 in the middle
    of the clip, by Z + Y / 2 at its lower end, and the variance by (X + Z) / 6 - Y / 3 (see
    `privacy.statistics.estimates`, at the mean 1/2 and the variance 1/12).
    """
    low, high = float(moments.lattice.low), float(moments.lattice.high)
    if statistic.what == "sum":
        weights = [each / moments.whole for each in (low, (low + high) / 2, high)]
        return [ExpectedError(statistic.name, None, quantile(draw.event, weights, CONFIDENCE))]
    spread = statistic.what in SPREADS
    most, evenly = (high - low) ** 2 * LARGEST, (high - low) / sqrt(12)
    margin = quantile(draw.event, [1 / 6, 1 / 3, 1 / 6] if spread else [0.5, 0.5], CONFIDENCE) / moments.whole
    margin *= (high - low) ** 2 if spread else high - low
    if statistic.what == "sd":
        margin, most = margin / (2 * evenly), (high - low) / 2
    if spread:
        return [ExpectedError(statistic.name, rows, margin / rows, most) for rows in SIZES]
    widest = quantile(draw.event, [0.5, 1.0], CONFIDENCE) / moments.whole * (high - low)
    return [ExpectedError(statistic.name, rows, margin / rows, high - low, widest=widest / rows) for rows in SIZES]


def _ratio_errors(ratio: Statistic, upper: StatisticsDraw, lower: StatisticsDraw) -> list[ExpectedError]:
    """Foretell a ratio of cells whose rows lie in the middle of both clips: (N1 - r N2) / S2, N the noises."""
    ends = [
        (float(a.low), float(a.high), a.width) for a in (upper.addends, lower.addends) if isinstance(a, ValueLattice)
    ]
    (low, high, width), (other_low, other_high, other_width) = ends
    middle = (other_low + other_high) / 2
    share = (low + high) / 2 / middle
    terms = [(high / width, upper.event), (low / width, upper.event)]
    terms += [(share * other_high / other_width, lower.event), (share * other_low / other_width, lower.event)]
    margin = mixed_quantile(terms, CONFIDENCE)
    return [ExpectedError(ratio.name, rows, margin / (rows * middle)) for rows in SIZES]


def _rank_errors(statistic: Statistic, tree: ValueTree, draw: StatisticsDraw) -> list[ExpectedError]:
    """Foretell by how many rows a quantile may be off."""
    errors = (float(rank_bounds(tree, share, draw.event, CONFIDENCE)[-1].max()) for share in statistic.quantiles)
    return [
        ExpectedError(name, None, error, ranks=True) for name, error in zip(statistic.estimates, errors, strict=True)
    ]


def rows_error(draws: Sequence[StatisticsDraw]) -> float:
    """Return the half width of the interval of the rows with a value, by the worst draw of a table [rows, or weight].

    A mean of its column is over as many noisy rows.
    """
    summed = [(each, each.addends) for each in draws if isinstance(each.addends, ValueLattice | ValueMoments)]
    found = [
        quantile(each.event, [1 / addends.whole] * min(addends.parts, 3), CONFIDENCE)
        * float(1 if each.weight is None else each.weight.step)
        for each, addends in summed
    ]
    return max(found, default=0.0)


def count_error(draws: Sequence[StatisticsDraw]) -> float:
    """Return the half width of the interval of a table's counts: of all sums, or of the best tree [rows or steps]."""
    summed = [(draw.event, draw.addends) for draw in draws if isinstance(draw.addends, ValueLattice | ValueMoments)]
    summed = summed[:MOST_AVERAGED]
    if len(summed) == 1 and isinstance(summed[0][1], ValueLattice):
        ((event, addends),) = summed
        return quantile(event, [1 / addends.whole] * addends.parts, CONFIDENCE)
    if summed:
        return even_quantile(count_terms(summed), CONFIDENCE)
    trees = [(draw.event, draw.addends) for draw in draws if isinstance(draw.addends, ValueTree)]
    errors = [tree_count_error(tree, event=event, confidence=CONFIDENCE) for event, tree in trees]
    if errors:
        return min(errors)
    alone = next(draw for draw in draws if not isinstance(draw.addends, LoneSum | DistinctCount))
    return float(half_width(alone.event, CONFIDENCE))
