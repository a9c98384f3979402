"""The published numbers of a table of statistics, from what was drawn for it; `verify` makes them again.

Each statistic has a point estimate and the ends of its 95 % interval. In which form:

    count   whole and not below 0; so are the ends. With a survey weight, in steps of the weight
    sum     in steps of the column's lattice, times those of a weight; where the clip has one sign, of that sign
    ratio   from 0 on; without an upper end where the lower sum cannot be told from 0
    variance    of the rows, at most that of values at both ends of the clip; of sd the roots
    effective_size    from 0 on, by the sums of weights and of their squares
    mean    within the clip; its interval is a Fieller set
    quantile    within the clip; of all quantiles of a column at once; the chosen one where one is
    units, distinct    whole, from 0 to the values that the contract declares; so are the ends

The first two and the last, which add up, keep all digits; the others have those that `published_digits` allows. Of
a cell whose rows cannot be told from 0 there is no mean, variance, ratio or quantile: it is missing where `near_zero`
is true, and where the noisy number of rows with a value is not above its noise.

A count of a table with several columns is the average of those that their sums give, and of a tree
where there are none. `near_zero` marks cells whose
count cannot be told from 0. Noisy numbers are unbiased; cut to what is possible, those of small cells lie a little
high on average. A cell that the contract excludes has nobody: counts and sums are 0.
Basic operations on doubles give the same bits on every machine, and quantiles of the noise have six digits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from math import fsum
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from contracts.contract.contract import Contract
from contracts.domains.addends import Addends, DistinctCount, LoneSum, ValueMoments, WeightedCount
from contracts.domains.lattice import ValueLattice
from contracts.domains.trees import ValueTree
from contracts.release.statistics import (
    COUNT,
    EFFECTIVE_SIZE,
    NEAR_ZERO,
    OF_ROWS,
    QUANTILES,
    REFINED,
    SPREADS,
    Statistic,
    StatisticsProduct,
    StatisticsTable,
)
from contracts.release.tables.tables import SUPPRESSED, MinimumFrequency, Refine
from privacy.accounting.events import CountNoise
from privacy.arrays import Floats
from privacy.marginals.count_noise import half_width, variance
from privacy.refine.negative_l2 import negative_l2
from privacy.refine.simplex import round_to_total
from privacy.statistics.cell_suppression import suppressed_cells
from privacy.statistics.estimates import (
    Estimates,
    NoisySums,
    bounded_estimates,
    estimate_counts,
    estimate_effective_sizes,
    estimate_lone_sums,
    estimate_means,
    estimate_ratios,
    estimate_sums,
)
from privacy.statistics.key_counts import KeyCountNumbers
from privacy.statistics.moments import NoisyMoments
from privacy.statistics.noise_sums import even_quantile, six_digits_up
from privacy.statistics.quantiles import (
    ChosenQuantiles,
    column_choice_share,
    estimate_quantiles,
    tree_count_error,
    tree_counts,
)

# --- Refined counts of statistics.


_FINEST: Final = 1024
"""Grains of a row, or of a step of the weight, where counts are small enough."""
_MOST_GRAINS: Final = 2**61
"""Differences of two such numbers stay within int64."""
_MOST_UNITS: Final = 2**50
"""An eighth of what doubles hold exactly: a projected cell may be off by three roundings."""
_LEAST_VARIANCE: Final = 1e-300
"""Noise that is almost never there has a variance of 0 in doubles; its precision must stay finite."""


@dataclass(frozen=True, eq=False)
class NoisyCounts:
    """The noisy counts of a table.

    Args:
        values: unbiased, shape of the cells [rows, or steps of the weight].
        variance: of the noise in one of them [squares of these].
        impossible: cells that the contract excludes, same shape.
        weight: the lattice of the survey weight; None where every row counts once.
    """

    values: Floats
    variance: float
    impossible: NDArray[np.bool_]
    weight: ValueLattice | None


def refine_counts(
    tables: Mapping[str, NoisyCounts], terms: Refine, *, public_total: int | None
) -> dict[str, NDArray[np.int64] | Floats]:
    """Refine the counts of all tables of a release.

    Args:
        tables: by name.
        terms: method simplex, or negative_l2 with a lambda.
        public_total: the rows, where the contract declares them public; not of weighted tables.
    Returns:
        By name, in the shape of the cells: rows, int64; of weighted tables sums of weights, float64.
    Raises:
        ValueError: another method.
    Privacy: post-processing.
    Source: negative ℓ2 paper, eq. 11 and section 2.4, as `privacy.refine.negative_l2` and `rounding`.
    """
    strength = Decimal(0) if terms.method == "simplex" else terms.lambda_
    if not isinstance(strength, Decimal):
        raise ValueError(f"counts of statistics are not refined by {terms.method} with lambda {terms.lambda_}")
    found: dict[str, NDArray[np.int64] | Floats] = {}
    for weight in dict.fromkeys(each.weight for each in tables.values()):
        alike = {name: each for name, each in tables.items() if each.weight == weight}
        known = public_total if weight is None else None
        total = common_total(list(alike.values())) if known is None else known
        grains, unit = _grains(list(alike.values())), _unit(total)
        found |= {
            name: _refined(each, round(total / unit), grains, unit, float(strength)) for name, each in alike.items()
        }
    return {name: found[name] for name in tables}


def common_total(tables: list[NoisyCounts]) -> int:
    """Return the average of the tables' sums, by precision; whole, and not below 0. Post-processing."""
    known = [each for each in tables if not each.impossible.all()]
    if not known:
        return 0
    precisions = [1 / ((~each.impossible).sum() * max(each.variance, _LEAST_VARIANCE)) for each in known]
    sums = [fsum(each.values[~each.impossible].tolist()) for each in known]
    average = fsum(a * b for a, b in zip(precisions, sums, strict=True)) / fsum(precisions)
    return max(0, round(average))


def _grains(tables: list[NoisyCounts]) -> float:
    """Return how many grains a row has, or a step of the weight: a power of two, below 1 where counts are huge."""
    reach = max((float(np.abs(each.values[~each.impossible]).max(initial=0.0)) for each in tables), default=0.0)
    grains = float(_FINEST)
    while reach * grains > _MOST_GRAINS:
        grains /= 2
    return grains


def _unit(total: int) -> int:
    """Return of what number refined counts are multiples: 1, or a power of two where the total is huge."""
    unit = 1
    while total > _MOST_UNITS * unit:
        unit *= 2
    return unit


def _refined(table: NoisyCounts, units: int, grains: float, unit: int, strength: float) -> NDArray[np.int64] | Floats:
    """Project a table's counts onto those that add up to so many units."""
    possible, found = ~table.impossible, np.zeros(table.values.shape, dtype=np.int64)
    if possible.any():
        whole = np.rint(table.values[possible] * grains).astype(np.int64)
        projected = negative_l2(whole, float(units) * unit * grains, lambda_=strength)
        found[possible] = round_to_total(projected / grains / unit, units)
    if table.weight is None:
        return found * unit
    return np.asarray(found.astype(np.float64) * unit * float(table.weight.step), dtype=np.float64)


# --- How many digits of an estimate are published.


NORMAL: Final = 1.96
"""Half of a 95 % interval over its standard error."""
_TENTH: Final = 10.0
_WHOLE: Final = 2.0**52
"""Below, doubles tell steps apart; a number of more steps keeps all its digits."""
_PLACES: Final = range(-15, 23)
"""Powers of ten that, or whose inverses, are exact doubles; numbers with a smaller error keep all their digits."""
_UNITS: Final = np.array([float(f"1e{place}") for place in _PLACES])
_INVERSES: Final = np.array([float(f"1e{max(0, -place)}") for place in _PLACES])


def published_digits(
    value: Floats, lower: Floats, upper: Floats, *, least: float, most: float, precision: float = 1.0
) -> tuple[Floats, Floats, Floats]:
    """Round estimates and the ends of their intervals to the digits that their errors allow.

    Args:
        value, lower, upper: lower <= value <= upper, one shape; `upper` may be infinite.
        least, most: the ends of what is possible, which no rounding leaves.
        precision: the standard error of the estimates over that of which the intervals tell.
    Returns:
        The three, rounded; those without a finite error as they are.
    Privacy: post-processing.
    """
    reach = np.where(np.isinf(upper), value - lower, (upper - lower) / 2)
    tenth = np.where(np.isfinite(reach), reach, 0.0) * (precision / NORMAL) / _TENTH
    place = np.searchsorted(_UNITS, tenth, side="right") - 1
    unit, inverse = np.maximum(_UNITS[place], 1.0), _INVERSES[place]

    def steps(numbers: Floats) -> Floats:
        return np.asarray(numbers / unit * inverse)

    def numbers(whole: Floats) -> Floats:
        return np.asarray(np.clip(whole * unit / inverse, least, most))

    known = (place >= 0) & (np.maximum(np.abs(steps(value)), np.abs(steps(lower))) < _WHOLE)
    first, last = np.floor(steps(lower)), np.ceil(steps(upper))
    first, last = first - (numbers(first) > lower), last + (numbers(last) < upper)  # what division rounded inwards
    rounded = numbers(np.rint(steps(value))), numbers(first), numbers(last)
    value, lower, upper = (np.where(known, new, old) for new, old in zip(rounded, (value, lower, upper), strict=True))
    return value, lower, upper


CONFIDENCE: Final = 0.95
MOST_AVERAGED: Final = 16
"""Draws of which counts are averaged: more of them take little off the noise."""
Columns = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class NoisyNumbers:
    """What was drawn for a table, once.

    Args:
        values: noisy whole numbers: counts in the shape of the cells, or sums or nodes of a tree with the parts last.
        event: the noise of each.
        addends: the form in which a column was added up, the tree, or the weight by which rows are counted; None of
            counts.
    """

    values: NDArray[np.int64]
    event: CountNoise
    addends: Addends | None

    @property
    def counts(self) -> Estimates:
        """How many rows are in each cell, each counted as often as its weight says [rows, or steps of the weight]."""
        if self.addends is None or isinstance(self.addends, WeightedCount):
            width, found = half_width(self.event, CONFIDENCE), self.values.astype(np.float64)
            values = found if self.addends is None else found[..., 0]
            return bounded_estimates(values, width, least=0.0, most=np.inf)
        if isinstance(self.addends, ValueTree):
            return tree_counts(self.values, self.addends, event=self.event, confidence=CONFIDENCE)
        if isinstance(self.addends, ValueMoments):
            return self.moments.counts()
        above, below, missing = self._parts
        terms: dict[str, Any] = {"width": self._lattice.width, "event": self.event, "confidence": CONFIDENCE}
        return estimate_counts(above, below, missing, **terms)

    @property
    def lacks_rows(self) -> NDArray[np.bool_]:
        """Return which cells have no more rows with a value than the noise makes; they have no mean."""
        if self.addends is None or isinstance(self.addends, WeightedCount | DistinctCount):
            raise ValueError("no column was added up")
        lattice, values, addends = self.addends.lattice, self.values, self.addends
        if lattice.counts_missing:
            without, values = replace(lattice, counts_missing=False), values[..., :-1]
            addends = without if isinstance(addends, ValueLattice) else replace(addends, lattice=without)
        return np.asarray(NoisyNumbers(values, self.event, addends).counts.lower <= 0)

    @property
    def _parts(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64] | None]:
        parts = [np.ascontiguousarray(part) for part in np.moveaxis(self.values, -1, 0)]
        return parts[0], parts[1], parts[2] if len(parts) > 2 else None

    @property
    def noisy_sums(self) -> NoisySums:
        """The noisy numbers behind a sum."""
        lattice = self._lattice
        low, high = Fraction(lattice.low), Fraction(lattice.high)
        return NoisySums(*self._parts[:2], low, high, lattice.width, self.event)

    @property
    def distinct(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """How many values, or units, each cell has, and the ends; none is more than the contract declares."""
        if not isinstance(self.addends, DistinctCount):
            raise ValueError("nothing was told apart")
        width, most = half_width(self.event, CONFIDENCE), self.addends.values
        value = np.clip(self.values[..., 0], 0, most)
        return value, np.clip(value - width, 0, most), np.clip(value + width, 0, most)

    def sums(self) -> Estimates:
        """Return the sum of the column in each cell [units of the column, times steps of the weight]."""
        if isinstance(self.addends, LoneSum):
            step = Fraction(self.addends.lattice.step)
            signs = self.addends.lattice.low >= 0, self.addends.lattice.high <= 0
            terms: dict[str, Any] = {"step": step, "event": self.event, "confidence": CONFIDENCE}
            return estimate_lone_sums(np.ascontiguousarray(self.values[..., 0]), *signs, **terms)
        if isinstance(self.addends, ValueMoments):
            return self.moments.sums()
        return estimate_sums(*self._parts[:2], **self._terms)

    def means(self) -> Estimates:
        """Return the mean of the column in each cell, over the rows with a value."""
        if isinstance(self.addends, ValueMoments):
            return self.moments.means()
        return estimate_means(*self._parts[:2], **self._terms)

    def effective_sizes(self) -> Estimates:
        """Return the effective sample size of each cell, where the weight was added up."""
        terms: dict[str, Any] = {"width": self._lattice.width, "event": self.event, "confidence": CONFIDENCE}
        return estimate_effective_sizes(*self._parts[:2], **terms)

    @property
    def moments(self) -> NoisyMoments:
        """The noisy moments of the column."""
        if not isinstance(self.addends, ValueMoments):
            raise ValueError("no moments were added up")
        return NoisyMoments(self.values, self.addends, self.event, CONFIDENCE)

    def quantiles(self, shares: Sequence[Decimal]) -> tuple[Estimates, ...]:
        """Return each of these quantiles of the column in each cell, over the rows with a value."""
        if not isinstance(self.addends, ValueTree):
            raise ValueError("no tree of counts was drawn")
        return estimate_quantiles(self.values, self.addends, shares, event=self.event, confidence=CONFIDENCE)

    @property
    def _terms(self) -> dict[str, Any]:
        lattice = self._lattice
        ends = {"low": Fraction(lattice.low), "high": Fraction(lattice.high)}
        return {**ends, "width": lattice.width, "event": self.event, "confidence": CONFIDENCE}

    @property
    def _lattice(self) -> ValueLattice:
        if not isinstance(self.addends, ValueLattice):
            raise ValueError("no column was added up")
        return self.addends


def table_values(
    table: StatisticsTable,
    drawn: Mapping[str | None, NoisyNumbers],
    impossible: NDArray[np.bool_],
    *,
    chosen: Mapping[str, ChosenQuantiles] | None = None,
    minimum_frequency: MinimumFrequency | None = None,
    refined: NDArray[Any] | None = None,
    counted: KeyCountNumbers | None = None,
) -> Columns:
    """Return the columns of a table's published file after those that rows are grouped by.

    Args:
        table: what is published.
        drawn: what was drawn for it, by `Statistic.key`; under None the counts.
        impossible: which cells the contract excludes, in the shape of the cells.
        chosen: the quantiles that were chosen by the exponential mechanism, by column.
        minimum_frequency: the rule under which numbers of small cells were drawn as zeros.
        refined: refined counts of the table, published beside the others.
        counted: the counts that were drawn with its keys; then `drawn` has none.
    Returns:
        Columns: for each statistic its estimates and the ends of its intervals; then `near_zero`, but where nothing
        tells how many rows a cell has. Under a rule also which cells are suppressed, whose other columns hold 0 and
        are published as missing. So is what is NaN: what a cell without rows has none of. Shape of the cells.
    Privacy: post-processing.
    """
    counts = _counts(list(drawn.values())) if counted is None else counted.counts
    weight = next((each.addends.weight for each in drawn.values() if each.addends is not None), None)
    columns: Columns = {}
    for each in table.of:
        if each.what == COUNT and counts is not None:
            values: tuple[NDArray[Any], ...] = _whole(counts, weight)
        else:
            values = _of_columns(each, drawn, chosen or {})
        if each.what in (*OF_ROWS, EFFECTIVE_SIZE):
            values = _rounded(each, table, values, drawn[each.key], is_chosen=str(each.column) in (chosen or {}))
        nothing, empty = (np.nan, impossible) if each.what in OF_ROWS else (0, impossible)
        if each.what in OF_ROWS and counts is not None:
            empty = impossible | (counts.lower <= 0)
            for term in each.terms:
                empty = empty | drawn[term.key].lacks_rows
        for name, array in zip(each.published, values, strict=True):
            columns[name] = np.where(empty, np.asarray(nothing, dtype=array.dtype), array + 0)  # -0 becomes 0
    if counts is not None:
        columns[NEAR_ZERO] = (counts.lower <= 0) | impossible
    if refined is not None:
        columns[REFINED] = refined
    if minimum_frequency is None:
        return columns
    numbers = [(each.values, each.addends, each.event) for each in drawn.values()]
    gone = suppressed_cells(minimum_frequency, numbers) & ~impossible
    lacking = {name: array.dtype.type(np.nan if name in table.may_lack else 0) for name, array in columns.items()}
    return {**{name: np.where(gone, lacking[name], array) for name, array in columns.items()}, SUPPRESSED: gone}


def refined_tables(
    product: StatisticsProduct, drawn: Mapping[str, Mapping[str | None, NoisyNumbers]], contract: Contract
) -> dict[str, NDArray[Any]]:
    """Return the refined counts of each table that publishes counts; nothing where the product refines none.

    Args:
        product: what is published.
        drawn: what was drawn for each table, as `table_values` takes it.
        contract: gives cells that are excluded, and a total that is public.
    Privacy: post-processing.
    """
    if product.refine is None:
        return {}
    counted = {
        table.name: noisy_counts(list(drawn[table.name].values()), contract.impossible(table.by))
        for table in product.tables
        if any(each.what == COUNT for each in table.of)
    }
    total = None if contract.total is None else contract.total.value
    return dict(refine_counts(counted, product.refine, public_total=total))


def noisy_counts(drawn: Sequence[NoisyNumbers], impossible: NDArray[np.bool_]) -> NoisyCounts:
    """Return the unbiased counts of a table, from what was drawn for it, as `table_values` reads them.

    Raises:
        ValueError: nothing tells how many rows a cell has.
    """
    counts, used = _counts(drawn), _counting(drawn)
    if counts is None:
        raise ValueError("no count was drawn")
    summed = [(each, each.addends) for each in used if isinstance(each.addends, ValueLattice | ValueMoments)]
    summed = summed[:MOST_AVERAGED]
    if summed:
        errors = [variance(each.event) * addends.parts / addends.whole**2 for each, addends in summed]
        spread = sum(errors) / len(errors) ** 2
    else:
        trees = [(each, each.addends) for each in used if isinstance(each.addends, ValueTree)]
        nodes = [(tree.level_nodes[0] + tree.lattice.counts_missing) * variance(each.event) for each, tree in trees]
        spread = min(nodes) if nodes else variance(used[0].event)
    weight = None if used[0].addends is None else used[0].addends.weight
    return NoisyCounts(counts.values.reshape(impossible.shape), spread, impossible, weight)


def count_terms(draws: Sequence[tuple[CountNoise, ValueLattice | ValueMoments]]) -> list[tuple[float, CountNoise]]:
    """Return what each noisy number adds to the error of an average of counts: its weight, and its noise."""
    return [(1 / (addends.whole * len(draws)), event) for event, addends in draws for _ in range(addends.parts)]


def _counting(drawn: Sequence[NoisyNumbers]) -> list[NoisyNumbers]:
    """Return the draws that tell how many rows a cell has: no sums alone, and no distinct counts."""
    return [each for each in drawn if not isinstance(each.addends, LoneSum | DistinctCount)]


def _counts(drawn: Sequence[NoisyNumbers]) -> Estimates | None:
    """Return how many rows are in each cell: by one draw, or by the average of all sums; by a tree where none is.

    None where only sums alone were drawn, or distinct counts.
    """
    drawn = _counting(drawn)
    if not drawn:
        return None
    summed = [(each, each.addends) for each in drawn if isinstance(each.addends, ValueLattice | ValueMoments)]
    summed = summed[:MOST_AVERAGED]
    if not summed:
        trees = [(each.addends, each) for each in drawn if isinstance(each.addends, ValueTree)]
        errors = [tree_count_error(tree, event=each.event, confidence=CONFIDENCE) for tree, each in trees]
        return trees[errors.index(min(errors))][1].counts if trees else drawn[0].counts
    if len(summed) == 1:
        return summed[0][0].counts
    values = sum((each.counts.values for each, _ in summed), np.zeros(())) / len(summed)
    terms = count_terms([(each.event, addends) for each, addends in summed])
    margin = six_digits_up(even_quantile(terms, CONFIDENCE))
    return bounded_estimates(values, margin, least=0.0, most=np.inf)


def _whole(counts: Estimates, weight: ValueLattice | None) -> tuple[NDArray[Any], ...]:
    """Round counts, the ends of an interval inwards: a true count is whole, or of whole steps of the weight."""
    value = np.rint(np.maximum(counts.values, 0.0))
    lower, upper = np.minimum(np.ceil(counts.lower), value), np.maximum(np.floor(counts.upper), value)
    if weight is None:
        return tuple(array.astype(np.int64) for array in (value, lower, upper))
    step = float(weight.step)
    return value * step, lower * step, upper * step


def _of_columns(
    statistic: Statistic, drawn: Mapping[str | None, NoisyNumbers], chosen: Mapping[str, ChosenQuantiles]
) -> tuple[NDArray[Any], ...]:
    """Return estimates and ends; of sums in steps of the lattice, the ends outwards."""
    own = drawn[statistic.key]
    if isinstance(own.addends, DistinctCount):
        return own.distinct
    if statistic.what == QUANTILES:
        found, better = own.quantiles(statistic.quantiles), chosen.get(str(statistic.column))
        found = found if better is None else better.placed(found, statistic.quantiles)
        return tuple(array for each in found for array in (each.values, each.lower, each.upper))
    if statistic.over is not None:
        ratios = estimate_ratios(own.noisy_sums, drawn[statistic.over.column].noisy_sums, confidence=CONFIDENCE)
        return ratios.values, ratios.lower, ratios.upper
    if statistic.what in SPREADS:
        spread = own.moments.variances() if statistic.what == "variance" else own.moments.deviations()
        return spread.values, spread.lower, spread.upper
    if statistic.what == EFFECTIVE_SIZE:
        sizes = own.effective_sizes()
        return sizes.values, sizes.lower, sizes.upper
    if statistic.what == "mean" or own.addends is None:
        means = own.means()
        return means.values, means.lower, means.upper
    sums, step = own.sums(), float(own.addends.lattice.step)
    value = np.clip(sums.values, sums.lower, sums.upper)
    unit = step * float(own.addends.weight_step)
    return np.rint(value / step) * unit, np.floor(sums.lower / step) * unit, np.ceil(sums.upper / step) * unit


def _rounded(
    statistic: Statistic,
    table: StatisticsTable,
    values: Sequence[NDArray[Any]],
    drawn: NoisyNumbers,
    *,
    is_chosen: bool,
) -> tuple[NDArray[Any], ...]:
    """Round each estimate of a statistic, with its ends, to the digits that its error allows."""
    if drawn.addends is None or isinstance(drawn.addends, WeightedCount | DistinctCount):
        raise ValueError("no column was added up")
    low, high = float(drawn.addends.lattice.low), float(drawn.addends.lattice.high)
    least, most = (low, high) if statistic.what in ("mean", QUANTILES) else (0.0, np.inf)
    if statistic.what in SPREADS:
        most = (high - low) ** 2 / 4 if statistic.what == "variance" else (high - low) / 2
    precision = 1.0
    if is_chosen:  # an interval tells of the tree, which has its share of the charge; the choices have the rest
        share = column_choice_share(table, str(statistic.column))
        precision = min(1.0, float((1 - share) / share))
    parts = (values[place : place + 3] for place in range(0, len(values), 3))
    terms: dict[str, Any] = {"least": least, "most": most, "precision": precision}
    return tuple(array for part in parts for array in published_digits(*part, **terms))
