"""A marginal at a coarser resolution: each of its cells is the sum of the cells of the marginal that belong to it.

Every cell of the marginal belongs to exactly one coarser cell, so a row falls in exactly one cell of either: the
coarser counts have the sensitivity of a marginal (docs/derivations.md, section 2).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
from numpy.typing import NDArray

from contracts.release.tables.levels import Level

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
