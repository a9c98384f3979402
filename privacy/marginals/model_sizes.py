"""How large a model gets with one more clique: quickly, for the thousands of cliques of a wide table.

One more clique joins the blocks on the ways between its columns into one; the others stay what they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations

from privacy.marginals.blocks import blocks
from privacy.marginals.domain import CellDomain
from privacy.marginals.triangulation import BYTES_PER_CELL, MEGABYTE, block_cells, inside, neighbours_of


class ModelSizes:
    """Sizes of models of the same cliques and one other.

    Args:
        domain: all columns.
        cliques: those that every model has.
    """

    def __init__(self, domain: CellDomain, cliques: Iterable[Sequence[str]]) -> None:
        self._domain = domain
        self._neighbours = neighbours_of(domain, cliques)
        self._blocks = blocks(self._neighbours)
        self._cells = [self._block(mask, self._neighbours) for mask in self._blocks.masks]
        alone = sum(size for size, others in zip(domain.shape, self._neighbours, strict=True) if not others)
        self._whole = alone + sum(self._cells)

    @property
    def size(self) -> float:
        """The size of the model of the known cliques, as `model_size` says [MB]."""
        return BYTES_PER_CELL * self._whole / MEGABYTE

    def with_one(self, clique: Sequence[str]) -> float:
        """Return the size of the model of the known cliques and this one, as `model_size` says [MB]."""
        places = {self._domain.place(name) for name in clique}
        together = sum(1 << place for place in places)
        # All edges are there already: the triangulation, and so the size, is that of the known cliques.
        if all((self._neighbours[place] | 1 << place) & together == together for place in places):
            return self.size
        less = sum(self._domain.shape[place] for place in places if not self._neighbours[place])
        # Its columns hang on nothing in common: one more table, and no cycle.
        if len({self._blocks.part_of[place] for place in places}) == len(places):
            return BYTES_PER_CELL * (self._whole - less + self._domain.cells(clique)) / MEGABYTE
        # Edges between its columns close cycles through all blocks on the ways between them: they become one block.
        gone: set[int] = set()
        for one, other in combinations(places, 2):
            if self._blocks.part_of[one] == self._blocks.part_of[other]:
                gone |= self._blocks.between(one, other)
        mask = together
        for block in gone:
            mask |= self._blocks.masks[block]
        less += sum(self._cells[block] for block in gone)
        neighbours = list(self._neighbours)
        for place in places:
            neighbours[place] |= together & ~(1 << place)
        return BYTES_PER_CELL * (self._whole - less + self._block(mask, neighbours)) / MEGABYTE

    def _block(self, mask: int, neighbours: Sequence[int]) -> int:
        return block_cells(self._domain.shape, mask, inside(neighbours, mask))
