"""What right guesses of many coins in one run prove, of a whole trade-off curve instead of one epsilon and delta.

Where (one letter each)
    m   coins, each of which puts a row into one run or leaves it out
    r   guesses, for an attacker may keep silent;  v   right ones;  p_s   chance of exactly s right ones
    F   the claim: P(E) <= F(Q(E)) for neighbours P, Q and every event E; concave, F(x) = min over epsilon of
        e^epsilon x + delta(epsilon)

Turn one coin. A right guess of it becomes a wrong one, and one guess less is right; so for every t, averaged over all
coins and all tables,

    1/m Σ_{s >= t} s p_s  <=  F( 1/m Σ_{s >= t-1} (r - s) p_s )

for a right guess with at least t right ones is a wrong guess with at least t - 1 right ones on the neighbour. These
say how much chance must lie below v for some to lie at v: from above, each p_s is the least that the inequality of
s + 1 allows. A chance for which they add up to more than 1 cannot be that of v right guesses.

It holds for any dependence between the guesses of one run. The bound of `coin_guesses` is for one epsilon and delta;
here all of them count at once.

Source: Mahloujifar, Melis, Chaudhuri 2024, Auditing f-differential privacy in one run; the derivation is in
docs/derivations.md, section 12.
"""

from __future__ import annotations

from math import exp, log
from typing import Final

import numpy as np
from scipy.optimize import brentq
from scipy.stats import norm

from privacy.arrays import Floats

_LOSSES: Final = np.linspace(-12.0, 12.0, 481)
"""The epsilons of which the claim is held; fewer would prove less."""
_HALVINGS: Final = 40
_LEAST_LOG: Final = -80.0
_LEAST_SHIFT: Final = 1e-3
_LARGEST_SHIFT: Final = 12.0


def gaussian_deltas(shift: float, losses: Floats) -> Floats:
    """Return delta(epsilon) of N(mu, 1) against N(0, 1).

    Args:
        shift: mu, > 0.
        losses: epsilons of either sign.
    Source: Dong, Roth, Su 2022, corollary 2.13.
    """
    far = np.exp(losses + norm.logcdf(-shift / 2 - losses / shift))
    return np.asarray(norm.cdf(shift / 2 - losses / shift) - far)


def chance_under(right: int, guesses: int, *, coins: int, losses: Floats, deltas: Floats) -> float:
    """Bound the chance of at least so many right guesses under a claim.

    Args:
        right: v, at most `guesses`.
        guesses: r, at most `coins`.
        coins: m.
        losses, deltas: the claim: delta(epsilon) at some epsilons.
    """
    shrunk = np.exp(-losses)

    def least_mass(chance: float) -> float:
        """Return how much chance there must be in all, where so much lies at v."""
        mass, hits, misses = chance, right * chance / coins, (guesses - right) * chance / coins
        for fewer in range(right - 1, -1, -1):
            wanted = max(0.0, float(np.max(shrunk * (hits - deltas))))
            added = max(0.0, (wanted - misses) * coins / (guesses - fewer))
            hits, misses, mass = (
                hits + added * fewer / coins,
                misses + added * (guesses - fewer) / coins,
                mass + added,
            )
            # Where nothing has to be added, nothing has to be further down: the inequalities there are weaker.
            if added == 0 or mass > 1:
                break
        return mass

    if right == 0 or least_mass(1.0) <= 1:
        return 1.0
    low, high = _LEAST_LOG, 0.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if least_mass(exp(middle)) <= 1 else (low, middle)
    return exp(high)


def least_shift(right: int, guesses: int, *, coins: int, unsure: float) -> float:
    """Return the least mu of a Gaussian trade-off curve under which so many right guesses are no surprise.

    Args:
        right, guesses, coins: as of `chance_under`.
        unsure: chance with which the bound may be too high.
    Returns:
        float: 0 where they prove nothing.
    """

    def missing(shift: float) -> float:
        deltas = gaussian_deltas(shift, _LOSSES)
        return log(chance_under(right, guesses, coins=coins, losses=_LOSSES, deltas=deltas)) - log(unsure)

    if missing(_LEAST_SHIFT) >= 0:
        return 0.0
    if missing(_LARGEST_SHIFT) < 0:
        return _LARGEST_SHIFT
    return float(brentq(missing, _LEAST_SHIFT, _LARGEST_SHIFT, xtol=1e-4))
