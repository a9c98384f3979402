"""Sums over cells from all noisy marginals that tell of them, with their variances.

A function F of the cells of some columns is taken apart into one part for each set U of these columns. It sums to 0
over each column of U (the analysis of variance over equally weighted cells):

    F = Σ_U f_U,    f_U = Π_{d in U} (I - mean_d) Π_{d not in U} mean_d  F

Noise that is independent from cell to cell gives uncorrelated noise to the parts. A marginal of the columns C ⊇ U
tells the part of U with the variance  variance_C · cells(C \\ U)  a cell. Several are pooled by inverse variances:

    Σ F n  =  Σ_U <f_U, y_U>,    y_U = pooled marginal of U,    v_U = 1 / Σ_C 1 / (variance_C · cells(C \\ U))
    variance  =  Σ_U v_U ||f_U||²

That is the best linear unbiased estimate from all marginals (docs/derivations.md, "Sums from noisy marginals"). A set
U that no marginal holds has no variance: there the model's marginal stands in its place, and is named.

Source: McKenna, Pradhan, Joshi, Machanavajjhala 2023 (ResidualPlanner) for the parts; pooling is Gauss and Markov's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import inf, prod

import numpy as np

from contracts.contract.impossible_cells import Clique
from privacy.arrays import Floats
from privacy.marginals.estimation import Measured, estimate_total
from privacy.marginals.graph import CellDomain

_NOTHING = 1e-12
"""A part whose squared size is below this share of the whole is rounding."""


@dataclass(frozen=True, eq=False)
class PooledMarginal:
    """A marginal from all that tell of it.

    Args:
        values: estimated counts, axes in the domain's order [rows].
        variance: v_U of the noise in one cell [rows²]; infinite where it comes of a model.
    """

    values: Floats
    variance: float


@dataclass(frozen=True)
class EstimatedSum:
    """A sum over cells.

    Args:
        value: the estimate [rows times the unit of F].
        variance: of the noise in it.
        unmeasured: the sets of columns whose parts come of the model.
    """

    value: float
    variance: float
    unmeasured: tuple[Clique, ...] = ()


class Components:
    """What noisy marginals tell of any sum over cells.

    Args:
        domain: columns and cells.
        measured: the noisy marginals.
        total: the number of rows, where it is public; exact.
        model: gives the marginal of columns that were not measured together [rows].
    Raises:
        ValueError: nothing was measured, and no total is public.
    """

    def __init__(
        self,
        domain: CellDomain,
        measured: Sequence[Measured],
        *,
        total: int | None,
        model: Callable[[Clique], Floats],
    ) -> None:
        if not measured and total is None:
            raise ValueError("no marginal was measured")
        self.domain, self._total, self._model = domain, total, model
        self._measured = [(domain.canonical(one.clique), _ordered(domain, one), one.variance) for one in measured]
        self._pooled: dict[Clique, PooledMarginal] = {}
        self.rows = float(total) if total is not None else estimate_total(measured)

    def pooled(self, columns: Clique) -> PooledMarginal:
        """Return the marginal of columns, in the domain's order."""
        if columns not in self._pooled:
            self._pooled[columns] = self._pool(columns)
        return self._pooled[columns]

    def _pool(self, columns: Clique) -> PooledMarginal:
        if not columns and self._total is not None:
            return PooledMarginal(np.array(float(self._total)), 0.0)
        telling = [one for one in self._measured if set(columns) <= set(one[0])]
        if not telling:
            return PooledMarginal(np.asarray(self._model(columns), dtype=np.float64), inf)
        weights, values = 0.0, np.zeros(self.domain.sizes(columns))
        for clique, counts, variance in telling:
            beside = tuple(place for place, name in enumerate(clique) if name not in columns)
            weight = 1.0 / (variance * prod(counts.shape[place] for place in beside))
            weights, values = weights + weight, values + weight * counts.sum(axis=beside)
        return PooledMarginal(values / weights, 1.0 / weights)

    def estimate(self, parts: Parts) -> EstimatedSum:
        """Return the sum of a function over all rows, with the variance of its noise."""
        whole = sum(float((part**2).sum()) for part in parts.of.values())
        value, variance, unmeasured = 0.0, 0.0, []
        for columns, part in parts.of.items():
            pooled, size = self.pooled(columns), float((part**2).sum())
            value += float((part * pooled.values).sum())
            if size <= _NOTHING * whole:
                continue
            if pooled.variance == inf:
                unmeasured.append(columns)
            else:
                variance += pooled.variance * size
        return EstimatedSum(value, variance, tuple(unmeasured))

    def table(self, columns: Clique) -> tuple[Floats, float, tuple[Clique, ...]]:
        """Return the estimated counts of columns, the variance of each, and what of it comes of the model."""
        sizes = dict(zip(columns, self.domain.sizes(columns), strict=True))
        values, variance, unmeasured = np.zeros(tuple(sizes.values())), 0.0, []
        for kept in _subsets(columns):
            pooled = self.pooled(kept)
            mean = 1.0 / prod(size for name, size in sizes.items() if name not in kept)
            shape = [size if name in kept else 1 for name, size in sizes.items()]
            values = values + mean * _centred(pooled.values, range(len(kept))).reshape(shape)
            share = prod(1.0 - 1.0 / size for size in self.domain.sizes(kept))
            if share and pooled.variance == inf:
                unmeasured.append(kept)
            elif share:
                # The indicator of a cell, centred over the columns of U and averaged over the others.
                variance += pooled.variance * share * mean**2
        return values, variance, tuple(unmeasured)


@dataclass(eq=False)
class Parts:
    """A function of cells, as the sum of functions of a few columns each, taken apart.

    Args:
        domain: columns and cells.
        of: f_U, by U in the domain's order.
    """

    domain: CellDomain
    of: dict[Clique, Floats] = field(default_factory=dict)

    def add(self, columns: Clique, function: Floats) -> None:
        """Add a function of some columns, its axes in their order."""
        known = self.domain.canonical(columns)
        function = np.transpose(function, [columns.index(name) for name in known])
        for kept in _subsets(known):
            out = tuple(place for place, name in enumerate(known) if name not in kept)
            part = _centred(function.mean(axis=out) if out else function, range(len(kept)))
            self.of[kept] = self.of[kept] + part if kept in self.of else np.asarray(part)


def _subsets(columns: Clique) -> Iterator[Clique]:
    for size in range(len(columns) + 1):
        yield from combinations(columns, size)


def _centred(values: Floats, axes: Sequence[int]) -> Floats:
    """Take from a table its means along axes, one after the other."""
    for axis in axes:
        values = values - values.mean(axis=axis, keepdims=True)
    return values


def _ordered(domain: CellDomain, one: Measured) -> Floats:
    known = domain.canonical(one.clique)
    return np.transpose(np.asarray(one.values, dtype=np.float64), [one.clique.index(name) for name in known])
