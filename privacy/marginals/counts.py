"""Exact counts as opaque handles: anybody may ask for one, only a grant can open it.

The handle knows which marginal it is of (so that a grant can derive the sensitivity) and how to count it; it shows
no value, refuses pickling, and has no public way to the numbers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from contracts.contract.contract import Contract
from contracts.contract.impossible_cells import Clique
from contracts.release.tables.levels import Level

# --- A marginal at a coarser resolution.


Firsts = tuple[tuple[str, tuple[int, ...]], ...]
"""Columns, each with the first bin of each joined one."""


@dataclass(frozen=True, eq=False)
class Coarsening:
    """Which coarser cell each cell of a marginal belongs to.

    Args:
        level: name of the resolution.
        shape: groups along each column.
        cell_of: row-major number of the coarser cell, int64, in the shape of the marginal.
        firsts: of columns whose neighbouring bins were joined in this run, the first bin of each joined one.
    Raises:
        ValueError: a number that is none of a coarser cell.
    """

    level: str
    shape: tuple[int, ...]
    cell_of: NDArray[np.int64]
    firsts: Firsts = ()

    def __post_init__(self) -> None:
        """Keep a copy that nobody can change, and refuse cells that belong nowhere."""
        numbers = np.array(self.cell_of)
        numbers.flags.writeable = False
        object.__setattr__(self, "cell_of", numbers)
        if numbers.dtype != np.int64 or (numbers.size and not 0 <= numbers.min() <= numbers.max() < prod(self.shape)):
            raise ValueError(f"cell_of must hold whole numbers in [0, {prod(self.shape)})")

    @cached_property
    def sha256(self) -> str:
        """Digest of shape and cells: two coarsenings with the same digest measure the same counts."""
        digest = hashlib.sha256(repr((self.shape, self.cell_of.shape)).encode())
        digest.update(np.ascontiguousarray(self.cell_of, dtype="<i8").tobytes())
        return digest.hexdigest()

    def to_json(self) -> dict[str, str]:
        """Return what a draw's header and a record say of it."""
        return {"level": self.level, "sha256": self.sha256}


def sum_up(coarsening: Coarsening, counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the sums over the coarser cells, exact, in their shape.

    Raises:
        ValueError: counts of another shape.
    """
    cell_of = coarsening.cell_of
    if counts.shape != cell_of.shape:
        raise ValueError(f"counts of shape {counts.shape}, allowed {cell_of.shape}")
    sums = np.zeros(prod(coarsening.shape), dtype=np.int64)
    # add.at adds every cell, also where several have the same place.
    np.add.at(sums, cell_of.reshape(-1), counts.reshape(-1))
    return sums.reshape(coarsening.shape)


def coarser_counts(coarsening: Coarsening | None, counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return expected counts at a coarser resolution; as they are without one [rows]."""
    if coarsening is None:
        return counts
    sums = np.bincount(coarsening.cell_of.reshape(-1), counts.reshape(-1), prod(coarsening.shape))
    return np.asarray(sums.reshape(coarsening.shape), dtype=np.float64)


def coarsening(level: Level, firsts: Firsts = ()) -> Coarsening:
    """Return the coarsening of a table to one of its levels; with `firsts`, of a marginal whose bins were joined."""
    return Coarsening(level.name, level.shape(level.columns), level.cell_of, firsts)


@dataclass(frozen=True)
class ParentRows:
    """Which rows are counted, where it is not those of the release's base: the rows of a parent table.

    Args:
        table: the parent table.
        rows_per_unit: its rows that one unit keeps at most; the sensitivity of what is counted follows from it.
    Raises:
        ValueError: fewer than one row per unit.
    """

    table: str
    rows_per_unit: int

    def __post_init__(self) -> None:
        """Refuse a bound that bounds nothing."""
        if self.rows_per_unit < 1:
            raise ValueError(f"rows_per_unit must be at least 1, not {self.rows_per_unit}")

    @classmethod
    def of(cls, contract: Contract) -> ParentRows:
        """Return which rows are the parents of a base's, and how many of them one unit has at most.

        Args:
            contract: over the base, whose link leads up towards the table of the unit.
        Raises:
            ValueError: no link leads up from the base.
        Source: docs/derivations.md, section 2, "Linked tables", claim 2, with the parent table as the base.
        """
        from contracts.contract.linked import rows_per_unit  # few contracts have linked tables

        linked = contract.linked
        chain = None if linked is None else linked.chain(contract.table)
        if linked is None or not chain:
            raise ValueError(f"no row of {contract.table} belongs to a row of another table")
        return cls(chain[0].parent, rows_per_unit(linked, chain[0].parent))


@dataclass(frozen=True, repr=False, eq=False)
class PrivateCounts:
    """The exact marginal of a clique, not yet counted and not to be seen.

    Args:
        clique: the columns; the empty clique is the total.
        shape: cells along each column.
        keyed_hash: private hash of the snapshot that is counted.
        contract_digest: digest of the contract that encoded it.
        coarsening: the coarser resolution, where it is not the marginal itself.
        parents: whose rows are counted, where these are not the rows of the base.
    """

    clique: Clique
    shape: tuple[int, ...]
    keyed_hash: str
    contract_digest: str
    _count: Callable[[], NDArray[np.int64]]
    coarsening: Coarsening | None = None
    parents: ParentRows | None = None

    def __repr__(self) -> str:
        """Show the clique and the resolution only."""
        level = f" by {self.coarsening.level}" if self.coarsening is not None else ""
        level += f" of {self.parents.table}" if self.parents is not None else ""
        return f"PrivateCounts({'×'.join(self.clique) or 'total'}{level})"

    @classmethod
    def of_nobody(cls, clique: Clique, shape: tuple[int, ...]) -> PrivateCounts:
        """Return a handle behind which there are no counts, for who plans or adds up what others count."""
        return cls(clique, shape, "", "", _nothing)

    def rows_per_unit(self, of_base: int) -> int:
        """Return how many of the counted rows one unit has at most.

        Args:
            of_base: the rows of the base that one unit has at most.
        """
        return of_base if self.parents is None else self.parents.rows_per_unit

    @property
    def identity(self) -> dict[str, Any]:
        """Return, as JSON values, whose rows are counted, where these are not those of the base."""
        if self.parents is None:
            return {}
        return {"parents": [self.parents.table, self.parents.rows_per_unit]}

    def coarser(self, coarsening: Coarsening | None) -> PrivateCounts:
        """Return the handle on the sums over coarser cells; this one for no coarsening.

        Raises:
            ValueError: the coarsening is of a marginal of another shape, or these counts are coarser already.
        """
        if coarsening is None:
            return self
        if type(coarsening) is not Coarsening:  # no subclass: no code of the caller sees counts
            raise ValueError(f"coarsening must be a Coarsening itself, not {type(coarsening).__name__}")
        if self.coarsening is not None or coarsening.cell_of.shape != self.shape:
            raise ValueError(f"a coarsening of a marginal of shape {coarsening.cell_of.shape}, allowed {self.shape}")
        count = self._count
        return replace(
            self, shape=coarsening.shape, coarsening=coarsening, _count=lambda: sum_up(coarsening, count())
        )

    def __reduce__(self) -> NoReturn:
        """Refuse pickling: exact counts stay in this process."""
        raise TypeError("PrivateCounts cannot be pickled: exact counts stay in this process")


@dataclass(frozen=True, repr=False, eq=False)
class SparseCounts:
    """The populated cells of a clique's marginal and their exact counts, not yet counted and not to be seen.

    Args:
        clique: the columns, at least one.
        cells: cells of the declared domain, at most 2^63 - 1.
        keyed_hash: private hash of the snapshot that is counted.
        contract_digest: digest of the contract that encoded it.
    """

    clique: Clique
    cells: int
    keyed_hash: str
    contract_digest: str
    _count: Callable[[], tuple[NDArray[np.int64], NDArray[np.int64]]]

    def __repr__(self) -> str:
        """Show the clique only."""
        return f"SparseCounts({'×'.join(self.clique)})"

    def __reduce__(self) -> NoReturn:
        """Refuse pickling: exact counts stay in this process."""
        raise TypeError("SparseCounts cannot be pickled: exact counts stay in this process")


def _nothing() -> NoReturn:
    raise TypeError("there are no counts behind this handle")
