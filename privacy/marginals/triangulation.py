"""Triangulation: which tables a model needs, and how much memory they take, before anything is built.

Columns are bits of Python integers. Eliminating a column joins its neighbours; the columns that are together at some
elimination are the cliques of the triangulated graph. Which order is best is NP-hard to find, so several greedy ones
are tried, always the same, and the one with the fewest cells wins.

Source: Koller and Friedman 2009, Probabilistic Graphical Models, section 9.4.3 (greedy elimination orders).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from math import prod

from privacy.marginals.counts import Clique
from privacy.marginals.domain import Domain
from privacy.marginals.errors import ModelTooLarge

BYTES_PER_CELL = 8
MEGABYTE = 2**20
Cost = Callable[[int, int, list[int]], float]


def maximal_cliques(domain: Domain, cliques: Iterable[Sequence[str]]) -> tuple[Clique, ...]:
    """Return the maximal cliques of the triangulated graph, which has an edge wherever two columns share a clique.

    Columns in no clique stand alone. The result depends on the set of edges alone and is the same every time.

    Args:
        domain: all columns.
        cliques: what is measured, and the columns of each structural zero.
    Returns:
        Cliques in the domain's order of columns, sorted; each column is in at least one.
    """
    masks = _triangulate(domain.shape, _neighbours(domain, cliques))
    named = [tuple(name for bit, name in enumerate(domain.columns) if mask >> bit & 1) for mask in masks]
    return tuple(sorted(named, key=lambda clique: [domain.place(name) for name in clique]))


def model_size(domain: Domain, cliques: Iterable[Sequence[str]]) -> float:
    """Return the memory of the tables of a model of these cliques [MB of 2²⁰ bytes].

    Formula: sum over the maximal cliques of the triangulation of 8 × cells / 2²⁰
    """
    masks = _triangulate(domain.shape, _neighbours(domain, cliques))
    return BYTES_PER_CELL * sum(_cells(domain.shape, mask) for mask in masks) / MEGABYTE


def check_size(domain: Domain, cliques: Iterable[Sequence[str]], cap_mb: float | None) -> None:
    """Refuse a model above the cap.

    Raises:
        ModelTooLarge: it would need more than `cap_mb`.
    """
    if cap_mb is not None:
        size = model_size(domain, cliques)
        if size > cap_mb:
            raise ModelTooLarge(size, cap_mb)


def _neighbours(domain: Domain, cliques: Iterable[Sequence[str]]) -> tuple[int, ...]:
    """Return, for each column, the bits of the columns that it shares a clique with."""
    around = [0] * len(domain.columns)
    for clique in cliques:
        places = [domain.place(name) for name in clique]
        mask = sum(1 << place for place in set(places))
        for place in places:
            around[place] |= mask & ~(1 << place)
    return tuple(around)


@lru_cache(maxsize=4096)
def _triangulate(shape: tuple[int, ...], neighbours: tuple[int, ...]) -> tuple[int, ...]:
    """Return the maximal cliques of the best greedy elimination as bits."""
    tried = [_eliminate(shape, neighbours, cost) for cost in _costs(shape)]
    return min(tried, key=lambda masks: (sum(_cells(shape, mask) for mask in masks), masks))


def _costs(shape: tuple[int, ...]) -> list[Cost]:
    """Return the greedy rules: fewest new edges, lightest new edges, fewest cells, most cells saved."""

    def fill(column: int, group: int, around: list[int]) -> float:
        return sum(((group & ~around[other]).bit_count() - 1) for other in _bits(group & ~(1 << column))) / 2

    def weighted_fill(column: int, group: int, around: list[int]) -> float:
        others = group & ~(1 << column)
        return sum(
            shape[one] * shape[other]
            for one in _bits(others)
            for other in _bits(others & ~around[one] & ~((2 << one) - 1))
        )

    def cells(column: int, group: int, around: list[int]) -> float:
        return float(_cells(shape, group))

    def growth(column: int, group: int, around: list[int]) -> float:
        others = group & ~(1 << column)
        return _cells(shape, group) - sum(shape[column] * shape[one] for one in _bits(others))

    return [fill, weighted_fill, cells, growth]


def _eliminate(shape: tuple[int, ...], neighbours: tuple[int, ...], cost: Cost) -> tuple[int, ...]:
    """Eliminate the cheapest column again and again (the fewest cells, then the lowest number, among equals)."""
    around = list(neighbours)
    left = (1 << len(shape)) - 1
    groups: list[int] = []
    while left:
        best = min(
            _bits(left),
            key=lambda column: (
                cost(column, around[column] | 1 << column, around),
                _cells(shape, around[column] | 1 << column),
                column,
            ),
        )
        group = around[best] | 1 << best
        if not any(group & ~earlier == 0 for earlier in groups):
            groups.append(group)
        left &= ~(1 << best)
        for other in _bits(around[best]):
            around[other] = (around[other] | group) & left & ~(1 << other)
    return tuple(sorted(groups))


def _bits(mask: int) -> list[int]:
    """Return the places of the set bits, lowest first."""
    places = []
    while mask:
        low = mask & -mask
        places.append(low.bit_length() - 1)
        mask ^= low
    return places


def _cells(shape: tuple[int, ...], mask: int) -> int:
    return prod(shape[bit] for bit in _bits(mask))
