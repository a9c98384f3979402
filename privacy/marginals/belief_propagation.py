"""Belief propagation on a junction tree: exact marginals of a product of log-space factors.

Towards the root each node becomes the conditional distribution of its residual given its separator, each row of it
relative to the row's largest cell, so that nothing overflows and nothing that matters underflows. Away from the root
the rows are multiplied by the separator's marginal. No message is ever divided by another: minus infinity is safe.

A changed factor makes only the messages between its node and the root stale; the others are kept.

Source: Lauritzen and Spiegelhalter 1988, in its conditional form; Koller and Friedman 2009, section 10.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from privacy.marginals.counts import Clique
from privacy.marginals.errors import NothingPossible
from privacy.marginals.factor import Array, aligned
from privacy.marginals.junction_tree import JunctionTree
from privacy.marginals.table_plan import TablePlan


class BeliefPropagation:
    """The calibrated tree of exp(sum of factors), normalised to 1.

    Args:
        tree: a node must contain each factor's clique.
        factors: log-space arrays by clique, axes in the clique's order; minus infinity forbids a cell.
    Raises:
        ValueError: a clique that no node contains, or an array that does not have the clique's shape.
    """

    def __init__(self, tree: JunctionTree, factors: Mapping[Clique, Array]) -> None:
        self.tree = tree
        self._factors: dict[Clique, Array] = {}
        self._home = {clique: tree.home_of(clique) for clique in factors}
        self._assigned: list[list[Clique]] = [[] for _ in tree.nodes]
        for clique, number in self._home.items():
            self._assigned[number].append(clique)
        self._plans = [
            TablePlan(
                node.columns,
                node.shape,
                [*self._assigned[number], *(tree.nodes[child].separator for child in node.children)],
            )
            for number, node in enumerate(tree.nodes)
        ]
        count = len(tree.nodes)
        self._rows = [np.empty(node.shape) for node in tree.nodes]
        self._sums: list[Array] = [np.empty(0)] * count
        self._message: list[Array | None] = [None] * count
        self._gathered: list[dict[Clique, Array] | None] = [None] * count
        self.update(factors)

    def update(self, factors: Mapping[Clique, Array]) -> None:
        """Replace some factors; messages that do not depend on them are kept."""
        for clique, values in factors.items():
            if values.shape != self.tree.domain.sizes(clique):
                raise ValueError(f"the factor of {'×'.join(clique)} has shape {values.shape}")
            self._factors[clique] = values
            number = self._home[clique]
            while number >= 0 and self._message[number] is not None:
                self._message[number] = None
                number = self.tree.nodes[number].parent
        if factors:
            self._gathered = [None] * len(self.tree.nodes)

    @property
    def log_partition(self) -> float:
        """Log of the sum over the whole domain; minus infinity if nothing is possible."""
        return float(self._upward(0))

    def of_factor(self, clique: Clique) -> Array:
        """Return the probabilities of a factor's clique, axes in its order.

        Raises:
            NothingPossible: the factors forbid every cell.
        """
        return self._downward(self._home[clique])[clique]

    def inside(self, number: int, cliques: Iterable[Clique]) -> dict[Clique, Array]:
        """Return the probabilities of cliques inside one node, axes in each clique's order; shared sums are done
        once.

        Raises:
            NothingPossible: the factors forbid every cell.
        """
        node = self.tree.nodes[number]
        return self._weighted(number, TablePlan(node.columns, node.shape, cliques))

    def _downward(self, number: int) -> dict[Clique, Array]:
        """Return the probabilities of a node's factors and of its children's separators."""
        kept = self._gathered[number]
        if kept is None:
            kept = self._gathered[number] = self._weighted(number, self._plans[number])
        return kept

    def _weighted(self, number: int, plan: TablePlan) -> dict[Clique, Array]:
        """Gather from a node's table times the marginal of its separator."""
        if np.isneginf(self.log_partition):
            raise NothingPossible
        node = self.tree.nodes[number]
        rows = self._rows[number]
        if node.parent < 0:
            return {clique: values / self._sums[number] for clique, values in plan.gather(rows).items()}
        weight = self._downward(node.parent)[node.separator] / self._sums[number]
        return plan.gather(rows * aligned(weight, node.separator, node.columns))

    def _upward(self, number: int) -> Array:
        """Return the message to the parent, and leave the rows, relative to their largest cells, and their sums."""
        kept = self._message[number]
        if kept is not None:
            return kept
        node = self.tree.nodes[number]
        own = [(clique, self._factors[clique]) for clique in self._assigned[number]]
        own += [(self.tree.nodes[child].separator, self._upward(child)) for child in node.children]
        self._plans[number].spread(own, self._rows[number])
        axis = 1 if node.separator_first else 0
        rows, rest = self.tree.domain.cells(node.separator), self.tree.domain.cells(node.residual)
        table = self._rows[number].reshape((rows, rest) if axis else (rest, rows))
        message, sums = exponentiate_rows(table, axis)
        shape = self.tree.domain.sizes(node.separator)
        self._sums[number] = sums.reshape(shape)
        self._message[number] = message = message.reshape(shape)
        return message


def exponentiate_rows(logs: Array, axis: int) -> tuple[Array, Array]:
    """Turn logs into exp(log - the row's largest), in place.

    Args:
        logs: shape (rows, cells) or (cells, rows); rows of minus infinity only become 0.
        axis: the axis of the cells.
    Returns:
        Log of what each row summed to (minus infinity for rows without a possible cell), and the sums of the new
        rows (1 for those); shape (rows,).
    """
    top = logs.max(axis=axis, keepdims=True)
    dead = np.isneginf(top)
    if dead.any():
        top[dead] = 0.0
    np.subtract(logs, top, out=logs)
    np.exp(logs, out=logs)
    sums = logs.sum(axis=axis, keepdims=True)
    sums[dead] = 1.0
    message = np.log(sums) + top
    message[dead] = -np.inf
    return np.asarray(message.squeeze(axis)), np.asarray(sums.squeeze(axis))
