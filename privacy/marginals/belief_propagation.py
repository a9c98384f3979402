"""Belief propagation on a junction tree: exact marginals of a product of log-space factors.

Towards the root each node is turned into the conditional distribution of its residual given its separator, taken row
by row relative to the row's largest cell, so nothing overflows and nothing that matters underflows. Away from the
root the conditional is multiplied by the separator's marginal. No message is ever divided by another: minus infinity
is safe.

A changed factor makes only the messages between its node and the root stale; the others are kept.

Source: Lauritzen and Spiegelhalter 1988 (conditional form); Koller and Friedman 2009, section 10.2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from privacy.marginals import factor
from privacy.marginals.counts import Clique
from privacy.marginals.errors import NothingPossible
from privacy.marginals.factor import Array
from privacy.marginals.junction_tree import JunctionTree


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
        self._assigned: list[list[Clique]] = [[] for _ in tree.nodes]
        self._conditional = [np.empty(node.shape) for node in tree.nodes]
        self._belief: list[Array | None] = [None] * len(tree.nodes)
        self._message: list[Array | None] = [None] * len(tree.nodes)
        self._fresh_belief = [False] * len(tree.nodes)
        for clique in factors:
            home = tree.home(clique)
            if home is None:
                raise ValueError(f"no node of the tree contains the clique {'×'.join(clique)}")
            self._assigned[home].append(clique)
        self._home = {clique: number for number, names in enumerate(self._assigned) for clique in names}
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
            self._fresh_belief = [False] * len(self.tree.nodes)

    @property
    def log_partition(self) -> float:
        """Log of the sum over the whole domain; minus infinity if nothing is possible."""
        return float(self._upward(0))

    def log_maximum(self, factors: Mapping[Clique, Array]) -> float:
        """Return the largest value of a sum of other factors over the whole domain; nothing kept changes."""
        messages: dict[int, Array] = {}
        for number in range(len(self.tree.nodes) - 1, -1, -1):
            node = self.tree.nodes[number]
            own = [(clique, factors[clique]) for clique in self._assigned[number] if clique in factors]
            own += [(self.tree.nodes[child].separator, messages.pop(child)) for child in node.children]
            table = factor.product(own, node.columns, node.shape)
            flat = table.reshape(self._rows_and_residual(number))
            messages[number] = flat.max(axis=1 if node.separator_first else 0).reshape(self._separator_shape(number))
        return float(messages[0])

    def belief(self, number: int) -> Array:
        """Return the probabilities of a node's cells, axes as the node's columns; overwritten by the next update.

        Raises:
            NothingPossible: the factors forbid every cell.
        """
        if self._fresh_belief[number]:
            return self._buffer(number)
        node = self.tree.nodes[number]
        if np.isneginf(self.log_partition):
            raise NothingPossible
        belief = self._buffer(number)
        separator = self.separator(number)
        np.multiply(self._conditional[number], factor.aligned(separator, node.separator, node.columns), out=belief)
        self._fresh_belief[number] = True
        return belief

    def separator(self, number: int) -> Array:
        """Return the probabilities of a node's separator; of nothing (1) for the root."""
        node = self.tree.nodes[number]
        if node.parent < 0:
            return np.ones(())
        return factor.marginal(self.belief(node.parent), self.tree.nodes[node.parent].columns, node.separator)

    def marginal(self, clique: Sequence[str]) -> Array:
        """Return the probabilities of a clique that some node contains, axes in the clique's order.

        Raises:
            ValueError: no node contains it.
        """
        number = self.tree.home(clique)
        if number is None:
            raise ValueError(f"no node of the tree contains the clique {'×'.join(clique)}")
        return factor.marginal(self.belief(number), self.tree.nodes[number].columns, clique)

    def _buffer(self, number: int) -> Array:
        buffer = self._belief[number]
        if buffer is None:
            buffer = self._belief[number] = np.empty(self.tree.nodes[number].shape)
        return buffer

    def _separator_shape(self, number: int) -> tuple[int, ...]:
        return self.tree.domain.sizes(self.tree.nodes[number].separator)

    def _rows_and_residual(self, number: int) -> tuple[int, int]:
        """Return the table's shape as a matrix, the separator along one axis and the residual along the other."""
        node = self.tree.nodes[number]
        rows, rest = self.tree.domain.cells(node.separator), self.tree.domain.cells(node.residual)
        return (rows, rest) if node.separator_first else (rest, rows)

    def _upward(self, number: int) -> Array:
        """Return the message to the parent, and leave the conditional in the node's table."""
        kept = self._message[number]
        if kept is not None:
            return kept
        node = self.tree.nodes[number]
        own = [(clique, self._factors[clique]) for clique in self._assigned[number]]
        own += [(self.tree.nodes[child].separator, self._upward(child)) for child in node.children]
        table = self._conditional[number]
        table[...] = 0.0
        for clique, values in own:
            table += factor.aligned(values, clique, node.columns)
        message = normalise_rows(
            table.reshape(self._rows_and_residual(number)), axis=1 if node.separator_first else 0
        )
        self._message[number] = message.reshape(self._separator_shape(number))
        return self._message[number]  # type: ignore[return-value]


def normalise_rows(logs: Array, axis: int) -> Array:
    """Turn logs into probabilities along `axis`, in place; return the log of what each row summed to.

    Args:
        logs: shape (rows, cells) or (cells, rows); rows of minus infinity only become 0.
        axis: the axis of the cells.
    Returns:
        Array: shape (rows,), minus infinity for rows without a possible cell.
    """
    top = logs.max(axis=axis, keepdims=True)
    dead = np.isneginf(top)
    if dead.any():
        top[dead] = 0.0
    np.subtract(logs, top, out=logs)
    np.exp(logs, out=logs)
    sums = logs.sum(axis=axis, keepdims=True)
    sums[dead] = 1.0
    logs /= sums
    message = np.log(sums) + top
    message[dead] = -np.inf
    return np.asarray(message.squeeze(axis))
