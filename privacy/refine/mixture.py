"""Under Gaussian noise `auto` is a mean of refinements, weighted by how each does on noise that it has not seen.

    SPLIT    y + w and y - w / a, independent for w with a times the noise's covariance (in pairs w, -w).
    JUDGE    each part refines the one; its squared distance to the other is its risk under 1 + a times the noise.
    GUARD    a part that can be far off has to show its gain over several splits: less one standard error.
    MIX      weights in proportion to exp(-risk / 8 v), v the variance in a cell.
Splits need a seed. It is the SHA-256 of the noisy counts, which are public: nobody chooses it, and it needs no place
in the record. Derivation: docs/derivations.md, "Means of refined tables".
Source: Oliveira, Lei and Tibshirani 2021 (coupled bootstrap); Leung and Barron 2006 (weights).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import sqrt
from statistics import NormalDist
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from privacy.accounting.events import CountNoise, DiscreteGaussian
from privacy.arrays import Floats
from privacy.marginals.count_noise import variance
from privacy.marginals.portable import PostProcessingSeed
from privacy.refine.margin_spaces import spread
from privacy.refine.posterior import STEP
from privacy.refine.simplex import project_simplex

Refiner = Callable[[NDArray[np.int64], CountNoise], Floats]
"""A refinement of a noisy table under some noise; gives the cells that can hold something."""
LEAST_VARIANCE: Final = 4
ADDED: Final = Fraction(1, 5)
"""a, before w is rounded."""
LOSS_SCALE: Final = 8
PAIRS: Final = 8
LARGE: Final = 10_000
"""Cells above which one pair tells the parts apart."""
GUARDED: Final = frozenset({"margins", "neighbourhood"})
_QUANTILES: Final = 1 << 12


@dataclass(frozen=True)
class MixedTable:
    """The mean of the parts.

    Args:
        values: of the possible cells, multiples of 2^-20, adding up to the total but for that [units].
        estimated_rmse: of each part, and of the mean as "mixture" [units].
    """

    values: Floats
    estimated_rmse: Mapping[str, float]


def mix(
    noisy: NDArray[np.int64],
    possible: NDArray[np.bool_],
    event: DiscreteGaussian,
    parts: Mapping[str, Refiner],
    *,
    by_columns: Floats | None = None,
    pairs: int = PAIRS,
) -> MixedTable:
    """Refine by every part, and take their mean with weights by estimated risk.

    Args:
        noisy: exact counts plus noise, whole numbers [units].
        possible: the cells that are no structural zeros, same shape.
        event: the noise, with a variance of at least `LEAST_VARIANCE`.
        parts: by name; at least one that is not guarded.
        by_columns: where the noise of cells is not independent, its variance in each space of `margin_spaces`,
            shape (2^axes,) [units²].
        pairs: splits that judge the parts are twice as many; in a table above `LARGE` two.
    Raises:
        numpy.linalg.LinAlgError: as a part does.
    Privacy: post-processing; deterministic.
    Source: see the module.
    """
    splits = split_losses(noisy, possible, event, parts, by_columns, pairs if noisy.size <= LARGE else 1)
    weights = _weights(splits, tuple(parts), variance(event))
    made = np.array([_on_grid(part(noisy, event)) for part in parts.values()])
    values = np.zeros(made.shape[1])
    for weight, each in zip(weights, made, strict=True):
        values += weight * each
    # |G - x|² = Σ c |g - x|² - Σ c |g - G|² for the mean G. Chance moves |z|² / n by v sqrt(2 / n).
    risks, apart = splits.mean(axis=0), np.sum((made - values) ** 2, axis=1)
    squared = dict(zip(parts, risks, strict=True)) | {"mixture": float(np.sum(weights * (risks - apart)))}
    cells, noise = max(1, values.size), variance(event)
    least = noise * sqrt(2 / cells)
    rmse = {name: sqrt(max(least, float(each) / cells - noise)) for name, each in squared.items()}
    return MixedTable(_on_grid(values), rmse)


def split_losses(
    noisy: NDArray[np.int64],
    possible: NDArray[np.bool_],
    event: DiscreteGaussian,
    parts: Mapping[str, Refiner],
    by_columns: Floats | None,
    pairs: int,
) -> Floats:
    """Return |y - w / a - g|² less |w / a|², which is known, by split and part; arguments as for `mix`.

    Returns: a row for each pair; of a single pair for each split, which in a large table are nearly independent.
        Expected in each: the squared error under noise of 1 + a times the variance, plus n v [units²].
    """
    added = ADDED + 1 / (12 * event.sigma_squared)
    wider = replace(event, sigma_squared=event.sigma_squared * (1 + added))

    def losses(shift: NDArray[np.int64]) -> list[float]:
        """Judge all parts on one split."""
        moved, seen = _kept(shift / float(added), possible), noisy + shift
        kept, known = _kept(noisy, possible) - moved, float(np.sum(np.square(moved)))
        gaps = (np.subtract(kept, _on_grid(part(seen, wider))) for part in parts.values())
        return [float(np.sum(np.square(gap, out=gap))) - known for gap in gaps]

    shifts = _shifts(noisy, event, by_columns, pairs)
    signed = np.array([[losses(shift), losses(-shift)] for shift in shifts])
    return np.asarray(signed.mean(axis=1) if pairs > 1 else signed[0])


def _shifts(
    noisy: NDArray[np.int64], event: DiscreteGaussian, by_columns: Floats | None, pairs: int
) -> Iterator[NDArray[np.int64]]:
    """Yield w, rounded, for each pair of splits."""
    digest = hashlib.sha256(np.ascontiguousarray(noisy, "<i8").tobytes()).digest()
    seed = PostProcessingSeed(int.from_bytes(digest[:16], "big"))
    for pair in range(pairs):
        normal = _normal(seed, pair, noisy.size).reshape(noisy.shape)
        if by_columns is None:
            normal *= sqrt(event.sigma_squared)
        else:
            normal = spread(np.sqrt(by_columns), normal[None])[0]
        yield np.rint(sqrt(ADDED) * normal).astype(np.int64)


def _weights(splits: Floats, names: tuple[str, ...], noise: float) -> Floats:
    """Return the parts' weights from their losses by split, shape (splits, parts)."""
    guarded = np.array([name in GUARDED for name in names])
    risks = splits.mean(axis=0)
    best = splits[:, np.argmin(np.where(guarded, np.inf, risks))]
    gains = splits - best[:, None]
    gains = gains.mean(axis=0) + guarded * gains.std(axis=0, ddof=1) / sqrt(len(splits))
    weights = np.exp((gains.min() - gains) / (LOSS_SCALE * noise))
    # On a grid, so that the last bits of exp on another machine cannot change a release; the heaviest takes the rest.
    weights = _on_grid(weights / weights.sum())
    weights[np.argmax(weights)] += 1 - weights.sum()
    return np.asarray(weights)


def shrink_to_margins(
    noisy: NDArray[np.int64], possible: NDArray[np.bool_], event: CountNoise, *, total: int
) -> Floats:
    """Shrink what a table has beyond the product of its one-way margins, and project onto the simplex.

    Formula:  m + (y - m) s / (s + v),  s = r m,  r = max(0, (Σ (y - m)² - d v) / Σ m),  d the degrees of freedom of
    y - m, less 2 as in James and Stein's estimator

    Args:
        noisy: exact counts plus noise, two axes or more [units].
        possible: the cells that are no structural zeros, same shape.
        event: the noise.
        total: sum to reach, > 0 [units].
    Returns:
        The possible cells, adding up to the total [units].
    """
    held: NDArray[np.int64] = np.where(possible, noisy, 0)
    product: Floats = np.ones(())
    for axis, size in enumerate(noisy.shape):
        others = tuple(other for other in range(noisy.ndim) if other != axis)
        margin = project_simplex(held.sum(axis=others), total) / total
        product = product * margin.reshape([size if other == axis else 1 for other in range(noisy.ndim)])
    mean = _kept(product, possible)
    mean *= total / max(float(np.sum(mean)), STEP)
    beyond, own, noise = _kept(noisy, possible) - mean, np.maximum(mean, 1.0), variance(event)
    freedom = mean.size - 1 - sum(size - 1 for size in noisy.shape)
    excess = float(np.sum(np.square(beyond))) - max(0, freedom - 2) * noise
    own *= max(0.0, excess) / float(np.sum(own))
    beyond *= np.divide(own, own + noise, out=own)
    mean += beyond
    return project_simplex(mean, total)


def _kept(cells: NDArray[Any], possible: NDArray[np.bool_]) -> NDArray[Any]:
    """Return the possible cells, in a quarter of the time where all are."""
    return cells.reshape(-1) if possible.all() else cells[possible]


def _on_grid(values: Floats) -> Floats:
    steps = np.divide(values, STEP)
    np.rint(steps, out=steps)
    steps *= STEP
    return steps


def _normal(seed: PostProcessingSeed, stream: int, size: int) -> Floats:
    """Draw standard normal numbers from a seed: quantiles of 2^12 equally likely strata."""
    words = seed.words(stream, -(-size // 4)).astype("<u8").view("<u2")[:size]
    return np.asarray(_strata()[words >> 4])


@lru_cache(maxsize=1)
def _strata() -> Floats:
    """Return the middle quantile of each stratum, on a grid, with variance 1."""
    normal = NormalDist()
    middle = np.array([normal.inv_cdf((place + 0.5) / _QUANTILES) for place in range(_QUANTILES)])
    return _on_grid(middle / sqrt(float(np.mean(middle**2))))
