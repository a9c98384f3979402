"""Shares of Gaussian noise on a lattice: several parties add whole numbers, and their sum is a Gaussian mechanism.

Where (one letter each)
    x_i  the exact vector of party i, whole numbers (lattice steps)      k   parties whose shares reach the sum
    s    standard deviation of one share [lattice steps]                 U   uniform on [-1/2, 1/2]
    N    a standard normal

    share_i = x_i + rint(s N_i)         sum = sum of x_i + sum of rint(s N_i)

The noise of the sum is rint(N(0, k s^2) + U_1 + ... + U_(k-1)) but for what sampling a smooth density at whole
numbers loses, which is below exp(-s^2) for s >= 2^8: rint(s N) has at m the density of s N + U, and a sum of
independent numbers the convolution of their densities. Rounding x + N(0, k s^2) with public noise added is
post-processing, so the sum is as private as the Gaussian mechanism of standard deviation s sqrt(k) on whole x;
docs/federation.md has the derivation. N is exactly normal and its product with s is rounded without error
(`rounded_gaussian`), so that nothing else is left out, for all numbers of all shares together.
"""

from __future__ import annotations

from fractions import Fraction
from math import inf, nextafter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from privacy.noise.limits import NoiseRefused
from privacy.noise.random_bytes import RandomBytes
from privacy.noise.rounded_gaussian import rounded_gaussian

FINEST: Final = 2.0**8
"""The least standard deviation of a share, in lattice steps: below, the sum's noise would show the steps."""
COARSEST: Final = 2.0**28
"""The largest: beyond it a share with a site's sum would come near to what 32 bits hold."""


def noise_share(size: int, *, standard_deviation: float, source: RandomBytes) -> NDArray[np.int64]:
    """Draw one party's noise.

    Args:
        size: how many numbers, >= 0.
        standard_deviation: s, 2^8 <= s <= 2^28 [lattice steps].
        source: uniform bytes.
    Returns:
        int64, shape (size,).
    Raises:
        NoiseRefused: an argument out of its limits; nothing was drawn.
    Privacy: together with the shares of other parties only; by itself a share has the noise of one share.
    """
    if not FINEST <= standard_deviation <= COARSEST:
        raise NoiseRefused("standard_deviation", repr(standard_deviation), f"from {FINEST:g} to {COARSEST:g} steps")
    exact = Fraction(nextafter(standard_deviation, inf))  # no less than what was rounded to this float
    return rounded_gaussian(size, standard_deviation=exact, source=source)
