"""A grant that draws nothing: it hands out what was published, in its order, and refuses anything else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from contracts.contract.impossible_cells import Clique
from contracts.errors import SudareError
from privacy.generators.generator import OutOfTime
from privacy.grant.draw_replay import LOST
from privacy.grant.queries.choice import ChoiceQuery
from privacy.grant.queries.parameters import ParameterQuery
from privacy.grant.queries.query import Progress, Query, Relation, ResultT, silent
from privacy.grant.queries.sums import SumQuery
from privacy.grant.queries.training import TrainingQuery
from privacy.learning.layout import row_layout
from privacy.learning.learners import learner_digest
from privacy.learning.moments import Moments
from privacy.learning.rows import PrivateRows
from privacy.learning.written_statistics import nearly
from privacy.marginals.counts import PrivateCounts
from tasks.records.model.synthetic_statements import FittedReplay, SyntheticDraw
from tasks.records.strict_json import shown
from tasks.verification.fitted.model_distance import SHARE
from tasks.verification.fitted_meaning import FittedEvent, FittedMeaning

OptionsT = TypeVar("OptionsT", bound=BaseModel)
QueryT = TypeVar("QueryT", bound=Query[Any])


class OtherDraw(SudareError):
    """The generator asks for something else than what was published."""


@dataclass(frozen=True)
class PublishedValues:
    """What was published of the measurements.

    Args:
        noisy: the noisy values, by key of the draw, in their shapes.
        statistics: what was added up in sums over rows, by key of the draw.
    """

    noisy: Mapping[str, NDArray[np.int64]]
    statistics: Mapping[str, Moments]


def without_limit(options: OptionsT) -> OptionsT:
    """Return a fit's options without its time limit: what is published says how far it came."""
    return options.model_copy(update={"time_limit": None}) if hasattr(options, "time_limit") else options


class NoCounts:
    """A source of handles that nobody can open."""

    def __init__(self, meaning: FittedMeaning) -> None:
        self._contract = meaning.contract

    def marginals(self, cliques: Sequence[Clique]) -> tuple[PrivateCounts, ...]:
        """Return a handle for each clique."""
        digest = self._contract.digest
        return tuple(PrivateCounts(each, self._contract.shape(each), "", digest, _refuse) for each in cliques)

    def rows(self, names: Sequence[str] | None = None) -> PrivateRows:
        """Return a handle on rows."""
        return PrivateRows(row_layout(self._contract, names), "", self._contract.digest, _refuse)


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
        self,
        replay: FittedReplay,
        events: Sequence[FittedEvent],
        values: PublishedValues,
        meaning: FittedMeaning,
    ) -> None:
        self._draws, self._events, self._values = replay.draws, events, values
        self._relation = Relation(meaning.contract.adjacency, meaning.contract.unit.max_rows_per_unit)
        self.asked = 0
        self.ran_out = False

    def draw(self, query: Query[ResultT], *, key: str, progress: Progress = silent) -> ResultT:
        """Hand out what was published of a query, if it is the one that is asked for."""
        compare = _COMPARED.get(type(query), _same_columns)
        event, published = query.event(self._relation), []
        for place, name in enumerate(query.names(key)):
            self._skip_lost(name)
            draw, entered = self._next(name)
            if entered != event:
                raise OtherDraw(f"draw {name!r}: {event.kind} was asked for, not what is there")
            query = compare(query, draw, place, self._values)
            values = self._values.noisy.get(name, np.empty(0, np.int64))
            chosen = values if draw.index is None else np.array([draw.index])
            published.append(PublishedDraw(name, draw.number, draw.clique, chosen, draw.sha256))
        return query.result(event, tuple(published))

    def _skip_lost(self, name: str) -> None:
        """Pass over interrupted attempts at a draw, which were paid and have no values."""
        while self.asked < len(self._draws) and self._draws[self.asked].key.startswith(f"{name}/{LOST}-"):
            self.asked += 1

    def _next(self, key: str) -> tuple[SyntheticDraw, FittedEvent]:
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


def _same_columns(query: QueryT, draw: SyntheticDraw, place: int, values: PublishedValues) -> QueryT:
    """Compare the columns; of marginals, and of kinds that packages bring, nothing else is stated."""
    if draw.clique != query.clique:
        raise OtherDraw(f"draw {draw.key!r}: {'×'.join(query.clique)} was asked for, not what is there")
    return query


def _sums(query: SumQuery, draw: SyntheticDraw, place: int, values: PublishedValues) -> SumQuery:
    """Compare what was added up, and go on with what was published.

    Axes, centres and the like were computed in floating point from sums before: those that were published count.
    """
    published = values.statistics.get(draw.key)
    if published is None or not nearly(published, query.statistic, share=SHARE):
        raise OtherDraw(f"draw {draw.key!r}: sums of another statistic were asked for, not of what is there")
    return replace(query, statistic=published)


def _choice(query: ChoiceQuery, draw: SyntheticDraw, place: int, values: PublishedValues) -> ChoiceQuery:
    """Compare the chosen candidate with the columns that are stated of it."""
    index, candidates = -1 if draw.index is None else draw.index, query.candidates
    if not 0 <= index < len(candidates):
        raise OtherDraw(f"draw {draw.key!r}: a choice among {len(candidates)} was asked for, not what is there")
    if candidates[index].clique != draw.clique:
        named = "×".join(candidates[index].clique)
        raise OtherDraw(f"draw {draw.key!r}: candidate {index} is {named}, not {'×'.join(draw.clique)}")
    return query


def _training(query: TrainingQuery, draw: SyntheticDraw, place: int, values: PublishedValues) -> TrainingQuery:
    """Compare plan and learner of an interval."""
    stated, wanted = draw.training, (query.plan.to_json(), learner_digest(query.learner))
    if stated is None or (stated.plan, stated.learner) != wanted:
        raise OtherDraw(f"draw {draw.key!r}: another training was asked for, not what is there")
    return query


def _parameters(query: ParameterQuery, draw: SyntheticDraw, place: int, values: PublishedValues) -> ParameterQuery:
    """Compare what was trained; of the draws before the last one nothing is published."""
    if draw.parameters is None or draw.parameters.perturbation != query.perturbation.to_json():
        raise OtherDraw(f"draw {draw.key!r}: another training was asked for, not what is there")
    return query


_COMPARED: Final[Mapping[type, Callable[[Any, SyntheticDraw, int, PublishedValues], Any]]] = {
    SumQuery: _sums,
    ChoiceQuery: _choice,
    TrainingQuery: _training,
    ParameterQuery: _parameters,
}
"""How what is stated of a draw is compared with what a fit asks for, by the kind of query."""
