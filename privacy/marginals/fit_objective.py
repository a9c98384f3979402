"""The loss of Private-PGM, its gradient, and the bound that certifies how good a point is.

Points are flat vectors: the potentials of the measured cliques one after the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from privacy.marginals.belief_propagation import BeliefPropagation
from privacy.marginals.counts import Clique
from privacy.marginals.domain import Domain
from privacy.marginals.errors import NothingPossible
from privacy.marginals.factor import Array
from privacy.marginals.graphical_model import GraphicalModel
from privacy.marginals.junction_tree import junction_tree


class FitObjective:
    """L(mu) = sum over measured cells of (mu - y)² / (2 variance), mu the marginals of the model at a point.

    Args:
        domain: all columns.
        measured: one measurement a clique: values in the domain's order of columns, and the variance of a cell.
        zeros: impossible cells by clique, in the domain's order of columns.
        total: number of rows, > 0.
    Raises:
        NothingPossible: the structural zeros exclude every row.
    """

    def __init__(
        self,
        domain: Domain,
        measured: Mapping[Clique, tuple[Array, float]],
        zeros: Mapping[Clique, NDArray[np.bool_]],
        total: float,
    ) -> None:
        self.domain = domain
        self.total = total
        self.cliques = tuple(measured)
        bounds = np.cumsum([0, *(values.size for values, _ in measured.values())])
        self._slices = [slice(int(low), int(high)) for low, high in pairwise(bounds)]
        self.values = np.concatenate([np.empty(0), *(values.ravel() for values, _ in measured.values())])
        self.variance = np.concatenate([np.empty(0), *(np.full(values.size, v) for values, v in measured.values())])
        self._zeros = {clique: np.where(mask, -np.inf, 0.0) for clique, mask in zeros.items()}
        self._tree = junction_tree(domain, [*self.cliques, *zeros])
        self._propagation = BeliefPropagation(self._tree, self._factors(np.zeros(self.values.size)))
        if np.isneginf(self._propagation.log_partition):
            raise NothingPossible
        self.possible = self.marginals(np.zeros(self.values.size)) > 0

    def _factors(self, point: Array) -> dict[Clique, Array]:
        """Return the potentials at a point, structural zeros included."""
        factors = {
            clique: point[part].reshape(self.domain.sizes(clique))
            for clique, part in zip(self.cliques, self._slices, strict=True)
        }
        for clique, values in self._zeros.items():
            factors[clique] = factors[clique] + values if clique in factors else values
        return factors

    def marginals(self, point: Array) -> Array:
        """Return the expected counts of the measured cliques at a point, flat [rows]."""
        self._propagation.update(self._factors(point))
        parts = [self._propagation.marginal(clique).ravel() for clique in self.cliques]
        return self.total * np.concatenate([np.empty(0), *parts])

    @property
    def log_partition(self) -> float:
        """Return log Z at the point whose marginals were taken last."""
        return self._propagation.log_partition

    def slope(self, marginals: Array) -> Array:
        """Return the gradient of L, flat [noise variances / row]."""
        return np.asarray((marginals - self.values) / self.variance)

    def loss(self, marginals: Array) -> float:
        """Return L [noise variances]."""
        return self.distance(marginals, self.values)

    def distance(self, one: Array, other: Array) -> float:
        """Return half the squared distance of two flat vectors of counts [noise variances]."""
        return float(np.sum((one - other) ** 2 / (2 * self.variance)))

    def bound(self, slope: Array) -> float:
        """Return a lower bound on L over all distributions: the dual of L at `slope`, in the place of its gradient.

        Formula: total · min over rows of sum_c slope_c  -  <slope, y>  -  <slope, variance · slope> / 2
        """
        lowest = -self.total * self._propagation.log_maximum(self._factors(-slope))
        return lowest - float(slope @ self.values) - 0.5 * float(slope @ (self.variance * slope))

    def model(self, point: Array) -> GraphicalModel:
        """Return the model at a point."""
        factors = self._factors(point)
        return GraphicalModel(self.domain, tuple(factors), tuple(factors.values()), self.total)

    def starting_point(self, start: GraphicalModel | None) -> Array:
        """Return the potentials of a model on the measured cliques that it knows, 0 on the others."""
        point = np.zeros(self.values.size)
        known = start.factors if start is not None else {}
        for clique, part in zip(self.cliques, self._slices, strict=True):
            if clique in known:
                point[part] = np.where(np.isneginf(known[clique]), 0.0, known[clique]).ravel()
        return np.where(self.possible, point, 0.0)
