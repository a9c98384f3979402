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

An attacker who knows the likelihoods needs no threshold. With as many trials of P as of Q, a guess is right with a
chance of (t + 1 - f) / 2 <= Phi(mu / 2), and their number is binomial at worst: `gaussian_guesses`. It bounds mu by
one rate instead of two, with all trials. The shape is assumed at one point alone: mu is the shift of the Gaussian
pair of the same total variation.

Source: Kairouz, Oh, Viswanath 2015, theorem 2.1 (the region of rates); Jagielski, Ullman, Oprea 2020 (with
Clopper and Pearson's bounds); Nasr et al. 2023 (the Gaussian's); Dong, Roth, Su 2022, corollary 2.13 (its delta);
Hoeffding 1956, theorem 5 (two rates of right guesses are no worse than their mean twice).
"""

from __future__ import annotations

from typing import Final, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.stats import beta, norm

Rates = NDArray[np.float64]
BoundMethod = Literal["clopper_pearson", "gaussian", "gaussian_guesses", "one_run"]
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


def guessing_shifts(right: Rates, trials: int, *, unsure: float) -> Rates:
    """Return the least mu that numbers of right guesses prove, half of the trials with the canary; never below 0.

    Formula: 2 Phi^-1 of the lower bound on the chance of a right guess

    Args:
        right: numbers of right guesses, any shape.
        trials: of both tables together.
        unsure: chance with which the bound may be too high.
    """
    return np.asarray(2 * np.maximum(norm.ppf(at_least(right, trials, unsure=unsure)), 0.0))


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
    """Return what each count of successes proves: epsilon, or for the Gaussian methods mu.

    Args:
        found: trials with the canary that were taken for such.
        wrongly: trials without it that were taken for trials with it, same shape.
        trials: how many there were, with and without.
        delta: of the claim.
        unsure: chance with which the bound may be too high, shared evenly by the two rates.
        method: "clopper_pearson" holds for any mechanism, the others for a Gaussian one.
    Raises:
        ValueError: method "gaussian_guesses", and other trials with than without.
    """
    if method == "gaussian_guesses":
        if trials[0] != trials[1]:
            raise ValueError(f"as many trials must be guessed with the canary as without, not {trials}")
        return guessing_shifts(found + (trials[1] - wrongly), sum(trials), unsure=unsure)
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
    return as_epsilon(float(best[0]), delta=delta, method=method)


def as_epsilon(value: float, *, delta: float, method: BoundMethod) -> float:
    """Return epsilon at delta of what `proven` says: itself, or that of the Gaussian pair of this shift."""
    return value if method == "clopper_pearson" else gaussian_epsilon(value, delta)
