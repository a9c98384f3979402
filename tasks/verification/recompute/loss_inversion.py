"""The auditor's delta at an epsilon for Gaussian noise, sampled or not, by inverting a Laplace transform.

Where (one letter each)
    L   the composed privacy loss under the first of two neighbours        x   the epsilon that is asked about
    K   log of the mean of exp(z L), a sum over the steps: their Rényi curves at complex orders z + 1
    c   > 0, the line of integration: the saddle point of K(z) - z x - log(z (z + 1)) on the real axis

    delta(x) = mean of max(0, 1 - exp(x - L))
             = 1 / (2 pi i) * integral over z = c + i t of exp(K(z) - z x) / (z (z + 1))

since 1 - exp(-y), y > 0, has the transform 1 / (z (z + 1)). Summed over t in steps of 2 pi / P the integral is the
sum of exp(c k P) delta(x + k P) over all whole k: none is negative, so that the sum is never below delta(x), and P is
taken so large that the others do not count. Discrete Gaussian noise is held against the continuous noise of
variance less 4, of which it is post-processing up to a factor that does not count (docs/derivations.md, section 7).

Nothing here is shared with `privacy.accounting`, nor with the library that calibrates: that one tabulates losses on a
grid and composes them by Fourier transforms.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tasks.verification.recompute.event_forms import NotRecomputable, exact_sum, read_event, spend

_Complex = NDArray[np.complex128]
_Curve = Callable[[_Complex], _Complex]
_KERNEL: Final = 4
"""Variance of the rounding that turns continuous noise into discrete noise [units squared]."""
_BLOCK: Final = 128
_MOST_NODES: Final = 2**18
_SETTLED: Final = 1e-6
_FASTEST: Final = 1e6
_NO_CHANCE: Final = 100.0
_HIGHEST: Final = 10.0
"""Height of the line, as a logarithm, above which the sum's rounding would count; delta is nearly 1 there."""
_AT_ONCE: Final = 2**20
_NEGLIGIBLE: Final = 60.0
_WINDOW: Final = 12.0
_MOST_POINTS: Final = 2**22
"""Of one sum over the noise: what a computer's memory holds several times over."""
_FIRST_LINE: Final = 0.01
_LAST_LINE: Final = 1e6
_FACTOR: Final = 10 ** (1 / 16)


def delta_at(events: Sequence[Mapping[str, Any]], epsilon: Fraction) -> float | None:
    """Compute the delta at which events, fixed beforehand, are (epsilon, delta)-DP; the worse of both directions.

    Args:
        events: the events as the record has them.
        epsilon: > 0 [dimensionless].
    Returns:
        float: delta, exact up to a relative 10^-5; None where an event is not Gaussian noise,
        or its lattice is too coarse to be held against continuous noise.
    Raises:
        NotRecomputable: an event that cannot be read, or a sum that does not settle.
        TooMuchWork: the sums have more terms than the block around allows (`effort`).
    Source: Zhu, Dong, Wang 2022 (pairs of both directions compose); Canonne, Kamath, Steinke 2020 (delta from L).
    """
    curves = _curves(events)
    if curves is None:
        return None
    if not curves:
        return 0.0
    return max(_delta(curve, float(epsilon)) for curve in curves)


def _curves(events: Sequence[Mapping[str, Any]]) -> tuple[_Curve, ...] | None:
    """Return K for a row that comes and for one that goes; empty where there are no events."""
    shifts, sampled = list[Fraction](), Counter[tuple[Fraction, Fraction]]()
    for kind, *values in map(read_event, events):
        match kind, values:
            case "discrete_gaussian", [variance, moves] if variance > _KERNEL:
                shifts.append(Fraction(sum(move * move for move in moves)) / (variance - _KERNEL))
            case "gaussian", [multiplier]:
                shifts.append(1 / multiplier**2)
            case "poisson_sampled_gaussian", [multiplier, chance, steps] if chance < 1:
                sampled[multiplier, chance] += steps
            case "poisson_sampled_gaussian", [multiplier, _, steps]:
                shifts.append(steps / multiplier**2)
            case _:
                return None
    shift = exact_sum(shifts)
    if not shift and not sampled:
        return ()

    def curve(goes: bool) -> _Curve:
        def added(z: _Complex) -> _Complex:
            total = z * (z + 1) * (float(shift) / 2)
            for (multiplier, chance), steps in sampled.items():
                total = total + steps * _sampled(z + 1 if goes else -z, float(multiplier), float(chance))
            return total

        return added

    return (curve(True), curve(False)) if sampled else (curve(True),)


def _sampled(power: _Complex, s: float, q: float) -> _Complex:
    """Compute log of the mean of (1 - q + q exp(w / s - 1 / (2 s^2)))^power over a standard normal w.

    A sum over a lattice, as fine as the fastest oscillation of the integrand asks for, and its singularities at pi s.
    """
    fastest, reach = float(np.abs(power.imag).max()), max(0.0, float(power.real.max())) / s
    step = min(0.5, 0.375 * s, 2 * math.pi / (_WINDOW + fastest / s))
    # An oscillation that is fast against the noise, or a peak far out, asks for more points than memory has.
    points = math.ceil((reach + 2 * _WINDOW) / step)
    if points > _MOST_POINTS:
        raise NotRecomputable("noise too small to be integrated over at the claimed loss: more noise is needed")
    spend(points * power.size)
    w = np.arange(-_WINDOW, reach + _WINDOW + step, step)
    log_ratio = np.logaddexp(math.log1p(-q), math.log(q) + w / s - 1 / (2 * s * s))
    weight = math.log(step / math.sqrt(2 * math.pi)) - w * w / 2
    parts = []
    for some in np.array_split(power, math.ceil(power.size * w.size / _AT_ONCE)):
        exponents = some[:, None] * log_ratio + weight
        largest = exponents.real.max(axis=1, keepdims=True)
        parts.append(largest[:, 0] + np.log(np.exp(exponents - largest).sum(axis=1)))
    return np.concatenate(parts)


def _delta(curve: _Curve, x: float) -> float:
    """Sum over the line through the saddle point until what is added does not count."""

    def real(z: float) -> float:
        return float(curve(np.array([complex(z)]))[0].real)

    def height(z: float) -> float:
        return real(z) - z * x - math.log(z * (z + 1))

    c, least = _FIRST_LINE, height(_FIRST_LINE)
    while c < _LAST_LINE and (higher := height(c * _FACTOR)) < least:  # it is convex
        c, least = c * _FACTOR, higher
        if least < -_NO_CHANCE:  # by Chernoff; there may be no larger loss at all
            return math.exp(least) * c
    if not least <= _HIGHEST:
        raise NotRecomputable("a loss far above the epsilon claimed: more noise is needed to invert it")
    period = _period(real, least, c, x)
    total, start, step = 0.0, 0, 2 * math.pi / period
    while start < _MOST_NODES and step * start < _FASTEST:
        t = step * np.arange(start, start + _BLOCK)
        z = np.asarray(c + 1j * t, dtype=np.complex128)
        added = np.exp(curve(z) - z * x) / (z * (z + 1))
        total += 2 * float(added.real.sum()) - (float(added[0].real) if start == 0 else 0.0)
        start += _BLOCK
        # What follows falls at least as 1 / t^2: together it is less than so many of these.
        if float(np.abs(added).max()) * start < _SETTLED * abs(total):
            return total / period
    raise NotRecomputable("a loss distribution whose transform does not fall off: more noise is needed to invert it")


def _period(real: Callable[[float], float], height: float, c: float, x: float) -> float:
    """Choose P so that the shifted copies do not count: exp(-c P), and a Chernoff bound of exp(c P) delta(x + P)."""
    period = _NEGLIGIBLE / c
    lines = [(z, real(z)) for z in (1.5 * c, 2 * c, 4 * c)]
    while min(k - z * (x + period) + c * period for z, k in lines) > height - _NEGLIGIBLE:
        period *= 1.5
    return period
