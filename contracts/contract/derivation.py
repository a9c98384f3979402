"""Derived columns of linked tables: what a row gets of the rows of a child that are kept for it.

    {count: person}                 how many there are
    {sum: person.income}            their values added up: g rows at most, each clipped to the bounds of the column
    {max: person.age}, {min: …}     the largest, or the smallest value; missing where no row has one

`where` narrows each to rows with certain labels. Values are added up as whole steps, so that a sum depends neither
on the order of the rows nor on those of other units; docs/derivations.md, section 2, "Linked tables".
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final, Literal, get_args

from pydantic import Field, field_validator, model_validator

from contracts.domains.domain import DeclaredDomain
from contracts.domains.domain_terms import Frozen
from contracts.reading.scalars import Label, Problem, as_items, refuse

Reduction = Literal["count", "sum", "max", "min"]
REDUCTIONS: Final[tuple[Reduction, ...]] = get_args(Reduction)
EXACT: Final = 2**53
"""Up to here a double is every whole number of steps."""
FINEST: Final = 9
"""The most decimals of a value that is added up."""


def _unwritten(reduction: str | None) -> bool:
    """Say that a reduction is not written, also not into records: contracts that count keep their digest."""
    return reduction is None


class Derivation(Frozen):
    """How a column is made of the rows of a child; exactly one of the reductions is written.

    Args:
        count: the child whose rows are counted.
        sum: the child and its column whose values are added up, TABLE.COLUMN.
        max: the same, of which the largest value is taken.
        min: the same, of which the smallest value is taken.
        where: columns of the child, each with the labels of which a row has one.
    """

    count: Label | None = Field(default=None, exclude_if=_unwritten)
    sum: Label | None = Field(default=None, exclude_if=_unwritten)
    max: Label | None = Field(default=None, exclude_if=_unwritten)
    min: Label | None = Field(default=None, exclude_if=_unwritten)
    where: tuple[tuple[Label, tuple[Label, ...]], ...] = ()

    @field_validator("sum", "max", "min")
    @classmethod
    def _table_and_column(cls, written: str | None) -> str | None:
        if written is not None and not all(_parts(written)):
            refuse([Problem(repr(written), "TABLE.COLUMN", "name the child and its column, with a dot between them")])
        return written

    @field_validator("where", mode="before")
    @classmethod
    def _as_pairs(cls, written: Any) -> Any:
        return as_items(written, "a mapping of column: [labels]")

    @model_validator(mode="after")
    def _one_reduction(self) -> Derivation:
        written = [each for each in REDUCTIONS if getattr(self, each) is not None]
        if len(written) != 1:
            found = " and ".join(written) or "no reduction"
            allowed = "one of `count: TABLE`, `sum: TABLE.COLUMN`, `max: TABLE.COLUMN`, `min: TABLE.COLUMN`"
            refuse([Problem(found, allowed, "write one of them; another one is a derived column of its own")])
        return self

    @property
    def reduction(self) -> Reduction:
        """What is made of the rows."""
        return next(each for each in REDUCTIONS if getattr(self, each) is not None)

    @property
    def child(self) -> str:
        """The table whose rows it is made of."""
        return _parts(str(getattr(self, self.reduction)))[0]

    @property
    def column(self) -> str:
        """The column of the child whose values are taken; empty where rows are counted."""
        return _parts(str(getattr(self, self.reduction)))[1] if self.reduction != "count" else ""

    @property
    def words(self) -> str:
        """What it is made of, for messages and comparisons."""
        of = (
            f"rows of {self.child}"
            if self.reduction == "count"
            else f"{self.reduction} of {self.child}.{self.column}"
        )
        return of + (f" with {dict(self.where)}" if self.where else "")


def _parts(written: str) -> tuple[str, str]:
    """Split TABLE.COLUMN at its first dot."""
    table, _, column = written.partition(".")
    return table, column


def value_range(made: Derivation, domain: DeclaredDomain, at_most: int) -> tuple[Decimal, Decimal]:
    """Return between which numbers a reduction of values lies, whatever the rows.

    A sum of at most g values from a to b lies from min(0, g·a) to max(0, g·b); the largest or smallest from a to b.

    Args:
        made: a sum, or the largest or smallest value.
        domain: that of the child's column.
        at_most: g, the rows of the child that are kept for each row of the parent.
    Raises:
        ValueError: the values are no numbers.
    Source: docs/derivations.md, section 2, "Linked tables", claim 3.
    """
    if domain.value_bounds is None:
        raise ValueError(f"values of a domain of kind {domain.kind} are not added up")
    low, high = domain.value_bounds
    return (
        (min(Decimal(0), low * at_most), max(Decimal(0), high * at_most)) if made.reduction == "sum" else (low, high)
    )


def value_step(made: Derivation, domain: DeclaredDomain, at_most: int) -> Decimal:
    """Return the step to which values are rounded before they are reduced.

    Whole numbers have a step of 1. Others have the finest decimal of which a double holds every result exactly.

    Args:
        made: a sum, or the largest or smallest value.
        domain: that of the child's column.
        at_most: g, the rows of the child that are kept for each row of the parent.
    Raises:
        ValueError: the values are no numbers.
    """
    farthest = max(map(abs, value_range(made, domain, at_most)))
    places = 0 if domain.kind == "integer" else FINEST
    while places and farthest.scaleb(places) > EXACT:
        places -= 1
    return Decimal(1).scaleb(-places)
