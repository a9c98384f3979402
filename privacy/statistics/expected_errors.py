"""How far off each statistic of a plan is expected to be, from the declared noise alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from math import floor, log10, sqrt
from typing import Final

from contracts.domains.addends import Addends
from contracts.domains.distinct_counts import DistinctCount
from contracts.domains.value_lattices import ValueLattice
from contracts.domains.value_sums import LoneSum, ValueMoments
from contracts.domains.value_trees import ValueTree
from contracts.release.statistic import Statistic
from contracts.release.statistic_forms import COUNT, EFFECTIVE_SIZE, SPREADS
from contracts.release.statistics_table import StatisticsTable
from privacy.marginals.sensitivity import moved_noise
from privacy.marginals.uncertainty import half_width, variance
from privacy.statistics.effective_sizes import usual_margin
from privacy.statistics.key_counts import expected_half_width
from privacy.statistics.noise_quantiles import even_quantile, mixed_quantile, quantile
from privacy.statistics.plan import StatisticsDraw
from privacy.statistics.quantiles import rank_bounds, tree_count_error
from privacy.statistics.selections import PlannedSelection
from privacy.statistics.table_values import CONFIDENCE, MOST_AVERAGED, count_terms
from privacy.statistics.variances import LARGEST

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
    `privacy.statistics.variances`, at the mean 1/2 and the variance 1/12).
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
