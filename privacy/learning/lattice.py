"""Whole numbers instead of real ones, so that a row's vector depends on that row alone and its norm is exact.

A sum's sensitivity is that of one row only if the other rows' vectors do not change when a row comes or goes. Matrix
products in floating point break this: the last bits of a row's product may depend on which rows stand beside it. Here
every step is one of three kinds:

    sums and products of whole numbers that stay below 2^53, in float64: exact, in whatever order they are taken
    one IEEE 754 operation (+, -, x, /, square root, rounding), element by element: correctly rounded
    `portable`, which is made of the latter
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from privacy.arrays import Floats

EXACT: Final = 2**53
"""Whole numbers up to it are exact in float64."""
MOST_BITS: Final = 16
"""Finest lattice: the norm bound is 2^16 of its units."""

LatticePoints = NDArray[np.int64]


def whole_array(name: str, values: Any, shape: tuple[int | None, ...]) -> LatticePoints:
    """Return a read-only copy of whole numbers in the wanted shape; None stands for any length of at least 1.

    Raises:
        ValueError: another type (a subclass could bring code of its own), another dtype, another shape.
    """
    # A subclass could bring a caller's code into arithmetic on private rows.
    if type(values) is not np.ndarray:
        raise ValueError(f"{name} must be ndarray itself, not {type(values).__name__}")
    fits = len(shape) == values.ndim and all(
        size >= 1 if wanted is None else size == wanted for wanted, size in zip(shape, values.shape, strict=False)
    )
    if values.dtype != np.int64 or not fits:
        wanted = " x ".join("any" if size is None else str(size) for size in shape)
        raise ValueError(f"{name} must be int64 of shape {wanted}")
    copy = np.array(values, dtype=np.int64, order="C")
    copy.flags.writeable = False
    return copy


def whole_number(name: str, value: Any, least: int, most: int) -> int:
    """Return a whole number within its limits.

    Raises:
        ValueError: another type, or outside of them.
    """
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"{name} must be a whole number from {least} to {most}")
    return value


def magnitude(values: LatticePoints) -> int:
    """Return the largest absolute value; exact also for -2^63."""
    return max(-int(values.min()), int(values.max()), 0)


def to_lattice(values: NDArray[np.floating[Any]], bits: int) -> LatticePoints:
    """Round public numbers to multiples of 2^-bits.

    Raises:
        ValueError: a number that is not finite, or beyond 2^62 units.
    """
    scaled = np.rint(np.asarray(values, dtype=np.float64) * 2.0**bits)
    if not (np.isfinite(scaled).all() and (np.abs(scaled) < 2.0**62).all()):
        raise ValueError(f"numbers must be finite and below 2^{62 - bits}")
    return scaled.astype(np.int64)


def into_ball(vectors: Floats, bits: int) -> Floats:
    """Bring whole vectors into the ball of radius 2^bits, and leave alone those that lie in it.

    With R = 2^bits, w entries and |v| > R, the result is v (R - sqrt(w)/2) / |v|, each entry rounded to the nearest
    whole number. Rounding moves the vector by at most sqrt(w)/2, so its norm is at most R but for the rounding of the
    factor, a relative 2^-50: the square of the norm is below R^2 + 1, and a whole number, hence at most R^2.

    Args:
        vectors: whole numbers whose squares add up to less than 2^53 in each row, shape (rows, w).
        bits: at most 16, and sqrt(w)/2 < 2^bits.
    Returns:
        Whole numbers, |row|^2 <= 4^bits in exact arithmetic; shape (rows, w).
    """
    radius = 2.0**bits
    squares = np.einsum("ij,ij->i", vectors, vectors)
    outside = np.flatnonzero(squares > radius * radius)
    if outside.size:
        # Aim half of the rounding's reach inside of the sphere, so that rounding cannot lead outside.
        shrunk = (radius - np.sqrt(vectors.shape[1]) / 2) / np.sqrt(squares[outside])
        inside = np.rint(vectors[outside] * shrunk[:, None])
        inside[np.einsum("ij,ij->i", inside, inside) > radius * radius] = 0  # never; the bound holds by itself
        vectors = vectors.copy()
        vectors[outside] = inside
    return vectors


def sha256(values: NDArray[Any]) -> str:
    """Return the digest (hex) of an array of whole numbers: its shape, then its bytes."""
    head = f"{values.dtype.str} {values.shape}".encode()
    return hashlib.sha256(head + np.ascontiguousarray(values).tobytes()).hexdigest()
