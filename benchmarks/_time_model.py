"""How long a cluster takes, t = a + b n / w: fitted to what was measured, and said of more rows and workers.

a is what does not shrink with the workers (the session's start, plans, answers), b is what one worker needs for a
row. Errors are relative: the least size has as much to say as the largest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

FEWEST_POINTS = 3


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
        slope: b [s for a row on one worker].
        largest_error: of the fitted points, relative.
        left_out_error: the largest relative error of a point that is left out of the fit of the others; None where
            too few are left.
    """

    base: float
    slope: float
    largest_error: float
    left_out_error: float | None

    def seconds(self, rows: int, workers: int) -> float:
        """Say how long it takes."""
        return self.base + self.slope * rows / workers


def fitted(points: Sequence[Point]) -> TimeModel | None:
    """Fit the model by least squares of relative errors.

    Returns:
        The model, or None where fewer than three points, or one number of rows for each worker, tell nothing.
    """
    if not _tell_enough(points):
        return None
    base, slope = _solved(points)
    model = TimeModel(base, slope, 0.0, None)
    others = [[each for each in points if each is not one] for one in points]
    left_out = [
        _error(TimeModel(*_solved(rest), 0.0, None), one)
        for one, rest in zip(points, others, strict=True)
        if _tell_enough(rest)
    ]
    return TimeModel(base, slope, max(_error(model, each) for each in points), max(left_out, default=None))


def _tell_enough(points: Sequence[Point]) -> bool:
    return len(points) >= FEWEST_POINTS and len({each.rows / each.workers for each in points}) > 1


def _solved(points: Sequence[Point]) -> tuple[float, float]:
    seconds = np.array([each.seconds for each in points])
    shares = np.array([each.rows / each.workers for each in points])
    design = np.column_stack([1 / seconds, shares / seconds])
    (base, slope), *_ = np.linalg.lstsq(design, np.ones(len(points)), rcond=None)
    return float(base), float(slope)


def _error(model: TimeModel, point: Point) -> float:
    return abs(model.seconds(point.rows, point.workers) / point.seconds - 1)
