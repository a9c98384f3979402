"""What units and distinct values must be beside their contract: columns with values, units of several rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from contracts.contract.contract import Contract
from contracts.domains.distinct_counts import column_problems
from contracts.reading.scalars import FieldPath, Problem, nearest, word_list
from contracts.release.statistic_forms import DISTINCT, DISTINCTS, UNITS

if TYPE_CHECKING:
    from contracts.release.statistics_table import StatisticsTable


def distinct_problems(table: StatisticsTable, contract: Contract) -> Iterator[Problem]:
    """Yield what does not fit of the units and distinct values of one table, with its place below the table."""
    for place, each in enumerate(table.of):
        at: FieldPath = ("of", place)
        if each.what == UNITS and contract.unit.max_rows_per_unit == 1:
            found = "units, of which each has one row by the contract"
            yield Problem(found, "count", "write count: it is the same number, and no draw of its own", at)
        if each.what == DISTINCT:
            yield from _of_a_column(str(each.column), table, contract, (*at, DISTINCT))
    if table.survey_weight is not None and all(each.what in DISTINCTS for each in table.of):
        found = "a survey weight, and nothing that is weighed: units and distinct values count once"
        yield Problem(found, "a statistic that is weighed beside it", "drop survey_weight:", ("survey_weight",))


def _of_a_column(name: str, table: StatisticsTable, contract: Contract, at: FieldPath) -> Iterator[Problem]:
    """Yield why different values of a column cannot be counted: none is known, or there is one in each cell."""
    domains = {column.name: column.domain for column in contract.columns}
    if name not in domains:
        remedy = nearest(name, list(domains)) or "write one of them"
        if name == contract.unit.column:
            remedy = "write units: the number of different ids is that of privacy units"
        elif name == UNITS:
            remedy = "write units, without distinct"
        yield Problem(f"the column {name!r}", word_list(list(domains)), remedy, at)
        return
    for problem in column_problems(name, domains[name]):
        yield Problem(problem.found, problem.allowed, problem.remedy, at)
    if name in table.by and name not in contract.texts() and domains[name].value_bounds is None:
        found = f"distinct values of {name!r}, by which the table is grouped"
        yield Problem(found, "another column", "drop it: each cell has one value of it", at)
