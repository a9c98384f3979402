"""From the entries of `tables:` to the tables: short forms are written out over the contract's columns.

In the order of the entries; of one entry in the order of the contract's columns, or of its own `of`. A set of columns
stands once: one that is listed by itself keeps its own name, weight and place, and one that an earlier entry gave is
not given again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from math import comb
from typing import Final

from contracts.contract.contract import Contract
from contracts.errors import Finding, SpecRefused
from contracts.reading.scalars import Problem, nearest, word_list
from contracts.reading.validation_errors import dotted
from contracts.release.file_names import unfit_name
from contracts.release.tables.all_marginals import RESIDUALS, AllMarginals
from contracts.release.tables.product import TableSpec, TablesProduct

MOST_TABLES: Final = 4000
"""A Gaussian charge leaves room for the roundings of so many draws (`privacy.accounting.convert.rho_for`)."""
MOST_BY_RESIDUALS: Final = 10_000
"""Tables that follow from one draw."""

Placed = tuple[int, TableSpec]


def expand(product: TablesProduct, columns: Sequence[str]) -> tuple[tuple[Placed, ...], list[Problem]]:
    """Write the tables of a product out.

    Args:
        product: the product.
        columns: names of the contract's columns, in its order.
    Returns:
        tuple: each table with the number of its entry, and what keeps an entry from being written out (`at` begins
        with the entry's number).
    """
    whole = (entry for entry in product.tables if isinstance(entry, TableSpec) and not (entry.bins or entry.queries))
    taken = {frozenset(entry.columns) for entry in whole}
    placed: list[Placed] = []
    problems: list[Problem] = []
    most = MOST_BY_RESIDUALS if product.split == RESIDUALS else MOST_TABLES
    for place, entry in enumerate(product.tables):
        if isinstance(entry, TableSpec):
            placed.append((place, entry))
            continue
        wrong = _problems(entry, place, columns, most - len(placed), most)
        problems += wrong
        cliques = [] if wrong else list(combinations(entry.of or columns, entry.ways))
        fresh = [clique for clique in cliques if frozenset(clique) not in taken]
        taken.update(map(frozenset, fresh))
        unfit = [clique for clique in fresh if unfit_name("_x_".join(clique)) is not None]
        problems += [_unnamed(clique, place) for clique in unfit[:1]]
        placed += [(place, TableSpec(columns=c, name="_x_".join(c), weight=entry.weight)) for c in fresh if not unfit]
    return tuple(placed), problems + _clashes(placed)


def tables_of(product: TablesProduct, contract: Contract) -> tuple[TableSpec, ...]:
    """Return the tables of a product over a contract, every short form written out.

    Raises:
        SpecRefused: a short form cannot be written out over this contract.
    """
    pictures = contract.pictures()
    columns = [column.name for column in contract.columns if column.name not in pictures]
    placed, problems = expand(product, columns)
    if problems:
        raise SpecRefused([_finding(problem) for problem in problems])
    return tuple(table for _, table in placed)


def _finding(problem: Problem) -> Finding:
    at = ("product", "tables", *problem.at)
    return Finding("the release spec", dotted(at), problem.found, problem.allowed, problem.remedy)


def _problems(entry: AllMarginals, place: int, columns: Sequence[str], left: int, most: int) -> list[Problem]:
    """Say what keeps an entry from being written out."""
    unknown = [(spot, name) for spot, name in enumerate(entry.of or ()) if name not in columns]
    if unknown:
        return [
            Problem(f"the column {name!r}", word_list(columns), nearest(name, columns), (place, "of", spot))
            for spot, name in unknown
        ]
    choice = entry.of or tuple(columns)
    if entry.ways > len(choice):
        found, allowed = f"all {entry.ways}-way tables of {len(choice)} columns", f"at most {len(choice)}"
        return [Problem(found, allowed, "take fewer columns a table", (place,))]
    many = comb(len(choice), entry.ways)
    if many > left:
        found = f"{many} tables of {entry.ways} out of {len(choice)} columns"
        remedy = "choose columns by `of:`, or take fewer columns a table"
        return [Problem(found, f"at most {most} tables in a release", remedy, (place,))]
    return []


def _unnamed(clique: Sequence[str], place: int) -> Problem:
    """Ask for a name where the columns do not give one that a file can have."""
    found, allowed = f"the table of {', '.join(clique)}", str(unfit_name("_x_".join(clique)))
    return Problem(found, allowed, "list this table by itself with a `name:`; it names a file", (place,))


def _clashes(placed: Iterable[Placed]) -> list[Problem]:
    """Name the tables that would write the same file: `a_x_b` alone, and `a` by `b`."""
    first: dict[str, TableSpec] = {}
    problems = []
    for place, table in placed:
        other = first.setdefault(table.name.casefold(), table)
        if other is not table:
            found = f"the name {table.name!r} of {', '.join(other.columns)} again for {', '.join(table.columns)}"
            remedy = "list one of them by itself with another `name:`"
            problems.append(Problem(found, "each name once", remedy, (place,)))
    return problems
