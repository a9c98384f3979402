"""The distribution of each column given those drawn before it, as whole-number weights, the same everywhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from contracts.contract.impossible_cells import Clique
from privacy.arrays import Floats
from privacy.marginals import factor
from privacy.marginals.errors import NothingPossible
from privacy.marginals.graphical_model import GraphicalModel
from privacy.marginals.portable_math import logarithm, scaled_exponential

HEADROOM_BITS = 62
MOST_BITS = 50
CHUNK_CELLS = 1 << 15


class ConditionalWeights:
    """Weights of each node's residual columns given its separator.

    Args:
        model: the distribution.
        where: column to the code, or codes, that it may have.
    Raises:
        NothingPossible: structural zeros and evidence exclude every row.
        ValueError: an unknown column, or a code that the column does not have.
    """

    def __init__(self, model: GraphicalModel, where: Mapping[str, int | Sequence[int]]) -> None:
        self._domain = model.domain
        self._nodes = model.tree.nodes
        self._assigned: list[list[tuple[Clique, Floats]]] = [[] for _ in self._nodes]
        for clique, values in [*model.factors.items(), *_evidence(model, where)]:
            home = model.tree.home(clique)
            self._assigned[0 if home is None else home].append((clique, values))
        self._weights: list[NDArray[np.int64]] = [np.empty((0, 0), np.int64)] * len(self._nodes)
        messages: dict[int, Floats] = {}
        # Children come after their parents: their messages are factors of the parent's table.
        for number in range(len(self._nodes) - 1, -1, -1):
            messages[number] = self._collect(number, messages)
        if np.isneginf(messages[0]):
            raise NothingPossible

    def of(self, number: int, depth: int) -> NDArray[np.int64]:
        """Return the weights of a node's residual column number `depth`, given the separator and those before it.

        Returns:
            Array of shape (separator cells × cells of the residual columns before, cells of the column).
        """
        node = self._nodes[number]
        sizes = self._domain.sizes(node.residual)
        # Columns drawn before are part of the row; those still to come are summed out.
        before, after = prod(sizes[:depth]), prod(sizes[depth + 1 :])
        table = self._weights[number]
        cells = table.reshape(table.shape[0] * before, sizes[depth], after)
        return np.asarray(cells[:, :, 0] if after == 1 else cells.sum(axis=2))

    def _collect(self, number: int, messages: Mapping[int, Floats]) -> Floats:
        """Compute a node's weights, shape (separator cells, residual cells); return its message to the parent."""
        node = self._nodes[number]
        order = node.separator + node.residual
        factors = list(self._assigned[number])
        factors += [(self._nodes[child].separator, messages[child]) for child in node.children]
        rows, cells = self._domain.cells(node.separator), self._domain.cells(node.residual)
        logs = factor.product(factors, order, self._domain.sizes(order)).reshape(rows, cells)
        self._weights[number], sums = whole_weights(logs)
        return sums.reshape(self._domain.sizes(node.separator))


def whole_weights(logs: Floats) -> tuple[NDArray[np.int64], Floats]:
    """Return weights in whole numbers, row by row, and the logarithm of the sum of each row.

    Args:
        logs: logarithms of the weights, shape (rows, cells); changed.
    """
    cells = logs.shape[1]
    # A row of `cells` weights below 2^bits each sums to less than 2^62: whole numbers never overflow.
    bits = min(MOST_BITS, HEADROOM_BITS - cells.bit_length())
    top = logs.max(axis=1)
    # Each row relative to its largest cell: the likeliest code gets the most bits, whatever the row's own size.
    shift = np.where(np.isneginf(top), 0.0, top)
    logs -= shift[:, None]
    weights = np.empty(logs.shape, dtype=np.int64)
    flat, result = logs.reshape(-1), weights.reshape(-1)
    for low in range(0, flat.size, CHUNK_CELLS):
        some = slice(low, low + CHUNK_CELLS)
        result[some] = scaled_exponential(flat[some], bits)
    # The sums are worked out from the whole-number weights themselves, so that they are the same on every machine.
    return weights, shift + logarithm(weights.sum(axis=1))


def _evidence(model: GraphicalModel, where: Mapping[str, int | Sequence[int]]) -> list[tuple[Clique, Floats]]:
    """Return a factor a column of the evidence: 0 at the allowed codes, minus infinity at the others."""
    factors: list[tuple[Clique, Floats]] = []
    for column, codes in where.items():
        size = model.domain.cells([column])
        allowed = [codes] if isinstance(codes, int | np.integer) else list(codes)
        if not all(0 <= code < size for code in allowed):
            raise ValueError(f"column {column} has the codes 0 to {size - 1}; the evidence names another")
        values = np.full(size, -np.inf)
        values[allowed] = 0.0
        factors.append(((column,), values))
    return factors
