"""The exact binary expansion of a probability, as many bytes of it as anybody asks for.

The probabilities here are e^-x, e^-x / (1 + e^-x) and 2 e^-x / (1 + e^-x) for a rational x > 0. Each is
transcendental (Lindemann: e^x is, for every algebraic x other than 0, and the others are rational functions of
it that can be solved for it), so it has one binary expansion, which never ends and never becomes all zeros
or all ones. Two rigorous bounds that close in on it therefore agree, sooner or later, on any prefix. A rational
number is expanded by long division (`ratio`).
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import (
    MAX_EMAX,
    MIN_EMIN,
    ROUND_CEILING,
    ROUND_FLOOR,
    Context,
    Decimal,
    InvalidOperation,
    Overflow,
    Underflow,
)
from fractions import Fraction
from typing import Final, TypeAlias

from privacy.noise.limits import NoiseRefused

Bracket: TypeAlias = Callable[[int], tuple[Decimal, Decimal]]
"""From a number of decimal digits to (lower, upper) around one irrational number in (0, 1)."""

_FIRST_BYTES: Final = 8
_NATS_PER_BYTE: Final = Fraction(5546, 1000)
"""Above ln 256 = 5.54517...: e^-x begins with k zero bytes where x is at least k times this."""
_GUARD_DIGITS: Final = 10
_VANISHING_EXPONENT: Final = 2**50
_VANISHING_BOUND: Final = Decimal("1E-400000000000000")
"""Above e^(-2^50) = 10^(-4.9 10^14): no number of bytes that fits into memory sees more of it than zeros."""


class BinaryExpansion:
    """The bytes b_0 b_1 b_2 ... of p = sum_k b_k 256^-(k+1), worked out when they are needed.

    Args:
        bounds: rigorous bounds on p, irrational and in (0, 1); they close in as the digits grow.
        zeros: how many bytes are known to be 0 without working them out; others may be, too.
    """

    def __init__(self, bounds: Bracket, *, zeros: int = 0) -> None:
        self._bounds = bounds
        self._zeros = zeros
        self._known = b""

    def byte(self, index: int) -> int:
        """Return byte number `index` of the expansion, exact."""
        if index < self._zeros:
            return 0
        if index >= len(self._known):
            # Twice the length each time: working out n bytes anew costs about n^2, so that all prefixes cost as the
            # last one.
            self._known = self._prefix(max(index + 1, 2 * len(self._known), _FIRST_BYTES))
        return self._known[index]

    def _prefix(self, count: int) -> bytes:
        """Raise the precision until both bounds begin with the same `count` bytes: then p does, too."""
        digits = 3 * count + _GUARD_DIGITS  # a byte is 2.41 decimal digits
        while True:
            lower, upper = (_floor_shifted(bound, 8 * count) for bound in self._bounds(digits))
            # p lies between two numbers with the same first bytes, so that it begins with them. Else the bounds are
            # still too wide. They close in on a transcendental number, which cannot lie on the border of two prefixes
            # for ever.
            if lower == upper:
                return lower.to_bytes(count, "big")
            digits *= 2


def ratio(probability: Fraction) -> BinaryExpansion:
    """Expand a rational p, 0 < p < 1; a dyadic one ends in zeros, and comparing with it stays exact."""
    if not 0 < probability < 1:
        raise NoiseRefused("probability", str(probability), "a Fraction above 0 and below 1")
    return _Ratio(probability)


class _Ratio(BinaryExpansion):
    """The bytes of a rational number, by long division."""

    def __init__(self, probability: Fraction) -> None:
        self._probability = probability
        self._zeros = 0
        self._known = b""

    def _prefix(self, count: int) -> bytes:
        shifted = (self._probability.numerator << (8 * count)) // self._probability.denominator
        return shifted.to_bytes(count, "big")


def exp_minus(exponent: Fraction) -> BinaryExpansion:
    """Expand e^-x."""
    _check_exponent(exponent)
    zeros = int(exponent / _NATS_PER_BYTE)
    return BinaryExpansion(lambda digits: _exp_minus_bounds(exponent, digits), zeros=zeros)


def odds_share(exponent: Fraction, *, multiple: int = 1) -> BinaryExpansion:
    """Expand m r / (1 + r) with r = e^-x; the multiple m is 1 or 2, and below 1 stays the result."""
    _check_exponent(exponent)
    return BinaryExpansion(lambda digits: _odds_share_bounds(exponent, multiple, digits))


def _exp_minus_bounds(exponent: Fraction, digits: int) -> tuple[Decimal, Decimal]:
    """Bound e^-x from both sides.

    `decimal` rounds a division in the direction that it is told, and exp correctly (half to even), so the next
    number below the lower exp and the next above the upper one are rigorous bounds.
    """
    if exponent > _VANISHING_EXPONENT:
        return Decimal(0), _VANISHING_BOUND
    down, up = _directed(digits)
    numerator, denominator = Decimal(-exponent.numerator), Decimal(exponent.denominator)
    lower = down.next_minus(down.exp(down.divide(numerator, denominator)))
    upper = up.next_plus(up.exp(up.divide(numerator, denominator)))
    return lower, upper


def _odds_share_bounds(exponent: Fraction, multiple: int, digits: int) -> tuple[Decimal, Decimal]:
    """Bound m r / (1 + r), which grows with r, from bounds on r and directed rounding at each step."""
    down, up = _directed(digits)
    lower, upper = _exp_minus_bounds(exponent, digits)
    # Of a quotient the lower bound has the least numerator over the largest denominator, each rounded its own way.
    least = down.divide(down.multiply(multiple, lower), up.add(1, lower))
    most = up.divide(up.multiply(multiple, upper), down.add(1, upper))
    return least, most


def _directed(digits: int) -> tuple[Context, Context]:
    """Return a context that rounds down and one that rounds up; neither can lose an exponent silently."""
    traps = [InvalidOperation, Overflow, Underflow]
    down = Context(prec=digits, rounding=ROUND_FLOOR, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=traps)
    up = Context(prec=digits, rounding=ROUND_CEILING, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=traps)
    return down, up


def _floor_shifted(value: Decimal, bits: int) -> int:
    """Return floor(value 2^bits), exact: the product has no more digits than its two factors together."""
    power = Decimal(1 << bits)
    digits = len(value.as_tuple().digits) + len(power.as_tuple().digits)
    exact = Context(prec=digits, rounding=ROUND_FLOOR, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[InvalidOperation])
    return int(exact.multiply(value, power).to_integral_value(ROUND_FLOOR))


def _check_exponent(exponent: Fraction) -> None:
    """Refuse x <= 0: at 0 the probabilities are rational, and their bytes might never settle."""
    if exponent <= 0:
        raise NoiseRefused("exponent", str(exponent), "a Fraction above 0")
