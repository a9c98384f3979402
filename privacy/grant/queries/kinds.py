"""The table of kinds of queries that a grant draws: ours, and those of packages that say so at their entry points.

Whoever installs a package with a kind lets its code see exact numbers inside a grant; so a kind is found by the entry
point group `sudare.queries` of an installed package, or registered by a call, and never by a name in a spec.
"""

from __future__ import annotations

from dataclasses import is_dataclass
from functools import cache
from typing import Any, Final

from contracts.plug_ins import registered
from privacy.grant.queries.across_sites import SiteShare, SumOverSites
from privacy.grant.queries.cell_sums import CellSumQuery
from privacy.grant.queries.choice import ChoiceQuery
from privacy.grant.queries.keys import KeyCountQuery, KeyQuery
from privacy.grant.queries.marginal import MarginalQuery
from privacy.grant.queries.parameters import ParameterQuery
from privacy.grant.queries.place_counts import PlaceCountQuery
from privacy.grant.queries.quantile_choice import QuantileChoiceQuery
from privacy.grant.queries.query import Query
from privacy.grant.queries.residuals import ResidualQuery
from privacy.grant.queries.sparse_marginal import SparseMarginalQuery
from privacy.grant.queries.sums import SumQuery
from privacy.grant.queries.training import TrainingQuery
from privacy.grant.queries.votes import VoteQuery

GROUP: Final = "sudare.queries"
BUILT_IN: Final[tuple[type[Query[Any]], ...]] = (
    MarginalQuery,
    SparseMarginalQuery,
    ResidualQuery,
    SumQuery,
    CellSumQuery,
    KeyQuery,
    KeyCountQuery,
    ChoiceQuery,
    QuantileChoiceQuery,
    TrainingQuery,
    ParameterQuery,
    PlaceCountQuery,
    VoteQuery,
    SiteShare,
    SumOverSites,
)


@cache
def query_kinds() -> tuple[type[Query[Any]], ...]:
    """Return the kinds that a grant draws.

    Raises:
        TypeError: an installed package brings something that is no kind, or takes the name of another.
    """
    kinds = list(BUILT_IN)
    for point in registered(GROUP):
        kind = point.load()
        if not (isinstance(kind, type) and issubclass(kind, Query) and is_dataclass(kind)):
            raise TypeError(f"{point.value}: a kind of query is a frozen dataclass derived from Query")
        if kind.kind in {each.kind for each in kinds}:
            raise TypeError(f"{point.value}: there is a kind of query {kind.kind!r} already")
        kinds.append(kind)
    return tuple(kinds)
