"""Junction tree: the maximal cliques of a triangulated graph, joined so that each column's cliques hang together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

from contracts.contract.impossible_cells import Clique
from privacy.marginals.domain import CellDomain
from privacy.marginals.triangulation import BYTES_PER_CELL, MEGABYTE, maximal_cliques


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
