"""From noisy residuals to tables, with the exact variance and covariance of every cell. Post-processing.

Where (one letter each; A a set of columns, B a table)
    y   noisy numbers of A's residual, drawn with variance v     t, D, d   as in `residual_basis`
    s   v / (t D)²

    M_A's part of its own:   x = (⊗ (I - J/d)) y / (t D)        its noise has covariance  s ⊗ (I - J/d)
    a table:                 M_B = Σ_{A ⊆ B} x ⊗ (1 / Π_{B∖A} d) 1
    covariance of two cells  Σ_{A ⊆ B} s Π_{A ∩ E} (1 - 1/d) Π_{A ∖ E} (-1/d) / Π_{B∖A} d²,
                             with E the columns in which the two cells are the same

All cells of a table have the same variance. Tables agree on every margin that they share, since both have its
residuals in common. docs/derivations.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from fractions import Fraction
from math import prod
from typing import Final

import numpy as np
from numpy.typing import NDArray

from contracts.contract.impossible_cells import Clique
from privacy.arrays import Floats
from privacy.marginals.residual_basis import Residual
from privacy.marginals.residual_shares import subsets

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


def projected(values: Floats, *, columns: int | None = None) -> Floats:
    """Return values without what lies off the residual space: along the first columns, or all, without their mean."""
    for axis in range(values.ndim if columns is None else columns):
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
    """Return the measured residuals of a table."""
    order = [part[0] for part in variances if len(part) == 1]
    ordered = tuple(name for name in order if name in wide)
    return [(part, variances[part]) for part in subsets(ordered) if part in variances]
