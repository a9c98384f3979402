"""Counts of keys that one draw selected and counted, with intervals that hold given that the key is published.

Where (one letter each)
    n   rows of a key     i   index of its noise, with the law's chances p     y = n - i + c   the published count

A key is published where i <= n, so that given that it is, the count of n rows has the law of i given i <= n:

    P(count >= y) = p(n - y + c) / p(n)        P(count <= y) = (p(n) - p(n - y + c - 1)) / p(n)

Both are monotone in n, since the parts of p are log-concave. The interval holds each n for which neither is at most
2.5 %, and it is found in whole numbers: nothing is rounded. So of all releases that publish a key, at least 95 % have
an interval that holds its number of rows, whatever that is. The estimate is the least n for which P(count >= y) is
at least a half: as likely too high as too low. From some count on, neither depends on the threshold.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import inf

import numpy as np
from numpy.typing import NDArray

from privacy.accounting.events import DiscreteLaplace, KeySelection
from privacy.accounting.key_law import KeyCountLaw, key_count_law
from privacy.marginals.count_noise import half_width
from privacy.statistics.estimates import Estimates, bounded_estimates

_TAIL = Fraction(1, 40)
"""What an interval of 95 % may miss at either end."""


@dataclass(frozen=True)
class KeyCountNumbers:
    """The noisy counts of a table whose keys were selected by the same draw.

    Args:
        values: of each key, of all other texts, and of none; int64, shape (keys + 2,) [rows].
        event: what the draw cost.
        rows_per_unit: rows of one unit at most.
    """

    values: NDArray[np.int64]
    event: KeySelection
    rows_per_unit: int

    @property
    def counts(self) -> Estimates:
        """How many rows each key has, given that it is published; and how many have another text, or none."""
        law = key_count_law(self.event.epsilon, self.event.delta, rows_per_unit=self.rows_per_unit)
        of_keys = [key_interval(law, int(count)) for count in self.values[:-2]]
        found = np.array(of_keys, dtype=np.float64).reshape(-1, 3).T
        scales = law.rest_inverse_scale, law.row_epsilon
        widths = np.array([half_width(DiscreteLaplace(scale, (1,)), 0.95) for scale in scales], dtype=np.float64)
        rest = bounded_estimates(self.values[-2:].astype(np.float64), widths, least=0.0, most=inf)
        parts = zip(found, (rest.values, rest.lower, rest.upper), strict=True)
        return Estimates(*(np.concatenate(pair) for pair in parts))


def key_interval(law: KeyCountLaw, count: int) -> tuple[int, int, int]:
    """Return the estimate of a key's rows and the ends of its interval, given that it is published with a count.

    Args:
        law: of the noise.
        count: the noisy count, at least the law's least.
    Raises:
        ValueError: a count that no key is published with.
    """
    if count < law.least:
        raise ValueError("a count below the threshold of its draw")
    # From here on every n that is looked at is published for sure, so that the ends move along with the count.
    plain = law.least + 2 * len(law.chances)
    shift = max(0, count - plain)
    value, lower, upper = _interval(law, count - shift)
    return value + shift, lower + shift, upper + shift


@lru_cache(maxsize=2**16)
def _interval(law: KeyCountLaw, count: int) -> tuple[int, int, int]:
    beyond = count - law.least  # n - y + c = n - beyond
    first, last = max(1, beyond + 1), beyond + len(law.chances)

    def at_least(n: int) -> Fraction:
        return Fraction(_chance(law, n - beyond), _chance(law, n))

    def at_most(n: int) -> Fraction:
        return 1 - Fraction(_chance(law, n - beyond - 1), _chance(law, n))

    lower = _first(lambda n: at_least(n) > _TAIL, first, last)
    value = _first(lambda n: at_least(n) >= Fraction(1, 2), first, last)
    upper = _first(lambda n: at_most(n) <= _TAIL, first, last + 1) - 1
    return value, lower, max(upper, value)


def _chance(law: KeyCountLaw, rows: int) -> int:
    """Return p(rows) in whole 2^-128."""
    return 0 if rows < 1 else law.chances[min(rows, len(law.chances)) - 1]


def _first(holds: Callable[[int], bool], low: int, high: int) -> int:
    """Return the first whole number from low to high for which a monotone statement holds; it does for high."""
    return bisect_right(range(low, high), False, key=holds) + low


def expected_half_width(law: KeyCountLaw) -> float:
    """Return half of the length of the interval of a key that is sure to be published [rows]."""
    _, lower, upper = _interval(law, law.least + 2 * len(law.chances))
    return (upper - lower) / 2
