"""A sampler: the other half of a query, which reads exact numbers and draws noise; only a grant calls it (law 1)."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from privacy.grant.durable_draws import DrawnValues
from privacy.grant.queries.query import Query
from privacy.ledger.draw_files import Draw
from privacy.noise.random_bytes import RandomBytes

QueryT_contra = TypeVar("QueryT_contra", bound=Query[Any], contravariant=True)
ResultT_co = TypeVar("ResultT_co", covariant=True)


class Sampler(Protocol[QueryT_contra, ResultT_co]):
    """How queries of one kind are drawn."""

    def sample(self, query: QueryT_contra, exact: tuple[Any, ...], *, event: Any, source: RandomBytes) -> DrawnValues:
        """Return noisy values of what the query's handles held, in their order."""
        ...

    def result(self, query: QueryT_contra, event: Any, draw: Draw) -> ResultT_co:
        """Return a draw that was written down, as those who asked see it."""
        ...
