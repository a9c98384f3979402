"""The domain of a table: its columns and the number of cells of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, Final

from contracts.contract.contract import Contract
from contracts.contract.impossible_cells import Clique

MOST_COLUMNS: Final = 4096
"""Of a domain that a stranger wrote."""


@dataclass(frozen=True)
class CellDomain:
    """Columns with the number of cells of each; codes of a column run from 0 to its size - 1.

    Args:
        columns: distinct names, in the order of the table.
        shape: cells of each column, each ≥ 1.
    Raises:
        ValueError: a column named twice, a size below 1, or not one size a column.
    """

    columns: Clique
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.columns) != len(self.shape):
            raise ValueError(f"{len(self.columns)} columns with {len(self.shape)} sizes; give one size a column")
        if len(set(self.columns)) != len(self.columns):
            raise ValueError("each column must be named once")
        if any(size < 1 for size in self.shape):
            raise ValueError("each column must have at least one cell")

    @classmethod
    def of(cls, contract: Contract, columns: Sequence[str] | None = None) -> CellDomain:
        """Return the domain that a contract declares, of all its columns or of the given ones."""
        names = tuple(columns) if columns is not None else tuple(column.name for column in contract.columns)
        return cls(names, contract.shape(names))

    @classmethod
    def read(cls, stated: Mapping[str, Any]) -> CellDomain:
        """Read a published domain; written by a stranger, and checked.

        Raises:
            ValueError, KeyError, TypeError: not such a domain, or one of too many columns.
        """
        columns, shape = stated["columns"], stated["shape"]
        if len(columns) > MOST_COLUMNS or not all(isinstance(name, str) for name in columns):
            raise ValueError(f"columns must be at most {MOST_COLUMNS} names")
        if not all(isinstance(size, int) and not isinstance(size, bool) for size in shape):
            raise ValueError("the domain's shape must be whole numbers")
        return cls(tuple(columns), tuple(shape))

    @cached_property
    def _place(self) -> dict[str, int]:
        return {name: place for place, name in enumerate(self.columns)}

    def place(self, column: str) -> int:
        """Return the number of a column.

        Raises:
            ValueError: there is no such column.
        """
        if column not in self._place:
            raise ValueError(f"no column {column!r}; there are {', '.join(self.columns)}")
        return self._place[column]

    def canonical(self, clique: Sequence[str]) -> Clique:
        """Return the clique in the domain's order of columns.

        Raises:
            ValueError: an unknown column, or one named twice.
        """
        places = [self.place(name) for name in clique]
        if len(set(places)) != len(places):
            raise ValueError(f"a column named twice in the clique {'×'.join(clique)}")
        return tuple(self.columns[place] for place in sorted(places))

    def sizes(self, clique: Sequence[str]) -> tuple[int, ...]:
        """Return the number of cells of each column of a clique."""
        return tuple(self.shape[self.place(name)] for name in clique)

    def cells(self, clique: Sequence[str] | None = None) -> int:
        """Return the exact number of cells of a clique's marginal; of the whole domain without one."""
        return prod(self.shape if clique is None else self.sizes(clique))

    def project(self, clique: Sequence[str]) -> CellDomain:
        """Return the domain of some of the columns, in the given order."""
        return CellDomain(tuple(clique), self.sizes(clique))
