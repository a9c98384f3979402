"""Guesses of coins: each row is in a release or not by the toss of a coin, and an attacker guesses coins.

One release tests as many rows as there are coins, and several releases with coins of their own are one mechanism
with all of their coins, of the same guarantee: a coin moves one release by one row. Under (epsilon, 0)-DP no coin is
guessed right with a chance above q = e^epsilon / (1 + e^epsilon), whatever the output and the coins before it, so
that the number of right guesses is below a binomial one in distribution; delta adds what `chance_of` has.

Where (one letter each)
    m   coins;  r   guesses, for an attacker may keep silent;  v   right ones
    W   Binomial(r, q)

    Pr[right >= v] <= beta + 2 m delta alpha,   beta = Pr[W >= v],   alpha = max over i >= 1 of Pr[v > W >= v - i] / i

It holds for any dependence between the rows of one release, and for any way to guess that looks at releases whose
coins are guessed, and at other releases with their coins, but not at the coins that are guessed.

Source: Steinke, Nasr, Jagielski 2023, Privacy auditing with one (1) training run, corollary 5.4 and appendix D.
Releases of several runs, and the pairs of rows of `replace_one`: docs/derivations.md, section 12.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp
from typing import Final

import numpy as np
from scipy.optimize import brentq
from scipy.stats import binom

_MOST: Final = 50.0
"""Epsilons are sought up to it."""


def chance_of(right: int, guesses: int, *, coins: int, epsilon: float, delta: float) -> float:
    """Bound the chance of so many right guesses under (epsilon, delta)-differential privacy.

    Args:
        right: v, at most `guesses`.
        guesses: r, at most `coins`.
        coins: m.
        epsilon, delta: the claim.
    """
    chance = 1 / (1 + exp(-epsilon))
    beta = float(binom.sf(right - 1, guesses, chance))
    if delta <= 0 or right == 0:
        return beta
    fewer = np.arange(1, right + 1)
    between = binom.sf(right - fewer - 1, guesses, chance) - beta
    alpha = float(np.max(between / fewer, initial=0.0))
    return min(1.0, beta + 2 * coins * delta * alpha)


def chance_over(right: Sequence[int], guesses: Sequence[int], *, coins: int, epsilon: float, delta: float) -> float:
    """Bound the chance of so many right guesses in each of several releases, which have coins and noise of their own.

    The smaller of two bounds, twice: that of all releases as one mechanism; and that of half of the releases having
    each so many, Binomial(releases, p) with p the chance of the middle one. The second is the sharper one where delta
    is not small: a mechanism that tells everything with chance delta tells it in one release, hardly in half of them.

    Args:
        right, guesses: of each release.
        coins: of each release.
        epsilon, delta: the claim, of each release.
    """
    number, claim = len(right), {"epsilon": epsilon, "delta": delta}
    whole = chance_of(sum(right), sum(guesses), coins=coins * number, **claim)
    if number == 1 or delta <= 0:
        return whole
    each = sorted(chance_of(v, r, coins=coins, **claim) for v, r in zip(right, guesses, strict=True))
    half = (number + 1) // 2
    return min(1.0, 2 * min(whole, float(binom.sf(half - 1, number, each[half - 1]))))


def least_epsilon(right: Sequence[int], guesses: Sequence[int], *, coins: int, delta: float, unsure: float) -> float:
    """Return the least epsilon at delta that so many right guesses prove; 0 where they prove none.

    Args:
        right, guesses, coins, delta: as of `chance_over`.
        unsure: chance with which the bound may be too high.
    """

    def missing(epsilon: float) -> float:
        return chance_over(right, guesses, coins=coins, epsilon=epsilon, delta=delta) - unsure

    if missing(0.0) >= 0:
        return 0.0
    return _MOST if missing(_MOST) < 0 else float(brentq(missing, 0.0, _MOST, xtol=1e-4))


def allowed_advantage(epsilon: float, delta: float) -> float:
    """Return the largest difference of true and false positive rate that a claim allows.

    Formula: (e^epsilon - 1 + 2 delta) / (e^epsilon + 1): the sum of the two inequalities of the claim, for the guess
    "it was there" and for its opposite.
    """
    less = exp(-epsilon)
    return min(1.0, (1 - less + 2 * delta * less) / (1 + less))
