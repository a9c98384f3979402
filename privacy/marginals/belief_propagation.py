"""Belief propagation on a junction tree: exact marginals of a product of log-space factors.

Towards the root each node sums its table for every cell of its separator; each such row is taken relative to (about)
its largest cell, so that nothing overflows and nothing that matters underflows. Away from the root the rows are
weighted by the separator's marginal over those sums. No message is ever divided by another: minus infinity is safe.
Tables of nodes are made block by block and not kept.

A changed factor makes only the messages between its node and the root stale; the others are kept.

Source: Lauritzen and Spiegelhalter 1988, in its conditional form; Koller and Friedman 2009, section 10.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from contracts.contract.impossible_cells import Clique
from privacy.arrays import Floats
from privacy.marginals.errors import NothingPossible
from privacy.marginals.junction_tree import JunctionTree
from privacy.marginals.table_plan import ContractionTree

SMALLEST = 1e-200
LARGEST = 1e200


class BeliefPropagation:
    """The calibrated tree of exp(sum of factors), normalised to 1.

    Args:
        tree: a node must contain each factor's clique.
        factors: log-space arrays by clique, axes in the clique's order; minus infinity forbids a cell.
    Raises:
        ValueError: a clique that no node contains, or an array that does not have the clique's shape.
    """

    def __init__(self, tree: JunctionTree, factors: Mapping[Clique, Floats]) -> None:
        self.tree = tree
        self._factors: dict[Clique, Floats] = {}
        self._home = {clique: tree.home_of(clique) for clique in factors}
        self._assigned: list[list[Clique]] = [[] for _ in tree.nodes]
        for clique, number in self._home.items():
            self._assigned[number].append(clique)
        self._plans = [ContractionTree(node.columns, node.shape) for node in tree.nodes]
        count = len(tree.nodes)
        self._shift: list[Floats | None] = [None] * count
        self._dead: list[NDArray[np.bool_]] = [np.empty(0, dtype=np.bool_)] * count
        self._sums: list[Floats] = [np.empty(0)] * count
        self._message: list[Floats | None] = [None] * count
        self._gathered: list[dict[Clique, Floats] | None] = [None] * count
        self.update(factors)

    def update(self, factors: Mapping[Clique, Floats]) -> None:
        """Replace some factors; messages that do not depend on them are kept."""
        for clique, values in factors.items():
            if values.shape != self.tree.domain.sizes(clique):
                raise ValueError(f"the factor of {'×'.join(clique)} has shape {values.shape}")
            number = self._home[clique]
            before = self._factors.get(clique)
            # Another set of impossible cells: rows that were dead may live now, so that every shift is found anew.
            if before is None or (np.isneginf(before) != np.isneginf(values)).any():
                self._shift = [None] * len(self.tree.nodes)
            self._factors[clique] = values
            # Only the messages on the way to the root depend on this factor; above one that is stale already all are.
            while number >= 0 and self._message[number] is not None:
                self._message[number] = None
                number = self.tree.nodes[number].parent
        if factors:
            self._gathered = [None] * len(self.tree.nodes)

    @property
    def log_partition(self) -> float:
        """Log of the sum over the whole domain; minus infinity if nothing is possible."""
        return float(self._upward(0))

    def of_factor(self, clique: Clique) -> Floats:
        """Return the probabilities of a factor's clique, axes in its order.

        Raises:
            NothingPossible: the factors forbid every cell.
        """
        return self._downward(self._home[clique])[clique]

    def inside(self, number: int, cliques: Iterable[Clique]) -> dict[Clique, Floats]:
        """Return the probabilities of cliques inside one node, axes in each clique's order; shared sums are done
        once.

        Raises:
            NothingPossible: the factors forbid every cell.
        """
        return self._weighted(number, cliques)

    def _downward(self, number: int) -> dict[Clique, Floats]:
        """Return the probabilities of a node's factors and of its children's separators."""
        kept = self._gathered[number]
        if kept is None:
            kept = self._gathered[number] = self._weighted(number, self._needed(number))
        return kept

    def _needed(self, number: int) -> list[Clique]:
        nodes = self.tree.nodes
        return [*self._assigned[number], *(nodes[child].separator for child in nodes[number].children)]

    def _inputs(self, number: int) -> list[tuple[Clique, Floats]]:
        """Return a node's factors and the messages from its children."""
        nodes = self.tree.nodes
        own = [(clique, self._factors[clique]) for clique in self._assigned[number]]
        return own + [(nodes[child].separator, self._upward(child)) for child in nodes[number].children]

    def _weighted(self, number: int, cliques: Iterable[Clique]) -> dict[Clique, Floats]:
        """Sum a node's table times the marginal of its separator onto cliques."""
        if np.isneginf(self.log_partition):
            raise NothingPossible
        node = self.tree.nodes[number]
        # The root has no separator: the weight of its only row is 1.
        above = self._downward(node.parent)[node.separator] if node.parent >= 0 else np.ones(())
        # P(node) = P(node | separator) P(separator): the row over its sum, times the marginal from above. A row that
        # sums to 0 is impossible, and so is its separator's cell.
        weight = np.divide(above, self._sums[number], out=np.zeros_like(above), where=self._sums[number] > 0)
        factors = [*self._inputs(number), (node.separator, -self._shifted(number))]
        return self._plans[number].sums(factors, cliques, (node.separator, weight))

    def _shifted(self, number: int) -> Floats:
        shift = self._shift[number]
        return np.zeros(self.tree.domain.sizes(self.tree.nodes[number].separator)) if shift is None else shift

    def _upward(self, number: int) -> Floats:
        """Return the message to the parent: for each cell of the separator, the log of the sum of the node's row.

        Rows are taken relative to where their largest cell was before, or to 0 at first; if one is too far from that
        for floats, to where the largest cells are now.
        """
        kept = self._message[number]
        if kept is not None:
            return kept
        node, plan, inputs = self.tree.nodes[number], self._plans[number], self._inputs(number)
        if self._shift[number] is None:
            self._dead[number] = np.zeros(self.tree.domain.sizes(node.separator), dtype=np.bool_)
        sums = self._row_sums(number, inputs)
        # Sums this far from 1 have lost, or will lose, what matters: the shift moves to the rows' own largest cells.
        # Dead rows, all cells impossible, stay at 0 whatever the shift.
        if not (((sums > SMALLEST) & (sums < LARGEST)) | self._dead[number]).all():
            top = plan.largest(inputs, node.separator)
            self._dead[number] = np.isneginf(top)
            self._shift[number] = np.where(self._dead[number], 0.0, top)
            sums = self._row_sums(number, inputs)
        # The log of 0 is minus infinity: an impossible cell stays impossible further up.
        with np.errstate(divide="ignore"):
            message = np.log(sums) + self._shifted(number)
        self._sums[number] = sums
        self._message[number] = message
        return message

    def _row_sums(self, number: int, inputs: list[tuple[Clique, Floats]]) -> Floats:
        """Return the sums of a node's rows; at the root everything else that is needed comes with them."""
        node = self.tree.nodes[number]
        factors = [*inputs, (node.separator, -self._shifted(number))]
        asked = [node.separator] if node.parent >= 0 else [node.separator, *self._needed(number)]
        found = self._plans[number].sums(factors, asked)
        sums = found[node.separator]
        # At the root everything that is asked for is a sum of the same table: one pass gives them all.
        if node.parent < 0 and SMALLEST < sums < LARGEST:
            self._gathered[number] = {clique: values / sums for clique, values in found.items()}
        return sums
