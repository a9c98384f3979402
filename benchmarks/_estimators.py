"""Estimators beyond the paper, by the name of their row: noisy mesh, noise event and total in, whole counts out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from privacy.accounting.events import CountNoise
from privacy.refine.empirical_bayes import empirical_bayes
from privacy.refine.posterior import refine_posterior
from privacy.refine.risk import refine_auto
from privacy.refine.spatial import spatial_bayes

Counts = NDArray[np.int64]
Estimator = Callable[[Counts, CountNoise, int], Counts]


def by_cell(noisy: Counts, event: CountNoise, total: int) -> Counts:
    """Empirical Bayes, cell by cell."""
    return np.asarray(refine_posterior(empirical_bayes(noisy, event), total=total, integers=True), np.int64)


def by_neighbourhood(noisy: Counts, event: CountNoise, total: int) -> Counts:
    """Empirical Bayes given the neighbourhood, on a mesh."""
    return np.asarray(refine_posterior(spatial_bayes(noisy, event, axes=2), total=total, integers=True), np.int64)


def by_estimated_risk(noisy: Counts, event: CountNoise, total: int) -> Counts:
    """Whichever errs least by the estimate from the noisy values."""
    return np.asarray(refine_auto(noisy, event, total=total, axes=2, integers=True).table, np.int64)


ESTIMATORS: Final[tuple[tuple[str, Estimator], ...]] = (
    ("empirical Bayes", by_cell),
    ("empirical Bayes, neighbourhood", by_neighbourhood),
    ("auto (estimated risk)", by_estimated_risk),
)
