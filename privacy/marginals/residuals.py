"""How precisely each residual of a workload is measured, so that the weighted sum of all cells' variances is least.

Where (one letter each; A a set of columns, B a table, both as sets)
    w   weight of a table         n   cells of a column          p   Π (1 - 1/n) over A: cost of A is  p / (2 s)
    s   variance of A's noise in the scale of counts             c   what s adds to the objective, summed over tables
    f   what replace_one makes of p: 2 m / (m - 1), m the least n of A; 1 under add_remove, and for no column

A table B is the sum of its residuals A ⊆ B, each spread evenly over the columns B∖A. So the
objective  Σ_B w Σ_cells variance  is  Σ_A c s  with

    c = p g,      g = Σ_{B ⊇ A} w Π_A n / Π_{B∖A} n

and  Σ_A p f / (2 s) = ρ / k²  is what all residuals cost together. By Cauchy–Schwarz

    Σ c s  ≥  (Σ √(p f c))² k² / (2 ρ),      equal where  s  is proportional to  √(p f / c) = √(f / g).

With integers: A's residual is multiplied by t and gets the common noise of variance v, which is  s = v / (t D)² with
D = Π_A n. So t is proportional to  (g / f)^(1/4) / D,  rounded down to whole numbers of at least 64. Rounding costs
less than one part in a thousand: both sums change by less than  1/64  of each part, and their product is stationary.
Source: Xiao, He, Zhang, Kifer 2023 (ResidualPlanner), section 5 (closed form for the sum of variances); lattice and
replace_one: docs/derivations.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import combinations
from math import fsum, isqrt, prod, sqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray

from contracts.contract.contract import Adjacency, Contract
from contracts.contract.impossible_cells import Clique
from contracts.errors import SudareError
from contracts.release.tables.tables import TableSpec
from privacy.accounting.events import DiscreteLaplace
from privacy.arrays import Floats
from privacy.marginals.count_noise import variance
from privacy.marginals.residual_basis import Residual
from privacy.marginals.sensitivity import LaplaceNoise, Noise

SMOOTHING: Final = 32
"""By how much the variance of a pair's noise is taken to fall where a model is fitted to all pairs."""
LEAST_BITS: Final = 6
"""The least multiplier is at least two to this power."""
MOST_RESIDUALS: Final = 1 << 17
"""So many residuals are planned at most; a table of c columns has two to the power of c."""
PAIRS: Final = (0.0, 0.25, 0.5, 0.75, 0.9, 1.0)
"""Parts of pairs of rows, the others being a row and none, by which plans are bounded under replace_one."""
ROUNDING_VARIANCE: Final = Fraction(1, 12)
"""What rounding a count to a whole number adds to its variance [rows squared]."""


class TooManyResiduals(SudareError, ValueError):
    """Tables whose residuals are too many to measure; nothing was planned."""

    exit_code = 2

    def __init__(self) -> None:
        super().__init__(
            f"product.split: these tables have more than {MOST_RESIDUALS:,} residuals\n"
            f"  allowed: {MOST_RESIDUALS:,}; a table of c columns has two to the power of c\n"
            "  do: take fewer tables, or tables of fewer columns, or choose `split: optimal`"
        )


@dataclass(frozen=True)
class Workload:
    """Tables over columns, each with its weight.

    Args:
        cells: of each column, by name, in the order in which residuals have them.
        tables: columns of each table.
        weights: of each table, > 0.
    """

    cells: tuple[tuple[str, int], ...]
    tables: tuple[Clique, ...]
    weights: tuple[Fraction, ...]

    @cached_property
    def sizes(self) -> Mapping[str, int]:
        """Cells of each column."""
        return dict(self.cells)

    @cached_property
    def _gains(self) -> Mapping[Clique, Fraction]:
        found: dict[Clique, Fraction] = {}
        if sum(1 << len(self._wide(table)) for table in self.tables) > MOST_RESIDUALS:
            raise TooManyResiduals
        for table, weight in zip(self.tables, self.weights, strict=True):
            wide = self._wide(table)
            cells = prod(self.sizes[name] for name in wide)
            for columns in subsets(wide):
                own = prod(self.sizes[name] for name in columns)
                found[columns] = found.get(columns, Fraction(0)) + weight * Fraction(own * own, cells)
        place = {name: number for number, name in enumerate(self.sizes)}
        order = sorted(found, key=lambda columns: (len(columns), [place[name] for name in columns]))
        return {columns: found[columns] for columns in order}

    def gains(self) -> Mapping[Clique, Fraction]:
        """Return g of the module for every residual of the workload, few columns first, then in the columns' order.

        Raises:
            TooManyResiduals: more than 2^17 would have to be looked at.
        """
        return _remembered(self)._gains

    def _wide(self, table: Clique) -> Clique:
        """Return a table's columns of more than one cell, in the workload's order; the others tell nothing."""
        return tuple(name for name in self.sizes if name in table and self.sizes[name] > 1)


@lru_cache(maxsize=32)
def _remembered(workload: Workload) -> Workload:
    """Return the first workload that was equal to this one: a search for a charge plans the same tables often."""
    return workload


def subsets(columns: Clique) -> Iterator[Clique]:
    """Yield all subsets, in the order of the columns, the empty one first."""
    for size in range(len(columns) + 1):
        yield from combinations(columns, size)


def optimal_residuals(
    workload: Workload, *, adjacency: Adjacency, total_is_public: bool, least_bits: int = LEAST_BITS
) -> tuple[Residual, ...]:
    """Return what is measured of a workload, so that the weighted sum of all cells' variances is least.

    Args:
        workload: tables, weights, cells.
        adjacency: the relation between neighbours, under which costs are.
        total_is_public: the number of rows is declared, so that it is not measured.
        least_bits: every multiplier is at least two to this power.
    Returns:
        tuple: few columns first; multipliers are whole numbers, computed without floats.
    Raises:
        TooManyResiduals: see `Workload.gains`.
    Privacy: reads public parameters only.
    """
    return _multiplied(
        workload.gains(), workload.sizes, adjacency=adjacency, total_is_public=total_is_public, least_bits=least_bits
    )


def _multiplied(
    gains: Mapping[Clique, Fraction],
    sizes: Mapping[str, int],
    *,
    adjacency: Adjacency,
    total_is_public: bool,
    least_bits: int = LEAST_BITS,
) -> tuple[Residual, ...]:
    """Return the residuals of which g is given, with the multipliers of the optimum."""
    wanted = {
        columns: _sharpness(_shape(sizes, columns), gain, adjacency)
        for columns, gain in gains.items()
        if columns or not total_is_public
    }
    if not wanted:
        return ()
    # The smallest power of two by which all fourth roots are at least 2^least_bits.
    least, power = min(wanted.values()), 0
    while least * Fraction(16) ** power < 1 << 4 * least_bits:
        power += 1
    while least * Fraction(16) ** (power - 1) >= 1 << 4 * least_bits:
        power -= 1
    scale = Fraction(16) ** power
    return tuple(
        Residual(columns, _shape(sizes, columns), isqrt(isqrt(int(scale * sharpness))))
        for columns, sharpness in wanted.items()
    )


@lru_cache(maxsize=8)
def pair_residuals(
    cells: tuple[tuple[str, int], ...], *, adjacency: Adjacency, total_is_public: bool
) -> tuple[Residual, ...]:
    """Return what is measured of all columns and all pairs of them, for a model of few numbers.

    All pairs count alike. What noise does to a column comes back in each of its pairs, while that on a pair is
    averaged over the model. So a column's table counts `SMOOTHING` times as often as its noise comes back.

    Args:
        cells: of each column, by name.
        adjacency, total_is_public: as of `optimal_residuals`.
    Privacy: reads public parameters only.
    """
    sizes = {name: size for name, size in cells if size > 1}  # the others tell nothing
    inverse = sum((Fraction(1, size) for _, size in cells), Fraction(0))
    weights = {name: 1 + SMOOTHING * (inverse - Fraction(1, size)) for name, size in cells}
    # g of the module, for all columns and all pairs: Σ over j ≠ i of 1 / n_j is what the pairs of i give.
    gains: dict[Clique, Fraction] = {(): sum((weights[name] / size for name, size in cells), Fraction(0))}
    gains[()] += (inverse * inverse - sum((Fraction(1, size * size) for _, size in cells), Fraction(0))) / 2
    gains |= {(name,): size * (weights[name] + inverse - Fraction(1, size)) for name, size in sizes.items()}
    gains |= {pair: Fraction(sizes[pair[0]] * sizes[pair[1]]) for pair in combinations(sizes, 2)}
    return _multiplied(gains, sizes, adjacency=adjacency, total_is_public=total_is_public)


def column_residuals(
    cells: tuple[tuple[str, int], ...], *, adjacency: Adjacency, total_is_public: bool
) -> tuple[Residual, ...]:
    """Return what is measured of all columns alone, each of which counts alike.

    Args:
        cells: of each column, by name.
        adjacency, total_is_public: as of `optimal_residuals`.
    Privacy: reads public parameters only.
    """
    tables = tuple((name,) for name, _ in cells)
    workload = Workload(cells, tables, (Fraction(1),) * len(tables))
    return optimal_residuals(workload, adjacency=adjacency, total_is_public=total_is_public)


def _sharpness(shape: Sequence[int], gain: Fraction, adjacency: Adjacency) -> Fraction:
    """Return g / f / D⁴: the fourth power of what a multiplier is proportional to."""
    return gain / cost_factor(shape, adjacency) / prod(shape) ** 4


def cost_factor(shape: Sequence[int], adjacency: Adjacency) -> Fraction:
    """Return f of the module."""
    if adjacency == "add_remove" or not shape:
        return Fraction(1)
    return Fraction(2 * min(shape), min(shape) - 1)


def _shape(sizes: Mapping[str, int], columns: Clique) -> tuple[int, ...]:
    return tuple(sizes[name] for name in columns)


def expected_error(workload: Workload, variances: Mapping[Clique, Fraction]) -> float:
    """Return the objective: the weighted sum of all cells' variances, before counts are rounded [rows²].

    Args:
        workload: tables, weights, cells.
        variances: s of every measured residual; of those that are known exactly none.
    """
    parts = ((variances.get(columns), gain, columns) for columns, gain in workload.gains().items())
    return fsum(
        float(_spread(_shape(workload.sizes, columns)) * gain * variance)
        for variance, gain, columns in parts
        if variance is not None
    )


def least_error(
    workload: Workload, rho: Fraction, *, adjacency: Adjacency, rows_per_unit: int, total_is_public: bool
) -> float:
    """Return a number below the weighted sum of variances of linear query plans with Gaussian noise [rows²].

    Under add_remove that is the least, a theorem of ResidualPlanner's. Under replace_one it is a bound: plans pay for
    the worst pair of rows, and the average pair is no worse. It is one for plans that count a row for none as a
    change too, as ours do: law 4 leaves it to the contract whether the number of rows is published exactly.

    Formula:  (Σ √(p f c))² k² / (2 ρ)  with the f of `least_factors`, where it is largest
    """
    parts = [
        (columns, float(_spread(_shape(workload.sizes, columns))) * sqrt(gain))
        for columns, gain in workload.gains().items()
    ]
    choices = (least_factors(adjacency, each, total_is_public=total_is_public) for each in PAIRS)
    roots = max(fsum(root * sqrt(moved if columns else came) for columns, root in parts) for moved, came in choices)
    return rows_per_unit**2 * roots**2 / (2 * float(rho))


def least_factors(adjacency: Adjacency, pairs: float, *, total_is_public: bool) -> tuple[float, float]:
    """Return what the average neighbour makes of p, of residuals with columns and of the one without.

    Two rows in cells drawn evenly differ by 2 p of each residual with columns; a row differs from none by p of all.
    The worst neighbour moves no less than any mix of the two. The number of rows is measured unless it is public.

    Args:
        adjacency: under add_remove one row comes or goes, and nothing else.
        pairs: under replace_one, the part of the first kind in the mix.
        total_is_public: rows do not come or go.
    """
    if adjacency == "add_remove":
        return (1.0, 0.0) if total_is_public else (1.0, 1.0)
    return (2.0, 0.0) if total_is_public else (1.0 + pairs, 1.0 - pairs)


def least_squares_of_one(workload: Workload, *, adjacency: Adjacency) -> float:
    """Return a bound below the weighted sum of variances, for numbers with noise of variance one.

    It holds for every linear measurement that one row moves by a norm of at most one: the Euclidean norm, and so the
    sum of sizes too. With Laplace noise of ε on whole numbers, v(ε/k) times it is a bound, v being the variance of
    discrete Laplace noise: a sensitivity of L1 ≥ 1 gives each number v(ε/(k L1)) ≥ L1² v(ε/k), as x² v(x) falls in x.

    Formula:  (Σ p √g)²  under add_remove; under replace_one twice that, without the residual of no column
    """
    replaced = adjacency == "replace_one"
    roots = fsum(
        float(_spread(_shape(workload.sizes, columns))) * sqrt(gain)
        for columns, gain in workload.gains().items()
        if columns or not replaced
    )
    return float((2 if replaced else 1) * roots**2)


def _spread(shape: Sequence[int]) -> Fraction:
    return Fraction(prod(cells - 1 for cells in shape), prod(shape))


def over_least_error(
    squares: float, tables: Sequence[TableSpec], contract: Contract, noise: Noise, *, public_total: int | None
) -> float | None:
    """Return a weighted sum of squared errors over the least that tables of the contract's cells can have.

    Args:
        squares: the expected sum over all cells, each with its table's weight [rows²].
        tables: of the contract's cells.
        contract: sizes, adjacency, rows of a unit.
        noise: its kind, and what they cost together; with Laplace noise the least is a bound.
        public_total: the declared number of rows, where the release keeps it.
    Returns:
        float: None where the tables have too many residuals to tell.
    """
    workload, known = workload_of(tables, contract), public_total is not None
    adjacency, rows = contract.adjacency, contract.unit.max_rows_per_unit
    try:
        if isinstance(noise, LaplaceNoise):
            one = variance(DiscreteLaplace(noise.epsilon / rows, (1,)))
            return squares / (one * least_squares_of_one(workload, adjacency=adjacency))
        terms = {"adjacency": adjacency, "rows_per_unit": rows, "total_is_public": known}
        return squares / least_error(workload, noise.rho, **terms)  # type: ignore[arg-type]
    except TooManyResiduals:
        return None


def workload_of(tables: Sequence[TableSpec], contract: Contract) -> Workload:
    """Return tables with their weights over the contract's columns that they name."""
    named = {name for table in tables for name in table.columns}
    columns = (column.name for column in contract.columns if column.name in named)
    sizes = tuple((name, contract.shape((name,))[0]) for name in columns)
    weights = tuple(Fraction(table.weight) for table in tables)
    return Workload(sizes, tuple(table.columns for table in tables), weights)


# --- From noisy residuals to tables, with the exact variance and covariance of every cell.


STEP: Final = 2.0**-20
"""Tables are rounded to this: the last bits differ between machines [rows]."""


class ResidualTables:
    """Tables that follow from noisy residuals.

    Args:
        residuals: what was measured.
        values: all noisy numbers, int64, residual by residual, each row-major.
        total: the number of rows where it is declared public and was not measured [rows].
    Raises:
        ValueError: more or fewer numbers than the residuals have.
    """

    def __init__(self, residuals: Sequence[Residual], values: NDArray[np.int64], *, total: int | None) -> None:
        if values.shape != (sum(each.cells for each in residuals),):
            raise ValueError(f"values have shape {values.shape}; allowed: one number for each of the residuals'")
        self._parts: dict[Clique, Floats] = {} if total is None else {(): np.asarray(float(total))}
        start = 0
        for each in residuals:
            noisy = values[start : start + each.cells].reshape(each.shape)
            self._parts[each.columns] = projected(noisy / float(each.multiplier * each.cells))
            start += each.cells

    @property
    def total(self) -> float:
        """The number of rows: measured, or declared [rows]."""
        return float(self._parts[()])

    def part(self, columns: Clique) -> Floats:
        """Return the part of its own that a residual says of its table, in the residual's shape [rows].

        Raises:
            KeyError: it was not measured.
        """
        return self._parts[columns]

    def table(self, columns: Clique, sizes: Mapping[str, int]) -> Floats:
        """Return the unbiased estimate of a table's counts, in the shape of its columns [rows].

        Args:
            columns: of the table, in the order of the axes.
            sizes: cells of each column.
        Raises:
            KeyError: a residual of the table was not measured.
        """
        shape = tuple(sizes[name] for name in columns)
        counts = np.zeros(shape)
        for part, values in self._within(columns, sizes):
            spread = prod(sizes[name] for name in columns if name not in part)
            axes = values.transpose([part.index(name) for name in columns if name in part])
            counts += axes.reshape([sizes[name] if name in part else 1 for name in columns]) / spread
        return np.asarray(np.rint(counts / STEP) * STEP)

    def _within(self, columns: Clique, sizes: Mapping[str, int]) -> list[tuple[Clique, Floats]]:
        """Return the residuals of a table with their columns in the order in which they were measured."""
        wide = {name for name in columns if sizes[name] > 1}
        found = [(part, values) for part, values in self._subsets(wide)]
        if len(found) != 1 << len(wide):
            raise KeyError(f"not all residuals of {'×'.join(columns) or 'the total'} were measured")
        return found

    def _subsets(self, wide: AbstractSet[str]) -> list[tuple[Clique, Floats]]:
        ordered = tuple(name for name in self._order if name in wide)
        return [(part, self._parts[part]) for part in subsets(ordered) if part in self._parts]

    @property
    def _order(self) -> tuple[str, ...]:
        """All columns in the order in which residuals have them."""
        return tuple(part[0] for part in self._parts if len(part) == 1)


def projected(values: Floats) -> Floats:
    """Return values without what lies off the residual space: along each column without their mean."""
    for axis in range(values.ndim):
        values = values - values.mean(axis=axis, keepdims=True)
    return values


def residual_variances(residuals: Sequence[Residual], sigma_squared: Fraction) -> dict[Clique, Fraction]:
    """Return s of each residual: the variance of its noise in the scale of counts [rows²].

    Args:
        residuals: what is measured.
        sigma_squared: parameter of the common noise, whose variance is at most that.
    """
    return {each.columns: sigma_squared / (each.multiplier * each.cells) ** 2 for each in residuals}


def cell_covariance(
    columns: Clique, sizes: Mapping[str, int], variances: Mapping[Clique, Fraction], *, same: AbstractSet[str]
) -> Fraction:
    """Return the covariance of the noise in two cells of a table; of a cell with itself its variance [rows²].

    Args:
        columns: of the table.
        sizes: cells of each column.
        variances: s of each measured residual; residuals that are known exactly are left out.
        same: the columns in which the two cells are the same; all of them for the variance.
    """
    wide = {name for name in columns if sizes[name] > 1}
    total = Fraction(0)
    for part, own_variance in _of_table(wide, variances):
        own = prod(
            (Fraction(sizes[name] - 1 if name in same else -1, sizes[name]) for name in part), start=Fraction(1)
        )
        total += own_variance * own / prod(sizes[name] for name in wide if name not in part) ** 2
    return total


def _of_table(wide: AbstractSet[str], variances: Mapping[Clique, Fraction]) -> list[tuple[Clique, Fraction]]:
    order = [part[0] for part in variances if len(part) == 1]
    ordered = tuple(name for name in order if name in wide)
    return [(part, variances[part]) for part in subsets(ordered) if part in variances]


# --- Weights under which the plan of the least weighted sum has the least largest variance, and a bound that …


GAP: Final = 1.0005
"""The search ends where the largest variance is within this factor of the bound."""
MOST_STEPS: Final = 2000
WORST_VARIANCE_LEAST_BITS: Final = 10
"""Multipliers are at least two to this power: their rounding moves a largest variance in full, a sum hardly."""
_GRID: Final = 1 << 40


def worst_case_workload(workload: Workload, *, adjacency: Adjacency, total_is_public: bool) -> tuple[Workload, float]:
    """Return the workload whose least weighted sum has the least largest variance of the one that is given.

    Args:
        workload: tables with the weights that their variances are multiplied by.
        adjacency: the relation between neighbours, under which costs are.
        total_is_public: the number of rows is declared, so that it is not measured.
    Returns:
        tuple: the same tables with other weights; and the bound h² of the module, for weights as they are returned.
    Privacy: reads public parameters only.
    """
    paid = {
        columns: float(cost_factor([workload.sizes[name] for name in columns], adjacency))
        for columns in workload.gains()
    }
    if total_is_public:
        paid[()] = 0.0
    mixture = _TableSystem(workload, paid).search()
    grid = np.maximum(np.rint(mixture * _GRID), 1.0)
    cells = [prod(workload.sizes[name] for name in table) for table in workload.tables]
    parts = zip(grid, workload.weights, cells, strict=True)
    weights = tuple(Fraction(int(share)) * weight / n for share, weight, n in parts)
    choices = (least_factors(adjacency, each, total_is_public=total_is_public) for each in PAIRS)
    bounds = [
        _TableSystem(workload, {columns: moved if columns else came for columns in paid}).bound(grid / grid.sum())
        for moved, came in choices
    ]
    return replace(workload, weights=weights), max(bounds) ** 2


class _TableSystem:
    """The coefficients a, one for each table and each of its residuals; f is given by residual."""

    def __init__(self, workload: Workload, factors: Mapping[Clique, float]) -> None:
        place = {columns: number for number, columns in enumerate(workload.gains())}
        sizes = {name: float(cells) for name, cells in workload.cells}
        spreads = [prod(((sizes[name] - 1) / sizes[name] for name in columns), start=1.0) for columns in place]
        self._cost: Floats = np.array(
            [spread * factors[columns] for columns, spread in zip(place, spreads, strict=True)]
        )
        tables, parts, adds = [], [], []
        for number, (table, weight) in enumerate(zip(workload.tables, workload.weights, strict=True)):
            wide = tuple(name for name in sizes if name in table and sizes[name] > 1)
            for columns in subsets(wide):
                part = place[columns]
                tables.append(number)
                parts.append(part)
                apart = prod(sizes[name] for name in wide if name not in columns)
                adds.append(float(weight) * spreads[part] / apart**2)
        self._tables, self._parts = np.array(tables), np.array(parts)
        self._adds: Floats = np.array(adds)
        self._count = len(workload.tables)

    def search(self) -> Floats:
        """Return λ."""
        mixture: Floats = np.full(self._count, 1.0 / self._count)
        for _ in range(MOST_STEPS):
            height, worst = self._state(mixture)
            if height == 0 or worst.max() <= GAP * height:
                break
            mixture = mixture * (worst / height) * (worst / height)
            mixture = mixture / np.cumsum(mixture)[-1]
        return mixture

    def bound(self, mixture: Floats) -> float:
        """Return h."""
        return self._state(mixture)[0]

    def _state(self, mixture: Floats) -> tuple[float, Floats]:
        # bincount and cumsum add one number after the other, so that every machine rounds alike.
        gains = np.bincount(self._parts, mixture[self._tables] * self._adds, self._cost.size)
        roots = np.sqrt(self._cost * gains)
        slopes = np.sqrt(self._cost / np.where(gains > 0, gains, 1.0))
        worst = np.bincount(self._tables, self._adds * slopes[self._parts], self._count).astype(np.float64)
        return float(np.cumsum(roots)[-1]), worst
