"""How a row of codes lies in a vector of real numbers: public, a function of the contract alone.

    number or date, in bins    the middle of its bin, scaled by the declared bounds to [0, 1]; where nulls have a
                               cell, one more entry that says so (a null's number is 0)
    category                   one entry a cell, one of them 1
    array of levels            one entry a place, scaled to [0, 1]

A column takes `length` codes, 1 but for arrays, and each code becomes a row of the column's table.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, groupby
from typing import Any, Literal, NoReturn

import numpy as np
from numpy.typing import NDArray

from contracts.canonical import digest
from contracts.contract.column import Column
from contracts.contract.contract import Contract
from privacy.arrays import Unsigned

BlockKind = Literal["number", "category", "array"]
HeadKind = Literal["unit", "flag", "choice"]


@dataclass(frozen=True)
class Head:
    """A stretch of the vector that is decoded together.

    Args:
        column: whose it is.
        kind: "unit", numbers in [0, 1]; "flag", the chance that the value is missing; "choice", the chances of the
            column's cells, which add up to 1.
        start: first entry.
        stop: the entry after the last.
    """

    column: str
    kind: HeadKind
    start: int
    stop: int


@dataclass(frozen=True, eq=False)
class ColumnLayout:
    """One column: what each of its codes becomes.

    Args:
        name: the column.
        kind: how its values are read back.
        table: the entries of each code, shape (cells, entries), float64 in [0, 1]; a copy is kept. A number's first
            entry never falls as the code grows, and a second one marks the last code as null.
        length: codes of a row, 1 but for arrays.
        sides: height and width of an array that is a picture; None of other columns.
    Raises:
        ValueError: a table of another form.
    """

    name: str
    kind: BlockKind
    table: NDArray[np.float64]
    length: int = 1
    sides: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        table = np.array(self.table, dtype=np.float64, order="C")
        table.flags.writeable = False
        object.__setattr__(self, "table", table)
        wanted = {"number": (1, 2), "array": (1,), "category": (table.shape[0],)}[self.kind]
        if table.ndim != 2 or table.size == 0 or table.shape[1] not in wanted or self.length < 1:
            raise ValueError(f"column {self.name}: no table of a {self.kind}")
        if self.length != 1 and self.kind != "array":
            raise ValueError(f"column {self.name}: only an array has several codes")
        if self.sides is not None and (self.kind != "array" or self.sides[0] * self.sides[1] != self.length):
            raise ValueError(f"column {self.name}: sides must be those of its array")
        if not (np.isfinite(table).all() and table.min() >= 0 and table.max() <= 1):
            raise ValueError(f"column {self.name}: entries must lie in [0, 1]")
        if self.kind != "category" and not (np.diff(self.points) >= 0).all():
            raise ValueError(f"column {self.name}: numbers must not fall as codes grow")

    @property
    def nullable(self) -> bool:
        """Whether the last code of a number is that of nulls."""
        return self.kind == "number" and self.table.shape[1] == 2

    @property
    def points(self) -> NDArray[np.float64]:
        """The number of each code, nulls left out; it never falls."""
        # `nullable` counts as 1: the code of nulls is the last one.
        return self.table[: self.table.shape[0] - self.nullable, 0]

    @property
    def width(self) -> int:
        """Entries of the vector."""
        return self.length * int(self.table.shape[1])

    def heads(self, start: int) -> tuple[Head, ...]:
        """Return the column's stretches of a vector in which it begins at `start`."""
        if self.kind == "category":
            return (Head(self.name, "choice", start, start + self.width),)
        numbers = start + self.length
        flag = (Head(self.name, "flag", numbers, numbers + 1),) if self.nullable else ()
        return (Head(self.name, "unit", start, numbers), *flag)


@dataclass(frozen=True, eq=False)
class RowLayout:
    """The columns of a row, in the order of its codes and of its vector.

    Args:
        columns: at least one, with different names.
    Raises:
        ValueError: no column, or a name twice.
    """

    columns: tuple[ColumnLayout, ...]

    def __post_init__(self) -> None:
        if not self.columns or len(set(self.names)) != len(self.columns):
            raise ValueError("columns must be at least one, each named once")

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The columns' names."""
        return tuple(column.name for column in self.columns)

    @property
    def width(self) -> int:
        """Entries of a vector."""
        return sum(column.width for column in self.columns)

    @property
    def code_width(self) -> int:
        """Codes of a row."""
        return sum(column.length for column in self.columns)

    @cached_property
    def heads(self) -> tuple[Head, ...]:
        """What is decoded together, in the order of the vector."""
        starts = accumulate((column.width for column in self.columns), initial=0)
        return tuple(
            head for column, start in zip(self.columns, starts, strict=False) for head in column.heads(start)
        )

    @cached_property
    def digest(self) -> str:
        """SHA-256 (hex) of names, kinds, lengths and tables."""
        each = [
            [column.name, column.kind, column.length, [*column.table.shape], _sha256(column.table)]
            for column in self.columns
        ]
        return digest(each)

    def column(self, name: str) -> ColumnLayout:
        """Return one column.

        Raises:
            ValueError: there is none of that name.
        """
        return self.columns[self._place(name)]

    def code_place(self, name: str) -> int:
        """Return where a column's codes begin in a row.

        Raises:
            ValueError: there is no such column.
        """
        return sum(column.length for column in self.columns[: self._place(name)])

    def select(self, names: Sequence[str]) -> RowLayout:
        """Return the layout of some of the columns, in the given order.

        Raises:
            ValueError: a name that there is not, or one named twice.
        """
        return RowLayout(tuple(self.column(name) for name in names))

    def selected(self, codes: Unsigned, names: Sequence[str]) -> Unsigned:
        """Return the codes of some of the columns, in the given order; shape (rows, their codes)."""
        if tuple(names) == self.names:
            return codes
        spans = [(self.code_place(name), self.column(name).length) for name in names]
        return codes[:, [place for start, length in spans for place in range(start, start + length)]]

    def vectors(self, codes: Unsigned) -> NDArray[np.float32]:
        """Return the vectors of rows.

        Args:
            codes: shape (rows, code_width).
        Returns:
            float32 in [0, 1], shape (rows, width).
        Privacy: a row's vector depends on that row alone; private if the codes are.
        """
        return self._looked_up(codes, lambda table: table.astype(np.float32))

    def lattice(self, codes: Unsigned, *, bits: int) -> NDArray[np.float64]:
        """Return the vectors rounded to multiples of 2^-bits, as whole numbers from 0 to 2^bits in float64."""
        return self._looked_up(codes, lambda table: np.rint(table * 2.0**bits))

    def _place(self, name: str) -> int:
        if name not in self._places:
            raise ValueError(f"no column {name!r}; there are {', '.join(self.names)}")
        return self._places[name]

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: place for place, name in enumerate(self.names)}

    def _looked_up(self, codes: Unsigned, form: Callable[[NDArray[np.float64]], NDArray[Any]]) -> NDArray[Any]:
        """Look every code up in its column's table; neighbours with equal tables together."""
        vectors = np.empty((codes.shape[0], self.width), dtype=form(self.columns[0].table).dtype)
        code, entry = 0, 0
        for table, length in self._runs:
            stop = entry + length * table.shape[1]
            vectors[:, entry:stop] = form(table)[codes[:, code : code + length]].reshape(codes.shape[0], stop - entry)
            code, entry = code + length, stop
        return vectors

    @cached_property
    def _runs(self) -> tuple[tuple[NDArray[np.float64], int], ...]:
        grouped = groupby(self.columns, key=lambda column: (column.table.shape, column.table.tobytes()))
        runs = [list(group) for _, group in grouped]
        return tuple((run[0].table, sum(column.length for column in run)) for run in runs)


def row_layout(contract: Contract, names: Sequence[str] | None = None) -> RowLayout:
    """Return the layout of a contract's columns: of all of them, or of the given ones in their order.

    Raises:
        ContractRefused: no such column.
        ValueError: a column named twice.
    Privacy: uses the contract only.
    """
    columns = contract.columns if names is None else [contract.column(name) for name in names]
    return RowLayout(tuple(_column_layout(column) for column in columns))


def _column_layout(column: Column) -> ColumnLayout:
    if column.named:
        return ColumnLayout(column.name, "category", np.eye(column.size, dtype=np.float64))
    if not column.ordered:
        levels = np.arange(column.size, dtype=np.float64) / (column.size - 1)
        shape = column.domain.shape
        sides = (shape[0], shape[1]) if len(shape) == 2 else None
        return ColumnLayout(column.name, "array", levels[:, None], column.length, sides)
    bins = [(float(first), float(last)) for first, last in column.domain.axis]
    low, high = bins[0][0], bins[-1][1]
    # A domain of one point has no span: its number is 0, whatever it is divided by.
    span = high - low if high > low else 1.0
    middles = [((first + last) / 2 - low) / span for first, last in bins]
    # One cell more than bins is the cell of nulls, which comes last.
    nullable = column.size > len(middles)
    table = np.zeros((column.size, 1 + nullable))
    table[: len(middles), 0] = middles
    if nullable:
        table[-1, 1] = 1
    return ColumnLayout(column.name, "number", table)


def _sha256(table: NDArray[np.float64]) -> str:
    return hashlib.sha256(table.astype("<f8").tobytes()).hexdigest()


# --- Rows as opaque handles.


@dataclass(frozen=True, repr=False, eq=False)
class PrivateRows:
    """The rows of a snapshot, not yet read and not to be seen.

    Args:
        layout: how their codes lie in vectors; public.
        keyed_hash: private hash of the snapshot.
        contract_digest: digest of the contract that encoded it.
    """

    layout: RowLayout
    keyed_hash: str
    contract_digest: str
    _read: Callable[[], Unsigned]

    @classmethod
    def of_nobody(cls, layout: RowLayout) -> PrivateRows:
        """Return a handle behind which there are no rows, for who plans or adds up what others have."""
        return cls(layout, "", "", _nothing)

    def with_layout(self, layout: RowLayout) -> PrivateRows:
        """Return the handle on the same codes, which lie in vectors in another public way.

        Args:
            layout: of the same columns, with as many cells and codes.
        Raises:
            ValueError: other columns.
        Privacy: a sum or a training is bounded by its clipping, whatever the layout; draws are named by its digest.
        """
        if _codes_of(layout) != _codes_of(self.layout):
            raise ValueError("another layout must have the same columns, cells and codes")
        return replace(self, layout=layout)

    def __repr__(self) -> str:
        """Show how many columns there are."""
        return f"PrivateRows({len(self.layout.columns)} columns)"

    def __reduce__(self) -> NoReturn:
        """Refuse pickling: rows stay in this process."""
        raise TypeError("PrivateRows cannot be pickled: private rows stay in this process")


def _codes_of(layout: RowLayout) -> list[tuple[str, int, int]]:
    return [(column.name, column.table.shape[0], column.length) for column in layout.columns]


def _nothing() -> NoReturn:
    raise TypeError("there are no rows behind this handle")
