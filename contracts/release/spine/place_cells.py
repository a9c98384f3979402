"""The cells of counts by place at one level: its places, and the contract's cells of the other columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING

from contracts.contract.column import Labelled
from contracts.contract.contract import Contract
from contracts.release.spine.places import PlaceTree

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class PlaceLabels:
    """The places of a level, as the labels of a column.

    Args:
        tree: the places.
        level: number of the level.
    """

    tree: PlaceTree
    level: int

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Labels in the order of the tree."""
        return tuple(self.tree.names[self.level].to_pylist())

    @property
    def size(self) -> int:
        """Number of places."""
        return self.tree.sizes[self.level]


@dataclass(frozen=True, eq=False)
class PlaceCells:
    """The cells of a level.

    Args:
        contract: gives the cells of all columns but that of places.
        places: the column of places.
        own: the places of the level.
    """

    contract: Contract
    places: str
    own: PlaceLabels

    def column(self, name: str) -> Labelled:
        """Return the cells of one column."""
        return self.own if name == self.places else self.contract.column(name)

    def shape(self, clique: Sequence[str]) -> tuple[int, ...]:
        """Return the number of cells of each column."""
        return tuple(self.column(name).size for name in clique)

    def cells(self, clique: Sequence[str]) -> int:
        """Return the number of cells of all columns together."""
        return prod(self.shape(clique))

    def impossible(self, clique: Sequence[str]) -> NDArray[np.bool_]:
        """Mark the cells that the contract's structural zeros on the other columns exclude, in every place."""
        import numpy as np

        others = [name for name in clique if name != self.places]
        mask = self.contract.impossible(others)
        return np.broadcast_to(mask, self.shape(clique)) if self.places in clique else mask


def place_cells(contract: Contract, places: str, tree: PlaceTree, level: str) -> PlaceCells:
    """Return the cells of a level by its name, of whichever tree has it."""
    own = tree.having(level)
    return PlaceCells(contract, places, PlaceLabels(own, own.levels.index(level)))
