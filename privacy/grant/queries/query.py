"""A query: a frozen value that anybody may build, compare and write down, and that draws nothing.

It names the private handles that it reads, derives its cost from them and from the relation, and says what a run that
resumes must ask for again. How it is drawn stands in `privacy.grant.samplers`, which the grant alone imports.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from contracts.contract.contract import Adjacency
from contracts.contract.impossible_cells import Clique
from privacy.grant.measurement import DrawnEvent
from privacy.learning.rows import PrivateRows
from privacy.marginals.counts import PrivateCounts, SparseCounts

Handle = PrivateCounts | SparseCounts | PrivateRows
"""A handle on what only a grant reads."""

ResultT = TypeVar("ResultT")


@dataclass(frozen=True)
class Relation:
    """Which tables are neighbours.

    Args:
        adjacency: whether a unit is added or removed, or replaced by another.
        rows_per_unit: bound on the rows of one unit.
    """

    adjacency: Adjacency
    rows_per_unit: int


class Query(ABC, Generic[ResultT]):
    """One kind of query; `ResultT` is what a grant answers it with. A kind is a frozen dataclass."""

    @property
    @abstractmethod
    def handles(self) -> tuple[Handle, ...]:
        """The private handles that it reads; the grant holds each against the charge."""

    @property
    @abstractmethod
    def clique(self) -> Clique:
        """Columns of the marginal; empty for the total, for sums over rows, and for a choice."""

    @abstractmethod
    def event(self, relation: Relation) -> DrawnEvent:
        """Return its cost; the sensitivity is derived here, never passed in."""

    @abstractmethod
    def identity(self, relation: Relation) -> Mapping[str, Any]:
        """Return, as JSON values, what else a run that resumes must ask for again."""
