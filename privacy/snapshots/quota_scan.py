"""Exact sums of a column by cell, of which all rows of one unit add at most a quota; a scan of the encoded rows.

Let v1, v2, ... be the values of a unit's rows in the unit's order [steps from 0], and P its quota. Row i adds

    sign(vi) (min(P, |v1| + ... + |vi|) - min(P, |v1| + ... + |vi-1|))

Without their signs these add up to min(P, |v1| + |v2| + ...). The order is keyed and a unit's own
(`contracts.domains.text.UnitOrder`), so that what a unit adds is a function of its own rows.
"""

from __future__ import annotations

from math import prod

import numpy as np
from numpy.typing import NDArray

from contracts.contract.contract import Contract
from contracts.domains.text import KeyColumn, UnitOrder
from contracts.domains.value_sums import LoneSum
from privacy.private_table import PrivateTable
from privacy.snapshots.shared_scan import ColumnNames, cell_sql, quoted, spread_out, whole_columns


def quota_unit(contract: Contract) -> str | None:
    """Return the column of the id by which rows share a quota; None where each unit has one row at most."""
    return contract.unit.column if contract.unit.max_rows_per_unit > 1 else None


def sum_within_quota(
    table: PrivateTable, clique: ColumnNames, shape: tuple[int, ...], form: LoneSum, unit: str | None, *, threads: int
) -> NDArray[np.int64]:
    """Add values up by the cells of one marginal, each unit within its quota; private, for handles alone.

    Args:
        table: the snapshot, here or in an engine.
        clique: the columns; none for one cell of all rows.
        shape: cells along each column.
        form: over offsets: 0 for a missing value, else the offset plus 1; with a quota.
        unit: the column of the unit's id, whose ids and places stand in the snapshot; None where each has one row.
        threads: threads that DuckDB may use.
    Returns:
        Sums, int64, shape (cells,) [steps].
    Raises:
        ValueError: no quota is declared.
    Privacy: exact sums; nothing of them may leave but through a grant.
    """
    if form.quota is None:
        raise ValueError(f"{form.column}: no quota of a unit is declared")
    kept = _of_one_row(form.quota) if unit is None else _of_units(form.quota)
    query = f"WITH valued AS ({_valued(clique, shape, form, unit)}), kept AS ({kept}) "
    query += "SELECT cell, sum(part)::BIGINT AS part FROM kept GROUP BY cell"
    cells, parts = whole_columns(table, query, threads)
    return spread_out(cells, parts, prod(shape))


def _valued(clique: ColumnNames, shape: tuple[int, ...], form: LoneSum, unit: str | None) -> str:
    """Write SQL for all rows: cell and value, 0 of none, and where units have several the unit and the place."""
    name = quoted(form.lattice.name)
    value = f"CASE WHEN {name} > 0 THEN {name}::BIGINT + {form.low_steps - 1} ELSE 0 END"
    terms = [f"{cell_sql(clique, shape)} AS cell", f"{value} AS value"]
    if unit is not None:
        terms += [f"{quoted(KeyColumn(unit).name)} AS unit", f"{quoted(UnitOrder(unit).name)} AS place"]
    return f"SELECT {', '.join(terms)} FROM codes"


def _of_one_row(quota: int) -> str:
    return f"SELECT cell, greatest({-quota}, least({quota}, value)) AS part FROM valued"


def _of_units(quota: int) -> str:
    """Write SQL for what each row adds; only the rows of units that exceed their quota are put in order."""
    before = "sum(abs(value)) OVER (PARTITION BY unit ORDER BY place ROWS UNBOUNDED PRECEDING) AS until"
    sign = "CASE WHEN value < 0 THEN -1 ELSE 1 END"
    cut = f"{sign} * (least({quota}, until) - least({quota}, until - abs(value)))"
    rich = f"SELECT unit FROM valued GROUP BY unit HAVING sum(abs(value)) > {quota}"
    return (
        f"SELECT cell, value AS part FROM valued ANTI JOIN ({rich}) USING (unit) UNION ALL "
        f"SELECT cell, {cut} AS part FROM (SELECT cell, value, {before} FROM valued SEMI JOIN ({rich}) USING (unit))"
    )
