"""Random deformations of pictures: moved, turned, scaled and sheared a little, in whole numbers, the same anywhere.

The place (i, j) of the new picture, counted from the middle, takes its level from the place

    y = (1 + a) i + b j + s          a, b, c, d, s, t: normal, with the deviations below
    x = c i + (1 + d) j + t

of the old one: the mean of the four levels around (y, x), weighted by how near they are. Beyond the border the
border's own levels go on. Everything is a multiple of 2^-12 of a place, so no processor decides a rounding.

It is a widely used kind of data augmentation, here on the side of whoever samples: it reads nothing but the made-up
picture, and random words of a public seed.

Source: Simard, Steinkraus, Platt 2003 (affine deformations of digits).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from privacy.learning.portable_normal import BITS, normal_steps
from privacy.marginals.portable import PostProcessingSeed

ONE: Final = 1 << BITS
_NORMALS: Final = 6
_FRACTION_BITS: Final = 8
_MOST_SIDE: Final = 1 << 12
_ROWS: Final = 1 << 10
"""Pictures that are deformed together: memory, nothing else."""


@dataclass(frozen=True)
class Deformation:
    """How far pictures of one size are deformed: standard deviations, in multiples of 2^-12.

    Args:
        height, width: of a picture, 1 to 4,096 [places].
        scale: of a and d, the change of either side [2^-12 of the side].
        turn: of b and c, each by itself: a turn where they are opposite, else a shear [2^-12].
        shift: of s and t [2^-12 places].
    Raises:
        ValueError: a number out of range.
    """

    height: int
    width: int
    scale: int
    turn: int
    shift: int

    def __post_init__(self) -> None:
        for name, least, most in (
            *(("height", 1, _MOST_SIDE), ("width", 1, _MOST_SIDE)),
            *(("scale", 0, ONE), ("turn", 0, ONE), ("shift", 0, _MOST_SIDE * ONE)),
        ):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
                raise ValueError(f"deformation: {name} must be a whole number from {least} to {most}")

    def to_json(self) -> dict[str, int]:
        """Write it as JSON values."""
        return {name: getattr(self, name) for name in ("height", "width", "scale", "turn", "shift")}

    @classmethod
    def from_json(cls, written: Mapping[str, Any]) -> Deformation:
        """Read it back; written by a stranger, and checked.

        Raises:
            ValueError: not a deformation.
        """
        if not isinstance(written, Mapping) or set(written) != {"height", "width", "scale", "turn", "shift"}:
            raise ValueError("a deformation has exactly height, width, scale, turn and shift")
        return cls(**written)

    def __call__(self, levels: NDArray[np.int32], seed: PostProcessingSeed, stream: int) -> NDArray[np.int32]:
        """Deform pictures.

        Args:
            levels: shape (rows, height · width), at least 0 and below 2^24.
            seed: of the random words.
            stream: that they are read from.
        Returns:
            int32, the same shape; no level is above the largest of its picture or below the least.
        Privacy: post-processing.
        """
        rows = levels.shape[0]
        # Six words a picture, one picture after the other: however many pictures follow.
        words = seed.words(stream, _NORMALS * rows).reshape(rows, _NORMALS).T
        deviations = np.array([self.scale, self.turn, self.turn, self.scale, self.shift, self.shift])
        # A normal number in steps of 2^-12 times a deviation in steps of 2^-12, rounded halves up.
        moved = (normal_steps(words).astype(np.int64) * deviations[:, None] + ONE // 2) >> BITS
        parts = [
            self._deformed(levels[start : start + _ROWS], moved[:, start : start + _ROWS])
            for start in range(0, rows, _ROWS)
        ]
        return np.concatenate(parts) if parts else levels.copy()

    def _deformed(self, levels: NDArray[np.int32], moved: NDArray[np.int64]) -> NDArray[np.int32]:
        a, b, c, d, s, t = (each[:, None, None] for each in moved)
        # Twice the distance from the middle is whole, also where a side has an even number of places.
        i = (2 * np.arange(self.height) - (self.height - 1))[None, :, None]
        j = (2 * np.arange(self.width) - (self.width - 1))[None, None, :]
        y = (ONE + a) * i + b * j + ONE * (self.height - 1) + 2 * s
        x = c * i + (ONE + d) * j + ONE * (self.width - 1) + 2 * t
        (upper, lower, down), (left, right, across) = _neighbours(y, self.height), _neighbours(x, self.width)
        whole = np.int64(1 << _FRACTION_BITS)
        pictures = levels.reshape(-1, self.height * self.width).astype(np.int64)

        def at(line: NDArray[np.int64], place: NDArray[np.int64]) -> NDArray[np.int64]:
            flat = (line * self.width + place).reshape(pictures.shape)
            return np.take_along_axis(pictures, flat, axis=1).reshape(line.shape)

        above = at(upper, left) * (whole - across) + at(upper, right) * across
        below = at(lower, left) * (whole - across) + at(lower, right) * across
        mixed: NDArray[np.int64] = above * (whole - down) + below * down
        # The weights add up to 2^16: rounded to the nearest level, halves up.
        rounded: NDArray[np.int64] = (mixed + (1 << (2 * _FRACTION_BITS - 1))) >> (2 * _FRACTION_BITS)
        return rounded.reshape(levels.shape).astype(np.int32)


def _neighbours(
    doubled: NDArray[np.int64], side: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the two places about a position, within the picture, and how near the second is [2^-8].

    Args:
        doubled: twice the position [2^-12 places].
        side: places there are.
    """
    steps = doubled >> (BITS + 1 - _FRACTION_BITS)
    place = steps >> _FRACTION_BITS
    return np.clip(place, 0, side - 1), np.clip(place + 1, 0, side - 1), steps & ((1 << _FRACTION_BITS) - 1)
