"""What every event is: a frozen value that is written as its kind and its fields.

The kinds of the tree stand in `events`; their losses are computed by `curves` and scaled by `scale`. The kind of a
package, a `RegisteredEvent`, carries its own loss.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any, ClassVar, Self

from contracts.errors import SudareError


class UnsupportedEvent(SudareError):
    """An event that is not known here, or whose loss is infinite in the calculus that is asked."""


@dataclass(frozen=True)
class WrittenEvent:
    """An event that is written as its kind and its fields.

    `drawn` says that a grant draws such noise; what is none is a budget, or stands for noise in a computation.
    """

    kind: ClassVar[str]
    drawn: ClassVar[bool] = True

    def to_json(self) -> dict[str, Any]:
        """Write the event as JSON values, its kind first; rationals as text, numbers of steps as numbers."""
        return {"kind": self.kind, **{field.name: _shown(getattr(self, field.name)) for field in fields(self)}}


@dataclass(frozen=True)
class RegisteredEvent(WrittenEvent, ABC):
    """An event that a package registers at the entry point `sudare.events`, by its kind.

    Its fields are rationals (`Fraction`), whole numbers (`int`) and moves (`tuple[int, ...]`); it checks their ranges
    when it is made. `adjacencies` names the relations between neighbours under which its loss is valid. A checker
    computes the loss by `tasks.verification.recompute`, from code of its own.
    """

    adjacencies: ClassVar[frozenset[str]]

    @property
    @abstractmethod
    def pure_loss(self) -> Fraction | None:
        """The pure epsilon, exactly; None where it is infinite."""

    @abstractmethod
    def divergence(self, order: float) -> float:
        """Return a bound of the Rényi divergence of the worst neighbour at an order > 1, both directions."""

    @abstractmethod
    def scaled(self, factor: Fraction) -> Self:
        """Return the same draw with its loss multiplied by a factor > 0, rounded so that it never costs more."""


def _shown(value: Any) -> Any:
    """Write one field: moves as a list, steps as a number, a rational as text."""
    if isinstance(value, tuple):
        return list(value)
    return str(value) if isinstance(value, Fraction) else value
