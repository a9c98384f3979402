"""How many digits of an estimate are published: down to the place of a tenth of its standard error, and no more.

The standard error is half of the published 95 % interval over 1.96. The unit is the largest power of ten that is at
most a tenth of it, so rounding moves an estimate by a twentieth of its standard error at most. Ends of intervals are
rounded outwards, so an interval holds as often as before, and then cut to what is possible.

Every step is one exact or correctly rounded operation on doubles, so each machine gets the same bits.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from privacy.arrays import Floats

NORMAL: Final = 1.96
"""Half of a 95 % interval over its standard error."""
_TENTH: Final = 10.0
_WHOLE: Final = 2.0**52
"""Below, doubles tell steps apart; a number of more steps keeps all its digits."""
_PLACES: Final = range(-15, 23)
"""Powers of ten that, or whose inverses, are exact doubles; numbers with a smaller error keep all their digits."""
_UNITS: Final = np.array([float(f"1e{place}") for place in _PLACES])
_INVERSES: Final = np.array([float(f"1e{max(0, -place)}") for place in _PLACES])


def published_digits(
    value: Floats, lower: Floats, upper: Floats, *, least: float, most: float, precision: float = 1.0
) -> tuple[Floats, Floats, Floats]:
    """Round estimates and the ends of their intervals to the digits that their errors allow.

    Args:
        value, lower, upper: lower <= value <= upper, one shape; `upper` may be infinite.
        least, most: the ends of what is possible, which no rounding leaves.
        precision: the standard error of the estimates over that of which the intervals tell.
    Returns:
        The three, rounded; those without a finite error as they are.
    Privacy: post-processing.
    """
    reach = np.where(np.isinf(upper), value - lower, (upper - lower) / 2)
    tenth = np.where(np.isfinite(reach), reach, 0.0) * (precision / NORMAL) / _TENTH
    place = np.searchsorted(_UNITS, tenth, side="right") - 1
    unit, inverse = np.maximum(_UNITS[place], 1.0), _INVERSES[place]

    def steps(numbers: Floats) -> Floats:
        return np.asarray(numbers / unit * inverse)

    def numbers(whole: Floats) -> Floats:
        return np.asarray(np.clip(whole * unit / inverse, least, most))

    known = (place >= 0) & (np.maximum(np.abs(steps(value)), np.abs(steps(lower))) < _WHOLE)
    first, last = np.floor(steps(lower)), np.ceil(steps(upper))
    first, last = first - (numbers(first) > lower), last + (numbers(last) < upper)  # what division rounded inwards
    rounded = numbers(np.rint(steps(value))), numbers(first), numbers(last)
    value, lower, upper = (np.where(known, new, old) for new, old in zip(rounded, (value, lower, upper), strict=True))
    return value, lower, upper
