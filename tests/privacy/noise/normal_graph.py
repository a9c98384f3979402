"""A normal density by mpmath, in the precision that is set: what boxes and caps are held against."""

from __future__ import annotations

from fractions import Fraction

import mpmath


def exact(value: Fraction) -> mpmath.mpf:
    return mpmath.mpf(value.numerator) / value.denominator


def cell_area(deviation: Fraction, y: Fraction) -> mpmath.mpf:
    """The area of a cell as high as the density at y, with W the power of two of (s / 64, s / 32]."""
    width = 1
    while 64 * width <= deviation:
        width *= 2
    scaled = exact(y / deviation)
    return exact(width / deviation) * mpmath.exp(-scaled * scaled / 2) / mpmath.sqrt(2 * mpmath.pi)
