"""How large a model gets with one more clique: quickly, for the thousands of cliques of a wide table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from privacy.marginals.counts import Clique
from privacy.marginals.domain import Domain
from privacy.marginals.triangulation import BYTES_PER_CELL, MEGABYTE, model_size

_MARGIN: Final = 2


class Sizes:
    """Sizes of models of the same few cliques and one other.

    Columns that no clique connects do not bear on each other's tables: only the connected parts that the other clique
    touches are triangulated. A greedy order may be luckier on a part than on the whole; so a size that comes near
    the cap is found from the whole.

    Args:
        domain: all columns.
        known: the cliques that every model has.
        cap: what a size is held against [MB of 2²⁰ bytes].
    """

    def __init__(self, domain: Domain, known: Iterable[Clique], cap: float) -> None:
        self._domain, self._known, self._cap = domain, tuple(known), cap
        self._part: dict[str, frozenset[str]] = {name: frozenset((name,)) for name in domain.columns}
        for clique in self._known:
            together = frozenset().union(*(self._part[name] for name in clique))
            self._part.update(dict.fromkeys(together, together))
        self._sizes = {part: self._size(part, ()) for part in set(self._part.values())}
        self._whole = sum(self._sizes.values())

    def with_one(self, clique: Clique) -> float:
        """Return the size of the model of the known cliques and this one [MB]."""
        touched = {self._part[name] for name in clique}
        rest = self._whole - sum(self._sizes[part] for part in touched)
        if all(len(part) == 1 for part in touched):
            return rest + BYTES_PER_CELL * self._domain.cells(clique) / MEGABYTE
        size = rest + self._size(frozenset().union(*touched), (clique,))
        return size if _MARGIN * size <= self._cap else model_size(self._domain, (*self._known, clique))

    def _size(self, part: frozenset[str], more: tuple[Clique, ...]) -> float:
        """Return the size of the tables over some columns."""
        columns = tuple(name for name in self._domain.columns if name in part)
        inside = (clique for clique in self._known if part.issuperset(clique))
        return model_size(self._domain.project(columns), (*inside, *more))
