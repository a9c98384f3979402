"""A private graphical model: a product of factors over cliques, times a total. Any marginal can be asked of it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from contracts.contract.impossible_cells import Clique
from privacy.arrays import Floats
from privacy.marginals.belief_propagation import BeliefPropagation
from privacy.marginals.domain import CellDomain
from privacy.marginals.elimination import marginals
from privacy.marginals.junction_tree import JunctionTree, junction_tree


@dataclass(frozen=True, eq=False)
class GraphicalModel:
    """The distribution total × exp(sum of potentials) / Z over a domain.

    Args:
        domain: all columns.
        cliques: distinct, each with its columns in the domain's order.
        potentials: one float64 log-space array a clique, of the clique's shape; minus infinity is a structural zero.
        total: expected number of rows, ≥ 0.
    Raises:
        ValueError: cliques and potentials do not fit together or to the domain, NaN or +infinity, a negative total.
    """

    domain: CellDomain
    cliques: tuple[Clique, ...]
    potentials: tuple[Floats, ...]
    total: float

    def __post_init__(self) -> None:
        if len(self.cliques) != len(self.potentials) or len(set(self.cliques)) != len(self.cliques):
            raise ValueError("give distinct cliques, and one potential a clique")
        if not (np.isfinite(self.total) and self.total >= 0):
            raise ValueError("the total must be finite and at least 0")
        for clique, values in zip(self.cliques, self.potentials, strict=True):
            if self.domain.canonical(clique) != clique or values.shape != self.domain.sizes(clique):
                raise ValueError(f"the potential of {'×'.join(clique)} does not fit the domain")
            if values.dtype != np.float64 or np.isnan(values).any() or np.isposinf(values).any():
                raise ValueError(
                    f"the potential of {'×'.join(clique)} must be float64 below plus infinity, without NaN"
                )

    @cached_property
    def tree(self) -> JunctionTree:
        """The junction tree of the cliques."""
        return junction_tree(self.domain, self.cliques)

    @property
    def factors(self) -> Mapping[Clique, Floats]:
        """The potentials by clique."""
        return dict(zip(self.cliques, self.potentials, strict=True))

    @cached_property
    def _calibrated(self) -> BeliefPropagation:
        return BeliefPropagation(self.tree, self.factors)

    def marginal(self, clique: Sequence[str]) -> Floats:
        """Return the expected counts of any clique, axes in the given order [rows].

        Raises:
            ValueError: an unknown column, or one named twice.
            NothingPossible: the structural zeros exclude everything.
        """
        return self.marginals([clique])[0]

    def marginals(self, cliques: Sequence[Sequence[str]]) -> list[Floats]:
        """Return the expected counts of many cliques; work that they share is done once."""
        known = {tuple(clique): self.domain.canonical(clique) for clique in cliques}
        tables = marginals(self._calibrated, set(known.values()))
        found = []
        for clique in map(tuple, cliques):
            order = known[clique]
            found.append(self.total * tables[order].transpose([order.index(name) for name in clique]))
        return found

    def digest(self) -> str:
        """Return SHA-256 (hex) over domain, cliques, potentials and total, bit by bit."""
        content = hashlib.sha256()
        content.update(repr((self.domain.columns, self.domain.shape, self.cliques, float(self.total).hex())).encode())
        for values in self.potentials:
            content.update(np.ascontiguousarray(values, dtype="<f8").tobytes())
        return content.hexdigest()
