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
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final, Literal

from privacy.accounting.amounts import ATTO, PICO, AmountRefused, RealNumber, loss_up, probability
from privacy.accounting.calculus import PureCalculus
from privacy.accounting.events import (
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialMechanism,
    Gaussian,
    PoissonSampledGaussian,
    PrivacyEvent,
    Pure,
    UnsupportedEvent,
    failures,
)
from privacy.accounting.renyi import best_epsilon, renyi

# --- The second accountant.


_POINTS: Final = 100_000
_FINEST: Final = 1e-7
_DEVIATIONS: Final = 16
_LARGEST_SIGMA: Final = 20_000
_NEARLY_ONE: Final = 1.001
# A loss above D + 36 / (order - 1) has probability below exp(-36), about 10^-15.6.
_TAIL: Final = 36.0
_TAIL_ORDERS: Final = tuple(2.0**power for power in range(1, 15))
# Compositions that are kept, of about a megabyte each.
_REMEMBERED: Final = 8


def pld_epsilon(events: Iterable[PrivacyEvent], delta: RealNumber) -> float | None:
    """Compute epsilon at delta by composing privacy loss distributions, rounded pessimistically.

    Args:
        events: the events of a plan that was fixed before the first draw.
        delta: 0 < delta < 1 [probability].
    Returns:
        float: epsilon, as `dp_accounting` bounds it from above. None where no dominating pair of distributions is
        proven, or the library cannot tabulate it: discrete Laplace or Gaussian noise where the worst neighbour
        moves a cell by more than one (that the concentrated move is the worst is proven for Rényi divergences, not
        for hockey-stick divergences); a zCDP budget; a sigma above 20,000; a delta so small that the mass of 10^-15
        which the library cuts off a tail, and counts as lost, already exceeds it.
    Raises:
        AmountRefused: delta out of range.
    Privacy: valid for a list that does not depend on what was drawn; floating point, so a check and not the claim.
    Source: `dp_accounting` 0.6, pessimistic connect-the-dots estimates; a pure step is dominated by randomized
        response (Kairouz, Oh, Viswanath 2015), and so is a choice of the exponential mechanism, which has more
        structure that is not used here; the sampled Gaussian's pairs of both directions: Zhu, Dong, Wang 2022.
    """
    chance = float(probability(delta))
    if chance <= 0:
        raise AmountRefused("delta", delta, "a probability > 0 and < 1 for a loss distribution")
    units: Counter[PrivacyEvent] = Counter()
    for event in events:
        split = _split(event)
        if split is None:
            return None
        units[split[0]] += split[1]
    if not units:
        return 0.0
    composed = _composition(tuple(units.items()), _interval(units))
    epsilon = float(composed.get_epsilon_for_delta(chance))
    return epsilon if epsilon < math.inf else None


def _split(event: PrivacyEvent) -> tuple[PrivacyEvent, int] | None:
    """Split an event into equal events of one cell and move one, and say how many; None where that is not possible.

    The neighbours change each of the cells by one or by nothing; the cells' noises are independent, so that the
    product of the cells' pairs dominates them all.
    """
    match event:
        case DiscreteLaplace() if all(abs(move) == 1 for move in event.moves):
            # The discrete Laplace against itself shifted by one is randomized response: its loss is +t or -t.
            return Pure(event.inverse_scale), len(event.moves)
        case DiscreteGaussian() if all(abs(move) == 1 for move in event.moves):
            fits = event.sigma_squared <= _LARGEST_SIGMA**2
            return (DiscreteGaussian(event.sigma_squared, (1,)), len(event.moves)) if fits else None
        case ExponentialMechanism(epsilon):
            return Pure(epsilon), 1
        case PoissonSampledGaussian(noise_multiplier, sampling_probability, steps):
            return PoissonSampledGaussian(noise_multiplier, sampling_probability, 1), steps
        case Pure() | Gaussian():
            return event, 1
    return None


def _interval(units: Counter[PrivacyEvent]) -> float:
    """Choose the grid of losses: so many points for the composed mean and its sixteen standard deviations.

    The largest pure step is a multiple of it, so that a list of equal ones is not rounded at all.
    """
    mean, variance, largest, tail = 0.0, 0.0, 0.0, 0.0
    for event, count in units.items():
        match event:
            case Pure(epsilon=epsilon):
                largest = max(largest, float(epsilon))
                # The loss is +epsilon or -epsilon, with mean epsilon tanh(epsilon / 2) and second moment epsilon².
                tilt = math.tanh(float(epsilon) / 2)
                mean += count * float(epsilon) * tilt
                variance += count * float(epsilon) ** 2 * (1 - tilt * tilt)
            case DiscreteGaussian(sigma_squared=sigma_squared):
                # The loss of Gaussian noise is about Gaussian, with mean 1 / (2 sigma²) and twice that variance.
                mean += count / (2 * float(sigma_squared))
                variance += count / float(sigma_squared)
            case Gaussian() | PoissonSampledGaussian():
                # Composed, it is nearly Gaussian: the variance is twice the mean; its tail may be heavier.
                divergence = count * renyi(event, _NEARLY_ONE)
                mean += divergence
                variance += 2 * divergence
                # Markov's inequality on the Rényi moment of each order bounds the tail; the least bound is taken.
                tail = max(tail, min(count * renyi(event, order) + _TAIL / (order - 1) for order in _TAIL_ORDERS))
    interval = max(_FINEST, max(tail, mean + _DEVIATIONS * math.sqrt(variance)) / _POINTS)
    return largest / math.ceil(largest / interval) if largest > interval else interval


@lru_cache(maxsize=_REMEMBERED)
def _composition(units: tuple[tuple[PrivacyEvent, int], ...], interval: float) -> Any:
    """Compose the losses of all units; a claim and its record ask for the same ones, at deltas that may differ."""
    parts = [_distribution(event, interval).self_compose(count) for event, count in units]
    composed = parts[0]
    for part in parts[1:]:
        composed = composed.compose(part)
    return composed


def _distribution(event: PrivacyEvent, interval: float) -> Any:
    """Tabulate the loss of one event of one cell."""
    # The library costs a second to import, so that only a report that asks for it pays.
    from dp_accounting.pld import privacy_loss_distribution as library

    match event:
        case Pure(epsilon=epsilon):
            return library.from_discrete_laplace_mechanism(
                float(epsilon), sensitivity=1, value_discretization_interval=interval, use_connect_dots=True
            )
        case DiscreteGaussian(sigma_squared=sigma_squared):
            return library.from_discrete_gaussian_mechanism(
                math.sqrt(float(sigma_squared)),
                sensitivity=1,
                value_discretization_interval=interval,
                use_connect_dots=True,
            )
        case Gaussian(noise_multiplier):
            return library.from_gaussian_mechanism(
                float(noise_multiplier), value_discretization_interval=interval, use_connect_dots=True
            )
        case PoissonSampledGaussian(noise_multiplier, sampling_probability):
            return library.from_gaussian_mechanism(
                float(noise_multiplier),
                sampling_prob=float(sampling_probability),
                value_discretization_interval=interval,
                use_connect_dots=True,
            )
    raise UnsupportedEvent(f"no loss distribution for {type(event).__name__}")


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
