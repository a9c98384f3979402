"""Which tables of statistics a minimum-frequency rule can be about: those whose draws count all rows of a cell."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from contracts.contract.contract import Contract
from contracts.domains.value_sums import LoneSum
from contracts.reading.scalars import Problem
from contracts.release.private_clips import PrivateClip
from contracts.release.statistic import Statistic
from contracts.release.statistic_forms import DISTINCTS, QUANTILES
from contracts.release.statistics_table import StatisticsTable
from contracts.release.tables.minimum_frequency import SUPPRESSED

_RENAMED: Final = "rename the column in the contract, and in the source by a select"
_ELSEWHERE: Final = "ask for it in a release without the rule, or drop it"


def frequency_problems(table: StatisticsTable, contract: Contract) -> Iterator[Problem]:
    """Yield what in a table does not go with a minimum-frequency rule.

    Args:
        table: which fits the contract.
        contract: its contract.
    """
    if table.survey_weight is not None:
        remedy = "drop `survey_weight:` or `minimum_frequency:`: a sum of weights does not count rows"
        allowed = "tables in which every row counts once, under a `minimum_frequency`"
        yield Problem(f"a survey weight in table {table.name!r}", allowed, remedy, ("survey_weight",))
        return
    unfit = [(place, problem) for place, each in enumerate(table.of) if (problem := _unfit(each)) is not None]
    for place, (found, allowed, why) in unfit:
        yield Problem(f"{found} under a `minimum_frequency`", allowed, f"{_ELSEWHERE}: {why}", ("of", place))
    if not unfit:
        yield from _column_problems(table, contract)
    for place, name in enumerate(table.by):
        if name.casefold() == SUPPRESSED:
            yield Problem(f"the column {name!r}", f"a column not named {SUPPRESSED}", _RENAMED, ("by", place))


def _unfit(each: Statistic) -> tuple[str, str, str] | None:
    """Say what of a statistic does not go with the rule, what does, and why; None of one that goes with it."""
    allowed = "count, sums, means, ratios, variances and standard deviations"
    if each.what == QUANTILES:
        return "quantiles", allowed, "a tree publishes counts of intervals of the column, small ones too"
    if each.what in DISTINCTS:
        return each.what, allowed, "it does not say how many rows a cell has"
    if any(isinstance(term.clip, PrivateClip) for term in each.terms):
        return (
            "a private clip",
            "a clip of two ends, or none",
            "its histogram publishes counts of bins, small ones too",
        )
    return None


def _column_problems(table: StatisticsTable, contract: Contract) -> Iterator[Problem]:
    """Every column that is added up comes with the count of a cell's rows, and with no count of some of them."""
    for addends in (addends for _, addends in table.draws(contract) if addends is not None):
        terms = ((place, term) for place, each in enumerate(table.of) for term in each.terms)
        place = next(place for place, term in terms if term.column == addends.column)
        if isinstance(addends, LoneSum) and addends.per_unit is not None:
            found = f"per_unit of {addends.column!r} under a `minimum_frequency`"
            remedy = "drop per_unit, or the rule: the draw of such a sum does not know how many rows a cell has"
            yield Problem(found, "sums without per_unit", remedy, ("of", place, "per_unit"))
        elif isinstance(addends, LoneSum):
            found = f"the sum of {addends.column!r} alone, under a `minimum_frequency`"
            remedy = "add count to `of:`: the rule needs to know how many rows a cell has"
            yield Problem(found, "a sum with the count of its rows", remedy, ("of", place))
        elif contract.column(str(addends.column)).domain.nulls.policy == "category":
            found = f"{addends.column!r}, whose missing values are counted apart, under a `minimum_frequency`"
            allowed = "columns whose missing values count as a value"
            why = "the number of rows without a value may be small in a large cell"
            remedy = f"write nulls: {{policy: map, to: VALUE}} in the contract, or drop the column: {why}"
            yield Problem(found, allowed, remedy, ("of", place))
