"""Which tables of statistics a minimum-frequency rule can be about: those whose draws all count rows by cell."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from contracts.contract.contract import Contract
from contracts.domains.value_sums import LoneSum
from contracts.reading.scalars import Problem
from contracts.release.statistic_forms import DISTINCTS, QUANTILES
from contracts.release.statistics import StatisticsTable
from contracts.release.tables.minimum_frequency import SUPPRESSED

_RENAMED: Final = "rename the column in the contract, and in the source by a select"


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
    for place, each in enumerate(table.of):
        if each.what == QUANTILES and each.method != "tree":
            found = f"quantiles by method {each.method} under a `minimum_frequency`"
            remedy = "write method: tree: a chosen quantile comes without a count of the rows behind it"
            yield Problem(found, "quantiles by method tree", remedy, ("of", place))
    for place, each in enumerate(table.of):
        if each.what in DISTINCTS:
            found = f"{each.what} under a `minimum_frequency`"
            remedy = "ask for it in a release without the rule, or drop it: it does not say how many rows a cell has"
            yield Problem(found, "statistics whose draw counts the rows of a cell", remedy, ("of", place))
    alone = [addends.column for _, addends in table.draws(contract) if isinstance(addends, LoneSum)]
    for column in alone:
        place = next(number for number, each in enumerate(table.of) if each.column == column)
        found = f"the sum of {column!r} alone, under a `minimum_frequency`"
        remedy = "add count to `of:`: the rule needs to know how many rows a cell has"
        yield Problem(found, "a sum with the count of its rows", remedy, ("of", place))
    for place, name in enumerate(table.by):
        if name.casefold() == SUPPRESSED:
            yield Problem(f"the column {name!r}", f"a column not named {SUPPRESSED}", _RENAMED, ("by", place))
