"""Synthetic rows of two linked tables at once: which tables, by which keys, and what a spec of them may ask.

    source:  {path: data/, tables: {household: household.csv, person: person.csv}, base: person}
    product: {kind: synthetic, generator: linked_tables, columns: [region, size, age, work]}

The base is the child. Its parent is the table of the privacy unit, one link above. A column of the parent counts its
child rows: that many are made for each row of the parent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from contracts.contract.linked import flat_name, named_columns, reached
from contracts.contract.linked_tables import Link, LinkedTables
from contracts.reading.scalars import FieldPath, Problem, word_list
from contracts.release.product import SyntheticModifier

if TYPE_CHECKING:
    from contracts.contract.contract import Contract

LINKED_TABLES: Final = "linked_tables"
"""The name of the generator."""
_AT: Final = ("generator",)


@dataclass(frozen=True)
class TablePair:
    """A child table, its parent, and what of both is synthesized.

    Args:
        parent, child: names of the tables; the child is the base of the release.
        parent_key, child_key: the columns that hold the key.
        at_most: child rows that are kept for each row of the parent.
        size: the parent's column that counts its child rows; its codes are these numbers.
        parent_columns, child_columns: what is synthesized of each, in the contract's order.
    """

    parent: str
    child: str
    parent_key: str
    child_key: str
    at_most: int
    size: str
    parent_columns: tuple[str, ...]
    child_columns: tuple[str, ...]


def table_pair(names: Sequence[str], contract: Contract) -> TablePair:
    """Return the two tables that a release is about.

    Args:
        names: the columns that are synthesized.
        contract: over the child.
    Raises:
        ValueError: `pair_problems` has something to say.
    """
    problem = next(pair_problems(names, contract), None)
    if problem is not None or contract.linked is None:
        raise ValueError("no two tables that rows of both can be made of")
    linked = contract.linked
    (link,) = linked.upward(contract.table)
    of_parent = tuple(column.name for column in named_columns(linked, link.parent) if column.name in names)
    of_child = tuple(column.name for column in named_columns(linked, link.child) if column.name in names)
    size = _sizes(linked, link)[0]
    keys = link.parent_column, link.child_column
    return TablePair(link.parent, link.child, *keys, link.at_most or 1, size, of_parent, of_child)


def pair_problems(names: Sequence[str], contract: Contract) -> Iterator[tuple[FieldPath, Problem]]:
    """Yield why rows of two tables cannot be made of a contract's base, each with its place in the product.

    Args:
        names: the columns that are asked for; none where some of them are unknown, and only the tables are looked at.
        contract: over the base that the spec names.
    """
    linked = contract.linked
    if linked is None:
        remedy = "link the tables in the contract (docs/linked-tables.md), or take another generator"
        yield _AT, Problem(f"{LINKED_TABLES} for one table", "a contract of linked tables", remedy)
        return
    wrong = _shape_problem(linked, contract.table)
    if wrong is not None:
        yield _AT, wrong
    if wrong is not None or not names:
        return
    (link,) = linked.upward(contract.table)
    yield from _size_problems(linked, link, names)
    own = [column.name for column in named_columns(linked, link.child)]
    if not set(own) & set(names):
        remedy = f"name some, or take another generator with `base: {link.parent}`"
        yield ("columns",), Problem(f"no column of {link.child}", word_list(own), remedy)
    for one, other in (pair for each in contract.constraints if (pair := each.less_or_equal) is not None):
        if {one, other} <= set(names) and (one in own) != (other in own):
            found = f"{one} <= {other}, of columns of both tables"
            remedy = f"leave one of them out of `columns:`; of {link.child} alone such an order is kept"
            yield ("columns",), Problem(found, "an order between columns of one table", remedy)


class LinkedTablesModifier(SyntheticModifier):
    """Rows of two linked tables, by the generator of that name."""

    counts_parents = True

    def asked(self, product: Any) -> bool:
        """Say whether rows of two tables are made."""
        return bool(product.generator == LINKED_TABLES)

    def problems(
        self, product: Any, names: tuple[str, ...], contract: Contract
    ) -> Iterator[tuple[FieldPath, Problem]]:
        """Yield what is wrong with a product of two tables."""
        if self.asked(product):
            yield from pair_problems(names, contract)


def _shape_problem(linked: LinkedTables, base: str) -> Problem | None:
    """Say why a base has no parent that one unit each owns, or more than that."""
    unit, chain = linked.terms.unit.table, linked.chain(base)
    children = [link.child for link in linked.terms.links if link.parent == unit and link.at_most is not None]
    if not chain:
        remedy = f"write `base: {children[0]}`" if children else "take another generator: no table is below it"
        return Problem(f"the base {base}, which is the table of the unit", word_list(children) or "none", remedy)
    if len(chain) > 1:
        way = " → ".join([base, *(link.parent for link in chain)])
        remedy = f"take a base one link below {unit}: {word_list(children)}" if children else "declare another unit"
        return Problem(f"{way}, {len(chain)} links", f"one link from the base to the unit's table, {unit}", remedy)
    further = [name for name in reached(linked, base) if name not in (base, unit)]
    if further:
        found = f"{base}, which leads to {' and '.join(further)} too"
        return Problem(found, f"a base that leads to {unit} alone", "drop that link and table from the contract")
    bounded = [name for name in (base, unit) if name in linked.terms.rows_per_unit]
    if bounded:
        found = f"rows_per_unit of {bounded[0]}, which drops rows beside the link's bound"
        return Problem(found, "bounds by `at_most` and `max_rows_per_unit`", "lower `at_most` of the link instead")
    return None


def _sizes(linked: LinkedTables, link: Link) -> list[str]:
    """Return the parent's columns that count all its child rows."""
    table = linked.table(link.parent)
    counting = [name for name, made in table.derived if made.count == link.child and not made.where]
    return [flat_name(linked, link.parent, name) for name in counting]


def _size_problems(linked: LinkedTables, link: Link, names: Sequence[str]) -> Iterator[tuple[FieldPath, Problem]]:
    """Yield what is wrong with the column of sizes, and which columns would not agree with the child rows."""
    sizes, most = _sizes(linked, link), link.at_most or 1
    if not sizes:
        remedy = (
            f"derive one in the contract: `derived: {{count: {link.child}}}`, bounds [0, {most}], bins of width 1"
        )
        found = f"no column of {link.parent} that counts its rows of {link.child}"
        yield _AT, Problem(found, "a column that says how many rows to make", remedy)
        return
    if sizes[0] not in names:
        yield ("columns",), Problem(f"no {sizes[0]!r}", f"{sizes[0]!r} among the columns", f"add {sizes[0]}")
    (column,) = (each for each in named_columns(linked, link.parent) if each.name == sizes[0])
    wanted = [str(number) for number in range(most + 1)]
    if list(column.labels) != wanted:
        found = f"the cells of {sizes[0]}"
        allowed = f"one for each number from 0 to {most}, and none for missing values"
        remedy = f"declare bounds [0, {most}], bins of width 1 and nulls mapped to 0, or another `at_most`"
        yield _AT, Problem(found, allowed, remedy)
    for name, made in linked.table(link.parent).derived:
        flat = flat_name(linked, link.parent, name)
        if flat in names and flat != sizes[0]:
            found = f"the column {flat!r}, the {made.words}"
            remedy = f"list `columns:` without it: it follows from the made-up rows of {link.child}"
            yield ("columns",), Problem(found, f"delivered columns, and {sizes[0]!r}", remedy)
