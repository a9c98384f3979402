"""Roughly how long a fit takes, known without any data: sums over rows, and trainings [seconds of one core].

Where (one letter each)
    n   rows      w   entries of a row's vector      d   of an embedded one      k   components or clusters
    b   rows of a step, times passes      p   parameters      c   columns      m   networks side by side

    a sum        n (w + 2 d) / 2e7, and n d² / 4e9 of second moments
                 n k (3e-7 + d² / 4e8) where rows are shared out among components
    a step       m (5 + c / 10) thousandths, p / 5e7, and b (4e-6 + w / 1.4e7 + p / 1.2e10 m)

The numbers were measured on one thread of a cloud machine that others shared: with 2,000 to 49,000 rows, vectors of
10 to 440 entries, and 4,000 to 320,000 parameters. A fit came within a factor of two of them. A training that shares
its cores with other work takes far longer: threads wait for each other at every step.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from privacy.learning.moments import Moments, NearestCentre, Responsibilities
from privacy.learning.plan import TrainingPlan

ROWS_ASSUMED: Final = 100_000
"""Where nobody declared how many rows there are."""
START: Final = 0.5
"""To load what a fit needs."""
_DRAW: Final = 0.02
_ENTRIES_PER_SECOND: Final = 2e7
_PRODUCTS_PER_SECOND: Final = 4e9
_SHARED: Final = 3e-7
_SHARED_PRODUCTS_PER_SECOND: Final = 4e8
_NUMBERS_PER_SECOND: Final = 2e6
_STEP, _STEP_PER_COLUMN = 5e-3, 1e-4
_PARAMETERS_PER_SECOND: Final = 5e7
_ROW: Final = 4e-6
_ROW_ENTRIES_PER_SECOND: Final = 1.4e7
_ROW_PARAMETERS_PER_SECOND: Final = 1.2e10


def assumed_rows_note(declared: int | None) -> tuple[str, ...]:
    """Say for a plan which number of rows its time is of, where none is declared."""
    return (
        ()
        if declared is not None
        else (f"time is for {ROWS_ASSUMED:,} rows, since the spec declares no number of rows",)
    )


def sums_seconds(statistics: Iterable[Moments], *, rows: int) -> float:
    """Say roughly how long sums over rows take to measure [s].

    Args:
        statistics: what is measured, or stand-ins of the same sizes.
        rows: about how many rows there are.
    """
    return sum(_sum_seconds(each, rows) for each in statistics)


def _sum_seconds(statistic: Moments, rows: int) -> float:
    """Add up what a row takes, and what the noise does."""
    size, groups = statistic.embedding.dimension, statistic.groups
    row = (statistic.embedding.centre.size + 2 * size) / _ENTRIES_PER_SECOND
    if isinstance(groups, Responsibilities):
        row += groups.count * (_SHARED + size * size / _SHARED_PRODUCTS_PER_SECOND)
    elif isinstance(groups, NearestCentre):
        row += groups.count * _SHARED
    elif "full" in statistic.parts:
        row += size * size / _PRODUCTS_PER_SECOND
    return _DRAW + rows * row + statistic.length / _NUMBERS_PER_SECOND


def training_seconds(
    plan: TrainingPlan, *, parameters: int, width: int, columns: int, passes: int = 1, networks: int = 1
) -> float:
    """Say roughly how long a training takes [s].

    Args:
        plan: steps, and rows a step.
        parameters: of all networks.
        width: entries of a row's vector.
        columns: whose losses are added up.
        passes: how often a network is run for a row and step.
        networks: that stand side by side; a row is in one of them.
    """
    row = _ROW + width / _ROW_ENTRIES_PER_SECOND + parameters / networks / _ROW_PARAMETERS_PER_SECOND
    step = networks * (_STEP + _STEP_PER_COLUMN * columns) + parameters / _PARAMETERS_PER_SECOND
    return plan.steps * (step + float(plan.expected_batch_size) * passes * row)
