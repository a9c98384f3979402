"""How long a cluster takes, t = a + c n + b n / w: fitted to what was measured, and said of more rows and workers.

a is what neither rows nor workers change (the session's start, plans, answers). c is what a row costs however many
workers there are, and b what is divided among them (Amdahl's law). Workers that share the cores of one machine with
the driver cannot be told from a large c, so what the model says of many workers is an upper bound there. Errors are
relative: the least size has as much to say as the largest.

Source: Amdahl, Validity of the single processor approach, 1967.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls


@dataclass(frozen=True)
class Point:
    """One measurement: rows, workers, and seconds."""

    rows: int
    workers: int
    seconds: float


@dataclass(frozen=True)
class TimeModel:
    """A fitted model.

    Args:
        base: a [s].
        serial: c [s for a row, on however many workers].
        shared: b [s for a row on one worker].
        largest_error: of the fitted points, relative.
        left_out_error: the largest relative error of a point that is left out of the fit of the others; None where
            the others do not tell the three numbers.
    """

    base: float
    serial: float
    shared: float
    largest_error: float
    left_out_error: float | None

    def seconds(self, rows: int, workers: int) -> float:
        """Say how long it takes."""
        return self.base + self.serial * rows + self.shared * rows / workers


def fitted(points: Sequence[Point]) -> TimeModel | None:
    """Fit the model by least squares of relative errors, with no number below 0.

    Returns:
        The model, or None where the points do not tell its three numbers.
    """
    if not _tell_enough(points):
        return None
    model = _solved(points)
    left_out: list[float] = []
    for one in points:
        others = [each for each in points if each is not one]
        if _tell_enough(others):
            left_out.append(_error(_solved(others), one))
    largest = max(_error(model, each) for each in points)
    return TimeModel(model.base, model.serial, model.shared, largest, max(left_out, default=None))


def _design(points: Sequence[Point]) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return np.array([[1.0, each.rows, each.rows / each.workers] for each in points])


def _tell_enough(points: Sequence[Point]) -> bool:
    if len(points) < 3:
        return False
    design = _design(points)
    return int(np.linalg.matrix_rank(design / design.max(axis=0))) == 3


def _solved(points: Sequence[Point]) -> TimeModel:
    design, seconds = _design(points), np.array([each.seconds for each in points])
    scale = design.max(axis=0)  # or the solver takes a row's cost for nothing
    numbers, _ = nnls(design / scale / seconds[:, None], np.ones(len(points)))
    base, serial, shared = (float(each) for each in numbers / scale)
    return TimeModel(base, serial, shared, 0.0, None)


def _error(model: TimeModel, point: Point) -> float:
    return abs(model.seconds(point.rows, point.workers) / point.seconds - 1)
