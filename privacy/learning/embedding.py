"""From a row's codes to a whole vector in a ball: moved by a public centre, projected on public axes, clipped.

    u = entries - centre                     multiples of 2^-16, |u| <= 1 entry by entry
    y = axes' u                              axes in multiples of 2^-20; u itself where there are none
    z = y in units of bound / 2^bits, rounded to the nearest; brought into the ball |z| <= 2^bits (`into_ball`)

So bound / 2^bits * z is the clipped vector, up to half a unit an entry, and |z|^2 <= 4^bits holds in whole numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from privacy.arrays import Floats, Unsigned
from privacy.learning.lattice import (
    EXACT,
    MOST_BITS,
    LatticePoints,
    into_ball,
    sha256,
    to_lattice,
    whole_array,
    whole_number,
)
from privacy.learning.layout import RowLayout

ENTRY_BITS: Final = 16
AXIS_BITS: Final = 20
_BOUNDS: Final = (Fraction(1, 10**6), Fraction(10**6))
ClipNorm = Annotated[float | None, Field(ge=float(_BOUNDS[0]), le=float(_BOUNDS[1]), allow_inf_nan=False)]
"""An option of generators: the norm to which vectors are clipped. None where it follows from the columns' form."""


@dataclass(frozen=True, eq=False)
class Embedding:
    """How rows become bounded vectors; public, made by `embedding`.

    Args:
        columns: the columns that are embedded.
        centre: what is subtracted, shape (width,), from 0 to 2^16 [2^-16].
        axes: the projection, shape (width, dimension) [2^-20]; None for none.
        bound: the norm to which vectors are clipped, 10^-6 to 10^6.
        bits: the lattice has 2^bits units in the bound; 1 to 16.
    Raises:
        ValueError: a part of another form; numbers that would not be exact in float64.
    """

    columns: tuple[str, ...]
    centre: LatticePoints
    axes: LatticePoints | None
    bound: Fraction
    bits: int

    def __post_init__(self) -> None:
        if type(self.columns) is not tuple or not self.columns or any(type(name) is not str for name in self.columns):
            raise ValueError("columns must be a tuple of names")
        object.__setattr__(self, "centre", whole_array("centre", self.centre, (None,)))
        if self.axes is not None:
            object.__setattr__(self, "axes", whole_array("axes", self.axes, (self.centre.size, None)))
        if type(self.bound) is not Fraction or not _BOUNDS[0] <= self.bound <= _BOUNDS[1]:
            raise ValueError(f"bound must be a Fraction from {_BOUNDS[0]} to {_BOUNDS[1]}")
        whole_number("bits", self.bits, 1, MOST_BITS)
        if self.centre.min() < 0 or self.centre.max() > 1 << ENTRY_BITS:
            raise ValueError("centre must lie in [0, 1]")
        self._check_exact()

    @property
    def dimension(self) -> int:
        """Entries of an embedded vector."""
        return int(self.centre.size if self.axes is None else self.axes.shape[1])

    @property
    def unit(self) -> float:
        """The lattice's unit: bound / 2^bits."""
        return float(self.bound / (1 << self.bits))

    @property
    def public(self) -> dict[str, Any]:
        """What it is made of, as JSON values with digests of the arrays."""
        return {
            "columns": list(self.columns),
            "centre": sha256(self.centre),
            "axes": None if self.axes is None else sha256(self.axes),
            "bound": str(self.bound),
            "bits": self.bits,
        }

    def rebuilt(self) -> Embedding:
        """Return a checked copy that shares nothing changeable."""
        return Embedding(self.columns, self.centre, self.axes, self.bound, self.bits)

    def check(self, layout: RowLayout) -> None:
        """Refuse a layout whose columns do not have the embedded entries.

        Raises:
            ValueError: no such column, or another width.
        """
        width = layout.select(self.columns).width
        if width != self.centre.size:
            raise ValueError(f"the embedded columns have {width} entries, the centre {self.centre.size}")

    def vectors(self, codes: Unsigned, layout: RowLayout) -> Floats:
        """Embed rows.

        Args:
            codes: shape (rows, code_width).
            layout: how they lie.
        Returns:
            Whole numbers in float64, shape (rows, dimension), |row|^2 <= 4^bits [unit].
        Privacy: private; a row's vector depends on that row alone, bit for bit.
        """
        # Whole numbers from here to the scaling: products with the axes are exact by `_check_exact`.
        entries = layout.select(self.columns).lattice(layout.selected(codes, self.columns), bits=ENTRY_BITS)
        entries -= self.centre
        projected = entries if self.axes is None else entries @ self.axes.astype(np.float64)
        return into_ball(np.rint(projected * self._scale), self.bits)

    @property
    def _scale(self) -> float:
        """Lattice units in one unit of the projected whole numbers."""
        # Entries are multiples of 2^-16; behind axes of 2^-20 they are multiples of 2^-36.
        coarse = ENTRY_BITS + (0 if self.axes is None else AXIS_BITS)
        return float(Fraction(1 << self.bits, 1 << coarse) / self.bound)

    def _check_exact(self) -> None:
        """Refuse what could leave float64's whole numbers: products with the axes, and squared norms."""
        # The largest |y| that any row can reach: entries of at most 2^16 times each axis's absolute sum.
        if self.axes is None:
            reach = np.full(self.dimension, 2.0**ENTRY_BITS)
        else:
            reach = 2.0**ENTRY_BITS * np.abs(self.axes.astype(np.float64)).sum(axis=0)
        if reach.max() >= EXACT / 2:
            raise ValueError("axes must have smaller entries: products with them would not be exact")
        # One unit more an entry leaves room for rounding to the lattice.
        if float(((reach * self._scale + 1) ** 2).sum()) >= EXACT / 2:
            raise ValueError("bound must be larger, or bits fewer: squared norms would not be exact")
        # `into_ball` aims sqrt(w)/2 inside of the sphere, which must be less than its radius: w < 4^(bits + 1).
        if self.dimension >= 4 ** (self.bits + 1):
            raise ValueError(f"bits must be more for {self.dimension} entries: rounding would leave nothing")


def least_bound(axes: Floats, *, bits: int) -> Fraction:
    """Return a bound at which the squared norms of all rows behind some axes are exact in float64.

    Args:
        axes: the projection, shape (width, dimension).
        bits: the lattice has 2^bits units in the bound.
    """
    width, dimension = axes.shape
    # Axes are rounded to 2^-20: half of that an entry.
    reach = np.abs(axes).sum(axis=0) + width * 2.0 ** -(AXIS_BITS + 1)
    least = 2.0**bits * float(np.linalg.norm(reach)) / (math.sqrt(EXACT / 2) - math.sqrt(dimension))
    return max(_BOUNDS[0], Fraction(math.ceil(1.001 * least * 10**6), 10**6))


def embedding(
    layout: RowLayout,
    *,
    bound: Fraction,
    bits: int,
    columns: tuple[str, ...] | None = None,
    centre: NDArray[np.floating[Any]] | None = None,
    axes: NDArray[np.floating[Any]] | None = None,
) -> Embedding:
    """Make an embedding from public numbers.

    Args:
        layout: the rows' layout.
        bound: the norm to which vectors are clipped.
        bits: the lattice has 2^bits units in the bound.
        columns: what is embedded; all of them without it.
        centre: public, in [0, 1], shape (width,); zero without it.
        axes: public or released projection, shape (width, dimension), such as principal axes.
    Raises:
        ValueError: a part of another form.
    """
    names = layout.names if columns is None else columns
    width = layout.select(names).width
    middle = np.zeros(width) if centre is None else np.asarray(centre)
    projection = None if axes is None else to_lattice(axes, AXIS_BITS)
    made = Embedding(names, to_lattice(middle, ENTRY_BITS), projection, bound, bits)
    made.check(layout)
    return made
