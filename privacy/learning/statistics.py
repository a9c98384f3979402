"""The sums over rows that a grant draws noise on, and the event of drawing it.

Their bounds are norms: a neighbour may change a sum by any whole vector within them (`moments`).
"""

from __future__ import annotations

from contracts.contract.contract import Adjacency
from privacy.accounting.calibrate import gaussian_sigma_squared
from privacy.accounting.events import DiscreteGaussian
from privacy.learning.moments import MomentBlocks, Moments
from privacy.marginals.sensitivity import GaussianNoise

__all__ = ["MomentBlocks", "Moments", "Statistic", "sum_event"]

Statistic = Moments


def sum_event(
    statistic: Statistic, noise: GaussianNoise, *, adjacency: Adjacency, rows_per_unit: int
) -> DiscreteGaussian:
    """Return the event of adding noise to a statistic; a `plan` may ask without any data.

    Raises:
        AmountRefused: an amount out of range, such as moves above 10^11.
    """
    moves = statistic.moves(adjacency, rows_per_unit)
    return DiscreteGaussian(gaussian_sigma_squared(noise.rho, moves), moves)
