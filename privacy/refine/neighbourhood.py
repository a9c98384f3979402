"""What the neighbours of a cell say about it, the cell itself left out.

A cell's noise is independent of its neighbours', so the regression of noisy values on neighbours estimates the
regression of true ones without bias. Rings of equal distance are averaged: 5 within a 5 x 5 square, 4 along one axis.
Source: Batson and Royer 2019, "Noise2Self" (predictors that leave the cell itself out); here linear ones by level.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from privacy.arrays import Floats

REACH_2D: Final = 2
REACH_1D: Final = 4
_RINGS_2D: Final = (
    ((0, 1), (1, 0), (0, -1), (-1, 0)),
    ((1, 1), (1, -1), (-1, 1), (-1, -1)),
    ((0, 2), (2, 0), (0, -2), (-2, 0)),
    ((1, 2), (2, 1), (-1, 2), (-2, 1), (1, -2), (2, -1), (-1, -2), (-2, -1)),
    ((2, 2), (2, -2), (-2, 2), (-2, -2)),
)
_RINGS_1D: Final = tuple(((0, step), (0, -step)) for step in range(1, REACH_1D + 1))
_LEVELS: Final = (0.1, 1.0, 4.0, 16.0, 64.0)
_SMALLEST_LEVEL: Final = 40
_COEFFICIENT_STEP: Final = 2.0**-14
_LEAST_RIDGE: Final = 1e-10  # of the trace: large counts must not make the equations singular
_PREDICTION_STEP: Final = 2.0**-10
Flat = NDArray[Any]


@dataclass(frozen=True)
class Frame:
    """A table laid out flat with a margin around each map or line, so that a neighbour is a fixed step away.

    Args:
        shape: (maps, rows, columns) of the table; one row where one axis is ordered.
        margin: (rows, columns) left empty before each map and each row.
        rings: flat steps, ring by ring.
    """

    shape: tuple[int, int, int]
    margin: tuple[int, int]
    rings: tuple[tuple[int, ...], ...]

    @staticmethod
    def of(shape: tuple[int, ...], axes: int) -> Frame:
        """Lay out a table whose last one or two axes are ordered."""
        columns, rows = shape[-1], shape[-2] if axes == 2 else 1
        maps = int(np.prod(shape[:-axes], dtype=np.int64))
        margin = (REACH_2D, REACH_2D) if axes == 2 else (0, REACH_1D)
        width = columns + margin[1]
        rings = _RINGS_2D if axes == 2 else _RINGS_1D
        return Frame((maps, rows, columns), margin, tuple(tuple(r * width + c for r, c in ring) for ring in rings))

    @property
    def width(self) -> int:
        """Return the length of a row with its margin."""
        # One margin before each row serves both sides: beyond a row's end lies the margin of the next.
        return self.shape[2] + self.margin[1]

    def lay(self, values: NDArray[np.float32] | NDArray[np.int64] | Floats, kind: type[np.generic]) -> Flat:
        """Return the values in the flat layout as the given dtype, zeros in the margin."""
        maps, rows, _ = self.shape
        height = maps * (rows + self.margin[0]) + self.margin[0]
        flat = np.zeros(height * self.width + self.margin[1] + 1, kind)
        self.view(flat)[...] = values.reshape(self.shape)
        return flat

    def view(self, flat: Flat) -> Flat:
        """Return the table inside a flat layout, shape (maps, rows, columns), without a copy."""
        maps, rows, _ = self.shape
        start = self.margin[0] * self.width
        inner = flat[start : start + maps * (rows + self.margin[0]) * self.width]
        return inner.reshape(maps, rows + self.margin[0], self.width)[:, :rows, self.margin[1] :]

    def places(self, cells: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the flat places of cells given by their number in the table."""
        maps_and_rows, column = np.divmod(cells, self.shape[2])
        map_, row = np.divmod(maps_and_rows, self.shape[1])
        return (map_ * (self.shape[1] + self.margin[0]) + row + self.margin[0]) * self.width + column + self.margin[1]

    def ring_means(self, laid: Flat, present: Flat, places: NDArray[np.int64], means: Floats) -> None:
        """Write the mean of each ring around the given flat places into `means`, shape (places, rings)."""
        for column, ring in enumerate(self.rings):
            # At the border of a map a ring has fewer cells: the mean is over those that exist, and of none it is 0.
            total, count = np.zeros(places.size), np.zeros(places.size, np.uint8)
            for step in ring:
                total += laid[places + step]
                count += present[places + step]
            means[:, column] = total / np.maximum(count, 1)

    def levels(self, laid: Flat, start: int, stop: int) -> NDArray[np.float32]:
        """Return the level around the flat places start to stop; the margin counts as 0."""
        level = np.zeros(stop - start, np.float32)
        # The farthest step back: places nearer to an end are all margin, and would be read beyond the layout.
        low, high = -min(map(min, self.rings)), laid.size + min(map(min, self.rings))
        first, last = max(start, low), min(stop, high)
        for weight, ring in zip(level_weights(len(self.rings)), self.rings, strict=True):
            total = sum(
                (laid[first + step : last + step] for step in ring[1:]), laid[first + ring[0] : last + ring[0]]
            )
            level[first - start : last - start] += total * np.float32(weight / len(ring))
        return level


def predict(noisy: Floats, features: Floats, level: Floats, unit: float) -> Floats:
    """Predict each cell by ridge regression of its noisy value on what does not depend on its noise, one fit a level.

    Args:
        noisy: the cells' own noisy values, shape (cells,) [units].
        features: ring means and whatever else is independent of the cells' noise, shape (cells, features) [units].
        level: about how much there is around each cell [units].
        unit: the noise's scale; its square is the ridge, if that is enough to solve by [units].
    Returns:
        Prediction ≥ 0 [units].
    """
    # Cells with about as much around them, in units of the noise, share one fit.
    grade = np.searchsorted(np.array(_LEVELS) * unit, level)
    counts = np.bincount(grade, minlength=len(_LEVELS) + 1)
    for high in range(len(_LEVELS), 0, -1):  # a level with few cells joins the one below it
        if counts[high] < _SMALLEST_LEVEL:
            grade[grade == high] = high - 1
            counts[high - 1] += counts[high]
    predicted = np.zeros(len(noisy))
    for value in np.unique(grade):
        chosen = np.flatnonzero(grade == value)
        rows = features[chosen]
        gram = rows.T @ rows
        # Noisy features bias the weights to zero by about the noise's variance a cell; a ridge of that size only
        # steadies it.
        gram += max(unit**2, _LEAST_RIDGE * np.trace(gram)) * np.eye(rows.shape[1])
        weights = np.linalg.solve(gram, rows.T @ noisy[chosen])
        # Rounded weights and predictions: another order of summation on another machine publishes the same numbers.
        predicted[chosen] = rows @ (np.rint(weights / _COEFFICIENT_STEP) * _COEFFICIENT_STEP)
    return np.maximum(np.rint(predicted / _PREDICTION_STEP) * _PREDICTION_STEP, 0)


def level_weights(rings: int) -> Floats:
    """Return the weight of each ring's mean in the level around a cell: near rings more than far ones."""
    return np.array([4, 4, 2, 4, 2]) / 16 if rings == len(_RINGS_2D) else np.array([4, 3, 2, 1]) / 10
