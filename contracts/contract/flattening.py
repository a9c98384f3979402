"""From linked tables to one: the contract of a base table with the columns of all tables that it leads to.

    name of a column     its own where no other table has one of that name, else TABLE_COLUMN; the same for every base
    columns              those of the base, then those of its parents, theirs, and so on, in the order of the links
    rows of a unit       max_rows_per_unit of the unit, times `at_most` of each link from the base up to its table,
                         or the bound that `rows_per_unit` declares for the base, whichever is less
    adjacency            as declared: a unit's rows come, go or change, and no other unit's
    zeros, constraints   those all of whose columns the base leads to

docs/derivations.md, section 2, proves the bound. Whatever reads one table reads the result as any other contract.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from math import prod
from typing import Any

from contracts.contract.column import Column
from contracts.contract.contradictions import check_names
from contracts.contract.linked_tables import LinkedTables
from contracts.contract.privacy_terms import Unit


def flat_name(linked: LinkedTables, table: str, column: str) -> str:
    """Return the name that a column of one table has beside those of the others.

    Args:
        linked: the tables.
        table: the table that has the column.
        column: its name there.
    """
    seen = Counter(name.casefold() for other in linked.tables for name in other.names)
    return column if seen[column.casefold()] == 1 else f"{table}_{column}"


def flat_columns(linked: LinkedTables, base: str) -> tuple[Column, ...]:
    """Return the columns that rows of a base table have, with those of all tables that they lead to."""
    return tuple(column for name in reached(linked, base) for column in named_columns(linked, name))


def named_columns(linked: LinkedTables, table: str) -> Iterator[Column]:
    """Yield the columns of one table under the names that they have beside the others'."""
    for column in linked.table(table).columns:
        yield column.model_copy(update={"name": flat_name(linked, table, column.name)})


def all_columns(linked: LinkedTables) -> tuple[Column, ...]:
    """Return the columns of all tables under the names that they have beside each other."""
    return tuple(column for table in linked.tables for column in named_columns(linked, table.name))


def reached(linked: LinkedTables, base: str) -> tuple[str, ...]:
    """Return a base table and all tables that it leads to by links, in their order."""
    return (base, *(link.parent for link in linked.above(base)))


def rows_per_unit(linked: LinkedTables, base: str) -> int:
    """Return the most rows of a base table that one unit keeps.

    m = k · g_1 ⋯ g_d, with k rows of the unit's own table and g_i of each link on the way down; at most what the
    contract declares for the base.

    Args:
        linked: the tables.
        base: a table whose rows belong to units.
    Returns:
        m, at least 1 [rows].
    Raises:
        KeyError: the rows of the base belong to no unit.
    Source: docs/derivations.md, section 2, "Linked tables".
    """
    chain = linked.chain(base)
    if chain is None:
        raise KeyError(base)
    bound = linked.terms.unit.max_rows_per_unit * prod(link.at_most or 1 for link in chain)
    return min(bound, linked.terms.rows_per_unit.get(base, bound))


def flat_terms(linked: LinkedTables, base: str) -> dict[str, Any]:
    """Return what linked tables determine of the contract of one base table, by the fields of `Contract`.

    Args:
        linked: the tables, without problems.
        base: a table whose rows belong to units.
    Raises:
        KeyError: there is no such table, or its rows belong to no unit.
    """
    terms, columns = linked.terms, flat_columns(linked, base)
    names = {column.name for column in columns}
    unit = Unit(
        kind="id",
        scope=terms.unit.scope,
        column=terms.unit.column,
        max_rows_per_unit=rows_per_unit(linked, base),
    )
    known = check_names(columns, unit)
    return {
        "table": base,
        "columns": columns,
        "unit": unit,
        "adjacency": terms.adjacency,
        "invariants": (),
        "structural_zeros": tuple(
            zero for zero in terms.structural_zeros if names.issuperset(name for name, _ in zero.assignment)
        ),
        "constraints": tuple(each for each in terms.constraints if names.issuperset(each.pair)),
        "gates": tuple(gate for gate in terms.gates if gate in known),
    }
