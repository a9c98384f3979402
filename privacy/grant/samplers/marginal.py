"""From exact counts to what may be written down: only a grant calls this (law 1)."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, assert_never

import numpy as np
from numpy.typing import NDArray

from privacy.accounting.events import CountNoise, DiscreteGaussian, DiscreteLaplace
from privacy.grant.measurement import Measurement
from privacy.grant.queries.marginal import MarginalQuery
from privacy.ledger.draw_files import Draw
from privacy.marginals.suppression import Threshold
from privacy.marginals.uncertainty import variance
from privacy.noise.discrete_gaussian import discrete_gaussian
from privacy.noise.discrete_laplace import discrete_laplace
from privacy.noise.exponential_mechanism import exponential_mechanism
from privacy.noise.random_bytes import RandomBytes


def noisy_counts(
    exact: NDArray[np.int64], *, event: CountNoise, threshold: Threshold | None, source: RandomBytes
) -> NDArray[np.int64]:
    """Add the event's noise to every cell, and suppress what is below the threshold of a minimum-frequency rule."""
    match event:
        case DiscreteLaplace(inverse_scale=inverse_scale):
            noise = discrete_laplace(exact.size, inverse_scale=inverse_scale, source=source)
        case DiscreteGaussian(sigma_squared=sigma_squared):
            noise = discrete_gaussian(exact.size, sigma_squared=sigma_squared, source=source)
        case _:
            assert_never(event)
    noisy = exact + noise.reshape(exact.shape)
    return noisy if threshold is None else threshold.censored(noisy)


class MarginalSampler:
    """Draws noisy marginals."""

    def sample(
        self,
        query: MarginalQuery,
        exact: tuple[Any, ...],
        *,
        event: CountNoise,
        source: RandomBytes,
    ) -> NDArray[np.int64]:
        """Add noise to every cell, and suppress what the query's rule says."""
        (counts,) = exact
        return noisy_counts(counts, event=event, threshold=query.threshold(event), source=source)

    def result(self, query: MarginalQuery, event: CountNoise, draw: Draw) -> Measurement:
        """Return the noisy marginal with what it cost."""
        threshold, drawn = query.threshold(event), (draw.number, draw.sha256)
        return Measurement(draw.key, draw.clique, draw.values, event, variance(event), *drawn, threshold)


def choice(
    scores: Sequence[Fraction], *, epsilon: Fraction, sensitivity: Fraction, source: RandomBytes
) -> NDArray[np.int64]:
    """Choose by exact scores; the place of the choice, shape (1,)."""
    chosen = exponential_mechanism(scores, epsilon=epsilon, sensitivity=sensitivity, source=source)
    return np.array([chosen], dtype=np.int64)
