"""Linked tables: several tables of one contract, and the keys by which rows of one belong to rows of another.

A link says that a column of one table, the child, holds the key of another, its parent. The privacy unit is declared
on one table. Its rows there, and all rows below that lead to them by links, belong to it. Rows of the other tables
belong to no unit: they are attributes that neighbours share.

What the links mean for one table is worked out in `contracts.contract.linked`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import cached_property
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import BeforeValidator, ConfigDict, Field, field_validator, model_validator

from contracts.contract.column import Column, LogicalType
from contracts.contract.terms import PrivacyTerms, Unit
from contracts.domains.domain import DeclaredDomain, Frozen
from contracts.reading.scalars import Label, Problem, Whole, as_items, as_tuple, refuse

# --- Derived columns of linked tables.


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


LARGEST_BOUND = 10**6
"""The most rows that a link or a table may keep."""


def _place(written: str) -> tuple[str, str]:
    """Split TABLE.COLUMN at its first dot."""
    table, _, column = written.partition(".")
    return table, column


class Link(Frozen):
    """A foreign key: each row of the child belongs to the row of the parent whose key it holds.

    Args:
        origin: the child and its column, TABLE.COLUMN; written `from`.
        to: the parent and its key, TABLE.COLUMN.
        at_most: g, the rows of the child that are kept for each row of the parent; given exactly where both belong to
            a unit.
    """

    model_config = ConfigDict(populate_by_name=True)

    origin: Label = Field(alias="from")
    to: Label
    at_most: Whole | None = None

    @field_validator("origin", "to")
    @classmethod
    def _table_and_column(cls, written: str) -> str:
        if not all(_place(written)):
            refuse([Problem(repr(written), "TABLE.COLUMN", "name the table and its column, with a dot between them")])
        return written

    @field_validator("at_most")
    @classmethod
    def _some(cls, at_most: int | None) -> int | None:
        if at_most is not None and not 1 <= at_most <= LARGEST_BOUND:
            remedy = "say how many rows one parent may have; what is beyond is left out"
            refuse([Problem(str(at_most), f"a whole number from 1 to {LARGEST_BOUND:,}", remedy)])
        return at_most

    @property
    def child(self) -> str:
        """The table that holds the key of another."""
        return _place(self.origin)[0]

    @property
    def parent(self) -> str:
        """The table whose key is held."""
        return _place(self.to)[0]

    @property
    def child_column(self) -> str:
        """The column that holds the key."""
        return _place(self.origin)[1]

    @property
    def parent_column(self) -> str:
        """The key."""
        return _place(self.to)[1]


class RowKey(Frozen):
    """A column without a domain: it says which rows belong together, and nothing of it is published."""

    name: Label
    logical_type: LogicalType


class LinkedTable(Frozen):
    """One of the tables.

    Args:
        name: its name.
        row_keys: its columns without a domain.
        columns: its columns with a domain, delivered and derived, in the order of the file.
        derived: how those are made that are not delivered, by name.
    """

    name: Label
    row_keys: tuple[RowKey, ...]
    # Not named `keys`: whoever asks an object for its keys takes it for a mapping.
    columns: tuple[Column, ...]
    derived: tuple[tuple[Label, Derivation], ...] = ()

    @property
    def delivered(self) -> tuple[Column, ...]:
        """The columns that its source has."""
        made = dict(self.derived)
        return tuple(column for column in self.columns if column.name not in made)

    def column(self, name: str) -> Column:
        """Return a column by its name.

        Raises:
            KeyError: there is none.
        """
        return {column.name: column for column in self.columns}[name]

    @property
    def source_columns(self) -> tuple[str, ...]:
        """Every column that its source must have."""
        return tuple(key.name for key in self.row_keys) + tuple(column.name for column in self.delivered)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all its columns."""
        return tuple(key.name for key in self.row_keys) + tuple(column.name for column in self.columns)

    @cached_property
    def types(self) -> Mapping[str, LogicalType]:
        """The logical type of each column that its source has, by name."""
        keys = {key.name: key.logical_type for key in self.row_keys}
        return keys | {column.name: column.logical_type for column in self.delivered}


class LinkedUnit(Unit):
    """The privacy unit of linked tables: everything that belongs to one id of one table."""

    table: Label

    @model_validator(mode="after")
    def _an_id(self) -> LinkedUnit:
        if self.kind != "id":
            remedy = f"write kind: id, with the key of {self.table} as its `column`"
            refuse([Problem("kind: row over linked tables", "kind: id", remedy, ("kind",))])
        if not 1 <= self.max_rows_per_unit <= LARGEST_BOUND:
            allowed = f"a whole number from 1 to {LARGEST_BOUND:,}"
            refuse([Problem(str(self.max_rows_per_unit), allowed, at=("max_rows_per_unit",))])
        return self


class LinkedTerms(PrivacyTerms):
    """The `privacy` block of a contract of linked tables.

    Args:
        unit: whose privacy counts, and on which table it is declared.
        links: the foreign keys.
        rows_per_unit: by table, the most rows of it that one unit keeps, where that is less than links allow.
    """

    unit: LinkedUnit
    links: Annotated[tuple[Link, ...], BeforeValidator(as_tuple)] = Field(min_length=1)
    rows_per_unit: dict[Label, Whole] = Field(default_factory=dict)

    @field_validator("rows_per_unit")
    @classmethod
    def _some(cls, bounds: dict[str, int]) -> dict[str, int]:
        wrong = [
            Problem(str(bound), "a whole number from 1", at=(name,)) for name, bound in bounds.items() if bound < 1
        ]
        if wrong:
            refuse(wrong)
        return bounds


class LinkedTables(Frozen):
    """All tables of a contract and what links them; `contracts.contract.linked` says what is wrong with it."""

    tables: tuple[LinkedTable, ...] = Field(min_length=2)
    terms: LinkedTerms

    def table(self, name: str) -> LinkedTable:
        """Return the table of that name.

        Raises:
            KeyError: there is none.
        """
        return {table.name: table for table in self.tables}[name]

    def upward(self, table: str) -> tuple[Link, ...]:
        """Return the links from a table to its parents, in the order of the file."""
        return tuple(link for link in self.terms.links if link.child == table)

    def above(self, table: str) -> Iterator[Link]:
        """Yield every link that leads up from a table, directly or by others; each link after those below it."""
        for link in self.upward(table):
            yield link
            yield from self.above(link.parent)

    def chain(self, table: str) -> tuple[Link, ...] | None:
        """Return the links from a table up to that of the unit; empty for itself, None where none lead there."""
        if table == self.terms.unit.table:
            return ()
        for link in self.upward(table):
            rest = self.chain(link.parent)
            if rest is not None:
                return (link, *rest)
        return None

    @property
    def owned(self) -> tuple[str, ...]:
        """The tables whose rows belong to units, in the order of the file."""
        return tuple(table.name for table in self.tables if self.chain(table.name) is not None)

    def keyed(self, table: str) -> str | None:
        """Return the key by which other tables that belong to units lead to a table; None where none does."""
        owned = self.owned
        return next(
            (link.parent_column for link in self.terms.links if link.parent == table and link.child in owned), None
        )
