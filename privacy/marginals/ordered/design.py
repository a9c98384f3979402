"""The most precise measurement of tables that ask ranges, and a bound that shows how near it is to the best.

Where (one letter each), besides those of `range_workload`
    X   of a residual A: Gram matrix of what is measured on the resolved cells, in the scale of counts, for noise of
        variance one; a combination w of ranges then has the variance  w X⁻¹ wᵀ  from A
    v   one number for each cell of all ordered columns, >= 0, that add up to one; on resolved columns its sums
    K   (V^½ G V^½)^½ with V = diag(v)

Minimise  Σ_A p tr(G X⁻¹)  where  Σ_A p f X(o, o) ≤ 1  for every cell o of the ordered columns. Then for every v

    Σ_A p tr(G X⁻¹)  ≥  h²,      h(v) = Σ_A p √f tr K,

since Σ_o v(o) Σ_A p f X(o, o) ≤ 1, and  p tr(G X⁻¹) + τ p f tr(V X)  is least at  X = V^-½ K V^-½ / √(τ f). Scaled to
keep the limit, these X cost  h max_o e(o)  with  e(o) = Σ_A p √f (V^-½ K V^-½)(o, o),  and  Σ v e = h.  So the plan
of v is within  max e / h  of the least. h is concave, its slope is e / 2, and the search multiplies v by (e / h)².

The largest weighted variance is the sum for some weights λ of the single variances, that add up to one. Then h is
concave in both, and the search multiplies λ too, by (V / h)², with V the weighted variance of the present plan. What
is reached is within  (max e / h) (max V / h)  of the least.

Under replace_one f is only a guide, and the bound another one. Two rows that are drawn by v, in plain cells that are
drawn evenly, differ on average by 2 Σ_A p tr(X V), less 2 vᵀ X v for no plain column; and a row differs from none by
Σ_A p tr(X V). The sum of a part a of the first and 1 - a of the second is at most one too. So h² holds with f = 1 and
(1 + a) V in the place of V, for no plain column less 2 a v vᵀ. The largest of these for several a is stated: a bound
for all plans that count a row for none as a change, as ours do. As two rows are farther apart than one is from none,
the number of rows is then measured more precisely, until both are alike.

Every v and λ give a plan that may be used and a bound that holds. The search uses a library's eigenvalues, whose last
bits differ between machines, and keeps the eight leading bits of each number that it finds. Everything after that is
the same on every machine (`portable_matrices`).
Source: the Gaussian matrix mechanism as a convex problem: Yuan, Yang, Zhang, Hao 2016; fixed point for one matrix:
Denisov, McMahan, Rush, Smith, Thakurta 2022. Blocks by residuals of the other columns, and the bound for them, are
derived here: a symmetric optimum exists, since permuting the cells of a plain column changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import prod, sqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray

from contracts.contract.contract import Adjacency
from contracts.contract.impossible_cells import Clique
from privacy.arrays import Floats
from privacy.marginals.blocks import TooManyRanges
from privacy.marginals.ordered.portable_matrices import square_root
from privacy.marginals.residuals import MOST_RESIDUALS, PAIRS, TooManyResiduals, cost_factor, subsets

# --- Tables that ask ranges of ordered columns, and what each residual of the other columns adds to their variances.


MOST_CELLS: Final = 256
"""Cells of the ordered columns that one residual resolves together."""
MOST_ENTRIES: Final = 1 << 24
"""Ranges times cells of one table."""
Ranges = tuple[tuple[int, int], ...]
"""First and last cell of each range, both included."""


@dataclass(frozen=True)
class RangeTable:
    """A table of the workload.

    Args:
        columns: its plain columns.
        ranges: of each of its ordered columns, by name.
        weight: of its variances, > 0.
    """

    columns: Clique
    ranges: tuple[tuple[str, Ranges], ...]
    weight: Fraction

    @property
    def asked(self) -> Mapping[str, Ranges]:
        """The ranges of each ordered column."""
        return dict(self.ranges)


@dataclass(frozen=True)
class RangeResidual:
    """A set of plain columns with the ordered columns that it resolves: A of the module."""

    columns: Clique
    shape: tuple[int, ...]
    resolved: Clique
    sizes: tuple[int, ...]

    @property
    def cells(self) -> int:
        """Cells of the resolved columns together."""
        return prod(self.sizes)

    @property
    def spread(self) -> float:
        """Return p."""
        return prod(((cells - 1) / cells for cells in map(float, self.shape)), start=1.0)

    def factor(self, adjacency: Adjacency) -> Fraction:
        """Return f; rows of two cells of ordered columns may lie twice as far apart as one from none."""
        if adjacency == "replace_one" and not self.columns and self.resolved:
            return Fraction(2)
        return cost_factor(self.shape, adjacency)


@dataclass(frozen=True)
class RangeWorkload:
    """Tables over plain and ordered columns.

    Args:
        plain: cells of each plain column, by name, in the contract's order.
        ordered: cells of each ordered column.
        tables: what is asked.
    """

    plain: tuple[tuple[str, int], ...]
    ordered: tuple[tuple[str, int], ...]
    tables: tuple[RangeTable, ...]

    @cached_property
    def sizes(self) -> Mapping[str, int]:
        """Cells of each column."""
        return dict((*self.plain, *self.ordered))

    def wide(self, table: RangeTable) -> Clique:
        """Return the plain columns of a table that have more than one cell; the others tell nothing."""
        return tuple(name for name, cells in self.plain if name in table.columns and cells > 1)

    @cached_property
    def residuals(self) -> tuple[RangeResidual, ...]:
        """What is measured, few columns first.

        Raises:
            TooManyResiduals, TooManyRanges: tables that are too wide.
        """
        if sum(1 << len(self.wide(table)) for table in self.tables) > MOST_RESIDUALS:
            raise TooManyResiduals
        asked: dict[Clique, list[frozenset[str]]] = {}
        for table in self.tables:
            for columns in subsets(self.wide(table)):
                asked.setdefault(columns, []).append(frozenset(table.asked))
        place = {name: number for number, name in enumerate(self.sizes)}
        found = []
        for columns in sorted(asked, key=lambda each: (len(each), [place[name] for name in each])):
            resolved = frozenset[str]().union(*asked[columns])
            named = tuple(name for name, _ in self.ordered if name in resolved)
            each = RangeResidual(columns, self._shape(columns), named, self._shape(named))
            if resolved not in asked[columns]:
                raise TooManyRanges(
                    f"queries over {' and over '.join(named)}, and no table with queries over all of them",
                    "columns with queries that stand together in one table",
                    "add a table of all of them, or publish the tables in releases of their own",
                )
            if each.cells > MOST_CELLS:
                raise TooManyRanges(
                    f"queries over {each.cells:,} cells of {' × '.join(named)}",
                    f"at most {MOST_CELLS}",
                    "take wider bins in the contract, or fewer columns with queries",
                )
            found.append(each)
        return tuple(found)

    def _shape(self, columns: Sequence[str]) -> tuple[int, ...]:
        return tuple(self.sizes[name] for name in columns)

    def within(self, table: RangeTable) -> Iterator[RangeResidual]:
        """Yield the residuals of which a table is made."""
        own = set(self.wide(table))
        return (each for each in self.residuals if own.issuperset(each.columns))

    def queries(self, table: RangeTable, resolved: Sequence[str]) -> Floats:
        """Return W of a table over resolved columns, zeros and ones, shape (combinations, cells).

        Raises:
            TooManyRanges: it would have more than 2^24 entries.
        """
        asked = table.asked
        each = [asked.get(name, ((0, self.sizes[name] - 1),)) for name in resolved]
        entries = prod(map(len, each)) * prod(self.sizes[name] for name in resolved)
        if entries > MOST_ENTRIES:
            found, allowed = f"{prod(map(len, each)):,} ranges in a table", f"{MOST_ENTRIES:,} ranges times cells"
            raise TooManyRanges(found, allowed, "ask for `prefix` or `hierarchy`, which are fewer, or wider bins")
        matrix: Floats = np.ones((1, 1))
        for ranges, name in zip(each, resolved, strict=True):
            matrix = np.asarray(np.kron(matrix, indicators(ranges, self.sizes[name])))
        return matrix


def indicators(ranges: Ranges, cells: int) -> Floats:
    """Return ranges as rows of zeros and ones, shape (ranges, cells)."""
    places, ends = np.arange(cells), np.array(ranges)
    inside = (places >= ends[:, :1]) & (places <= ends[:, 1:])
    return inside.astype(np.float64)


GAP: Final = 1.0005
"""The search ends where what it has is within this factor of the bound."""
MOST_STEPS: Final = 400
_LEADING: Final = 256.0
_GRID: Final = 1 << 20
_FINE: Final = float(1 << 40)
_NOTHING: Final = 1e-7


@dataclass(frozen=True)
class _Part:
    """A table seen from one residual: its queries over the resolved columns, and Π_A d / Π_{B∖A} d."""

    table: int
    queries: NDArray[np.float64]
    factor: float


def _tables(workload: RangeWorkload, residual: RangeResidual) -> list[int]:
    """Return the numbers of the tables that have all columns of a residual."""
    tables = enumerate(workload.tables)
    return [number for number, table in tables if set(residual.columns) <= set(workload.wide(table))]


def _part(workload: RangeWorkload, residual: RangeResidual, number: int) -> _Part:
    table = workload.tables[number]
    apart = prod(workload.sizes[name] for name in workload.wide(table) if name not in residual.columns)
    return _Part(number, workload.queries(table, residual.resolved), float(prod(residual.shape)) / float(apart))


def _shares(parts: list[Floats]) -> list[Floats]:
    """Return numbers above zero that add up to one."""
    total = sum(float(each.sum()) for each in parts)
    return [each / total for each in parts]


def _root_trace(matrix: Floats) -> float:
    """Return the trace of the square root of a matrix without eigenvalues below zero."""
    return float(np.sqrt(np.maximum(np.linalg.eigvalsh(matrix), 0.0)).sum())


def _leading(values: Floats) -> Floats:
    """Keep the eight leading bits of each number, so that what two machines find is alike."""
    mantissa, exponent = np.frexp(values)
    return np.asarray(np.ldexp(np.rint(mantissa * _LEADING) / _LEADING, exponent))


@dataclass(frozen=True)
class RangeDesign:
    """What is measured of each residual, as a Gram matrix.

    Args:
        grams: X of each residual of the workload; their scale together is free.
        bound: below the objective of every plan for noise of variance one that one unit of one row moves by one.
    """

    grams: tuple[Floats, ...]
    bound: float


def best_design(workload: RangeWorkload, *, adjacency: Adjacency, worst: bool) -> RangeDesign:
    """Return what to measure so that the weighted sum of all variances, or the largest, is nearly the least.

    Args:
        workload: what is asked.
        adjacency: the relation between neighbours, under which costs are.
        worst: the largest weighted variance is made small, and not the sum.
    Raises:
        TooManyResiduals, TooManyRanges: tables that are too wide.
    Privacy: reads public parameters only.
    """
    system = _RangeSystem(workload, adjacency, worst=worst)
    cells, mixture = system.search()
    return system.design(_leading(cells), mixture)


class _RangeSystem:
    """The workload as matrices."""

    def __init__(self, workload: RangeWorkload, adjacency: Adjacency, *, worst: bool) -> None:
        self._workload, self._adjacency, self._worst = workload, adjacency, worst
        self._parts = [
            [_part(workload, each, number) for number in _tables(workload, each)] for each in workload.residuals
        ]
        self._factors = [sqrt(each.factor(adjacency)) for each in workload.residuals]
        self._shape = tuple(cells for _, cells in workload.ordered)
        plain = [prod(workload.sizes[name] for name in workload.wide(table)) for table in workload.tables]
        weights = [float(table.weight) for table in workload.tables]
        # With `worst` one cell stands for all cells of a table, which are alike.
        self._scales = [w / n for w, n in zip(weights, plain, strict=True)] if worst else weights

    def search(self) -> tuple[Floats, list[Floats]]:
        """Return v, and the weights λ of all variances as whole numbers; 1 where their sum is made small."""
        cells: Floats = np.full(self._shape, 1.0 / prod(self._shape))
        mixture = [np.ones(prod(len(ranges) for _, ranges in table.ranges)) for table in self._workload.tables]
        if self._worst:
            mixture = _shares(mixture)
        for _ in range(MOST_STEPS):
            height, loads, variances = self._state(cells, mixture)
            over = float(loads.max()) / height
            cells = cells * (loads / height) ** 2
            cells = cells / cells.sum()
            if self._worst:
                over *= max(float(each.max()) for each in variances) / height
                mixture = _shares([m * (each / height) ** 2 for m, each in zip(mixture, variances, strict=True)])
            if over <= GAP:
                break
        if not self._worst:
            return cells, mixture
        largest = max(float(each.max()) for each in mixture)
        return cells, [np.maximum(np.rint(each * (_GRID / largest)), 1.0) for each in mixture]

    def design(self, cells: Floats, mixture: list[Floats]) -> RangeDesign:
        """Return the Gram matrices for v, on every machine alike, and the bound."""
        made, known = [], dict[tuple[object, ...], Floats]()
        for residual, gram, factor in zip(self._workload.residuals, self._grams(mixture), self._factors, strict=True):
            own, top = np.sqrt(self._marginal(cells, residual)).reshape(-1), float(gram.max())
            # Residuals that differ by a factor alone share the root, which takes most of the time.
            alike = np.rint(gram / top * _FINE) / _FINE
            key = (residual.resolved, alike.tobytes())
            if key not in known:
                known[key] = square_root(own[:, None] * alike * own) / (own[:, None] * own)
            made.append(known[key] * (float(np.sqrt(top)) / factor))
        total = sum(float(each.sum()) for each in mixture) if self._worst else 1.0
        grams = self._with_total(made) if self._adjacency == "replace_one" else made
        return RangeDesign(tuple(grams), self._bound(cells / cells.sum(), mixture) / total)

    def _with_total(self, grams: list[Floats]) -> list[Floats]:
        """Measure the number of rows as precisely as costs nothing under replace_one.

        A multiple of all ones, added to X of no plain column, moves no row away from another one, and every row from
        none. So it is added until both are alike.
        """
        names, sizes = [name for name, _ in self._workload.ordered], self._shape
        codes = np.indices(sizes).reshape(len(sizes), -1)
        alone, apart = np.zeros(codes.shape[1]), np.zeros((codes.shape[1], codes.shape[1]))
        for residual, gram in zip(self._workload.residuals, grams, strict=True):
            place = np.zeros(codes.shape[1], np.int64)
            for name, cells in zip(residual.resolved, residual.sizes, strict=True):
                place = place * cells + codes[names.index(name)]
            inner = gram[np.ix_(place, place)] * residual.spread
            own = np.diagonal(inner)
            # In other plain cells the inner product is between these ends (`strategies`).
            worst = np.maximum(-inner, inner / (min(residual.shape) - 1)) if residual.columns else -inner
            alone, apart = alone + own, apart + (own[:, None] + own) + 2 * worst
        spare = max(float(apart.max()) - float(alone.max()), 0.0)
        return [
            gram if residual.columns else gram + spare
            for residual, gram in zip(self._workload.residuals, grams, strict=True)
        ]

    def _bound(self, cells: Floats, mixture: list[Floats]) -> float:
        """Return the bound of the module, for a unit of one row under the relation."""
        apart, together = 0.0, np.zeros(0)
        for residual, gram in zip(self._workload.residuals, self._grams(mixture), strict=True):
            own = np.sqrt(self._marginal(cells, residual)).reshape(-1)
            scaled = own[:, None] * gram * own
            if residual.columns:
                apart += residual.spread * _root_trace(scaled)
                continue
            mean, shares = own[:, None] * own, PAIRS if self._adjacency == "replace_one" else (0.0,)
            factors = [sqrt(1 + a) * (np.eye(len(own)) - mean) + sqrt(1 - a) * mean for a in shares]
            together = np.array([_root_trace(each @ scaled @ each) for each in factors])
        weights = np.sqrt(1 + np.array(PAIRS)) if together.size > 1 else np.ones(1)
        return float(((apart * weights + together) ** 2).max())

    def _grams(self, mixture: list[Floats]) -> list[Floats]:
        """Return G of every residual; sums of whole numbers where the weights are whole, which are exact."""
        found = []
        for residual, parts in zip(self._workload.residuals, self._parts, strict=True):
            total = np.zeros((residual.cells, residual.cells))
            for part in parts:
                total += ((part.queries.T * mixture[part.table]) @ part.queries) * (
                    part.factor * self._scales[part.table]
                )
            found.append(total)
        return found

    def _state(self, cells: Floats, mixture: list[Floats]) -> tuple[float, Floats, list[Floats]]:
        """Return h, e, and with `worst` the weighted variance of every combination of ranges."""
        height, loads = 0.0, np.zeros(self._shape)
        variances = [np.zeros(each.size) for each in mixture]
        residuals = zip(self._workload.residuals, self._grams(mixture), self._factors, self._parts, strict=True)
        for residual, gram, factor, parts in residuals:
            own = np.sqrt(self._marginal(cells, residual)).reshape(-1)
            values, vectors = np.linalg.eigh(own[:, None] * gram * own)
            roots = np.sqrt(np.maximum(values, 0.0))
            weight = residual.spread * factor
            height += weight * float(roots.sum())
            load = weight * ((vectors * vectors) @ roots) / own**2
            loads += load.reshape([n if name in residual.resolved else 1 for name, n in self._workload.ordered])
            if not self._worst:
                continue
            inner = np.where(roots > _NOTHING * roots.max(), 1.0 / np.maximum(roots, _NOTHING * roots.max()), 0.0)
            for part in parts:
                seen = (part.queries * own) @ vectors
                variances[part.table] += weight * part.factor * self._scales[part.table] * ((seen * seen) @ inner)
        return height, loads, variances

    def _marginal(self, cells: Floats, residual: RangeResidual) -> Floats:
        """Return v of the resolved cells."""
        names = [name for name, _ in self._workload.ordered]
        return np.asarray(
            cells.sum(axis=tuple(axis for axis, name in enumerate(names) if name not in residual.resolved))
        )
