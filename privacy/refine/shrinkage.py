"""Shrinking noisy counts to their predictions where these are good, by the variance seen among cells of like size.

Source: Efron and Morris 1973, "Stein's estimation rule and its competitors"; τ² by moments, group by group.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from privacy.accounting.events import CountNoise
from privacy.arrays import Floats
from privacy.marginals.uncertainty import half_width, variance
from privacy.refine.empirical_bayes import PosteriorRows
from privacy.refine.posterior import STEP

GROUP: Final = 30
MOST_GROUPS: Final = 4096
SHARE_ERROR: Final = 0.4
"""About one standard error of s when τ² is estimated from 30 cells; intervals are widened by it."""


def shrink(noisy: NDArray[np.int64], predicted: Floats, event: CountNoise) -> tuple[Floats, Floats]:
    """Shrink noisy values to their predictions, in groups of 30 cells or more of like prediction.

    Formula:  x + s (noisy - x),  s = τ² / (τ² + σ²),  τ² = max(0, mean (noisy - x)² - σ²)
    Returns: the shrunk values, and s of each cell.
    """
    means, shares = np.zeros(noisy.size), np.zeros(noisy.size)
    order, noise = np.argsort(predicted, kind="stable"), variance(event)
    for group in np.array_split(order, min(max(1, noisy.size // GROUP), MOST_GROUPS)):
        gap = noisy[group] - predicted[group]
        # What the gaps vary beyond the noise is the truth's own spread around the prediction.
        excess = max(0.0, float(np.mean(gap**2, dtype=np.float64)) - noise) if group.size else 0.0
        shares[group] = round(excess / (excess + noise) / STEP) * STEP
        means[group] = predicted[group] + shares[group] * gap
    return np.maximum(np.rint(means / STEP) * STEP, 0), shares


def shrunk_rows(means: Floats, shares: Floats, event: CountNoise) -> PosteriorRows:
    """Return the summaries of cells that were shrunk to their prediction."""
    reach = np.sqrt(np.minimum(shares + SHARE_ERROR, 1)) * half_width(event, 0.95)
    lower, upper = np.maximum(np.ceil(means - reach), 0), np.floor(means + reach)
    spread = shares * variance(event)
    return PosteriorRows(means, spread, (means < 0.5).astype(np.float64), lower, upper, spread)
