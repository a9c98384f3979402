"""Triangulation: which tables a model needs, and how much memory they take, before anything is built.

Columns are bits of Python integers. Eliminating a column joins its neighbours; the columns that are together at some
elimination are the cliques of the triangulated graph. Which order is best is NP-hard to find, so several greedy ones
are tried, always the same, and the one with the fewest cells wins. That is done for each block of the graph by
itself (`blocks`), after columns have been eliminated that no order could eliminate at less.

Source: Koller and Friedman 2009, Probabilistic Graphical Models, section 9.4.3 (greedy elimination orders).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from math import prod

from contracts.contract.impossible_cells import Clique
from privacy.marginals.blocks import blocks
from privacy.marginals.domain import CellDomain
from privacy.marginals.errors import ModelTooLarge

BYTES_PER_CELL = 8
MEGABYTE = 2**20
BIASED = 2
LARGE = 40
GOLDEN = 0.6180339887498949
EliminationCost = Callable[[int, int, Sequence[int], "_Cells"], float]


def maximal_cliques(domain: CellDomain, cliques: Iterable[Sequence[str]]) -> tuple[Clique, ...]:
    """Return the maximal cliques of the triangulated graph, which has an edge wherever two columns share a clique.

    Columns in no clique stand alone. The result depends on the set of edges alone and is the same every time.

    Args:
        domain: all columns.
        cliques: what is measured, and the columns of each structural zero.
    Returns:
        Cliques in the domain's order of columns, sorted; each column is in at least one.
    """
    masks = _triangulate(domain.shape, neighbours_of(domain, cliques))
    named = [tuple(name for bit, name in enumerate(domain.columns) if mask >> bit & 1) for mask in masks]
    return tuple(sorted(named, key=lambda clique: [domain.place(name) for name in clique]))


def model_size(domain: CellDomain, cliques: Iterable[Sequence[str]]) -> float:
    """Return the memory of the tables of a model of these cliques [MB of 2²⁰ bytes].

    Formula: sum over the maximal cliques of the triangulation of 8 × cells / 2²⁰
    """
    masks = _triangulate(domain.shape, neighbours_of(domain, cliques))
    cells = _Cells(domain.shape)
    return BYTES_PER_CELL * sum(cells[mask] for mask in masks) / MEGABYTE


def check_size(domain: CellDomain, cliques: Iterable[Sequence[str]], cap_mb: float | None) -> None:
    """Refuse a model above the cap.

    Raises:
        ModelTooLarge: it would need more than `cap_mb`.
    """
    if cap_mb is not None:
        size = model_size(domain, cliques)
        if size > cap_mb:
            raise ModelTooLarge(size, cap_mb)


def neighbours_of(domain: CellDomain, cliques: Iterable[Sequence[str]]) -> tuple[int, ...]:
    """Return, for each column, the bits of the columns that it shares a clique with."""
    around = [0] * len(domain.columns)
    for clique in cliques:
        places = [domain.place(name) for name in clique]
        mask = sum(1 << place for place in set(places))
        for place in places:
            around[place] |= mask & ~(1 << place)
    return tuple(around)


@lru_cache(maxsize=256)
def _triangulate(shape: tuple[int, ...], neighbours: tuple[int, ...]) -> tuple[int, ...]:
    """Return the maximal cliques as bits: those of each block, and each column that has no edge."""
    groups = [1 << column for column, others in enumerate(neighbours) if not others]
    for mask in blocks(neighbours).masks:
        groups += block_cliques(shape, mask, inside(neighbours, mask))
    return tuple(sorted(groups))


def inside(neighbours: Sequence[int], mask: int) -> tuple[int, ...]:
    """Return the neighbours of a block's columns inside it, in the order of the columns."""
    return tuple(neighbours[column] & mask for column in _bits(mask))


def block_cliques(shape: tuple[int, ...], mask: int, around: tuple[int, ...]) -> tuple[int, ...]:
    """Return the maximal cliques of a block, triangulated by itself.

    Args:
        shape: cells of every column of the domain.
        mask: the block's columns.
        around: their neighbours in it, in the order of the columns.
    """
    return (mask,) if mask.bit_count() < 3 else _block(shape, mask, around)[0]


def block_cells(shape: tuple[int, ...], mask: int, around: tuple[int, ...]) -> int:
    """Return the cells of the maximal cliques of a block."""
    return prod(shape[column] for column in _bits(mask)) if mask.bit_count() < 3 else _block(shape, mask, around)[1]


@lru_cache(maxsize=1 << 15)
def _block(shape: tuple[int, ...], mask: int, around: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
    """Eliminate what is free to eliminate first, and the rest in the best of several greedy orders."""
    cells, neighbours = _Cells(shape), [0] * len(shape)
    for column, others in zip(_bits(mask), around, strict=True):
        neighbours[column] = others
    # Columns whose neighbours are all joined go first: eliminating them adds no edge.
    first, left = _simplicial(neighbours, mask)
    found = {_eliminate(neighbours, left, cells, rule, bias) for rule, bias in _rules(shape, left)}
    rest = min(found, key=lambda masks: (sum(cells[one] for one in masks), masks))
    # A clique within one that was found before is no table of its own.
    groups = first + [one for one in rest if not any(one & ~earlier == 0 for earlier in first)]
    return tuple(sorted(groups)), sum(cells[one] for one in groups)


def _simplicial(neighbours: list[int], mask: int) -> tuple[list[int], int]:
    """Eliminate columns whose neighbours are all joined, as long as there are any: no order does better.

    Returns:
        Their cliques, and the columns that are left; `neighbours` then holds those among these alone.
    """
    groups: list[int] = []
    left, waiting = mask, mask
    while waiting:
        column = (waiting & -waiting).bit_length() - 1
        waiting ^= 1 << column
        others = neighbours[column]
        # Two neighbours without an edge between them: eliminating this column would add it.
        if any(others & ~neighbours[one] & ~(1 << one) for one in _bits(others)):
            continue
        group = others | 1 << column
        if not any(group & ~earlier == 0 for earlier in groups):
            groups.append(group)
        left ^= 1 << column
        # Its neighbours have lost a neighbour: they may be free to eliminate now.
        waiting |= others
        neighbours[column] = 0
        for one in _bits(others):
            neighbours[one] ^= 1 << column
    return groups, left


class _Cells(dict[int, int]):
    """Cells of the table over a set of bits, computed once each."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.shape = shape

    def __missing__(self, mask: int) -> int:
        self[mask] = cells = prod(self.shape[bit] for bit in _bits(mask))
        return cells


def _rules(shape: tuple[int, ...], left: int) -> list[tuple[EliminationCost, tuple[float, ...]]]:
    """Return the greedy rules: lightest new edges, fewest new edges, fewest cells, most cells saved; biased ones too.

    A bias multiplies a column's cost by a fixed number between 1/2 and 2, different for each column (a
    low-discrepancy sequence): it breaks ties, and near-ties, another way. Of large graphs only the first rule and the
    third are tried, which are the best on average.
    """
    plain = (1.0,) * len(shape)
    if left.bit_count() > LARGE:
        return [(_light_fill, plain), (_few_cells, plain)]
    rules: list[tuple[EliminationCost, tuple[float, ...]]] = [
        (rule, plain) for rule in (_light_fill, _fill, _few_cells, _saved)
    ]
    for number in range(1, BIASED + 1):
        bias = tuple(2.0 ** (2 * ((number * GOLDEN * (column + 1)) % 1) - 1) for column in range(len(shape)))
        rules.append(((_light_fill, _few_cells)[number % 2], bias))
    return rules


def _light_fill(column: int, others: int, around: Sequence[int], cells: _Cells) -> float:
    """Return the weight of the edges that eliminating the column adds, the product of the ends' cells each."""
    shape, left = cells.shape, others
    weight = 0
    while left:
        low = left & -left
        one = low.bit_length() - 1
        left ^= low
        missing = left & ~around[one]
        while missing:
            other = missing & -missing
            weight += shape[one] * shape[other.bit_length() - 1]
            missing ^= other
    return weight


def _fill(column: int, others: int, around: Sequence[int], cells: _Cells) -> float:
    """Return the number of edges that eliminating the column adds."""
    # A column is not its own neighbour, hence the 1; every missing edge is seen from both ends, hence the 2.
    return sum((others & ~around[one]).bit_count() - 1 for one in _bits(others)) / 2


def _few_cells(column: int, others: int, around: Sequence[int], cells: _Cells) -> float:
    """Return the cells of the clique that eliminating the column makes."""
    return cells[others | 1 << column]


def _saved(column: int, others: int, around: Sequence[int], cells: _Cells) -> float:
    """Return the cells of the clique less those of the edges that the elimination removes."""
    size = cells.shape[column]
    return cells[others | 1 << column] - sum(size * cells.shape[one] for one in _bits(others))


def _eliminate(
    neighbours: Sequence[int], columns: int, cells: _Cells, rule: EliminationCost, bias: Sequence[float]
) -> tuple[int, ...]:
    """Eliminate the cheapest column again and again (the fewest cells, then the lowest number, among equals)."""
    around = list(neighbours)
    left = set(_bits(columns))
    costs: dict[int, tuple[float, int, int]] = {}
    stale = set(left)
    groups: list[int] = []
    while left:
        for column in stale & left:
            others = around[column]
            costs[column] = rule(column, others, around, cells) * bias[column], cells[others | 1 << column], column
        best = min(costs.values())[2]
        del costs[best]
        left.remove(best)
        others = around[best]
        group = others | 1 << best
        if not any(group & ~earlier == 0 for earlier in groups):
            groups.append(group)
        # Only columns near the eliminated one have other neighbours now, and so another cost.
        stale = set()
        for other in _bits(others):
            # Elimination joins all neighbours of the column and takes it out of the graph.
            around[other] = (around[other] | others) & ~(1 << other) & ~(1 << best)
        for other in _bits(others):
            stale.add(other)
            stale.update(_bits(around[other]))
    return tuple(sorted(groups))


def _bits(mask: int) -> list[int]:
    """Return the places of the set bits, lowest first."""
    places = []
    while mask:
        low = mask & -mask
        places.append(low.bit_length() - 1)
        mask ^= low
    return places
