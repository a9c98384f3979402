"""A grant that draws nothing: it hands out what was published, in its order, and refuses anything else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from contracts.contract.impossible_cells import Clique
from contracts.domains.addends import Addends
from privacy.accounting.events import PrivacyEvent
from privacy.generators.generator import OutOfTime
from privacy.grant.draw_replay import LOST
from privacy.grant.queries.query import Progress, Query, Relation, ResultT, silent
from privacy.learning.layout import PrivateRows, row_layout
from privacy.marginals.cell_sums import PrivateCellSums
from privacy.marginals.counts import ParentRows, PrivateCounts
from tasks.records.model.draw_kinds import draw_checks
from tasks.records.model.version_statements import FittedDraw, FittedReplay
from tasks.records.strict_json import shown
from tasks.verification.draws.draw_checks import FittedMeaning, OtherDraw, PublishedValues

OptionsT = TypeVar("OptionsT", bound=BaseModel)


def without_limit(options: OptionsT) -> OptionsT:
    """Return a fit's options with a time limit that no clock reaches: what is published says how far it came."""
    limited = getattr(options, "time_limit", None) is not None
    return options.model_copy(update={"time_limit": inf}) if limited else options


class NoCounts:
    """A source of handles that nobody can open."""

    def __init__(self, meaning: FittedMeaning) -> None:
        self._contract = meaning.contract

    def marginals(self, cliques: Sequence[Clique]) -> tuple[PrivateCounts, ...]:
        """Return a handle for each clique."""
        digest = self._contract.digest
        return tuple(PrivateCounts(each, self._contract.shape(each), "", digest, _refuse) for each in cliques)

    def parent_marginals(self, cliques: Sequence[Clique]) -> tuple[PrivateCounts, ...]:
        """Return a handle for each clique over the rows of the parent table."""
        parents = ParentRows.of(self._contract)
        return tuple(replace(handle, parents=parents) for handle in self.marginals(cliques))

    def rows(self, names: Sequence[str] | None = None) -> PrivateRows:
        """Return a handle on rows."""
        return PrivateRows(row_layout(self._contract, names), "", self._contract.digest, _refuse)

    def sums(self, clique: Clique, addends: Sequence[Addends]) -> tuple[PrivateCellSums, ...]:
        """Return a handle for each of what is counted over lattices."""
        marks = "", self._contract.digest
        shape = self._contract.shape(clique)
        return tuple(PrivateCellSums(clique, shape, each, *marks, lambda _: _refuse()) for each in addends)


def _refuse() -> NoReturn:
    raise OtherDraw("exact counts were asked for; a published version has none")


class PublishedDraws:
    """Stands in for the grant: what was published, in its order.

    Args:
        replay: the record's replay block.
        events: the event of each draw.
        values: the published noisy values.
        meaning: contract and product.
    """

    def __init__(
        self, replay: FittedReplay, events: Sequence[PrivacyEvent], values: PublishedValues, meaning: FittedMeaning
    ) -> None:
        self._draws, self._events, self._values = replay.draws, events, values
        self._relation = Relation(meaning.contract.adjacency, meaning.contract.unit.max_rows_per_unit)
        self.asked = 0
        self.ran_out = False

    def draw(self, query: Query[ResultT], *, key: str, progress: Progress = silent) -> ResultT:
        """Hand out what was published of a query, if it is the one that is asked for."""
        event, published = query.event(self._relation), []
        for name in query.names(key):
            self._skip_lost(name)
            draw, entered = self._next(name)
            if draw.kind != query.kind:
                raise OtherDraw(f"draw {name!r}: {query.kind} was asked for, not {shown(draw.kind)}")
            if entered != event:
                raise OtherDraw(f"draw {name!r}: {event.kind} was asked for, not what is there")
            checks = draw_checks(draw.kind)
            query, values = checks.matching(query, draw, self._values), checks.drawn(draw, self._values)
            published.append(PublishedDraw(name, draw.number, draw.clique, values, draw.sha256))
        return query.result(event, tuple(published))

    def holds(self, key: str) -> bool:
        """Say whether the draw of that name is the next that was published."""
        return self.asked < len(self._draws) and self._draws[self.asked].key == key

    def _skip_lost(self, name: str) -> None:
        """Pass over interrupted attempts at a draw, which were paid and have no values."""
        while self.asked < len(self._draws) and self._draws[self.asked].key.startswith(f"{name}/{LOST}-"):
            self.asked += 1

    def _next(self, key: str) -> tuple[FittedDraw, PrivacyEvent]:
        if self.asked >= len(self._draws):
            self.ran_out = True
            raise OutOfTime(f"draw {key!r} was not published")
        draw, event = self._draws[self.asked], self._events[self.asked]
        if draw.key != key:
            raise OtherDraw(f"draw {key!r} was asked for, where {shown(draw.key)} was published")
        self.asked += 1
        return draw, event


@dataclass(frozen=True)
class PublishedDraw:
    """A draw as it was published, in the place of one that a grant has just made.

    Args:
        key, number, clique, values, sha256: as of a draw that a grant makes.
    """

    key: str
    number: int
    clique: Clique
    values: NDArray[np.int64]
    sha256: str
    listing: None = None
