"""What `per_unit:` of a sum must be beside its table and its contract.

    {sum: income, clip: [0, 200000], per_unit: 50000}

All rows of one privacy unit together add at most this to the sums of a table, over all cells. Each row adds the part
of its value that is left of the quota (`contracts.domains.value_sums.LoneSum`).
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING

from contracts.contract.contract import Contract
from contracts.domains import value_sums
from contracts.domains.value_sums import LoneSum
from contracts.reading.scalars import Problem, spelled
from contracts.release.private_clips import PrivateClip
from contracts.release.statistic import Statistic
from contracts.release.statistic_forms import QUANTILES

if TYPE_CHECKING:
    from contracts.release.statistics_table import StatisticsTable


def beside_problems(table: StatisticsTable) -> Iterator[Problem]:
    """Yield what a quota does not stand beside, with its place below the table."""
    for place, each in enumerate(table.of):
        if each.per_unit is None:
            continue
        at = ("of", place, "per_unit")
        if isinstance(each.clip, PrivateClip):
            remedy = "write a clip of two ends, or drop per_unit"
            yield Problem("per_unit with a private clip", "a clip of two ends, or none", remedy, at)
        if table.survey_weight is not None:
            remedy = "drop one: a low clip of the weight bounds what a unit adds too"
            yield Problem("per_unit beside a survey weight", "rows that count once", remedy, at)
        others = [other.what for other in table.of if other.per_unit is None and each.column in _added_up(other)]
        if others:
            found = f"per_unit of {each.column!r} beside its {others[0]}"
            remedy = f"put the {others[0]} into a table of its own"
            yield Problem(found, "no other sum, mean, variance or ratio of the column", remedy, at)


def quota_problems(table: StatisticsTable, contract: Contract) -> Iterator[Problem]:
    """Yield what is wrong with the number itself: no whole steps, or so large that it bounds nothing.

    Args:
        table: whose lattices are sound.
        contract: its contract.
    """
    lattices = {lattice.column: lattice for lattice in table.lattices(contract)}
    for place, each in enumerate(table.of):
        if each.per_unit is None:
            continue
        lattice = lattices[str(each.column)]
        if (Fraction(lattice.low) / Fraction(lattice.step)).denominator != 1:
            found = f"per_unit of {each.column!r} from {spelled(lattice.low)} in steps of {spelled(lattice.step)}"
            remedy = "write ends of the clip that are whole steps from 0"
            yield Problem(found, "a lower end that is whole steps from 0", remedy, ("of", place, "per_unit"))
            continue
        form, rows = LoneSum(lattice, each.per_unit), contract.unit.max_rows_per_unit
        for problem in value_sums.quota_problems(form, each.per_unit, rows):
            at = ("of", place, *problem.at)
            yield Problem(f"{each.column!r}: {problem.found}", problem.allowed, problem.remedy, at)


def _added_up(statistic: Statistic) -> set[str | None]:
    """Return the columns that a statistic adds up; a tree of counts adds nothing up."""
    return set() if statistic.what == QUANTILES else {term.column for term in statistic.terms}
