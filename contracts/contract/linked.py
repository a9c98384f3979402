"""What is wrong with linked tables: unknown names, circles, two ways between tables, bounds that bound nothing.

Each problem is placed below the `privacy` block, but for those of a derived column, which are placed below its table:
`at` begins with "tables" and the table's place there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from math import prod
from typing import Any

from contracts.contract.column import Column
from contracts.contract.linked_tables import (
    EXACT,
    Derivation,
    Link,
    LinkedTable,
    LinkedTables,
    LinkedTerms,
    value_range,
)
from contracts.contract.terms import Unit, check_names, contradictions
from contracts.reading.scalars import FieldPath, Problem, nearest, plain_text, show, word_list

# --- From linked tables to one.


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
        kind="id", scope=terms.unit.scope, column=terms.unit.column, max_rows_per_unit=rows_per_unit(linked, base)
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


TABLES = "tables"
_KEY_TYPES = ("integer", "string")


def link_problems(linked: LinkedTables) -> list[Problem]:
    """List what is wrong with linked tables; empty means that every base can be flattened.

    Later checks follow the links, so they wait until these lead somewhere and come to an end.
    """
    problems = name_problems(linked.terms, [(table.name, table.source_columns) for table in linked.tables])
    if not problems:
        problems = [*_circle_problems(linked), *_twice_problems(linked)]
    if not problems:
        problems = [*_way_problems(linked), *_key_problems(linked)]
    if problems:
        return problems
    return [
        *_bound_problems(linked),
        *_unit_problems(linked),
        *_derived_problems(linked),
        *_flat_name_problems(linked),
        *_term_problems(linked),
    ]


def name_problems(terms: LinkedTerms, tables: Sequence[tuple[str, Sequence[str]]]) -> list[Problem]:
    """List what is wrong with the names of tables, and of tables and columns in the privacy block.

    Args:
        terms: the block.
        tables: each table's name, and the names of its columns.
    """
    double = [
        Problem(f"{number} tables {name!r}", "names that differ in more than capitals", "rename one", ("unit",))
        for name, number in Counter(name.casefold() for name, _ in tables).items()
        if number > 1
    ]
    columns = dict(tables)
    return [*double, *_table_name_problems(terms, tuple(columns)), *_link_name_problems(terms, columns)]


def _table_name_problems(terms: LinkedTerms, names: Sequence[str]) -> Iterator[Problem]:
    """The unit is declared on one of the tables, and each has a part in a link."""
    table = terms.unit.table
    if table not in names:
        yield Problem(repr(table), word_list(names), nearest(table, names), ("unit", "table"))
    for name, bound in terms.rows_per_unit.items():
        if name not in names:
            yield Problem(f"{name}: {bound}", word_list(names), nearest(name, names), ("rows_per_unit", name))
    linked_ones = set(chain.from_iterable((link.child, link.parent) for link in terms.links))
    for name in names:
        if name not in linked_ones:
            remedy = f"add a link from or to {name}, or give it a contract of its own"
            yield Problem(f"the table {name!r} without a link", "tables that are linked", remedy, ("links",))


def _link_name_problems(terms: LinkedTerms, known: Mapping[str, Sequence[str]]) -> Iterator[Problem]:
    for place, link in enumerate(terms.links):
        ends = (("from", link.child, link.child_column), ("to", link.parent, link.parent_column))
        for key, table, column in ends:
            at: FieldPath = ("links", place, key)
            if table not in known:
                yield Problem(f"the table {table!r}", word_list(tuple(known)), nearest(table, known), at)
            elif column not in known[table]:
                allowed, remedy = word_list(known[table]), nearest(column, known[table])
                yield Problem(f"the column {column!r} of {table}", allowed, remedy, at)
        if link.child == link.parent:
            remedy = "link a table to another one"
            yield Problem(f"a link from {link.child} to itself", "two tables", remedy, ("links", place, "to"))


def _circle_problems(linked: LinkedTables) -> Iterator[Problem]:
    """Links never lead back: a table without parents is left, then those that lead to it alone, and so on."""
    waiting = {table.name: {link.parent for link in linked.upward(table.name)} for table in linked.tables}
    while waiting:
        free = [name for name, parents in waiting.items() if not parents & waiting.keys()]
        if not free:
            place = next(i for i, link in enumerate(linked.terms.links) if _both(link, waiting))
            found = "links that lead in a circle: " + ", ".join(waiting)
            yield Problem(found, "links that end at a table without parents", "drop one", ("links", place))
            return
        for name in free:
            del waiting[name]


def _both(link: Link, names: dict[str, set[str]]) -> bool:
    return link.child in names and link.parent in names


def _twice_problems(linked: LinkedTables) -> Iterator[Problem]:
    """No two links have the same tables, and all that lead to a table hold the same key of it."""
    pairs: set[tuple[str, str]] = set()
    keys: dict[str, str] = {}
    for place, link in enumerate(linked.terms.links):
        at: FieldPath = ("links", place)
        if (link.child, link.parent) in pairs:
            remedy = "keep the one by which rows are counted, or make two tables of the parent"
            yield Problem(f"a second link from {link.child} to {link.parent}", "one link", remedy, at)
        elif keys.setdefault(link.parent, link.parent_column) != link.parent_column:
            found = f"{link.to} beside {link.parent}.{keys[link.parent]}"
            yield Problem(found, "one key of a table for all links to it", "take one of them", (*at, "to"))
        pairs.add((link.child, link.parent))


def _way_problems(linked: LinkedTables) -> Iterator[Problem]:
    """From one table to another leads one way at most: by two ways a row would belong to two rows."""
    for place, link in enumerate(linked.terms.links):
        others = [each for each in linked.upward(link.child) if each is not link]
        reached = {each.parent for other in others for each in (other, *linked.above(other.parent))}
        met = reached & {link.parent, *(each.parent for each in linked.above(link.parent))}
        if met and place > min(linked.terms.links.index(other) for other in others):
            found = f"a second way from {link.child} to {min(met)}"
            yield Problem(found, "one way from a table to another", "drop one of the links", ("links", place))


def _key_problems(linked: LinkedTables) -> Iterator[Problem]:
    """The two ends of a link hold the same kind of key."""
    for place, link in enumerate(linked.terms.links):
        child = linked.table(link.child).types[link.child_column]
        parent = linked.table(link.parent).types[link.parent_column]
        if child != parent:
            found, allowed = f"{link.origin} of {child}s and {link.to} of {parent}s", "keys of one logicalType"
            yield Problem(found, allowed, "correct the logicalType of one", ("links", place))
        elif child not in _KEY_TYPES:
            found, remedy = f"keys of logicalType {child}", "declare what identifies a row"
            yield Problem(found, "logicalType integer or string", remedy, ("links", place))


def _bound_problems(linked: LinkedTables) -> Iterator[Problem]:
    """A link within units has a bound; one that leaves them has none, since it would be shared between units."""
    unit = linked.terms.unit.table
    for place, link in enumerate(linked.terms.links):
        at: FieldPath = ("links", place, "at_most")
        within = linked.chain(link.parent) is not None
        if within and link.at_most is None:
            allowed = f"`at_most`: the rows of {link.child} that are kept for each row of {link.parent}"
            yield Problem("a link without `at_most`", allowed, "add `at_most:`", at)
        if not within and link.at_most is not None:
            found = f"`at_most` on a link to {link.parent}, whose rows belong to no unit of {unit}"
            remedy = (
                f"drop it, or declare the unit on {link.parent}: with it, a unit that leaves makes room for others"
            )
            yield Problem(found, f"`at_most` on links that lead down from {unit}", remedy, at)


def _unit_problems(linked: LinkedTables) -> Iterator[Problem]:
    """The unit's id is a column of its table; rows that are led to by it are one a unit."""
    unit = linked.terms.unit
    columns = linked.table(unit.table).source_columns
    if unit.column not in columns:
        yield Problem(f"{unit.column!r}", word_list(columns), nearest(str(unit.column), columns), ("unit", "column"))
    if unit.column == linked.keyed(unit.table) and unit.max_rows_per_unit != 1:
        found = f"max_rows_per_unit {unit.max_rows_per_unit} of {unit.table}, whose key is the unit's id"
        remedy = "write 1; bound the rows of other tables by `at_most` or `rows_per_unit`"
        yield Problem(found, "1: a key has one row", remedy, ("unit", "max_rows_per_unit"))
    for name in linked.terms.rows_per_unit:
        if name not in linked.owned:
            found, remedy = f"a bound for {name}, whose rows belong to no unit", "drop it"
            yield Problem(found, word_list(linked.owned), remedy, ("rows_per_unit", name))
    if linked.terms.invariants:
        remedy = "drop it, or publish the total of a table that is not linked"
        yield Problem("a public total of linked tables", "no invariants", remedy, ("invariants",))


def _derived_problems(linked: LinkedTables) -> Iterator[Problem]:
    """A derived column is made of rows of a child, which belong to the unit of the row that gets it."""
    for place, table in enumerate(linked.tables):
        for column in table.columns:
            if column.length > 1:
                at: FieldPath = (TABLES, place, column.name)
                yield Problem("a column of pictures", "single values in linked tables", "leave it out", at)
        if table.derived:
            pass  # few tables have them
        for name, made in table.derived:
            yield from derivation_problems(linked, table, name, made, (TABLES, place, name, "derived"))


def _flat_name_problems(linked: LinkedTables) -> Iterator[Problem]:
    """No two columns have the same name once they stand beside each other, nor has one that of the unit's id."""
    seen = {str(linked.terms.unit.column).casefold(): f"the id {linked.terms.unit.column!r} of the unit"}
    for place, table in enumerate(linked.tables):
        for column in table.columns:
            name = flat_name(linked, table.name, column.name)
            other = seen.setdefault(name.casefold(), f"{table.name}.{column.name}")
            if other != f"{table.name}.{column.name}":
                found = f"{name!r}, the name of {table.name}.{column.name} beside {other}"
                yield Problem(found, "names of their own", "rename one", (TABLES, place, column.name))


def _term_problems(linked: LinkedTables) -> list[Problem]:
    """Zeros, constraints and gates are about the names that columns have beside each other."""
    if linked.terms.unit.column not in linked.table(linked.terms.unit.table).source_columns:
        return []
    columns = all_columns(linked)
    keys = [key.name for table in linked.tables for key in table.row_keys]
    return contradictions(linked.terms, columns, [*(column.name for column in columns), *keys])


def base_problem(linked: LinkedTables, base: str) -> Problem | None:
    """Say why no rows of a base table can be released, if that is so.

    Args:
        linked: the tables, without problems.
        base: the name of a table.
    """
    names, unit = [table.name for table in linked.tables], linked.terms.unit.table
    if base not in names:
        return Problem(show(base), word_list(linked.owned), nearest(base, linked.owned))
    if base not in linked.owned:
        found = f"{base}, whose rows belong to no unit of {unit}"
        return Problem(found, word_list(linked.owned), f"take one of these, or declare the unit on {base}")
    return None


# --- What is wrong with derived columns.


def derivation_problems(
    linked: LinkedTables, table: LinkedTable, name: str, made: Derivation, at: FieldPath
) -> Iterator[Problem]:
    """Yield what is wrong with one derived column.

    Args:
        linked: the tables, whose links lead somewhere.
        table: the table that gets the column.
        name: the column.
        made: how it is made.
        at: where it is written.
    """
    links = {link.child: link for link in linked.terms.links if link.parent == table.name}
    column = table.column(name)
    if made.child not in links:
        remedy = nearest(made.child, links) or f"{made.reduction} a table that has a link to {table.name}"
        allowed = word_list(tuple(links)) if links else "a child"
        yield Problem(f"rows of {made.child!r}", allowed, remedy, (*at, made.reduction))
        return
    if table.name not in linked.owned:
        unit = linked.terms.unit.table
        remedy = f"declare the unit on {table.name}, or leave the column out"
        found = f"a {made.reduction} for {table.name}, whose rows belong to no unit of {unit}"
        yield Problem(found, f"derived columns of {word_list(linked.owned)}", remedy, at)
    child = linked.table(made.child)
    known = {each.name: each for each in child.delivered}
    if made.reduction == "count" and column.domain.kind != "integer":
        remedy = "give it `kind: integer` with bounds"
        yield Problem(f"a count with a domain of kind {column.domain.kind}", "bounds for a count", remedy, at)
    elif made.column and made.column not in known:
        allowed = word_list(tuple(known)) if known else "a column with a domain"
        found = f"the column {made.column!r} of {made.child}"
        remedy = nearest(made.column, known) or f"name a column of {made.child} that is delivered and has a domain"
        yield Problem(found, allowed, remedy, (*at, made.reduction))
    elif made.column:
        yield from _value_problems(made, known[made.column], column, links[made.child].at_most or 1, at)
    yield from _label_problems(made, known, at)


def _label_problems(made: Derivation, known: Mapping[str, Column], at: FieldPath) -> Iterator[Problem]:
    """`where` names columns that are delivered, and their labels."""
    for other, labels in made.where:
        if other not in known:
            allowed = word_list(tuple(known)) if known else "a column with a domain"
            yield Problem(f"the column {other!r}", allowed, nearest(other, known), (*at, "where", other))
            continue
        for label in labels:
            if label not in known[other].labels:
                allowed, remedy = word_list(known[other].labels), nearest(label, known[other].labels)
                yield Problem(f"the label {label!r}", allowed, remedy, (*at, "where", other))


def _value_problems(
    made: Derivation, source: Column, column: Column, at_most: int, at: FieldPath
) -> Iterator[Problem]:
    """Values are numbers, the column has their kind, and its bounds are within what can come out."""
    of, where = f"{made.child}.{made.column}", (*at, made.reduction)
    if source.domain.value_bounds is None:
        found = f"the {made.reduction} of {of}, a column of kind {source.domain.kind}"
        remedy = f"count the rows: {{count: {made.child}, where: {{{made.column}: [LABEL]}}}}"
        yield Problem(found, "a column of kind integer or decimal", remedy, where)
        return
    if column.domain.kind != source.domain.kind:
        found = f"the {made.reduction} of {of} with a domain of kind {column.domain.kind}"
        remedy = f"give it `kind: {source.domain.kind}` with bounds"
        yield Problem(found, f"kind {source.domain.kind}, as {of} has it", remedy, at)
        return
    low, high = value_range(made, source.domain, at_most)
    farthest = max(abs(low), abs(high))
    if farthest > EXACT:
        remedy = f"narrow the bounds of {of}, or lower `at_most`"
        yield Problem(f"a {made.reduction} of {of} up to {int(farthest):,}", f"at most {EXACT:,}", remedy, where)
        return
    first, last = column.domain.value_bounds or (low, high)
    if first < low or last > high:
        found = f"bounds [{plain_text(first)}, {plain_text(last)}] of a {made.reduction} that lies in "
        remedy = "narrow the bounds: noise grows with them, and no row is beyond"
        between = f"[{plain_text(low)}, {plain_text(high)}]"
        yield Problem(found + between, f"bounds within {between}", remedy, at)
