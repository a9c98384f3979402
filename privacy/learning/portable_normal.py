"""Standard normal numbers out of random words: the same bits on every machine.

A word becomes a probability in the middle of one of 2^53 equal steps, and that its normal quantile: rational
functions of single IEEE 754 operations in a fixed order, a portable logarithm and a square root, each of which is
correctly rounded everywhere. The numbers are rounded to multiples of 2^-12, which is what a model's whole-number
arithmetic takes. They drive post-processing; noise never comes from here.

Source: Wichura 1988, Algorithm AS 241 (PPND16), accurate to about 1e-16.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from privacy.marginals.portable import logarithm

BITS: Final = 12
_LN2: Final = 0.6931471805599453
_STEPS_BITS: Final = 53
_CENTRAL: Final = 0.425
_MIDDLE: Final = ((
    2.5090809287301226727e3, 3.3430575583588128105e4, 6.7265770927008700853e4, 4.5921953931549871457e4,
    1.3731693765509461125e4, 1.9715909503065514427e3, 1.3314166789178437745e2, 3.3871328727963666080e0,
), (
    5.2264952788528545610e3, 2.8729085735721942674e4, 3.9307895800092710610e4, 2.1213794301586595867e4,
    5.3941960214247511077e3, 6.8718700749205790830e2, 4.2313330701600911252e1, 1.0,
))  # fmt: skip
_TAIL: Final = ((
    7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1, 1.27045825245236838258e0,
    3.64784832476320460504e0, 5.76949722146069140550e0, 4.63033784615654529590e0, 1.42343711074968357734e0,
), (
    1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2, 1.48103976427480074590e-1,
    6.89767334985100004550e-1, 1.67638483018380384940e0, 2.05319162663775882187e0, 1.0,
))  # fmt: skip
_FAR_TAIL: Final = ((
    2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3, 2.65321895265761230930e-2,
    2.96560571828504891230e-1, 1.78482653991729133580e0, 5.46378491116411436990e0, 6.65790464350110377720e0,
), (
    2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5, 7.86869131145613259100e-4,
    1.48753612908506148525e-2, 1.36929880922735805310e-1, 5.99832206555887937690e-1, 1.0,
))  # fmt: skip


def normal_quantiles(words: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Return the standard normal quantile of (word's upper 53 bits + 1/2) / 2^53, same shape."""
    steps = (words >> np.uint64(64 - _STEPS_BITS)).astype(np.int64)
    # The middle of the word's step: symmetric about 1/2, never 0 or 1.
    odd = 2 * steps + 1  # of 2^54
    centred = (odd - 2**_STEPS_BITS) * 2.0 ** -(_STEPS_BITS + 1)
    inner = np.abs(centred) <= _CENTRAL
    result = np.empty(words.shape)
    # AS 241: within 0.425 of 1/2, q times a ratio of polynomials in 0.425² - q².
    middle = centred[inner]
    result[inner] = middle * _ratio(_MIDDLE, _CENTRAL**2 - middle * middle)
    outer = odd[~inner]
    # sqrt(-log of the smaller tail), the tail being a whole number over 2^54.
    distance = np.sqrt((_STEPS_BITS + 1) * _LN2 - logarithm(np.minimum(outer, 2 ** (_STEPS_BITS + 1) - outer)))
    # One ratio of polynomials about 1.6 and one about 5; the latter never gets arguments below its range.
    size = np.where(
        distance <= 5.0, _ratio(_TAIL, distance - 1.6), _ratio(_FAR_TAIL, np.maximum(distance, 5.0) - 5.0)
    )
    result[~inner] = np.where(outer < 2**_STEPS_BITS, -size, size)
    return result


def normal_steps(words: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Return standard normal numbers in units of 2^-12: whole numbers in float64, same shape."""
    rounded: NDArray[np.float64] = np.rint(normal_quantiles(words) * 2.0**BITS)
    return rounded


def _ratio(coefficients: tuple[tuple[float, ...], tuple[float, ...]], at: NDArray[np.float64]) -> NDArray[np.float64]:
    """Divide one polynomial by another, both by Horner's rule."""
    above, below = (np.full_like(at, side[0]) for side in coefficients)
    for up, down in zip(coefficients[0][1:], coefficients[1][1:], strict=True):
        above = above * at + up
        below = below * at + down
    return above / below
