"""Linked tables: several tables of one contract, and the keys by which rows of one belong to rows of another.

A link says that a column of one table, the child, holds the key of another, its parent. The privacy unit is declared
on one table. Its rows there, and all rows below that lead to them by links, belong to it. Rows of the other tables
belong to no unit: they are attributes that neighbours share.

What the links mean for one table is worked out in `contracts.contract.flattening`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Annotated

from pydantic import BeforeValidator, ConfigDict, Field, field_validator, model_validator

from contracts.contract.column import Column, LogicalType
from contracts.contract.derivation import Derivation
from contracts.contract.privacy_terms import PrivacyTerms, Unit
from contracts.domains.domain_terms import Frozen
from contracts.reading.scalars import Label, Problem, Whole, as_tuple, refuse

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
    """All tables of a contract and what links them; `contracts.contract.link_checks` says what is wrong with it."""

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
