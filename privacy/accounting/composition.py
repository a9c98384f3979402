"""How events compose, named as `dp_accounting` names them: repeated, one after the other, and on a Poisson sample.

Two events of the books are compositions that are written in one line, since a list of them would be too long:
    PoissonSampledGaussian    steps of PoissonSampled(sampling_probability, Gaussian(noise_multiplier))
    DiscreteLaplaceVector     times of DiscreteLaplace(inverse_scale, (move,))
So an event of the books has the curve of its composition.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from privacy.accounting.amounts import AmountRefused
from privacy.accounting.event import UnsupportedEvent
from privacy.accounting.events import (
    DiscreteLaplace,
    DiscreteLaplaceVector,
    Gaussian,
    PoissonSampledGaussian,
    PrivacyEvent,
    Pure,
    ZeroConcentrated,
)

if TYPE_CHECKING:  # takes a second to import
    from dp_accounting.dp_event import DpEvent


@dataclass(frozen=True)
class PoissonSampled:
    """An event on a sample in which each unit is by a coin of its own.

    Args:
        sampling_probability: 0 < q <= 1 [probability].
        event: Gaussian noise; of no other event is a curve known here.
    Raises:
        AmountRefused: a probability out of range.
    Privacy: under add_remove only.
    """

    sampling_probability: Fraction
    event: Gaussian

    def __post_init__(self) -> None:
        if not 0 < self.sampling_probability <= 1:
            raise AmountRefused("sampling_probability", self.sampling_probability, "above 0, at most 1")


@dataclass(frozen=True)
class SelfComposed:
    """An event so many times.

    Args:
        event: what is repeated.
        count: at least 1.
    Raises:
        AmountRefused: a count below 1.
    """

    event: ComposableEvent
    count: int

    def __post_init__(self) -> None:
        if type(self.count) is not int or self.count < 1:
            raise AmountRefused("count", self.count, "a whole number, at least 1")


@dataclass(frozen=True)
class Composed:
    """Events one after the other.

    Args:
        events: in any order.
    """

    events: tuple[ComposableEvent, ...]


ComposableEvent = PrivacyEvent | PoissonSampled | SelfComposed | Composed


def composition(event: PrivacyEvent) -> PrivacyEvent | SelfComposed:
    """Return the composition that an event of the books stands for; itself where it is no composition."""
    match event:
        case PoissonSampledGaussian(noise_multiplier, sampling_probability, steps):
            return SelfComposed(PoissonSampled(sampling_probability, Gaussian(noise_multiplier)), steps)
        case DiscreteLaplaceVector(inverse_scale, move, times):
            return SelfComposed(DiscreteLaplace(inverse_scale, (move,)), times)
    return event


def to_dp_event(event: ComposableEvent) -> DpEvent:
    """Return an event as `dp_accounting` has it.

    Raises:
        UnsupportedEvent: it has no event of discrete Gaussian noise, and none of the exponential mechanism.
    """
    from dp_accounting import dp_event

    match event:
        case SelfComposed(repeated, count):
            return dp_event.SelfComposedDpEvent(to_dp_event(repeated), count)
        case Composed(events):
            return dp_event.ComposedDpEvent([to_dp_event(each) for each in events])
        case PoissonSampled(sampling_probability, sampled):
            return dp_event.PoissonSampledDpEvent(float(sampling_probability), to_dp_event(sampled))
        case Gaussian(noise_multiplier):
            return dp_event.GaussianDpEvent(float(noise_multiplier))
        case ZeroConcentrated(rho):
            return dp_event.ZCDpEvent(float(rho))
        case Pure(epsilon):  # randomized response is the worst of them: Kairouz, Oh, Viswanath 2015
            return dp_event.DiscreteLaplaceDpEvent(float(epsilon), 1)
        case DiscreteLaplace(inverse_scale, moves):
            # The noises of the cells are independent: each move is a mechanism of its own.
            each = [dp_event.DiscreteLaplaceDpEvent(float(inverse_scale), abs(move)) for move in moves]
            return each[0] if len(each) == 1 else dp_event.ComposedDpEvent(each)
        case PoissonSampledGaussian() | DiscreteLaplaceVector():
            return to_dp_event(composition(event))
    raise UnsupportedEvent(f"dp_accounting has no event of {event.kind}")
