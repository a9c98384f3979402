"""Distinct counts: what was told apart is the contract's, and the moves are the worst that one unit can make.

Both are worked out here anew. One unit has k rows, under replace_one k old ones and k new ones. Each row brings at
most one value, or its unit, into one cell, or takes it away. A cell changes by no more than the values that its
column can have, or by one unit. So the worst change goes through the cells and fills each, until no row or no
cell is left.
"""

from __future__ import annotations

from fractions import Fraction
from math import prod
from typing import Final

from contracts.contract.column import Column
from contracts.contract.contract import Contract
from contracts.domains.distinct_counts import DistinctCount
from contracts.domains.domain_terms import NULL_LABEL
from contracts.errors import Finding
from tasks.records.draws.cell_sums import DistinctStatement
from tasks.records.strict_json import shown
from tasks.verification.record_identity import OTHER, differences

LISTED: Final = 4096
"""Cells that an event lists as moved, at most; beyond, fewer that move farther, which is worse."""


def read_distinct(
    stated: DistinctStatement, contract: Contract, clique: tuple[str, ...], at: str, where: str
) -> tuple[DistinctCount | None, list[Finding]]:
    """Hold what is said of a distinct count against the contract: its column, its values, and whose cells."""
    counted = stated.addends
    columns = {column.name: column for column in contract.columns}
    if counted.to_json() != stated.model_dump(exclude_none=True):
        return None, [Finding(where, f"{at}.addends", "no distinct count", "units, or values of a column", OTHER)]
    if counted.column is not None and (counted.column not in columns or columns[counted.column].length > 1):
        allowed = "a column of single values of the contract"
        return None, [Finding(where, f"{at}.addends.column", shown(counted.column), allowed, OTHER)]
    values = None if counted.column is None else _most_values(columns[counted.column])
    pairs: list[tuple[str, object, object]] = [
        (f"{at}.addends.values", counted.values, values),
        # A column of texts has the cells that were selected: how many, nobody knew before.
        (f"{at}.addends.declared_cells", counted.declared_cells, not contract.texts(clique)),
    ]
    findings = list(differences(pairs, where=where, allowed="as the contract says"))
    return (None if findings else counted), findings


def _most_values(column: Column) -> int | None:
    """Return how many different values a column can have: whole steps between its bounds, or declared cells."""
    domain = column.domain
    if domain.kind == "text":
        return None
    if domain.value_bounds is None:
        return sum(label != NULL_LABEL for label in domain.labels)
    low, high = domain.value_bounds
    shown_digits = [domain.decimals, *(-int(each.normalize().as_tuple().exponent) for each in (low, high))]
    return int((Fraction(high) - Fraction(low)) * 10 ** max(0, *shown_digits)) + 1


def worst_distinct_moves(counted: DistinctCount, contract: Contract, clique: tuple[str, ...]) -> list[int]:
    """Fill cell after cell with what the rows of one unit, old and new, can bring or take."""
    rows = contract.unit.max_rows_per_unit
    left = rows * {"add_remove": 1, "replace_one": 2}[contract.adjacency]
    full = rows if counted.column is not None else 1
    full = full if counted.values is None else min(full, counted.values)
    if counted.declared_cells:
        left = min(left, full * prod(contract.shape(clique)))
    elif counted.most_cells is not None:  # the product's own check says whether it is the right number
        left = min(left, full * counted.most_cells)
    while left > full * LISTED:
        full += 1
    return [full] * (left // full) + [left % full] * (left % full > 0)
