"""What is wrong with derived columns: no child, no unit above it, values that are no numbers, bounds beyond the rows.

Each problem is placed below the column's `derived` block.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from contracts.contract.column import Column
from contracts.contract.derivation import EXACT, Derivation, value_range
from contracts.contract.linked_tables import LinkedTable, LinkedTables
from contracts.reading.scalars import FieldPath, Problem, nearest, plain_text, word_list


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
