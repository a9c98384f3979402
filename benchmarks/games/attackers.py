"""What the best attacker computes: who knows both tables weighs their likelihoods."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from privacy.accounting.amounts import ATTO, PICO
from privacy.accounting.claim import release_claim
from privacy.accounting.events import DiscreteGaussian, DiscreteLaplace, PrivacyEvent
from privacy.accounting.renyi import best_epsilon
from privacy.arrays import Floats

Whole = NDArray[np.int64]
Pair = tuple[Whole, Whole]
"""Exact counts without and with the canary."""


def log_odds(noisy: Whole, pair: Pair, event: DiscreteLaplace | DiscreteGaussian) -> Floats:
    """Return the log-likelihood ratio of outputs, with the canary over without.

    Args:
        noisy: outputs, shape (trials, cells).
        pair: exact counts of the two tables, shape (cells,).
        event: the noise on every cell.
    """
    without, canary = pair
    if isinstance(event, DiscreteLaplace):
        closer = np.abs(noisy - without) - np.abs(noisy - canary)
        return np.asarray(closer.sum(axis=1) * float(event.inverse_scale))
    change = canary - without
    centred = noisy.astype(np.float64) - (canary + without) / 2
    return np.asarray(centred @ change / float(event.sigma_squared))


def claimed(events: Sequence[PrivacyEvent], delta: Fraction | float) -> float:
    """Return the epsilon that a release of these events claims at delta."""
    return best_epsilon(events, delta)[0]


def recorded(events: Sequence[PrivacyEvent], delta: float) -> float:
    """Return the epsilon that a record states of a release of these events, fixed beforehand.

    Of Gaussian noise it is that of its loss distribution. The conversion of Rényi losses states a fifth more where
    delta is 0.01, and no attack can prove what no pair of tables has.
    """
    return release_claim(events, round(Fraction(str(delta)) * ATTO)).epsilon / PICO


def halved(event: DiscreteLaplace | DiscreteGaussian) -> DiscreteLaplace | DiscreteGaussian:
    """Return the event of noise of half the standard deviation; its moves stay."""
    if isinstance(event, DiscreteLaplace):
        return DiscreteLaplace(2 * event.inverse_scale, event.moves)
    return DiscreteGaussian(event.sigma_squared / 4, event.moves)
