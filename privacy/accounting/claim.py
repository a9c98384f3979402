"""The claim of one release whose events were all fixed before its first draw: its epsilon at its delta.

The least of three, each an upper bound of the same thing:
    pure     the sum of the pure losses
    renyi    the sum of the Rényi losses at the best order, converted
    pld      the composed privacy loss distribution, where every event is Gaussian noise, sampled or not

Only the claim may rest on a loss distribution. What an account is charged is the loss of the same events in its own
calculus: a composed distribution is no filter (docs/derivations.md, sections 6 and 7).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final, Literal

from privacy.accounting.amounts import ATTO, PICO, AmountRefused, loss_up
from privacy.accounting.calculus import PureCalculus
from privacy.accounting.convert import best_epsilon
from privacy.accounting.events import DiscreteGaussian, Gaussian, PoissonSampledGaussian, PrivacyEvent
from privacy.accounting.key_selection import failures
from privacy.accounting.second_backend import pld_epsilon

ClaimedBy = Literal["pure", "renyi", "pld"]
KERNEL: Final = 4
"""Variance of the rounding that turns continuous Gaussian noise into discrete noise [units squared]."""
_KEPT: Final = Fraction(999, 1000)
"""Of delta; the rest is room for the factor between discrete noise and rounded continuous noise, 10^-20."""
_A_STEP: Final = Fraction(1, 10**15)
_AT_LEAST: Final = Fraction(1, 10**12)
"""Of delta: what the library's Fourier transforms may be off by, measured below a fifth of it."""
_MOST_OF_DELTA: Final = 10


@dataclass(frozen=True)
class Claim:
    """What a list of events costs at a delta.

    Args:
        epsilon: rounded up [10^-12].
        by: how it follows.
    """

    epsilon: int
    by: ClaimedBy


def release_claim(events: Iterable[PrivacyEvent], delta: int) -> Claim:
    """Return the least claim that holds for events fixed beforehand.

    Args:
        events: what will be drawn, all that is charged.
        delta: 0 <= delta < 10^18 [10^-18].
    Returns:
        Claim: rounded up.
    Raises:
        UnsupportedEvent: delta is 0 and a pure loss is infinite, or a selection of keys may fail.
        AmountRefused: the loss is above 10^6, or delta does not hold what selections of keys may fail with.
    Privacy: (epsilon, delta)-DP; valid where the list does not depend on what was drawn.
    """
    return _claim(tuple(events), delta)


@lru_cache(maxsize=64)
def _claim(events: tuple[PrivacyEvent, ...], delta: int) -> Claim:
    if not delta:
        return Claim(PureCalculus().cost(events), "pure")
    chance = Fraction(delta, ATTO)
    epsilon, order = best_epsilon(events, chance)
    # An infinite order stands for the sum of the pure losses; of selections it may be all of the charge, exactly.
    if order == math.inf and epsilon < math.inf and failures(events):
        return Claim(PureCalculus(delta).cost(events), "pure")
    known = Claim(loss_up(epsilon), "renyi" if order < math.inf else "pure")
    composed = _composed(events, chance)
    return known if composed is None or composed >= known.epsilon else Claim(composed, "pld")


def _composed(events: Sequence[PrivacyEvent], delta: Fraction) -> int | None:
    """Return the epsilon of the composed distribution, with room for what the library may be off by; or None."""
    gaussian = dominating(events)
    if gaussian is None:
        return None
    # Room for the errors of the library's transforms, which grow with the sampled steps.
    steps = sum(event.steps for event in gaussian if isinstance(event, PoissonSampledGaussian))
    room = _AT_LEAST + steps * _A_STEP
    # At so small a delta the room would take too much of it: no claim is made.
    if delta < _MOST_OF_DELTA * room:
        return None
    epsilon = pld_epsilon(gaussian, delta * _KEPT - room)
    return None if not epsilon else math.ceil(Fraction(epsilon) * PICO) + 1


def second_epsilon(events: Sequence[PrivacyEvent], delta: Fraction) -> float | None:
    """Return what the second accountant says of events fixed beforehand, of their own pairs or of dominating ones."""
    found = pld_epsilon(events, delta)
    if found is not None:
        return found
    gaussian = dominating(events)
    return None if gaussian is None else pld_epsilon(gaussian, delta)


def dominating(events: Iterable[PrivacyEvent]) -> tuple[PrivacyEvent, ...] | None:
    """Return continuous Gaussian noise that costs at least what these events do, at every epsilon and delta.

    Discrete Gaussian noise of variance v is, up to a factor of exp(10^-20), continuous noise of variance v - 4 that
    was rounded; all unsampled noise is one Gaussian, whose squared shift is the sum of theirs.

    Returns:
        tuple: one Gaussian, and the sampled ones; None where an event is no Gaussian noise or its variance too small.
    Privacy: docs/derivations.md, section 7.
    """
    shift, sampled = Fraction(0), []
    for event in events:
        match event:
            case DiscreteGaussian(sigma_squared, moves) if sigma_squared > KERNEL:
                shift += Fraction(sum(move * move for move in moves)) / (sigma_squared - KERNEL)
            case Gaussian(noise_multiplier):
                shift += 1 / noise_multiplier**2
            case PoissonSampledGaussian():
                sampled.append(event)
            case _:
                return None
    if not shift:
        return tuple(sampled)
    try:
        # A multiplier that is rounded down costs no less.
        unsampled = Gaussian(Fraction(math.isqrt(math.floor(PICO**2 / shift)), PICO))
    except AmountRefused:
        return None
    return (unsampled, *sampled)
