"""Counts, sums and second moments of bounded vectors, group by group, and how far one privacy unit moves them.

Each row is embedded, z with |z| <= R = 2^bits, and shared out among groups, a with sum a_g = A, all in whole numbers
(`embedding`, `groups`). With W = 5 where full second moments are asked for, else 1, and m = A W R^2 (or m = A W R,
A W where no part is of that degree), what is added up over the rows is

    counts      a_g m / A
    sums        a_g m / (A R)      z_i
    diagonal    a_g m / (A R^2)    z_i^2
    full        a_g                5 z_i^2 on the diagonal, 7 z_i z_j above it

Sensitivity
    *Each part of a row's vector has norm at most m.* |a|_2 <= sum a_g = A; |z| <= R; sum z_i^4 <= |z|^4. The matrix
    has norm^2 = 25 sum z_i^4 + 49 sum_{i<j} z_i^2 z_j^2 = 24.5 |z|^4 + 0.5 sum z_i^4 <= 25 |z|^4. (7/5 stands for the
    square root of 2, with which it would be the matrix's own norm; the noise is one per cent wider than with that.)
    So one row that comes or goes moves p parts by at most sqrt(p) m together: 3 m^2 squared for all three.

    *One row that is exchanged.* For rows (a, z), (b, y) the inner product of all counts and sums is
    m^2 / A^2 (a.b) (1 + z.y / R^2) >= 0, since a.b >= 0 and |z.y| <= R^2. That of the diagonals is a positive
    multiple of a.b sum z_i^2 y_i^2, that of the matrices of a.b (24.5 (z.y)^2 + 0.5 sum z_i^2 y_i^2). So, none being
    negative, |v - w|^2 <= |v|^2 + |w|^2 <= 2 p m^2: 6 m^2 for all three. (Part by part it would be 2 + 4 + 2 = 8:
    sums by themselves may turn round. Where they are asked for without counts, they count 4.)

    *k rows of one unit.* They come or go: each part moves by at most k m. They are exchanged for others: inner
    products of any two rows' vectors are not negative, so |sum v - sum w|^2 <= |sum v|^2 + |sum w|^2 <= 2 p k^2 m^2.

These bounds are norms: the change itself may be any whole vector within them. `moves` lists whole numbers whose
squares add up to the bound, and discrete Gaussian noise costs rho = sum moves^2 / (2 sigma^2) for every such change
(docs/derivations.md, section 4).

Source: Park, Foulds, Chaudhuri, Welling 2017 (DP-EM); Dwork, Talwar, Thakurta, Zhang 2014 (second moments).
Deviates in that the noise is on a lattice, and that all groups' statistics are one vector with one bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import sqrt
from typing import Any, Final, Literal

import numpy as np

from contracts.canonical import digest
from contracts.contract.contract import Adjacency
from privacy.accounting.events import DiscreteGaussian, gaussian_sigma_squared
from privacy.arrays import Floats, Unsigned
from privacy.learning.embedding import Embedding
from privacy.learning.lattice import EXACT, LatticePoints, magnitude, sha256, whole_array, whole_number
from privacy.learning.layout import RowLayout
from privacy.marginals.portable import scaled_exponential
from privacy.marginals.sensitivity import GaussianNoise

# --- To which groups a row belongs, and by how much.


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


LARGEST_MOVE: Final = 10**11
"""Events hold no larger ones [lattice units]."""
_CHUNK_BYTES: Final = 1 << 26
_CHUNK_ROWS: Final = 1 << 14


def chunks(
    embedding: Embedding, groups: Groups, codes: Unsigned, layout: RowLayout, *, width: int
) -> Iterator[tuple[Floats, Floats]]:
    """Embed rows and share them out, some at a time: so many that sums stay whole in float64 and in memory.

    Sums over chunks are of 64 bits and wrap around beyond them, at 10^7 rows on the finest lattice at the earliest. A
    refusal would tell that there are so many rows; a sum and noise modulo 2^64 are a function of their own sum.
    """
    # 2^14 rows that add at most 10^11 each sum to less than 2^51: whole numbers in float64.
    rows = max(1, min(_CHUNK_ROWS, _CHUNK_BYTES // (8 * (width + embedding.centre.size))))
    for start in range(0, codes.shape[0], rows):
        some = codes[start : start + rows]
        vectors = embedding.vectors(some, layout)
        yield vectors, groups.weights(some, layout, vectors)


def check_members(embedding: object, groups: object) -> None:
    """Refuse anything but our own frozen values: no code of a caller sees rows."""
    if type(embedding) is not Embedding:
        raise ValueError(f"embedding must be Embedding itself, not {type(embedding).__name__}")
    if type(groups) not in (Everyone, LabelCodes, NearestCentre, NormShells, Responsibilities):
        raise ValueError(f"groups must be one of those in privacy.learning.moments, not {type(groups).__name__}")


def check_move(move: int) -> None:
    """Refuse a lattice so fine that one row's change does not fit into an event."""
    if move > LARGEST_MOVE:
        raise ValueError(f"bits must be fewer: a row may move a sum by at most {LARGEST_MOVE} lattice units")


MomentPart = Literal["counts", "sums", "diagonal", "full"]
PARTS: Final[tuple[MomentPart, ...]] = ("counts", "sums", "diagonal", "full")
_CHOICES: Final = frozenset(
    chosen for size in (1, 2, 3) for chosen in combinations(PARTS, size) if not {"diagonal", "full"} <= set(chosen)
)
ON, ABOVE = 5, 7
"""Weights of a matrix's diagonal and of what is above it."""


@dataclass(frozen=True, eq=False)
class MomentBlocks:
    """Sums over rows, part by part, in natural units; None where a part was not asked for.

    Args:
        counts: weights of the groups, shape (K,) [rows].
        sums: sums of the embedded vectors, shape (K, d).
        squares: sums of their squares (K, d), or of their products (K, d, d), symmetric.
        deviation: standard deviation of the counts' noise [rows]. That of sums is bound times it, that of squares
            bound^2 times it, above a matrix's diagonal 5/7 of that.
    """

    counts: Floats | None = None
    sums: Floats | None = None
    squares: Floats | None = None
    deviation: float = 0.0


@dataclass(frozen=True, eq=False)
class Moments:
    """Counts, sums and second moments of embedded rows, group by group.

    Args:
        embedding: from rows to vectors in a ball.
        groups: how rows are shared out.
        parts: what is added up, in the order of `PARTS`, at most one of "diagonal" and "full".
    Raises:
        ValueError: a part of another form, or units so small that events could not hold them.
    """

    embedding: Embedding
    groups: Groups
    parts: tuple[MomentPart, ...]

    def __post_init__(self) -> None:
        check_members(self.embedding, self.groups)
        if type(self.parts) is not tuple or self.parts not in _CHOICES:
            raise ValueError(f"parts must be some of {', '.join(PARTS)}, in that order, and only one second moment")
        check_move(self.move)

    @property
    def move(self) -> int:
        """How far one row moves each part: m of the module's docstring."""
        # All parts are scaled so that one row moves each by the same m: one noise for all of them then wastes none.
        degree = 2 if {"diagonal", "full"} & set(self.parts) else int("sums" in self.parts)
        return self.groups.weight_total * (ON if "full" in self.parts else 1) << (degree * self.embedding.bits)

    @property
    def length(self) -> int:
        """Numbers in the sum."""
        dimension = self.embedding.dimension
        each = {"counts": 1, "sums": dimension, "diagonal": dimension, "full": dimension * (dimension + 1) // 2}
        return self.groups.count * sum(each[part] for part in self.parts)

    @property
    def public(self) -> dict[str, Any]:
        """What it is made of, as JSON values with digests of the arrays."""
        members = {"embedding": self.embedding.public, "groups": self.groups.public}
        return {"kind": "moments", "parts": list(self.parts), **members}

    @cached_property
    def digest(self) -> str:
        """SHA-256 (hex) of all its public parameters."""
        return digest(self.public)

    def moves(self, adjacency: Adjacency, rows_per_unit: int) -> tuple[int, ...]:
        """Return whole numbers whose squares add up to the largest squared change by one privacy unit."""
        move = rows_per_unit * self.move
        if adjacency == "add_remove":
            return (move,) * len(self.parts)
        # Replacing a row takes one vector away and adds another. With counts a change in one group moves two cells,
        # whose squares add; sums alone may move twice as far in one group.
        alone = "sums" in self.parts and "counts" not in self.parts
        return (move,) * (2 * (len(self.parts) - alone)) + (2 * move,) * alone

    def rebuilt(self) -> Moments:
        """Return a checked copy that shares nothing changeable."""
        return Moments(self.embedding.rebuilt(), self.groups.rebuilt(), self.parts)

    def total(self, codes: Unsigned, layout: RowLayout) -> LatticePoints:
        """Add up over rows, exactly.

        Args:
            codes: shape (rows, code_width).
            layout: how they lie.
        Returns:
            int64, shape (length,): the parts one after the other, each group by group [lattice units].
        Privacy: private; for a grant alone.
        """
        dimension, count = self.embedding.dimension, self.groups.count
        size = {"counts": 1, "sums": dimension, "diagonal": dimension, "full": dimension * dimension}
        exact = {part: np.zeros((count, size[part]), dtype=np.int64) for part in self.parts}
        for vectors, weights in chunks(self.embedding, self.groups, codes, layout, width=2 * dimension + 2 * count):
            for part, added in exact.items():
                added += _part(part, vectors, weights).astype(np.int64)
        return np.concatenate([self._scaled(part, exact[part]) for part in self.parts])

    def blocks(self, values: LatticePoints, *, variance: float = 0.0) -> MomentBlocks:
        """Return (noisy) sums in natural units.

        Args:
            values: shape (length,) [lattice units].
            variance: of the noise of each [lattice units squared].
        Privacy: post-processing where the values are released.
        """
        named: dict[str, Floats] = {}
        unit, dimension, start = float(self.embedding.bound), self.embedding.dimension, 0
        for part in self.parts:
            size = self.groups.count * (dimension * (dimension + 1) // 2 if part == "full" else dimension)
            size = self.groups.count if part == "counts" else size
            block = values[start : start + size].reshape(self.groups.count, -1) / self.move
            start += size
            if part == "counts":
                named["counts"] = block[:, 0]
            elif part == "sums":
                named["sums"] = block * unit
            else:
                squares = block * (unit * unit)
                named["squares"] = _symmetric(squares, dimension) if part == "full" else squares
        return MomentBlocks(**named, deviation=sqrt(variance) / self.move)

    def _scaled(self, part: MomentPart, exact: LatticePoints) -> LatticePoints:
        """Weigh a part's exact sums, and of matrices keep the upper triangle."""
        if part == "full":
            dimension = self.embedding.dimension
            rows, columns = np.triu_indices(dimension)
            upper = exact.reshape(-1, dimension, dimension)[:, rows, columns]
            return (upper * np.where(rows == columns, ON, ABOVE)).reshape(-1)
        degree = {"counts": 0, "sums": 1, "diagonal": 2}[part]
        # m / (A R^degree) is whole: the degree of m is at least that of every part.
        return (exact * (self.move // self.groups.weight_total >> (degree * self.embedding.bits))).reshape(-1)


def sum_event(
    statistic: Moments, noise: GaussianNoise, *, adjacency: Adjacency, rows_per_unit: int
) -> DiscreteGaussian:
    """Return the event of adding noise to a statistic; a `plan` may ask without any data.

    Raises:
        AmountRefused: an amount out of range, such as moves above 10^11.
    """
    moves = statistic.moves(adjacency, rows_per_unit)
    return DiscreteGaussian(gaussian_sigma_squared(noise.rho, moves), moves)


def _part(part: MomentPart, vectors: Floats, weights: Floats) -> Floats:
    """Add up one part over a chunk of rows: whole numbers below 2^53, so exact in any order."""
    if part == "counts":
        return np.asarray(weights.sum(axis=0)[:, None])
    if part == "full":
        # One product a group: Z' diag(a_g) Z, Z the vectors of the chunk's rows that have a share in it.
        shares = [(some, weights[some, group, None]) for group, some in enumerate(weights.T > 0)]
        each = [(share * vectors[some]).T @ vectors[some] for some, share in shares]
        return np.asarray(np.stack(each).reshape(weights.shape[1], -1))
    return np.asarray(weights.T @ (vectors if part == "sums" else vectors * vectors))


def _symmetric(upper: Floats, dimension: int) -> Floats:
    """Fill symmetric matrices from their weighted upper triangles, shape (K, d (d + 1) / 2)."""
    rows, columns = np.triu_indices(dimension)
    full = np.zeros((upper.shape[0], dimension, dimension))
    # Above the diagonal the weight is 7, so that 5/7 of it is in the diagonal's unit.
    full[:, rows, columns] = upper * np.where(rows == columns, 1.0, ON / ABOVE)
    full[:, columns, rows] = full[:, rows, columns]
    return full
