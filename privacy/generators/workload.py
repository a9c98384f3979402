"""Workloads: which marginals matter, and how much."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from itertools import combinations
from math import comb, lcm
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, model_validator

from contracts.contract.impossible_cells import Clique
from privacy.generators.generator import CannotGenerate
from privacy.generators.planning import named
from privacy.marginals.domain import CellDomain

MOST_CLIQUES: Final = 500_000


class WeightedClique(BaseModel):
    """Columns with a weight; a bare list of columns has weight 1.

    Args:
        columns: of the marginal, at least one.
        weight: how much it matters, > 0.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    columns: tuple[str, ...] = Field(min_length=1)
    weight: float = Field(default=1, gt=0, le=1e6, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _from_list(cls, value: Any) -> Any:
        return {"columns": value} if isinstance(value, list | tuple) else value


def weighted(domain: CellDomain, cliques: Iterable[WeightedClique], option: str) -> dict[Clique, Fraction]:
    """Return the weight of each clique; those of a clique that is named more than once are added.

    Raises:
        CannotGenerate: unknown columns, or one named twice in a clique.
    """
    weights: dict[Clique, Fraction] = {}
    for clique in cliques:
        (columns,) = named(domain, [clique.columns], option)
        weights[columns] = weights.get(columns, Fraction(0)) + Fraction(str(clique.weight))
    return weights


def all_of_order(domain: CellDomain, order: int) -> dict[Clique, Fraction]:
    """Return all cliques of so many columns (of all columns, if there are fewer), each of weight 1.

    Raises:
        CannotGenerate: they are too many to be looked at in every round.
    """
    number = comb(len(domain.columns), min(order, len(domain.columns)))
    if number > MOST_CLIQUES:
        raise CannotGenerate(
            f"degree {order} on {len(domain.columns)} columns: {number:,} marginals; "
            f"allowed: at most {MOST_CLIQUES:,}; "
            "do: lower degree, publish fewer columns, or list what matters as workload"
        )
    return {clique: Fraction(1) for clique in combinations(domain.columns, min(order, len(domain.columns)))}


def downward_closure(domain: CellDomain, cliques: Iterable[Clique]) -> tuple[Clique, ...]:
    """Return all non-empty subsets of the cliques, small ones first, then in the domain's order."""
    parts = {part for clique in cliques for size in range(1, 1 + len(clique)) for part in combinations(clique, size)}
    return tuple(sorted(parts, key=lambda part: (len(part), [domain.place(name) for name in part])))


def relevance(weights: Mapping[Clique, Fraction], candidates: Iterable[Clique]) -> dict[Clique, Fraction]:
    """Return w_r = sum over the workload's cliques s of c_s · |r ∩ s|, for each candidate r.

    Source: AIM, McKenna et al. 2022, algorithm 2 line 7.
    """
    unit = lcm(
        *(weight.denominator for weight in set(weights.values()))
    )  # sums of whole numbers are ten times faster
    of_column: dict[str, int] = {}
    for clique, weight in weights.items():
        parts = weight.numerator * (unit // weight.denominator)
        for name in clique:
            of_column[name] = of_column.get(name, 0) + parts
    # The sum over cliques s of c_s |r ∩ s|, taken column by column.
    return {clique: Fraction(sum(of_column.get(name, 0) for name in clique), unit) for clique in candidates}
