"""What is wrong with linked tables: unknown names, circles, two ways between tables, bounds that bound nothing.

Each problem is placed below the `privacy` block, but for those of a derived column, which are placed below its table:
`at` begins with "tables" and the table's place there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from contracts.contract.contradictions import contradictions
from contracts.contract.flattening import all_columns, flat_name
from contracts.contract.linked_tables import Link, LinkedTables, LinkedTerms
from contracts.reading.scalars import FieldPath, Problem, nearest, show, word_list

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
    """Links name tables and their columns."""
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
            from contracts.contract.derivation_checks import derivation_problems  # few tables have them
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
