"""Exact sums and counts of offsets by the cells of a marginal, each in a scan of the encoded rows.

An offset of a column's lattice stands in a snapshot as the next whole number, and a missing value as 0. A row with a
survey weight counts as often as the weight says; a missing weight is 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from contracts.contract.contract import Contract
from contracts.domains.addends import LoneSum, NarrowedLattice, ValueMagnitudes, ValueMoments
from contracts.domains.text import KeyColumn, UnitOrder
from contracts.domains.trees import BinTree, ValueTree
from contracts.domains.value_sql import literal
from privacy.private_table import PrivateTable
from privacy.snapshots.shared_scan import ColumnNames, cell_sql, quoted, spread_out, whole_columns

OffsetNames = tuple[str, str | None]
"""Columns of a snapshot: of offsets, and of the weights of their rows."""


def sum_offsets(
    table: PrivateTable,
    clique: ColumnNames,
    shape: tuple[int, ...],
    names: Sequence[OffsetNames],
    *,
    threads: int,
    relation: str = "codes",
) -> dict[OffsetNames, tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]]:
    """Add offsets up by the cells of one marginal, in one scan; private, for handles alone.

    Args:
        table: the snapshot, here or in an engine.
        clique: the columns; none for one cell of all rows.
        shape: cells along each column.
        names: the columns of offsets: 0 for a missing value, else the offset plus 1. Each with the column of the
            weights of its rows in the same form, where a missing one weighs 0; None where every row counts once.
        threads: threads that DuckDB may use.
        relation: what is added up: the table `codes`, or `narrowed` offsets of it.
    Returns:
        By names: sum of the offsets, rows with a value, and all rows of each cell, row-major, int64; each row as
        often as its weight says [steps, rows or steps of the weight].
    Privacy: exact sums; nothing of them may leave but through a grant.
    """
    weights = list(dict.fromkeys(weight for _, weight in names))
    terms = [
        cell_sql(clique, shape),
        *map(_weighed_rows, weights),
        *(each for pair in names for each in _terms(*pair)),
    ]
    query = f"SELECT {', '.join(terms)} FROM {relation} GROUP BY 1"
    cells, *counted = whole_columns(table, query, threads)
    spread = [spread_out(cells, values, prod(shape)) for values in counted]
    rows = dict(zip(weights, spread[: len(weights)], strict=True))
    sums = iter(spread[len(weights) :])
    return {pair: (next(sums), next(sums), rows[pair[1]]) for pair in names}


def sum_moments(
    table: PrivateTable, clique: ColumnNames, shape: tuple[int, ...], moments: ValueMoments, *, threads: int
) -> NDArray[np.int64]:
    """Add up the moments of a column by the cells of one marginal, in one scan; private, for handles alone.

    Args:
        table: the snapshot, here or in an engine.
        clique: the columns; none for one cell of all rows.
        shape: cells along each column.
        moments: over offsets: 0 for a missing value, else the offset plus 1.
        threads: threads that DuckDB may use.
    Returns:
        Sums, int64, shape (cells, moments.parts); each row as often as its weight says.
    Privacy: exact sums; nothing of them may leave but through a grant.
    """
    stored, width, whole = quoted(moments.lattice.name), moments.lattice.width, moments.whole
    offset = f"({stored}::BIGINT - 1)"
    weight = None if moments.weight is None else moments.weight.name
    weighed = "" if weight is None else f" * {_weight_sql(weight)}"
    ends = [
        f"sum({_square_sql(away, moments)}{weighed}) FILTER ({stored} > 0)"
        for away in (f"({width} - {offset})", offset)
    ]
    counts = [_weighed_rows(weight), _terms(moments.lattice.name, weight)[1]]
    terms = ", ".join(f"coalesce({each}, 0)::BIGINT" for each in [*counts, *ends])
    query = f"SELECT {cell_sql(clique, shape)}, {terms} FROM codes GROUP BY 1"
    cells, *counted = whole_columns(table, query, threads)
    rows, valued, *squares = (spread_out(cells, values, prod(shape)) for values in counted)
    at_low, at_high = (each * (whole // width**2 if moments.exact else 1) for each in squares)
    parts = [at_low, whole * valued - at_low - at_high, at_high, whole * (rows - valued)]
    return np.stack(parts[: moments.parts], axis=-1)


def _square_sql(offset: str, moments: ValueMoments) -> str:
    """Write SQL for the square of an offset: as it is, or in steps of moments and rounded down where these are few.

    floor(U o^2 / W^2) = (q o + r o // W) // W with U o = q W + r: no number is above 2 10^18.
    """
    width, whole = moments.lattice.width, moments.whole
    if moments.exact:
        return f"{offset} * {offset}"
    scaled = f"{whole} * {offset}"
    return f"(({scaled} // {width}) * {offset} + (({scaled} % {width}) * {offset}) // {width}) // {width}"


def narrowed(lattice: NarrowedLattice) -> str:
    """Write SQL for the rows of a snapshot, their offsets clipped to a part of a lattice and counted from its start.

    Whatever an offset is, the clipped one lies within the width that its price is derived of.
    """
    name = quoted(lattice.name)
    clipped = f"greatest(0, least({lattice.width}, {name}::BIGINT - {1 + lattice.first}))"
    return f"(SELECT * REPLACE (CASE WHEN {name} = 0 THEN 0 ELSE 1 + {clipped} END AS {name}) FROM codes)"


def count_magnitudes(table: PrivateTable, magnitudes: ValueMagnitudes, *, threads: int) -> NDArray[np.int64]:
    """Count all rows with a value by the bins of a histogram; private, for handles alone.

    Args:
        table: the snapshot, here or in an engine.
        magnitudes: over offsets: 0 for a missing value, else the offset plus 1.
        threads: threads that DuckDB may use.
    Returns:
        Counts of the bins, int64, shape (magnitudes.parts,) [rows].
    Privacy: exact counts; nothing of them may leave but through a grant.
    """
    name = quoted(magnitudes.lattice.name)
    until = " ".join(f"WHEN {name} <= {1 + last} THEN {place}" for place, (_, last) in enumerate(magnitudes.bins))
    query = f"SELECT CASE WHEN {name} = 0 THEN {magnitudes.parts} {until} END, count(*)::BIGINT FROM codes GROUP BY 1"
    places, rows = whole_columns(table, query, threads)
    return spread_out(places, rows, magnitudes.parts + 1)[: magnitudes.parts]


def count_leaves(
    table: PrivateTable, clique: ColumnNames, shape: tuple[int, ...], tree: ValueTree, *, threads: int
) -> NDArray[np.int64]:
    """Count the rows of each cell by the leaves of a tree; private, for handles alone.

    Args:
        table: the snapshot, here or in an engine.
        clique: the columns; none for one cell of all rows.
        shape: cells along each column.
        tree: over offsets: 0 for a missing value, else the offset plus 1.
        threads: threads that DuckDB may use.
    Returns:
        Counts, int64, shape (cells, 1 + tree.leaves): missing values first, then the leaves in their order [rows, or
        steps of the weight].
    Privacy: exact counts; nothing of them may leave but through a grant.
    """
    offset, leaves = f"{quoted(tree.lattice.name)}::BIGINT", tree.leaves
    # Offset 0 is in leaf 0, those up to width - 1 in leaves of so many steps, and width in the last one.
    inner = f"1 + ({offset} + {tree.leaf_steps - 2}) // {tree.leaf_steps}"
    leaf = f"CASE {offset} WHEN 0 THEN 0 WHEN {tree.lattice.width + 1} THEN {leaves} ELSE {inner} END"
    number = f"({cell_sql(clique, shape)}) * {leaves + 1} + {leaf}"
    weight = tree.lattice.weight
    counted = _weighed_rows(None if weight is None else weight.name)
    query = f"SELECT {number}, {counted} FROM codes GROUP BY 1"
    numbers, rows = whole_columns(table, query, threads)
    return spread_out(numbers, rows, prod(shape) * (leaves + 1)).reshape(-1, leaves + 1)


def count_between_cuts(
    table: PrivateTable, clique: ColumnNames, shape: tuple[int, ...], tree: BinTree, *, threads: int
) -> NDArray[np.int64]:
    """Count the rows of each cell by leaves between cuts; arguments, returns and privacy as of `count_leaves`."""
    name = quoted(tree.lattice.name)
    terms = f"{cell_sql(clique, shape)} AS cell, {name}::BIGINT AS place, count(*)::BIGINT"
    query = f"SELECT {terms} FROM codes GROUP BY 1, 2"
    cells, places, rows = whole_columns(table, query, threads)
    # A missing value stands as 0, before the first offset, which stands as 1.
    leaf = np.searchsorted(np.array(tree.cuts, dtype=np.int64) + 1, places, side="right")
    found = np.zeros((prod(shape), tree.leaves + 1), dtype=np.int64)
    np.add.at(found, (cells, leaf), rows)
    return found


def count_offsets(
    table: PrivateTable, clique: ColumnNames, shape: tuple[int, ...], name: str, *, threads: int
) -> NDArray[np.int64]:
    """Count the rows of each cell by their offsets; private, for handles alone.

    Args:
        table: the snapshot, here or in an engine.
        clique: the columns; none for one cell of all rows.
        shape: cells along each column.
        name: the column of offsets: 0 for a missing value, else the offset plus 1.
        threads: threads that DuckDB may use.
    Returns:
        Cells, offsets and rows, int64, shape (lines, 3), ascending.
    Privacy: exact counts; nothing of them may leave but through a grant.
    """
    terms = f"{cell_sql(clique, shape)} AS cell, {quoted(name)}::BIGINT - 1 AS place, count(*)::BIGINT AS n"
    query = f"SELECT {terms} FROM codes GROUP BY 1, 2 ORDER BY 1, 2"
    lines = np.stack(whole_columns(table, query, threads), axis=1)
    return lines[lines[:, 1] >= 0]


def count_distinct(
    table: PrivateTable,
    clique: ColumnNames,
    shape: tuple[int, ...],
    name: str,
    none: str | int | None,
    *,
    threads: int,
) -> NDArray[np.int64]:
    """Count the different values of a column in each cell; private, for handles alone.

    Args:
        table: the snapshot, here or in an engine.
        clique: the columns; none for one cell of all rows.
        shape: cells along each column.
        name: the column, of whole numbers or of texts.
        none: what in it is no value; None where everything is one.
        threads: threads that DuckDB may use.
    Returns:
        Counts, int64, shape (cells,) [values].
    Privacy: exact counts; nothing of them may leave but through a grant.
    """
    stands = literal(none) if isinstance(none, str) else none
    told = quoted(name) if none is None else f"CASE WHEN {quoted(name)} <> {stands} THEN {quoted(name)} END"
    query = f"SELECT {cell_sql(clique, shape)}, count(DISTINCT {told})::BIGINT FROM codes GROUP BY 1"
    cells, counts = whole_columns(table, query, threads)
    return spread_out(cells, counts, prod(shape))


def _terms(name: str, weight: str | None) -> tuple[str, str]:
    """Write SQL for the sum of the offsets, and for the rows with a value."""
    offset, valued = f"{quoted(name)}::BIGINT", f"{quoted(name)} > 0"
    if weight is None:
        return f"(sum({offset}) - count(*) FILTER ({valued}))::BIGINT", f"count(*) FILTER ({valued})"
    weighed = _weight_sql(weight)
    total = f"sum(greatest({offset} - 1, 0) * {weighed})::BIGINT"
    return total, f"coalesce(sum({weighed}) FILTER ({valued}), 0)::BIGINT"


def _weighed_rows(weight: str | None) -> str:
    """Write SQL for the number of rows, each counted as often as its weight says."""
    return "count(*)::BIGINT" if weight is None else f"sum({_weight_sql(weight)})::BIGINT"


def _weight_sql(weight: str) -> str:
    """Write SQL for the weight of a row: in a snapshot stands 0 for a missing one, else the weight plus 1."""
    return f"greatest({quoted(weight)}::BIGINT - 1, 0)"


# --- Exact sums of a column by cell, of which all rows of one unit add at most a quota; a scan of the encoded rows.


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
