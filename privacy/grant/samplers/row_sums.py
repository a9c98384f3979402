"""Noise on sums over rows: only a grant calls this (law 1)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privacy.accounting.events import DiscreteGaussian
from privacy.arrays import Unsigned
from privacy.learning.layout import RowLayout
from privacy.learning.moments import Moments
from privacy.noise.discrete_gaussian import discrete_gaussian
from privacy.noise.random_bytes import RandomBytes


def noisy_sums(
    codes: Unsigned, *, statistic: Moments, layout: RowLayout, event: DiscreteGaussian, source: RandomBytes
) -> NDArray[np.int64]:
    """Add up a statistic over rows, and add the event's noise to every number; int64, shape (length,).

    Privacy: that of the event, for every change within the statistic's bound (`privacy.learning.moments`).
    """
    exact = statistic.total(codes, layout)
    return exact + discrete_gaussian(exact.size, sigma_squared=event.sigma_squared, source=source)
