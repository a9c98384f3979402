"""Triangulation: which tables a model needs, and how much memory they take, before anything is built.

Columns are bits of Python integers. Eliminating a column joins its neighbours; the columns that are together at some
elimination are the cliques of the triangulated graph. Which order is best is NP-hard to find, so several greedy ones
are tried, always the same, and the one with the fewest cells wins. That is done for each block of the graph by
itself (`blocks`), after columns have been eliminated that no order could eliminate at less.

Source: Koller and Friedman 2009, Probabilistic Graphical Models, section 9.4.3 (greedy elimination orders).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations
from math import prod
from typing import TYPE_CHECKING, Any, Final

from privacy.marginals.blocks import ModelTooLarge, blocks

if TYPE_CHECKING:
    from contracts.contract.contract import Contract
    from contracts.contract.impossible_cells import Clique

# --- The domain of a table.


MOST_COLUMNS: Final = 4096
"""Of a domain that a stranger wrote."""


@dataclass(frozen=True)
class CellDomain:
    """Columns with the number of cells of each; codes of a column run from 0 to its size - 1.

    Args:
        columns: distinct names, in the order of the table.
        shape: cells of each column, each ≥ 1.
    Raises:
        ValueError: a column named twice, a size below 1, or not one size a column.
    """

    columns: Clique
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.columns) != len(self.shape):
            raise ValueError(f"{len(self.columns)} columns with {len(self.shape)} sizes; give one size a column")
        if len(set(self.columns)) != len(self.columns):
            raise ValueError("each column must be named once")
        if any(size < 1 for size in self.shape):
            raise ValueError("each column must have at least one cell")

    @classmethod
    def of(cls, contract: Contract, columns: Sequence[str] | None = None) -> CellDomain:
        """Return the domain that a contract declares, of all its columns or of the given ones."""
        names = tuple(columns) if columns is not None else tuple(column.name for column in contract.columns)
        return cls(names, contract.shape(names))

    @classmethod
    def read(cls, stated: Mapping[str, Any]) -> CellDomain:
        """Read a published domain; written by a stranger, and checked.

        Raises:
            ValueError, KeyError, TypeError: not such a domain, or one of too many columns.
        """
        columns, shape = stated["columns"], stated["shape"]
        if len(columns) > MOST_COLUMNS or not all(isinstance(name, str) for name in columns):
            raise ValueError(f"columns must be at most {MOST_COLUMNS} names")
        if not all(isinstance(size, int) and not isinstance(size, bool) for size in shape):
            raise ValueError("the domain's shape must be whole numbers")
        return cls(tuple(columns), tuple(shape))

    @cached_property
    def _place(self) -> dict[str, int]:
        return {name: place for place, name in enumerate(self.columns)}

    def place(self, column: str) -> int:
        """Return the number of a column.

        Raises:
            ValueError: there is no such column.
        """
        if column not in self._place:
            raise ValueError(f"no column {column!r}; there are {', '.join(self.columns)}")
        return self._place[column]

    def canonical(self, clique: Sequence[str]) -> Clique:
        """Return the clique in the domain's order of columns.

        Raises:
            ValueError: an unknown column, or one named twice.
        """
        places = [self.place(name) for name in clique]
        if len(set(places)) != len(places):
            raise ValueError(f"a column named twice in the clique {'×'.join(clique)}")
        return tuple(self.columns[place] for place in sorted(places))

    def sizes(self, clique: Sequence[str]) -> tuple[int, ...]:
        """Return the number of cells of each column of a clique."""
        return tuple(self.shape[self.place(name)] for name in clique)

    def cells(self, clique: Sequence[str] | None = None) -> int:
        """Return the exact number of cells of a clique's marginal; of the whole domain without one."""
        return prod(self.shape if clique is None else self.sizes(clique))

    def project(self, clique: Sequence[str]) -> CellDomain:
        """Return the domain of some of the columns, in the given order."""
        return CellDomain(tuple(clique), self.sizes(clique))


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


# --- Junction tree.


@dataclass(frozen=True)
class JunctionNode:
    """A clique of the tree.

    Args:
        columns: order of the table's axes, the larger ones last (long inner loops).
        separator: columns shared with the parent, in the order of the axes; empty for a root.
        residual: the other columns, in the order of the axes.
        parent: number of the parent, -1 for the root.
        children: numbers of the children.
        shape: cells along each axis.
    """

    columns: Clique
    separator: Clique
    residual: Clique
    parent: int
    children: tuple[int, ...]
    shape: tuple[int, ...]


@dataclass(frozen=True)
class JunctionTree:
    """A tree of cliques; parts of the graph that share no column are joined by empty separators.

    Args:
        domain: all columns; each is in at least one node.
        nodes: parents before their children; node 0 is the root.
    """

    domain: CellDomain
    nodes: tuple[JunctionNode, ...]

    @property
    def size_mb(self) -> float:
        """Memory of the tables of all nodes [MB of 2²⁰ bytes]."""
        return BYTES_PER_CELL * sum(prod(node.shape) for node in self.nodes) / MEGABYTE

    @cached_property
    def _by_size(self) -> tuple[int, ...]:
        return tuple(sorted(range(len(self.nodes)), key=lambda number: (prod(self.nodes[number].shape), number)))

    def home(self, clique: Sequence[str]) -> int | None:
        """Return the number of the smallest node that contains a clique; None if there is none."""
        wanted = set(clique)
        return next((number for number in self._by_size if wanted <= set(self.nodes[number].columns)), None)

    def home_of(self, clique: Sequence[str]) -> int:
        """Return the number of the smallest node that contains a clique.

        Raises:
            ValueError: there is none.
        """
        number = self.home(clique)
        if number is None:
            raise ValueError(f"no node of the tree contains the clique {'×'.join(clique)}")
        return number


def junction_tree(domain: CellDomain, cliques: Iterable[Sequence[str]]) -> JunctionTree:
    """Build the tree of a set of cliques: triangulate, then join by a maximum-weight spanning tree.

    The weight of an edge is the number of shared columns (then the cells of the separator, then the order), which
    makes a spanning tree a junction tree. The root is the largest clique: no message is taken out of its table.

    Source: Jensen and Jensen 1994, Optimal junction trees.
    """
    groups = maximal_cliques(domain, cliques)
    root = max(range(len(groups)), key=lambda number: (domain.cells(groups[number]), -number))
    order, parent = _spanning_tree(domain, groups, root)
    rank = {group: place for place, group in enumerate(order)}
    children: dict[int, list[int]] = {group: [] for group in order}
    for group in order[1:]:
        children[parent[group]].append(rank[group])
    return JunctionTree(
        domain,
        tuple(_node(domain, groups, group, parent.get(group), rank, tuple(children[group])) for group in order),
    )


def _spanning_tree(domain: CellDomain, groups: Sequence[Clique], root: int) -> tuple[list[int], dict[int, int]]:
    """Return the groups in Prim's order, and each one's parent."""

    def weight(one: int, other: int) -> tuple[int, int, int, int]:
        shared = set(groups[one]) & set(groups[other])
        # Most shared columns first; then the smallest separator, then the order: the same tree every time.
        return len(shared), -domain.cells(sorted(shared)), -one, -other

    order, parent = [root], {}
    nearest = {group: (weight(root, group), root) for group in range(len(groups)) if group != root}
    while nearest:
        # Prim: the heaviest edge between the tree and what is left outside of it.
        group = max(nearest, key=lambda candidate: nearest[candidate][0])
        parent[group] = nearest.pop(group)[1]
        order.append(group)
        for other in nearest:
            nearest[other] = max(nearest[other], (weight(group, other), group))
    return order, parent


def _node(
    domain: CellDomain,
    groups: Sequence[Clique],
    group: int,
    parent: int | None,
    rank: dict[int, int],
    children: tuple[int, ...],
) -> JunctionNode:
    """Lay out a node's axes."""

    def by_size(columns: Iterable[str]) -> Clique:
        return tuple(sorted(columns, key=lambda name: (domain.cells([name]), domain.place(name))))

    shared = set() if parent is None else set(groups[group]) & set(groups[parent])
    columns = by_size(groups[group])
    return JunctionNode(
        columns,
        by_size(shared),
        by_size(set(columns) - shared),
        -1 if parent is None else rank[parent],
        children,
        domain.sizes(columns),
    )


# --- How large a model gets with one more clique.


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
