"""How a noisy gradient moves the parameters; post-processing, whatever it does."""

from __future__ import annotations

from dataclasses import dataclass
from math import cos, isfinite, pi
from typing import Any, ClassVar, Literal

from privacy.learning.errors import CannotTrain

Decay = Literal["none", "linear", "cosine"]


@dataclass(frozen=True)
class Sgd:
    """Gradient descent with momentum.

    Args:
        learning_rate: > 0.
        momentum: 0 <= momentum < 1.
        decay: how the rate falls over the steps.
    """

    learning_rate: float
    momentum: float = 0.0
    decay: Decay = "none"
    kind: ClassVar[str] = "sgd"

    def __post_init__(self) -> None:
        _checked(self.learning_rate, self.decay, self.momentum)

    def to_json(self) -> dict[str, Any]:
        """Write it as JSON values."""
        return {"kind": self.kind, **vars(self)}


@dataclass(frozen=True)
class Adam:
    """Adam.

    Args:
        learning_rate: > 0.
        first: decay of the mean of gradients, 0 <= first < 1.
        second: decay of the mean of their squares, 0 <= second < 1.
        decay: how the rate falls over the steps.
    Source: Kingma, Ba 2015, algorithm 1; epsilon is 10^-8.
    """

    learning_rate: float
    first: float = 0.9
    second: float = 0.999
    decay: Decay = "none"
    kind: ClassVar[str] = "adam"

    def __post_init__(self) -> None:
        _checked(self.learning_rate, self.decay, self.first, self.second)

    def to_json(self) -> dict[str, Any]:
        """Write it as JSON values."""
        return {"kind": self.kind, **vars(self)}


Optimizer = Sgd | Adam


def rate(optimizer: Optimizer, step: int, steps: int) -> float:
    """Return the learning rate of one step, counted from 0."""
    share = step / steps
    falls = {"none": 1.0, "linear": 1.0 - share, "cosine": 0.5 * (1.0 + cos(pi * share))}
    return optimizer.learning_rate * falls[optimizer.decay]


def check_optimizer(optimizer: object, averaging: object) -> None:
    """Refuse an optimizer of another making, and a decay of averaged weights out of range."""
    if type(optimizer) not in (Sgd, Adam):
        raise CannotTrain("optimizer", type(optimizer).__name__, "Sgd or Adam itself")
    if averaging is not None and not (type(averaging) is float and 0 < averaging < 1):
        raise CannotTrain("averaging", averaging, "a float above 0 and below 1, or None")


def _checked(learning_rate: Any, decay: Any, *shares: Any) -> None:
    if type(learning_rate) is not float or not isfinite(learning_rate) or not 0 < learning_rate <= 1000:
        raise CannotTrain("learning_rate", learning_rate, "a float above 0 and up to 1000")
    if decay not in ("none", "linear", "cosine"):
        raise CannotTrain("decay", decay, "none, linear or cosine")
    for share in shares:
        if type(share) is not float or not 0 <= share < 1:
            raise CannotTrain("momentum", share, "a float from 0 to below 1")
