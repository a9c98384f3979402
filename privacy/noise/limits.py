"""What the samplers refuse, and the error that says so."""

from __future__ import annotations

from decimal import Context, Decimal
from fractions import Fraction

from contracts.errors import SudareError


class NoiseRefused(SudareError, ValueError):
    """An argument of a sampler is outside of what it draws exactly; nothing was drawn.

    Args:
        argument: name of the argument.
        value: what was given, as text.
        limit: what is allowed.
    """

    def __init__(self, argument: str, value: str, limit: str) -> None:
        self.argument = argument
        self.value = value
        self.limit = limit
        super().__init__(f"{argument} is {value}; allowed: {limit}")


def check_size(argument: str, size: int) -> int:
    """Refuse a size that is not a whole number >= 0."""
    if isinstance(size, bool) or not isinstance(size, int) or size < 0:
        raise NoiseRefused(argument, repr(size), "a whole number, at least 0")
    return size


def check_fraction(argument: str, value: Fraction, smallest: Fraction, largest: Fraction, why: str) -> Fraction:
    """Refuse what is not a Fraction (a float is not the number that was meant) or lies outside of the limits."""
    if isinstance(value, Fraction) and smallest <= value <= largest:
        return value
    given = _short(value) if isinstance(value, Fraction) else f"{value!r} of type {type(value).__name__}"
    raise NoiseRefused(argument, given, f"a Fraction from {_short(smallest)} to {_short(largest)} ({why})")


def _short(value: Fraction) -> str:
    """Show a fraction with six digits, however long its terms are."""
    return str(Context(prec=6, traps=[]).divide(Decimal(value.numerator), Decimal(value.denominator)))
