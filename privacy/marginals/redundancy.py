"""An approximate inverse of the fit's second derivative, which makes the search short.

Measured cliques that share columns say the same thing several times: theta(a, b) and theta(a, c) can exchange any
function of a without changing the model. Along such directions F is almost flat, and a search that scales cell by
cell creeps. So each gradient is split. For every set of columns that several cliques share, the parts that are
functions of those columns alone are solved together: for one cell of the shared columns with expected count m the
second derivative is m · 11ᵀ + diag(temperature · variance_c · cells of c that it spans), whose inverse is a rank-one
correction. What is left of each clique, orthogonal to the shared parts, is scaled cell by cell by 1 / (mu +
temperature · variance).

Source: Sherman and Morrison 1950 (rank-one inverse); the split is that of the analysis of variance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from contracts.contract.impossible_cells import Clique
from privacy.arrays import Floats
from privacy.marginals.domain import CellDomain


@dataclass(frozen=True)
class _Member:
    """A clique that contains the shared columns: its number, its other axes, and how many cells those have."""

    number: int
    axes: tuple[int, ...]
    spanned: int


def shared_columns(cliques: Sequence[Clique]) -> list[Clique]:
    """Return the single columns, and the larger sets, that two cliques have in common; smaller sets first."""
    shared: set[Clique] = set()
    for one, other in combinations(cliques, 2):
        common = tuple(name for name in one if name in other)
        shared.update((name,) for name in common)
        if len(common) > 1:
            shared.add(common)
    return sorted(shared, key=lambda columns: (len(columns), columns))


class Redundancy:
    """Which measured cliques share which columns.

    Args:
        domain: all columns.
        cliques: the measured cliques, columns in the domain's order.
        slices: the place of each clique's cells in a flat vector.
    """

    def __init__(self, domain: CellDomain, cliques: Sequence[Clique], slices: Sequence[slice]) -> None:
        self._shapes = [domain.sizes(clique) for clique in cliques]
        self._slices = slices
        self._groups: list[list[_Member]] = []
        self._inner: list[list[tuple[int, ...]]] = [[] for _ in cliques]
        for columns in shared_columns(cliques):
            members = []
            for number, clique in enumerate(cliques):
                if set(columns) <= set(clique):
                    rest = tuple(axis for axis, name in enumerate(clique) if name not in columns)
                    members.append(_Member(number, rest, domain.cells([clique[axis] for axis in rest])))
                    self._inner[number].append(rest)
            self._groups.append(members)

    def scaled(self, marginals: Floats, ridge: Floats) -> Scaling:
        """Return the approximate inverse at a point.

        Args:
            marginals: expected counts of the measured cells, flat.
            ridge: temperature · variance of the measured cells, flat, > 0.
        """
        return Scaling(self, marginals, ridge)


class Scaling:
    """The approximate inverse at one point; call it with a gradient."""

    def __init__(self, redundancy: Redundancy, marginals: Floats, ridge: Floats) -> None:
        self._shapes, self._slices = redundancy._shapes, redundancy._slices
        self._groups, self._inner = redundancy._groups, redundancy._inner
        self._weight = marginals + ridge
        tables = [self._weight[part].reshape(shape) for part, shape in zip(self._slices, self._shapes, strict=True)]
        self._projections = [
            [(axes, table, table.sum(axis=axes, keepdims=True)) for axes in inner]
            for table, inner in zip(tables, self._inner, strict=True)
        ]
        self._shared: list[tuple[Floats, Floats]] = []
        for members in self._groups:
            first = members[0]
            counts = marginals[self._slices[first.number]].reshape(self._shapes[first.number]).sum(axis=first.axes)
            # One variance a clique: its first cell's ridge is that of all.
            own = np.array([ridge[self._slices[member.number].start] * member.spanned for member in members])
            # Sherman-Morrison for m 11ᵀ + diag(own): its inverse is 1/own less a rank-one part with this factor.
            self._shared.append((own, counts / (1.0 + counts * (1.0 / own).sum())))

    def __call__(self, gradient: Floats) -> Floats:
        """Return the approximate inverse times a flat gradient."""
        # Cell by cell first: 1 / (mu + temperature · variance).
        result = gradient / self._weight
        for part, shape, projections in zip(self._slices, self._shapes, self._projections, strict=True):
            if projections:
                table = result[part].reshape(shape)
                for axes, weight, sums in projections:
                    # Take out what is a function of the shared columns alone: that part is solved for all cliques
                    # together, below.
                    table = table - (weight * table).sum(axis=axes, keepdims=True) / sums
                result[part] = table.reshape(-1)
        for members, (own, correction) in zip(self._groups, self._shared, strict=True):
            parts = [
                gradient[self._slices[member.number]].reshape(self._shapes[member.number]).sum(axis=member.axes)
                / scale
                for member, scale in zip(members, own, strict=True)
            ]
            # Cliques that share columns agree on this much of the step: it is shared out by how well each is known.
            common = correction * sum(parts)
            for member, scale, value in zip(members, own, parts, strict=True):
                table = result[self._slices[member.number]].reshape(self._shapes[member.number])
                table += np.expand_dims(value - common / scale, member.axes)
        return result
