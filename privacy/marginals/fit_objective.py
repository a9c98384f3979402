"""What a model is fitted by: a smooth, strictly convex function of the potentials, and how far a point is from its
minimum.

Points are flat vectors: the potentials theta of the measured cliques one after the other. With mu(theta) the
marginals and c the potentials of a model to stay near,

    F(theta) = total · log Z(theta) - <theta, y> + temperature/2 · <theta - c, variance · (theta - c)>
    gradient = mu(theta) - y + temperature · variance · (theta - c)

is, but for a constant, minus the dual, divided by the temperature, of

    P(p) = sum over measured cells of (mu - y)² / (2 variance) + temperature · total · KL(p || p_c)

over all distributions p. With c = 0, p_c is the uniform distribution.

Filling in, P(p_theta) minus the dual at theta is  sum of gradient² / (2 variance): a bound on how far P is above its
minimum, and on half the squared distance of mu from the optimum's, in noise variances.

Source: Rockafellar 1970, Convex Analysis, section 31 (duality); the loss is McKenna, Sheldon and Miklau 2019, section
3.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from contracts.contract.impossible_cells import Clique
from privacy.arrays import Floats
from privacy.marginals.belief_propagation import BeliefPropagation
from privacy.marginals.domain import CellDomain
from privacy.marginals.errors import NothingPossible
from privacy.marginals.graphical_model import GraphicalModel
from privacy.marginals.junction_tree import junction_tree


class FitObjective:
    """The function F of a set of measurements; it remembers the last point, whose marginals are then cheap.

    Args:
        domain: all columns.
        measured: one measurement a clique: values in the domain's order of columns, and the variance of a cell.
        zeros: impossible cells by clique, in the domain's order of columns.
        total: number of rows, ≥ 0.
    Raises:
        NothingPossible: the structural zeros exclude every row.
    """

    def __init__(
        self,
        domain: CellDomain,
        measured: Mapping[Clique, tuple[Floats, float]],
        zeros: Mapping[Clique, NDArray[np.bool_]],
        total: float,
    ) -> None:
        self.domain = domain
        self.total = total
        self.cliques = tuple(measured)
        bounds = np.cumsum([0, *(values.size for values, _ in measured.values())])
        self.slices = tuple(slice(int(low), int(high)) for low, high in pairwise(bounds))
        self.values = np.concatenate([np.empty(0), *(values.ravel() for values, _ in measured.values())])
        self.variance = np.concatenate([np.empty(0), *(np.full(values.size, v) for values, v in measured.values())])
        self._fixed = {clique: np.where(mask, -np.inf, 0.0) for clique, mask in zeros.items()}
        tree = junction_tree(domain, [*self.cliques, *self._fixed])
        uniform = np.zeros(self.values.size)
        self._propagation = BeliefPropagation(tree, self._factors(uniform))
        self._point = uniform
        # With all potentials 0, Z is 0 only where the structural zeros leave no row possible.
        if zeros and np.isneginf(self._propagation.log_partition):
            raise NothingPossible
        anything = np.ones(self.values.size, dtype=np.bool_)
        # Under the uniform model a cell has probability 0 only where a structural zero forbids it.
        self.possible = self.marginals(uniform) > 0 if zeros and total > 0 else anything
        self._level = self._levelled()
        self._aim = self._level

    def _levelled(self) -> Floats:
        """Return the values, each clique's shifted so that its possible cells sum to the total, as mu's do.

        By Pythagoras that changes P by a constant. It takes a direction out of F along which it has next to no
        curvature.
        """
        level = self.values.copy()
        for part in self.slices:
            possible = self.possible[part]
            values = level[part]
            values[possible] += (self.total - values[possible].sum()) / max(1, int(possible.sum()))
        return level

    def _factors(self, point: Floats) -> dict[Clique, Floats]:
        """Return the potentials at a point, structural zeros included."""
        factors = {
            clique: point[part].reshape(self.domain.sizes(clique))
            for clique, part in zip(self.cliques, self.slices, strict=True)
        }
        for clique, values in self._fixed.items():
            factors[clique] = factors[clique] + values if clique in factors else values
        return factors

    def stay_near(self, center: Floats, temperature: float) -> None:
        """Set c, 0 at first, for a temperature: F's linear part becomes y + temperature · variance · c."""
        self._aim = self._level + temperature * self.variance * center

    def _move(self, point: Floats) -> None:
        if point is not self._point:
            self._propagation.update(self._factors(point))
            self._point = point

    def log_partition(self, point: Floats) -> float:
        """Return log Z."""
        self._move(point)
        return self._propagation.log_partition

    def value(self, point: Floats, temperature: float) -> float:
        """Return F, but for a constant."""
        # F = total log Z(θ) - <θ, aim> + temperature/2 <θ, variance θ>: the dual, whose minimum has the primal's
        # marginals.
        # F = total log Z(θ) - <θ, y + temperature variance c> + temperature / 2 <θ, variance θ>, without <c, variance
        # c>.
        linear = self.total * self.log_partition(point) - float(point @ self._aim)
        return linear + 0.5 * temperature * float(point @ (self.variance * point))

    def rounding(self, point: Floats) -> float:
        """Return how wrong F can be by rounding: it is a small difference of large sums."""
        return 1e-13 * (self.total * abs(self.log_partition(point)) + float(np.abs(point) @ np.abs(self._aim)))

    def marginals(self, point: Floats) -> Floats:
        """Return the expected counts of the measured cliques, flat [rows]."""
        self._move(point)
        parts = [self._propagation.of_factor(clique).ravel() for clique in self.cliques]
        return self.total * np.concatenate([np.empty(0), *parts])

    def gradient(self, point: Floats, marginals: Floats, temperature: float) -> Floats:
        """Return the gradient of F, flat [rows]; 0 where a structural zero makes the cell impossible."""
        # The gradient is the expected counts less the wanted ones: 0 where the model says what was measured.
        slope = marginals - self._aim + temperature * self.variance * point
        return np.where(self.possible, slope, 0.0)

    def gap(self, gradient: Floats) -> float:
        """Return how far P can be above its minimum [noise variances]."""
        return float(np.sum(gradient**2 / (2 * self.variance)))

    def loss(self, marginals: Floats) -> float:
        """Return the first part of P, the misfit [noise variances]."""
        return float(np.sum((marginals - self.values) ** 2 / (2 * self.variance)))

    def model(self, point: Floats) -> GraphicalModel:
        """Return the model at a point."""
        factors = self._factors(point)
        return GraphicalModel(self.domain, tuple(factors), tuple(factors.values()), self.total)

    def starting_point(self, start: GraphicalModel | None) -> Floats:
        """Return the potentials of a model on the measured cliques that it knows, 0 on the others."""
        point = np.zeros(self.values.size)
        known = start.factors if start is not None else {}
        for clique, part in zip(self.cliques, self.slices, strict=True):
            if clique in known:
                # `_factors` adds what is fixed by itself: structural zeros, at minus infinity, and the base.
                fixed = self._fixed.get(clique, np.zeros(known[clique].shape))
                possible = ~np.isneginf(fixed)
                point[part] = np.subtract(known[clique], fixed, where=possible, out=np.zeros(fixed.shape)).ravel()
        return np.where(self.possible, point, 0.0)
