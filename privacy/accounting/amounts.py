"""Amounts of privacy as integers: losses in units of 10^-12, failure probabilities in units of 10^-18.

Everything that is added up, compared or stored is one of these integers. A number becomes an amount in one
of two directions, and the direction is always against the spender: what is spent goes up, what may be spent
goes down.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Final, Literal

from contracts.errors import SudareError
from contracts.message import Message, message

PICO: Final = 10**12
ATTO: Final = 10**18
LARGEST: Final = 10**6
_FLOAT_MARGIN: Final = Fraction(1, 10**15)

RealNumber = int | Fraction | Decimal | float


class AmountRefused(SudareError):
    """A number that cannot be an amount of privacy: not positive, not finite, or out of range."""

    exit_code = 2

    def __init__(self, what: str, found: object, allowed: str) -> None:
        self.what, self.found, self.allowed = what, found, allowed
        super().__init__(f"{what} is {_shown(found)}; allowed: {allowed}")


def _shown(found: object) -> str:
    """Print what was found, shortened where it is longer than a line."""
    terms = (found.numerator, found.denominator) if isinstance(found, int | Fraction) else ()
    if any(term.bit_length() > 256 for term in terms):
        return "a number of more than 77 digits"
    text = str(found) if isinstance(found, int | Fraction | Decimal | float | str) else type(found).__name__
    return text if len(text) <= 60 else f"{text[:57]}..."


def exact(value: RealNumber, *, what: str, largest: int = LARGEST, zero: bool = False) -> Fraction:
    """Turn a finite number into the rational that it is exactly, or refuse it.

    Args:
        value: an int, Fraction, Decimal or float; a bool is refused.
        what: the argument's name, for the message.
        largest: the largest value allowed.
        zero: whether zero is allowed.
    Returns:
        Fraction: the same number.
    Raises:
        AmountRefused: not a number, NaN, infinite, negative, above `largest`, or zero where it is not allowed.
    """
    allowed = f"a finite number {'>= 0' if zero else '> 0'} and <= {largest}"
    if isinstance(value, bool) or not isinstance(value, int | Fraction | Decimal | float):
        raise AmountRefused(what, value, allowed)
    finite = value.is_finite() if isinstance(value, Decimal) else not isinstance(value, float) or math.isfinite(value)
    # A Decimal is compared before it becomes a Fraction: 1e999999999 would not fit in memory.
    if not finite or value > largest or value < 0 or (value == 0 and not zero):
        raise AmountRefused(what, value, allowed)
    # A tiny Decimal would become a Fraction with as many digits as its exponent says.
    if isinstance(value, Decimal) and 0 < value < Decimal("1e-60"):
        raise AmountRefused(what, value, f"{allowed}, and not below 1e-60 unless zero")
    return Fraction(value)


def loss_up(value: RealNumber) -> int:
    """Round a loss that was incurred up to whole units of 10^-12.

    A float stands for a computed value: it is raised by a relative 10^-15 first, more than the error of its
    last rounding; the error of the computation itself is the caller's to add.

    Args:
        value: the loss, > 0 and <= 10^6 [dimensionless].
    Returns:
        int: the loss, >= 1 [10^-12].
    Raises:
        AmountRefused: not positive, not finite, or above 10^6.
    """
    loss = exact(value, what="loss")
    if isinstance(value, float):
        loss *= 1 + _FLOAT_MARGIN
    return math.ceil(loss * PICO)


def budget_down(value: RealNumber) -> int:
    """Round a loss that is allowed down to whole units of 10^-12.

    Args:
        value: the allowance, > 0 and <= 10^6 [dimensionless]; a float is lowered by a relative 10^-15 first.
    Returns:
        int: the allowance, >= 1 [10^-12].
    Raises:
        AmountRefused: not positive, not finite, above 10^6, or less than one unit.
    """
    budget = exact(value, what="budget")
    if isinstance(value, float):
        budget *= 1 - _FLOAT_MARGIN
    units = math.floor(budget * PICO)
    if units < 1:
        raise AmountRefused("budget", value, "at least 1e-12")
    return units


def delta_up(value: RealNumber) -> int:
    """Round a failure probability that was incurred up to whole units of 10^-18.

    Args:
        value: delta, 0 <= delta < 1 [probability].
    Returns:
        int: delta, >= 0 [10^-18].
    Raises:
        AmountRefused: negative, not finite, or not below 1 after rounding.
    """
    return _below_one(math.ceil(_delta(value, 1 + _FLOAT_MARGIN) * ATTO), value)


def delta_down(value: RealNumber) -> int:
    """Round a failure probability that is allowed down to whole units of 10^-18.

    Args:
        value: delta, 0 <= delta < 1 [probability].
    Returns:
        int: delta, >= 0 [10^-18]; zero if the value is positive and below one unit.
    Raises:
        AmountRefused: negative, not finite, or not below 1.
    """
    return _below_one(math.floor(_delta(value, 1 - _FLOAT_MARGIN) * ATTO), value)


def probability(value: RealNumber) -> Fraction:
    """Turn a failure probability into the rational that it is exactly, or refuse it.

    Args:
        value: delta, 0 <= delta < 1 [probability].
    Returns:
        Fraction: the same number.
    Raises:
        AmountRefused: not a number, NaN, negative, or not below 1.
    """
    delta = exact(value, what="delta", largest=1, zero=True)
    if delta >= 1:
        raise AmountRefused("delta", value, "a probability >= 0 and < 1")
    return delta


def _delta(value: RealNumber, factor: Fraction) -> Fraction:
    """Read a probability; `factor` moves a float off its last rounding."""
    return probability(value) * (factor if isinstance(value, float) else 1)


def _below_one(units: int, value: RealNumber) -> int:
    """Refuse a delta that rounding brought to one."""
    if units >= ATTO:
        raise AmountRefused("delta", value, "a probability >= 0 and < 1")
    return units


def pico_to_text(units: int) -> str:
    """Write units of 10^-12 as a plain decimal number, exactly: 1_500_000_000_000 is "1.5"."""
    return _decimal_text(units, 12)


def atto_to_text(units: int) -> str:
    """Write units of 10^-18 as a number, exactly: 1_000_000_000 is "1e-9", 0 is "0"."""
    digits = str(units).rstrip("0") or "0"
    power = len(str(units)) - len(digits) - 18
    return _decimal_text(units, 18) if units == 0 or len(digits) > 6 else f"{digits}e{power}"


def power_text(number: str) -> str:
    """Write a number of `atto_to_text` for people, with one digit before the point: 2106e-11 is 2.106e-8."""
    digits, _, power = number.partition("e")
    return f"{digits[0]}.{digits[1:]}e{int(power) + len(digits) - 1}" if power and digits[1:] else number


def percent_text(part: int | Decimal, whole: int | Decimal, *, up: bool) -> str:
    """Write a share in per cent and three digits, rounded against the spender; of nothing, nothing.

    Args:
        part, whole: amounts in one unit, >= 0.
        up: whether the part is a loss.
    """
    if not part or not whole:
        return "0 %"
    rounding = ROUND_CEILING if up else ROUND_FLOOR
    share = Context(prec=3, rounding=rounding).divide(100 * Decimal(part), Decimal(whole))
    return f"{format(share.normalize(), 'f')} %"


def budget_used(part: int | Decimal, whole: int | Decimal) -> Message:
    """Say which share of a cap is used: the one number about a budget that people are shown."""
    return message("{share} of the budget is used", share=percent_text(part, whole, up=True))


def _decimal_text(units: int, places: int) -> str:
    """Write an integer scaled by 10^-places without an exponent or trailing zeros."""
    sign, (whole, part) = "-" if units < 0 else "", divmod(abs(units), 10**places)
    return f"{sign}{whole}.{part:0{places}d}".rstrip("0").rstrip(".")


def root(value: Fraction, power: Literal[2, 3]) -> int:
    """Return the square or cube root of a rational above 0, in whole units of 10^-18, rounded down."""
    scaled: int = math.floor(value * 10 ** (18 * power))
    if power == 2:
        return math.isqrt(scaled)
    found = 1 << -(-scaled.bit_length() // power)
    while (lower := (2 * found + scaled // found**2) // 3) < found:  # Newton's method, from above
        found = lower
    return found
