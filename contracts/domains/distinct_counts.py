"""Distinct counts: how many different values of a column, or how many privacy units, the rows of a cell have.

A value is what the contract tells apart, whatever the type or the spelling in which it is stored:

    numbers    the offset on the lattice of the bounds (`value_lattices`); what lies outside counts as an end
    texts      the text without the spaces around it, if it may be a key (`text`); any other text is no value
    others     the declared cell: a category, a period, or `other`, which is one value for all it takes in

A missing value is none, unless the contract maps missing values to one. No survey weight enters: a value that is
there counts once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, Literal

from contracts.domains.domain import DeclaredDomain
from contracts.domains.text import LONGEST_KEY, KeyColumn, TextDomain
from contracts.domains.value_lattices import WIDEST, ValueLattice, lattice_problems, usual_step
from contracts.reading.scalars import Problem

UNITS: Final = "units"
DISTINCT: Final = "distinct"


@dataclass(frozen=True)
class DistinctCount:
    """The number of different values of a column in each cell, or of privacy units: one number a cell.

    Args:
        column: the column; None of privacy units.
        values: how many different values a cell can have at most; None of texts, and of units.
        declared_cells: whether all cells are declared; then the rows of one unit lie in no more cells than there are.
            False where keys are selected: how many cells there will be, nobody knows before.
        most_cells: in how many cells the rows of one unit lie at most, where its keys are bounded; None elsewhere.
    """

    column: str | None
    values: int | None
    declared_cells: bool
    most_cells: int | None = None

    @property
    def counts(self) -> Literal["values", "units"]:
        """What is counted."""
        return "units" if self.column is None else "values"

    @property
    def most_per_unit(self) -> int | None:
        """By how much one unit changes one cell at most, whatever its rows; None where only its rows bound it."""
        return 1 if self.column is None else self.values

    @property
    def key(self) -> str:
        """What its draw is found by among those of a table; no column has this name."""
        return distinct_key(self.column)

    @property
    def weight(self) -> ValueLattice | None:
        """No weight enters."""
        return None

    @property
    def weight_step(self) -> Decimal:
        """Rows are not weighed."""
        return Decimal(1)

    @property
    def parts(self) -> int:
        """Numbers of each cell."""
        return 1

    @property
    def part_names(self) -> tuple[str, ...]:
        """Name this number."""
        return (self.counts,)

    def to_json(self) -> dict[str, Any]:
        """Write it as JSON values; what is None is left out."""
        told = {"column": self.column, "values": self.values}
        known = {key: value for key, value in told.items() if value is not None}
        bound = {} if self.most_cells is None else {"most_cells": self.most_cells}
        return {"counts": self.counts, **known, "declared_cells": self.declared_cells, **bound}


def distinct_key(column: str | None) -> str:
    """Return what the draw of a distinct count is found by; None names that of units."""
    return f"{UNITS}\x1f" if column is None else f"{DISTINCT}\x1f{column}"


def distinct_count(
    column: str, domain: DeclaredDomain, *, declared_cells: bool, most_cells: int | None = None
) -> DistinctCount:
    """Return the distinct count of a column: of at most as many values as its domain declares."""
    if isinstance(domain, TextDomain):
        return DistinctCount(column, None, declared_cells, most_cells)
    if domain.value_bounds is not None:
        return DistinctCount(column, number_lattice(column, domain).width + 1, declared_cells, most_cells)
    return DistinctCount(column, len(domain.labels) - (domain.nulls.policy == "category"), declared_cells, most_cells)


def number_lattice(column: str, domain: DeclaredDomain) -> ValueLattice:
    """Return the lattice on which the numbers of a column are told apart: that of its bounds.

    Raises:
        ValueError: the column has no bounds.
    """
    if domain.value_bounds is None:
        raise ValueError(f"column {column} has no bounds")
    low, high = domain.value_bounds
    step = usual_step(low, high, decimals=domain.decimals)
    return ValueLattice(column, low, high, step, domain.nulls.policy == "category")


def encoded_beside(column: str, domain: DeclaredDomain) -> ValueLattice | KeyColumn | None:
    """Return what of a column is encoded beside its codes, so that values can be told apart; None where codes do."""
    if isinstance(domain, TextDomain):
        return KeyColumn(column)
    return None if domain.value_bounds is None else number_lattice(column, domain)


def distinct_problems(counted: DistinctCount, rows_per_unit: int) -> Iterator[Problem]:
    """Yield what is wrong with a distinct count, whatever the contract: no values, or more than there can be."""
    if counted.column is None and counted.values is not None:
        yield Problem("a number of values of privacy units", "units alone")
    if counted.values is not None and not 1 <= counted.values <= WIDEST + 1:
        yield Problem(f"{counted.values:,} values", f"1 to {WIDEST + 1:,} values")
    if rows_per_unit > WIDEST:
        yield Problem(f"{rows_per_unit:,} rows of a unit", f"at most {WIDEST:,}")


def column_problems(column: str, domain: DeclaredDomain) -> Iterator[Problem]:
    """Yield why the values of a column cannot be told apart: a picture, or numbers of too fine steps."""
    if domain.shape:
        remedy = "write a column of single values"
        yield Problem(f"{column!r}, a column of pictures", "columns of single values", remedy)
    elif not isinstance(domain, TextDomain) and domain.value_bounds is not None:
        lattice = number_lattice(column, domain)
        for problem in lattice_problems(lattice.low, lattice.high, lattice.step, 1):
            remedy = f"narrow its bounds, or declare it as texts: kind text, max_bytes up to {LONGEST_KEY}"
            yield Problem(f"{column!r}: {problem.found}", problem.allowed, remedy)
