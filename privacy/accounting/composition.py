"""How events compose, named as `dp_accounting` names them: repeated, one after the other, and on a Poisson sample.

Two events of the books are compositions that are written in one line, since a list of them would be too long:
    PoissonSampledGaussian    steps of PoissonSampled(sampling_probability, Gaussian(noise_multiplier))
    DiscreteLaplaceVector     times of DiscreteLaplace(inverse_scale, (move,))
So an event of the books has the curve of its composition.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from privacy.accounting.amounts import AmountRefused
from privacy.accounting.events import (
    DiscreteLaplace,
    DiscreteLaplaceVector,
    Gaussian,
    PoissonSampledGaussian,
    PrivacyEvent,
)


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
