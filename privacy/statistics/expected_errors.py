"""How far off each statistic of a plan is expected to be, from the declared noise alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from contracts.domains.value_lattices import ValueLattice
from contracts.domains.value_trees import ValueTree
from contracts.release.statistic_forms import COUNT
from contracts.release.statistics import Statistic, StatisticsTable
from privacy.marginals.uncertainty import half_width
from privacy.statistics.noise_quantiles import even_quantile, mixed_quantile, quantile
from privacy.statistics.plan import StatisticsDraw
from privacy.statistics.quantiles import rank_bounds, tree_count_error
from privacy.statistics.table_values import CONFIDENCE, MOST_AVERAGED, count_terms

SIZES: Final = (100, 1000, 10_000)
"""Rows of a cell for which the interval of a mean is foretold: it depends on them."""


@dataclass(frozen=True)
class ExpectedError:
    """The half width of a statistic's 95 % interval.

    Args:
        statistic: its column in the published file.
        rows: rows with a value in a cell, for a mean or a ratio; None where they do not matter.
        half_width: of the interval; of a mean in the middle of its clip, where it is widest [the statistic's units].
        clip: the length of a mean's clip: an interval is no longer; None of others.
        ranks: whether the half width is one of ranks, as of a quantile: how many rows further up or down the value
            may stand. How far apart these values are depends on the data.
    """

    statistic: str
    rows: int | None
    half_width: float
    clip: float | None = None
    ranks: bool = False


def expected_errors(table: StatisticsTable, draws: Sequence[StatisticsDraw]) -> tuple[ExpectedError, ...]:
    """Foretell the interval of each statistic of a table. Reads public parameters only.

    Formula: with A the noise above and B the noise below, a count errs by (A + B + M) / width, a sum by
    (high A + low B) / width, a mean q of n rows by about (high - low) ((1 - q) A - q B) / (n width). A quantile errs
    by the noise of its rank, at the boundary where it is largest.
    """
    found: list[ExpectedError] = []
    by_key = {draw.addends.key: draw for draw in draws if draw.addends is not None}
    for each in table.of:
        if each.what == COUNT:
            found.append(ExpectedError(each.name, None, count_error(draws)))
            continue
        draw = by_key[str(each.key)]
        if isinstance(draw.addends, ValueTree):
            found += _rank_errors(each, draw.addends, draw)
            continue
        if not isinstance(draw.addends, ValueLattice):
            raise ValueError(f"{draw.key} adds nothing up")
        low, high, width = float(draw.addends.low), float(draw.addends.high), draw.addends.width
        if each.what == "sum":
            margin = quantile(draw.event, [high / width, low / width], CONFIDENCE)
            found.append(ExpectedError(each.name, None, margin))
            continue
        if each.over is not None:
            found += _ratio_errors(each, draw, by_key[str(each.over.key)])
            continue
        margin = quantile(draw.event, [0.5, 0.5], CONFIDENCE) * (high - low) / width
        found += [ExpectedError(each.name, rows, margin / rows, high - low) for rows in SIZES]
    return tuple(found)


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


def count_error(draws: Sequence[StatisticsDraw]) -> float:
    """Return the half width of the interval of a table's counts: of all sums, or of the best tree [rows]."""
    summed = [(draw.event, draw.addends) for draw in draws if isinstance(draw.addends, ValueLattice)][:MOST_AVERAGED]
    if len(summed) > 1:
        return even_quantile(count_terms(summed), CONFIDENCE)
    if summed:
        ((event, addends),) = summed
        return quantile(event, [1 / addends.width] * addends.parts, CONFIDENCE)
    trees = [(draw.event, draw.addends) for draw in draws if isinstance(draw.addends, ValueTree)]
    errors = [tree_count_error(tree, event=event, confidence=CONFIDENCE) for event, tree in trees]
    return min(errors) if errors else float(half_width(draws[0].event, CONFIDENCE))
