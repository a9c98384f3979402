"""How linked tables became the one that was counted: what was joined, kept and left out, and what that costs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from contracts.contract.contract import Contract
from contracts.contract.derivation import Derivation, Reduction
from contracts.contract.flattening import flat_name
from contracts.contract.linked_tables import Link, LinkedTables
from contracts.message import joined, message

LinkStep = tuple[str, str, str]
"""What was done, how, and how it is accounted for."""
_REDUCTIONS: Final[Mapping[Reduction, str]] = {
    "sum": message("the sum"),
    "max": message("the largest value"),
    "min": message("the smallest value"),
}


def link_steps(contract: Contract) -> list[LinkStep]:
    """List what was done to linked tables; nothing for a contract of one table.

    Args:
        contract: over the base.
    """
    linked = contract.linked
    if linked is None:
        return []
    unit = str(contract.unit.column)
    what = message(
        "each row that is counted is one of {base}, with the columns of the rows that it leads to; a row without a "
        "key, or with one that no row has, is left out, and of rows that share a key one is taken by a keyed hash, "
        "for each {unit} by itself",
        base=contract.table,
        unit=unit,
    )
    steps: list[LinkStep] = [
        (message("linked tables"), what, message("no row of one {unit} depends on another", unit=unit))
    ]
    steps += [_link(linked, link, unit) for link in linked.terms.links]
    for table in linked.tables:
        steps += [_derived(linked, table.name, name, made, unit) for name, made in table.derived]
    return steps


def _link(linked: LinkedTables, link: Link, unit: str) -> LinkStep:
    """Say what one link does."""
    named = message("link from {child} to {parent}", child=link.origin, parent=link.to)
    if link.at_most is not None:
        kept = message(
            "at most {rows} rows of {child} are kept for each row of {parent}, chosen uniformly at random, for each "
            "{unit} by itself",
            rows=link.at_most,
            child=link.child,
            parent=link.parent,
            unit=unit,
        )
        return named, kept, message("a factor of the rows of a {unit}", unit=unit)
    attributes = message("each row of {child} gets the columns of its {parent}", child=link.child, parent=link.parent)
    if link.child in linked.owned:
        unowned = message(
            "rows of {parent} belong to no {unit}, and are not protected", parent=link.parent, unit=unit
        )
        return named, attributes, unowned
    return named, attributes, message("rows of both belong to no {unit}, and are not protected", unit=unit)


def _derived(linked: LinkedTables, table: str, name: str, made: Derivation, unit: str) -> LinkStep:
    """Say what a derived column is made of."""
    named = message("derived column {column}", column=flat_name(linked, table, name))
    tests = joined([f"{column}: {', '.join(labels)}" for column, labels in made.where])
    if made.reduction == "count":
        rows = {"child": made.child, "parent": table}
        what = message("the kept rows of {child} for each row of {parent}", **rows)
        if made.where:
            what = message("the kept rows of {child} for each row of {parent}, where {tests}", **rows, tests=tests)
    else:
        value = f"{made.child}.{made.column}"
        of = {"reduction": _REDUCTIONS[made.reduction], "column": value, "parent": table}
        what = message("{reduction} of {column}, clipped to its bounds, in the rows kept for each {parent}", **of)
        if made.where:
            what = message(
                "{reduction} of {column}, clipped to its bounds, in the rows kept for each {parent}, where {tests}",
                **of,
                tests=tests,
            )
    return named, what, message("each {unit} by itself", unit=unit)
