"""A twin: the noise of trainings as it was once made, by Box and Muller's formula in float32, on a fine lattice.

Each number of it is distributed like a normal, and lies on a lattice that depends on nothing private. The two numbers
of a pair are r cos(a) and r sin(a) for float32 numbers r and a, and float32 has as few angles as the lattice has
steps. At most radii whole lattice points lie between two angles and are never drawn. Who subtracts the right vector
from what was released finds pairs that can be drawn; who subtracts a neighbour's finds some that cannot
(`unreachable`), and knows which of the two it was.
"""

from __future__ import annotations

from fractions import Fraction
from math import pi
from typing import Final

import numpy as np
from numpy.typing import NDArray

from privacy.noise.lattice_gaussian import lattice_of
from privacy.noise.random_bytes import RandomBytes

Vector = NDArray[np.float32]
Steps = NDArray[np.int64]
_PAIRS: Final = 1 << 15
_TURN: Final = np.float32(2.0 * pi * 2.0**-32)
_FARTHEST: Final = 3.3
"""Standard deviations up to which `unreachable` looks at enough neighbouring float32 numbers to be sure."""
_ANGLES, _RADII = 6, 10
"""Neighbouring float32 numbers on either side that are tried."""


def add_noise(exact: Vector, *, standard_deviation: Fraction, source: RandomBytes) -> None:
    """Add the old noise to every entry of a vector, in place."""
    lattice, steps = np.float32(lattice_of(standard_deviation)), steps_per_deviation(standard_deviation)
    for start in range(0, exact.size, 2 * _PAIRS):
        part = exact[start : start + 2 * _PAIRS]
        noise = normals(part.size + part.size % 2, source)[: part.size]
        np.rint(part / lattice, out=part)
        part += np.rint(noise * steps)
        part *= lattice


def steps_per_deviation(standard_deviation: Fraction) -> np.float32:
    """Return lattice steps a standard deviation, as the old sampler rounded them."""
    return np.nextafter(np.float32(float(standard_deviation) / lattice_of(standard_deviation)), np.float32(np.inf))


def normals(size: int, source: RandomBytes) -> Vector:
    """Draw an even number of normals, up to 2^16; the first half are cosines, the second their sines."""
    words = source.take(4 * size).view(np.uint32)
    radii = np.sqrt(np.log((words[: size // 2].astype(np.float32) + np.float32(0.5)) * np.float32(2.0**-32)) * -2)
    angles = np.multiply(words[size // 2 :], _TURN, dtype=np.float32, casting="unsafe")
    return np.concatenate([np.cos(angles) * radii, np.sin(angles) * radii])


def unreachable(noise: Steps | NDArray[np.float64], standard_deviation: Fraction) -> int:
    """Count the pairs of one block of noise that no float32 radius and angle give.

    Args:
        noise: one block's, whole lattice steps; a pair is an entry of the first half and its like of the second.
            Pairs with NaN are left out.
        standard_deviation: of the noise.
    Returns:
        How many of the pairs within 3.3 standard deviations cannot be drawn, whatever the random bytes.
    """
    half = (noise.size + 1) // 2
    along, across = noise[: noise.size - half].astype(np.float64), noise[half:].astype(np.float64)
    steps = steps_per_deviation(standard_deviation)
    near = np.hypot(along, across) < _FARTHEST * float(steps)
    along, across = along[near], across[near]
    reached = np.zeros(along.size, np.bool_)
    turns = np.mod(np.arctan2(across, along), 2 * pi).astype(np.float32)
    for angle in _neighbours(turns, _ANGLES):
        cosine, sine = np.cos(angle), np.sin(angle)
        for radius in _neighbours(((along * cosine + across * sine) / float(steps)).astype(np.float32), _RADII):
            hit = np.rint(cosine * radius * steps) == along
            reached |= hit & (np.rint(sine * radius * steps) == across)
    return int((~reached).sum())


def _neighbours(numbers: Vector, count: int) -> list[Vector]:
    """Return float32 numbers and so many of those next to them on either side."""
    found, up, down = [numbers], numbers, numbers
    for _ in range(count):
        up, down = np.nextafter(up, np.float32(np.inf)), np.nextafter(down, np.float32(-np.inf))
        found += [up, down]
    return found
