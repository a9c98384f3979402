"""To which groups a row belongs, and by how much: whole weights that are not negative and add up to `whole`.

Each row has weights a_1 .. a_K, sum a_g = A = `whole`. So |a|_2 <= A, and two rows' weights have an inner product
that is not negative: what the joint sensitivity of grouped sums rests on (`moments`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from privacy.arrays import Floats, Unsigned
from privacy.learning.embedding import Embedding
from privacy.learning.lattice import EXACT, LatticePoints, magnitude, sha256, whole_array, whole_number
from privacy.learning.layout import RowLayout
from privacy.marginals.portable_math import scaled_exponential

CENTRE_BITS: Final = 8
"""Centres of a mixture lie on a lattice that is 2^8 times finer than the embedding's."""
FACTOR_BITS: Final = 32
_DEVIATION_BITS: Final = 10
_MOST_DEVIATIONS: Final = 2.0**10
_EXPONENTIAL_BITS: Final = 30
_MOST_WEIGHT_BITS: Final = 12
MOST_GROUPS: Final = 1 << 12


@dataclass(frozen=True)
class Everyone:
    """All rows in one group."""

    count = 1
    weight_total = 1

    @property
    def public(self) -> dict[str, Any]:
        """What it is made of, as JSON values."""
        return {"kind": "everyone"}

    def rebuilt(self) -> Everyone:
        """Return a checked copy."""
        return Everyone()

    def check(self, embedding: Embedding, layout: RowLayout) -> None:
        """Fit any rows."""

    def weights(self, codes: Unsigned, layout: RowLayout, vectors: Floats) -> Floats:
        """Return ones, shape (rows, 1)."""
        return np.ones((vectors.shape[0], 1))


@dataclass(frozen=True)
class LabelCodes:
    """Rows grouped by the cells of one column.

    Args:
        column: whose cells.
        count: how many there are.
    Raises:
        ValueError: a part of another form.
    """

    column: str
    count: int
    weight_total = 1

    def __post_init__(self) -> None:
        if type(self.column) is not str:
            raise ValueError("column must be a name")
        whole_number("count", self.count, 1, MOST_GROUPS)

    @property
    def public(self) -> dict[str, Any]:
        """What it is made of, as JSON values."""
        return {"kind": "labels", "column": self.column, "count": self.count}

    def rebuilt(self) -> LabelCodes:
        """Return a checked copy."""
        return LabelCodes(self.column, self.count)

    def check(self, embedding: Embedding, layout: RowLayout) -> None:
        """Refuse rows whose column has other cells.

        Raises:
            ValueError: no such column, or another number of cells.
        """
        column = layout.column(self.column)
        if column.length != 1 or column.table.shape[0] != self.count:
            raise ValueError(f"column {self.column} must have {self.count} cells, one a row")

    def weights(self, codes: Unsigned, layout: RowLayout, vectors: Floats) -> Floats:
        """Return one-hot weights, shape (rows, count)."""
        return np.eye(self.count)[self.of(codes, layout)]

    def of(self, codes: Unsigned, layout: RowLayout) -> Unsigned:
        """Return each row's cell."""
        return codes[:, layout.code_place(self.column)]


@dataclass(frozen=True, eq=False)
class NearestCentre:
    """Rows grouped by the nearest of some public or released centres; the first of several that are as near.

    Args:
        centres: shape (K, dimension), each at most 2^18 from the origin, entry by entry [the embedding's unit].
    Raises:
        ValueError: a part of another form.
    """

    centres: LatticePoints
    weight_total = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "centres", whole_array("centres", self.centres, (None, None)))
        # These limits keep |c|^2 <= 2^36 · 2^14 = 2^50 and 2 |z.c| < 2^53: distances are compared exactly.
        if magnitude(self.centres) > 1 << 18 or self.count > MOST_GROUPS or self.centres.shape[1] > 1 << 14:
            raise ValueError("centres must be at most 2^12, of at most 2^14 entries, within 2^18 units of the origin")

    @property
    def count(self) -> int:
        """How many groups."""
        return int(self.centres.shape[0])

    @property
    def public(self) -> dict[str, Any]:
        """What it is made of, as JSON values with a digest."""
        return {"kind": "nearest_centre", "centres": sha256(self.centres)}

    def rebuilt(self) -> NearestCentre:
        """Return a checked copy that shares nothing changeable."""
        return NearestCentre(self.centres)

    def check(self, embedding: Embedding, layout: RowLayout) -> None:
        """Refuse an embedding of another dimension.

        Raises:
            ValueError: the dimensions differ.
        """
        _check_dimension(self.centres.shape[1], embedding)

    def weights(self, codes: Unsigned, layout: RowLayout, vectors: Floats) -> Floats:
        """Return one-hot weights, shape (rows, K); |z - c|^2 is least where 2 z.c - |c|^2 is largest."""
        centres = self.centres.astype(np.float64)
        closeness = vectors @ (2 * centres.T) - (centres * centres).sum(axis=1)
        return np.asarray(np.eye(self.count)[np.argmax(closeness, axis=1)])


@dataclass(frozen=True, eq=False)
class NormShells:
    """Rows grouped by how long their vectors are.

    Shell 0 holds the rows with |z|^2 below the first edge, shell k those from edge k - 1 up to below edge k, and the
    last one all from the last edge on.

    Args:
        edges: rising, from 1 to 2^53 - 1, shape (K - 1,) [the embedding's unit, squared].
    Raises:
        ValueError: a part of another form.
    """

    edges: LatticePoints
    weight_total = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "edges", whole_array("edges", self.edges, (None,)))
        within = self.edges[0] >= 1 and self.edges[-1] < EXACT
        if not within or (np.diff(self.edges) <= 0).any() or self.count > MOST_GROUPS:
            raise ValueError("edges must rise, from 1 to below 2^53, and be fewer than 2^12")

    @property
    def count(self) -> int:
        """How many groups."""
        return int(self.edges.size) + 1

    @property
    def public(self) -> dict[str, Any]:
        """What it is made of, as JSON values with a digest."""
        return {"kind": "norm_shells", "edges": sha256(self.edges)}

    def rebuilt(self) -> NormShells:
        """Return a checked copy that shares nothing changeable."""
        return NormShells(self.edges)

    def check(self, embedding: Embedding, layout: RowLayout) -> None:
        """Fit any rows."""

    def weights(self, codes: Unsigned, layout: RowLayout, vectors: Floats) -> Floats:
        """Return one-hot weights, shape (rows, K); squared norms are whole numbers below 2^53, so exact."""
        squares: Floats = np.einsum("ij,ij->i", vectors, vectors)
        return np.asarray(np.eye(self.count)[np.searchsorted(self.edges.astype(np.float64), squares, side="right")])


@dataclass(frozen=True, eq=False)
class Responsibilities:
    """Rows shared out among the Gaussian components of a public or released mixture, by the components' posteriors.

    Component g has the log-weight l_g (its log share and normalising constant), the centre c_g and the factor F_g of
    its precision F_g F_g'. A row's posterior is softmax_g(l_g - |F_g' (z - c_g)|^2 / 2). It is rounded to multiples
    of 1 / A so that the sum stays one: the cumulative sums are rounded to the nearest, and their differences taken.

    Args:
        log_weights: shape (K,) [2^-20].
        centres: shape (K, d) [unit / 2^8].
        factors: shape (K, d, d), or (K, d) where they are diagonal [2^-32 a (unit / 2^8)].
        bits: A = 2^bits, 1 to 12.
        labels: where each component belongs to one cell of a column, that column; a row then is shared out among
            its own cell's components only.
        owners: shape (K,), the cell that each component belongs to; every cell has one. None without labels.
    Raises:
        ValueError: a part of another form; numbers that would not be exact in float64.
    """

    log_weights: LatticePoints
    centres: LatticePoints
    factors: LatticePoints
    bits: int
    labels: LabelCodes | None = None
    owners: LatticePoints | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "centres", whole_array("centres", self.centres, (None, None)))
        count, dimension = self.centres.shape
        object.__setattr__(self, "log_weights", whole_array("log_weights", self.log_weights, (count,)))
        diagonal = isinstance(self.factors, np.ndarray) and self.factors.ndim == 2
        shape = (count, dimension) if diagonal else (count, dimension, dimension)
        object.__setattr__(self, "factors", whole_array("factors", self.factors, shape))
        whole_number("bits", self.bits, 1, _MOST_WEIGHT_BITS)
        if count > MOST_GROUPS or magnitude(self.log_weights) > 1 << 40 or magnitude(self.centres) > 1 << 26:
            raise ValueError("a mixture must have at most 2^12 components, near the origin, with finite weights")
        # |z - c| < 2^27 in units of 2^-8, entry by entry: products with a factor must sum to below 2^52.
        columns = np.abs(self.factors.astype(np.float64)).reshape(count, -1, dimension).sum(axis=1)
        if columns.max() * 2.0**27 >= EXACT / 2 or dimension > 1 << 12:
            raise ValueError("factors must have smaller entries, or fewer: products with them would not be exact")
        self._check_owners(count)

    def _check_owners(self, count: int) -> None:
        if (self.labels is None) != (self.owners is None):
            raise ValueError("labels and owners go together")
        if self.labels is not None:
            if type(self.labels) is not LabelCodes:
                raise ValueError("labels must be Labels itself")
            owners = whole_array("owners", self.owners, (count,))
            object.__setattr__(self, "owners", owners)
            # A cell without a component would leave its rows no weights, which then could not add up to A.
            if set(owners.tolist()) != set(range(self.labels.count)):
                raise ValueError("owners must be cells of the labels' column, and every cell must have a component")

    @property
    def count(self) -> int:
        """How many groups."""
        return int(self.centres.shape[0])

    @property
    def weight_total(self) -> int:
        """What a row's weights add up to."""
        return 1 << self.bits

    @property
    def public(self) -> dict[str, Any]:
        """What it is made of, as JSON values with digests."""
        return {
            "kind": "responsibilities",
            **{name: sha256(getattr(self, name)) for name in ("log_weights", "centres", "factors")},
            "bits": self.bits,
            "labels": None if self.labels is None else self.labels.public,
            "owners": None if self.owners is None else sha256(self.owners),
        }

    def rebuilt(self) -> Responsibilities:
        """Return a checked copy that shares nothing changeable."""
        labels = self.labels.rebuilt() if type(self.labels) is LabelCodes else self.labels
        return Responsibilities(self.log_weights, self.centres, self.factors, self.bits, labels, self.owners)

    def check(self, embedding: Embedding, layout: RowLayout) -> None:
        """Refuse an embedding of another dimension, and rows whose labels have other cells.

        Raises:
            ValueError: they do not fit.
        """
        _check_dimension(self.centres.shape[1], embedding)
        if self.labels is not None:
            self.labels.check(embedding, layout)

    def weights(self, codes: Unsigned, layout: RowLayout, vectors: Floats) -> Floats:
        """Return posteriors in units of 1 / A, shape (rows, K); each row adds up to A."""
        # exp(-inf) = 0: a row has no share in the components of other cells.
        logs = np.full((vectors.shape[0], self.count), -np.inf)
        cells = None if self.labels is None else self.labels.of(codes, layout)
        for group in range(self.count):
            own = slice(None) if cells is None or self.owners is None else cells == self.owners[group]
            logs[own, group] = self._log_posterior(group, vectors[own])
        # Relative to the likeliest component, so that the exponential neither overflows nor loses it.
        logs -= logs.max(axis=1, keepdims=True)
        cumulative = np.cumsum(scaled_exponential(logs, _EXPONENTIAL_BITS), axis=1)
        total = cumulative[:, -1:]
        # Rounded ends of the cumulative sums: their differences add up to A exactly, whatever each of them rounds to.
        rounded = (2 * self.weight_total * cumulative + total) // (2 * total)
        return np.diff(rounded, axis=1, prepend=0).astype(np.float64)

    def _log_posterior(self, group: int, vectors: Floats) -> Floats:
        """Return l_g - |F' (z - c)|^2 / 2: deviations in units of 2^-10, at most 2^10 of them either way."""
        away = vectors * 2.0**CENTRE_BITS - self.centres[group]
        factor = self.factors[group].astype(np.float64)
        deviations = away * factor if factor.ndim == 1 else away @ factor
        reach = _MOST_DEVIATIONS * 2.0**_DEVIATION_BITS
        # Deviations on a lattice and cut at 2^10: the squares add up in whole numbers below 2^53, in any order.
        steps = np.clip(np.rint(deviations * 2.0 ** (_DEVIATION_BITS - FACTOR_BITS)), -reach, reach)
        squared: Floats = np.einsum("ij,ij->i", steps, steps)
        return float(self.log_weights[group]) * 2.0**-20 - squared * 2.0 ** (-2 * _DEVIATION_BITS - 1)


Groups = Everyone | LabelCodes | NearestCentre | NormShells | Responsibilities


def _check_dimension(dimension: int, embedding: Embedding) -> None:
    if dimension != embedding.dimension:
        raise ValueError(f"groups of {dimension} dimensions, vectors of {embedding.dimension}")
