"""How much work the numbers of a record may make: counted in terms, and bounded for each rule of a verification.

A stranger chooses the parameters of events, and with them how many terms a sum, or how many points an integral has:
an honest one takes seconds, a hostile one could take days, or all memory. So each sum says how many terms it is going
to add up, before it does. The count is a function of the record alone, not of the machine or its load.

One term is about what a processor does in a tenth of a microsecond: one number of an array, one product of decimals.
What is costlier counts as several.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from fractions import Fraction
from typing import Final

from contracts.errors import SudareError

MOST_TERMS: Final = 10**9
"""Of one rule. One event of an honest record takes up to 20 million, most take far less (docs/verify.md)."""
DECIMAL_FUNCTION: Final = 1000
"""Terms of an exponential or a logarithm of 80 digits."""
_BITS: Final = 256

_left: ContextVar[list[int] | None] = ContextVar("terms_left", default=None)


class TooMuchWork(SudareError):
    """The numbers of a record ask for more work than any honest one does; what they claim is not believed."""

    exit_code = 5


@contextmanager
def bounded(most: int) -> Iterator[None]:
    """Bound the terms of everything that is computed inside the block.

    Args:
        most: how many.
    Raises:
        TooMuchWork: from the sum that would pass the bound, before it begins.
    """
    token = _left.set([most])
    try:
        yield
    finally:
        _left.reset(token)


def spend(terms: int) -> None:
    """Take so many terms from the bound of the block around; without one nothing is bounded.

    Raises:
        TooMuchWork: so many are not left.
    """
    left = _left.get()
    if left is None:
        return
    left[0] -= terms
    if left[0] < 0:
        raise TooMuchWork("its numbers ask for more terms than a check adds up")


def exact_sum(values: Iterable[Fraction]) -> Fraction:
    """Add up rationals; the larger their common denominator has become, the more each addition counts."""
    total = Fraction(0)
    for value in values:
        spend(1 + (total.denominator.bit_length() // _BITS) ** 2)
        total += value
    return total
