"""The least epsilon that an attacker's two rates prove.

Where (one letter each)
    P, Q    distributions of the output with and without the canary
    S       what the attacker takes for "it was there"; t = P(S) at least, f = Q(S) at most, both at once with the
            stated confidence

(epsilon, delta)-DP means P(S) <= e^epsilon Q(S) + delta, and the same for Q, P and what is not in S. Hence

    epsilon >= log (t - delta) / f      and      epsilon >= log (1 - f - delta) / (1 - t)

which holds whatever the mechanism is: `clopper_pearson`. Where the pair is that of a Gaussian, N(mu, 1) against
N(0, 1), one may say more, because any point of its trade-off curve gives all others: `gaussian`. It says: if this is
a Gaussian mechanism, of whatever noise, then

    mu >= Phi^-1(1 - f) - Phi^-1(1 - t),     delta = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu)

Source: Kairouz, Oh, Viswanath 2015, theorem 2.1 (the region of rates); Jagielski, Ullman, Oprea 2020 (with
Clopper and Pearson's bounds); Nasr et al. 2023 (the Gaussian's); Dong, Roth, Su 2022, corollary 2.13 (its delta).
"""

from __future__ import annotations

from typing import Final, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.stats import beta, norm

Rates = NDArray[np.float64]
BoundMethod = Literal["clopper_pearson", "gaussian"]
_MOST: Final = 700.0
"""Epsilons are sought up to it; e^700 still is a float64."""


def at_least(successes: ArrayLike, trials: int, *, unsure: float) -> Rates:
    """Bound a chance from below.

    Formula: the `unsure` quantile of Beta(k, n - k + 1); 0 where k = 0

    Args:
        successes: k, whole numbers from 0 to `trials`, any shape.
        trials: n independent trials, >= 1.
        unsure: chance with which the bound may be too high, above 0 and below 1.
    Source: Clopper and Pearson 1934.
    """
    found = np.asarray(successes, dtype=np.float64)
    bound = beta.ppf(unsure, np.maximum(found, 1), trials - np.maximum(found, 1) + 1)
    return np.where(found > 0, bound, 0.0)


def at_most(successes: ArrayLike, trials: int, *, unsure: float) -> Rates:
    """Bound a chance from above: one less the bound from below on its opposite."""
    return 1.0 - at_least(trials - np.asarray(successes, dtype=np.float64), trials, unsure=unsure)


def epsilons(true_rate: Rates, false_rate: Rates, *, delta: float) -> Rates:
    """Return the least epsilon at delta that the rates prove, for any mechanism; never below 0.

    Args:
        true_rate: lower bound of P(S).
        false_rate: upper bound of Q(S), same shape.
        delta: from 0 to below 1.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        there = np.log(np.maximum(true_rate - delta, 0)) - np.log(false_rate)
        not_there = np.log(np.maximum(1 - false_rate - delta, 0)) - np.log(1 - true_rate)
    return np.asarray(np.maximum(np.nan_to_num(np.maximum(there, not_there), nan=0.0, posinf=_MOST), 0.0))


def gaussian_shifts(true_rate: Rates, false_rate: Rates) -> Rates:
    """Return the least mu that the rates prove of a Gaussian mechanism; never below 0."""
    return np.asarray(np.maximum(norm.isf(false_rate) - norm.isf(true_rate), 0.0))


def gaussian_epsilon(shift: float, delta: float) -> float:
    """Return epsilon at delta of N(mu, 1) against N(0, 1).

    Args:
        shift: mu, >= 0.
        delta: above 0 and below 1.
    """

    def missing(epsilon: float) -> float:
        far = np.exp(epsilon + norm.logcdf(-shift / 2 - epsilon / shift))
        return float(norm.cdf(shift / 2 - epsilon / shift) - far) - delta

    if shift <= 0 or missing(0.0) <= 0:
        return 0.0
    return float(brentq(missing, 0.0, _MOST, xtol=1e-9)) if missing(_MOST) < 0 else _MOST


def proven(
    found: Rates, wrongly: Rates, trials: tuple[int, int], *, delta: float, unsure: float, method: BoundMethod
) -> Rates:
    """Return what each count of successes proves: epsilon, or for method `gaussian` mu.

    Args:
        found: trials with the canary that were taken for such.
        wrongly: trials without it that were taken for trials with it, same shape.
        trials: how many there were, with and without.
        delta: of the claim.
        unsure: chance with which the bound may be too high, shared evenly by the two rates.
        method: "clopper_pearson" holds for any mechanism, "gaussian" for a Gaussian one.
    """
    true_rate = at_least(found, trials[0], unsure=unsure / 2)
    false_rate = at_most(wrongly, trials[1], unsure=unsure / 2)
    if method == "gaussian":
        return gaussian_shifts(true_rate, false_rate)
    return epsilons(true_rate, false_rate, delta=delta)


def largest_certifiable(trials: tuple[int, int], *, delta: float, unsure: float, method: BoundMethod) -> float:
    """Return the epsilon that an attacker who is never wrong would prove with so many trials.

    A claim above it cannot be refuted by this game, whatever the mechanism does.
    """
    best = proven(np.array([float(trials[0])]), np.zeros(1), trials, delta=delta, unsure=unsure, method=method)
    return gaussian_epsilon(float(best[0]), delta) if method == "gaussian" else float(best[0])
