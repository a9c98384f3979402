"""Empirical Bayes for ordered axes and meshes: the prior of a cell is conditioned on what its neighbours say.

    SMOOTH    each cell by itself: posterior mean under one prior for all (`empirical_bayes`).
    PREDICT   each cell from the rings around it, itself left out (`neighbourhood`).
    COMBINE   where the prediction x is small, a mixture of dispersions around x;
              where it is large, x + s (noisy - x) with s = τ² / (τ² + σ²), τ² the variance of count - x among 30
              cells of like x; where such x says little (s > 0.8), a prior deconvolved from cells of like x.
In tables of more than 2^20 cells those with next to nothing around them are not predicted one by one: the level
around them, in half-octaves, takes the prediction's place.
Source: Laine, Karras, Lehtinen and Aila 2019 (blind-spot prior times own likelihood); Batson and Royer 2019; Efron
and Morris 1973 for the linear shrinkage.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from privacy.accounting.events import CountNoise
from privacy.arrays import Floats
from privacy.marginals.count_noise import half_width, variance
from privacy.refine.empirical_bayes import (
    PosteriorLattice,
    PosteriorRows,
    check_noisy,
    deconvolve,
    exact_rows,
    join,
    lattice,
    summaries,
)
from privacy.refine.noise_mass import noise_unit
from privacy.refine.posterior import STEP, Posterior

# --- What the neighbours of a cell say about it, the cell itself left out.


REACH_2D: Final = 2
REACH_1D: Final = 4
_RINGS_2D: Final = (
    ((0, 1), (1, 0), (0, -1), (-1, 0)),
    ((1, 1), (1, -1), (-1, 1), (-1, -1)),
    ((0, 2), (2, 0), (0, -2), (-2, 0)),
    ((1, 2), (2, 1), (-1, 2), (-2, 1), (1, -2), (2, -1), (-1, -2), (-2, -1)),
    ((2, 2), (2, -2), (-2, 2), (-2, -2)),
)
_RINGS_1D: Final = tuple(((0, step), (0, -step)) for step in range(1, REACH_1D + 1))
_LEVELS: Final = (0.1, 1.0, 4.0, 16.0, 64.0)
_SMALLEST_LEVEL: Final = 40
_COEFFICIENT_STEP: Final = 2.0**-14
_LEAST_RIDGE: Final = 1e-10  # of the trace: large counts must not make the equations singular
_PREDICTION_STEP: Final = 2.0**-10
Flat = NDArray[Any]


@dataclass(frozen=True)
class Frame:
    """A table laid out flat with a margin around each map or line, so that a neighbour is a fixed step away.

    Args:
        shape: (maps, rows, columns) of the table; one row where one axis is ordered.
        margin: (rows, columns) left empty before each map and each row.
        rings: flat steps, ring by ring.
    """

    shape: tuple[int, int, int]
    margin: tuple[int, int]
    rings: tuple[tuple[int, ...], ...]

    @staticmethod
    def of(shape: tuple[int, ...], axes: int) -> Frame:
        """Lay out a table whose last one or two axes are ordered."""
        columns, rows = shape[-1], shape[-2] if axes == 2 else 1
        maps = int(np.prod(shape[:-axes], dtype=np.int64))
        margin = (REACH_2D, REACH_2D) if axes == 2 else (0, REACH_1D)
        width = columns + margin[1]
        rings = _RINGS_2D if axes == 2 else _RINGS_1D
        return Frame((maps, rows, columns), margin, tuple(tuple(r * width + c for r, c in ring) for ring in rings))

    @property
    def width(self) -> int:
        """Return the length of a row with its margin."""
        # One margin before each row serves both sides: beyond a row's end lies the margin of the next.
        return self.shape[2] + self.margin[1]

    def lay(self, values: NDArray[np.float32] | NDArray[np.int64] | Floats, kind: type[np.generic]) -> Flat:
        """Return the values in the flat layout as the given dtype, zeros in the margin."""
        maps, rows, _ = self.shape
        height = maps * (rows + self.margin[0]) + self.margin[0]
        flat = np.zeros(height * self.width + self.margin[1] + 1, kind)
        self.view(flat)[...] = values.reshape(self.shape)
        return flat

    def view(self, flat: Flat) -> Flat:
        """Return the table inside a flat layout, shape (maps, rows, columns), without a copy."""
        maps, rows, _ = self.shape
        start = self.margin[0] * self.width
        inner = flat[start : start + maps * (rows + self.margin[0]) * self.width]
        return inner.reshape(maps, rows + self.margin[0], self.width)[:, :rows, self.margin[1] :]

    def places(self, cells: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the flat places of cells given by their number in the table."""
        maps_and_rows, column = np.divmod(cells, self.shape[2])
        map_, row = np.divmod(maps_and_rows, self.shape[1])
        return (map_ * (self.shape[1] + self.margin[0]) + row + self.margin[0]) * self.width + column + self.margin[1]

    def ring_means(self, laid: Flat, present: Flat, places: NDArray[np.int64], means: Floats) -> None:
        """Write the mean of each ring around the given flat places into `means`, shape (places, rings)."""
        for column, ring in enumerate(self.rings):
            # At the border of a map a ring has fewer cells: the mean is over those that exist, and of none it is 0.
            total, count = np.zeros(places.size), np.zeros(places.size, np.uint8)
            for step in ring:
                total += laid[places + step]
                count += present[places + step]
            means[:, column] = total / np.maximum(count, 1)

    def levels(self, laid: Flat, start: int, stop: int) -> NDArray[np.float32]:
        """Return the level around the flat places start to stop; the margin counts as 0."""
        level = np.zeros(stop - start, np.float32)
        # The farthest step back: places nearer to an end are all margin, and would be read beyond the layout.
        low, high = -min(map(min, self.rings)), laid.size + min(map(min, self.rings))
        first, last = max(start, low), min(stop, high)
        for weight, ring in zip(level_weights(len(self.rings)), self.rings, strict=True):
            total = sum(
                (laid[first + step : last + step] for step in ring[1:]), laid[first + ring[0] : last + ring[0]]
            )
            level[first - start : last - start] += total * np.float32(weight / len(ring))
        return level


def predict(noisy: Floats, features: Floats, level: Floats, unit: float) -> Floats:
    """Predict each cell by ridge regression of its noisy value on what does not depend on its noise, one fit a level.

    Args:
        noisy: the cells' own noisy values, shape (cells,) [units].
        features: ring means and whatever else is independent of the cells' noise, shape (cells, features) [units].
        level: about how much there is around each cell [units].
        unit: the noise's scale; its square is the ridge, if that is enough to solve by [units].
    Returns:
        Prediction ≥ 0 [units].
    """
    # Cells with about as much around them, in units of the noise, share one fit.
    grade = np.searchsorted(np.array(_LEVELS) * unit, level)
    counts = np.bincount(grade, minlength=len(_LEVELS) + 1)
    for high in range(len(_LEVELS), 0, -1):  # a level with few cells joins the one below it
        if counts[high] < _SMALLEST_LEVEL:
            grade[grade == high] = high - 1
            counts[high - 1] += counts[high]
    predicted = np.zeros(len(noisy))
    for value in np.unique(grade):
        chosen = np.flatnonzero(grade == value)
        rows = features[chosen]
        gram = rows.T @ rows
        # Noisy features bias the weights to zero by about the noise's variance a cell; a ridge of that size only
        # steadies it.
        gram += max(unit**2, _LEAST_RIDGE * np.trace(gram)) * np.eye(rows.shape[1])
        weights = np.linalg.solve(gram, rows.T @ noisy[chosen])
        # Rounded weights and predictions: another order of summation on another machine publishes the same numbers.
        predicted[chosen] = rows @ (np.rint(weights / _COEFFICIENT_STEP) * _COEFFICIENT_STEP)
    return np.maximum(np.rint(predicted / _PREDICTION_STEP) * _PREDICTION_STEP, 0)


def level_weights(rings: int) -> Floats:
    """Return the weight of each ring's mean in the level around a cell: near rings more than far ones."""
    return np.array([4, 4, 2, 4, 2]) / 16 if rings == len(_RINGS_2D) else np.array([4, 3, 2, 1]) / 10


# --- Priors for a count whose mean is predicted.


SHAPES: Final = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
ITERATIONS: Final = 100
_CLASSES: Final = (0.05, 0.2, 0.8, 3.2)


def mixture_priors(
    histograms: NDArray[np.int64], predictions: Floats, frame: PosteriorLattice, unit: float
) -> Floats:
    """Return one prior over the truths for each row.

    Args:
        histograms: noisy values of the row's cells by bin, shape (rows, bins).
        predictions: x of each row, > 0 [units].
        frame: of the noise.
        unit: the noise's scale; rows form one class where x / unit lies between 0, 0.05, 0.2, 0.8, 3.2, ∞ [units].
    Returns:
        Shape (rows, truths), each row sums to 1.
    """
    priors = np.zeros((predictions.size, frame.truths.size))
    classes = np.searchsorted(np.array(_CLASSES) * unit, predictions)
    for class_ in np.unique(classes):
        rows = np.flatnonzero(classes == class_)
        parts = components(predictions[rows], frame)
        seen = np.flatnonzero(histograms[rows].sum(axis=0))
        # The likelihood of each noisy bin under each component; only bins that occur are needed.
        fits = parts @ frame.likelihood[seen].T
        priors[rows] = np.einsum("k,rkt->rt", _weights(histograms[np.ix_(rows, seen)], fits), parts)
    return priors


def components(predictions: Floats, frame: PosteriorLattice) -> Floats:
    """Return the mass of each component on the grid of truths, shape (rows, components, truths)."""
    # SciPy takes a second to load, and a checker often needs none of it.
    from scipy.special import betainc

    truths = frame.truths
    # A grid point stands for the counts nearer to it than to its neighbours: its mass is the difference of the
    # cumulative distribution at the ends of its stretch. The last stretch has no end.
    upper = np.append((truths[1:] + truths[:-1] - 1) // 2, 2**53).astype(np.float64)
    parts = np.zeros((predictions.size, len(SHAPES) + 2, truths.size))
    # Component 0 has all its mass at the count 0.
    parts[:, 0, 0] = 1
    for place, shape in enumerate(SHAPES, start=1):
        # P(NB(mean x, shape k) ≤ u) = I_p(k, u + 1) with p = k / (k + x).
        below = betainc(shape, upper[None, :] + 1, shape / (shape + predictions[:, None]))
        parts[:, place] = np.diff(below, axis=1, prepend=0)
    # The last component is the prediction itself, shared between the two grid points around it so that the mean is x.
    right = np.clip(np.searchsorted(truths, predictions), 1, truths.size - 1)
    share = (predictions - truths[right - 1]) / (truths[right] - truths[right - 1])
    rows = np.arange(predictions.size)
    parts[rows, -1, right], parts[rows, -1, right - 1] = share, 1 - share
    return parts


def _weights(histograms: NDArray[np.int64], fits: Floats) -> Floats:
    """Estimate the mixture's weights by EM; fits has shape (rows, components, bins)."""
    used = histograms > 0
    counts = histograms[used].astype(np.float64)
    columns = np.ascontiguousarray(fits.transpose(1, 0, 2)[:, used])
    weights = np.full(len(columns), 1 / len(columns))
    for _ in range(ITERATIONS if counts.size else 0):
        # One step of EM for a mixture with known components. The floor guards a value that no component explains.
        weights = weights * (columns @ (counts / np.maximum(weights @ columns, 1e-300)))
        weights /= weights.sum()
    return weights


GROUP: Final = 30
MOST_GROUPS: Final = 4096
SHARE_ERROR: Final = 0.4
"""About one standard error of s when τ² is estimated from 30 cells; intervals are widened by it."""


def shrink(noisy: NDArray[np.int64], predicted: Floats, event: CountNoise) -> tuple[Floats, Floats]:
    """Shrink noisy values to their predictions, in groups of 30 cells or more of like prediction.

    Formula:  x + s (noisy - x),  s = τ² / (τ² + σ²),  τ² = max(0, mean (noisy - x)² - σ²)
    Returns: the shrunk values, and s of each cell.
    """
    means, shares = np.zeros(noisy.size), np.zeros(noisy.size)
    order, noise = np.argsort(predicted, kind="stable"), variance(event)
    for group in np.array_split(order, min(max(1, noisy.size // GROUP), MOST_GROUPS)):
        gap = noisy[group] - predicted[group]
        # What the gaps vary beyond the noise is the truth's own spread around the prediction.
        excess = max(0.0, float(np.mean(gap**2, dtype=np.float64)) - noise) if group.size else 0.0
        shares[group] = round(excess / (excess + noise) / STEP) * STEP
        means[group] = predicted[group] + shares[group] * gap
    return np.maximum(np.rint(means / STEP) * STEP, 0), shares


def shrunk_rows(means: Floats, shares: Floats, event: CountNoise) -> PosteriorRows:
    """Return the summaries of cells that were shrunk to their prediction."""
    reach = np.sqrt(np.minimum(shares + SHARE_ERROR, 1)) * half_width(event, 0.95)
    lower, upper = np.maximum(np.ceil(means - reach), 0), np.floor(means + reach)
    spread = shares * variance(event)
    return PosteriorRows(means, spread, (means < 0.5).astype(np.float64), lower, upper, spread)


T = TypeVar("T")
QUIET_LEVEL: Final = 0.1
"""Below it, in units, the surroundings of a cell are as good as empty."""
SMALL_TABLE: Final = 1 << 20
LEAST_PREDICTION: Final = 0.01
LARGE_PREDICTION: Final = 16.0
ROW_STEP: Final = 0.05
BROAD: Final = 0.8
_QUIET_ROWS: Final = 16
_CHUNK: Final = 1 << 18
_THREADS: Final = 2


def spatial_bayes(noisy: NDArray[np.int64], event: CountNoise, *, axes: int) -> Posterior:
    """Return the posterior of every cell of a table whose last axes are ordered.

    Args:
        noisy: exact counts plus independent noise; the last `axes` axes are ordered (times, ages, a mesh), the ones
            before them are not; whole numbers [units].
        event: the noise.
        axes: 1 or 2.
    Returns:
        Posterior: turn it into a table with `refine_posterior`.
    Raises:
        ValueError: noisy is not an array of whole numbers, or has fewer axes; axes is neither 1 nor 2.
    Privacy: post-processing; deterministic.
    Source: see the module. Deviation: the blind-spot predictor is a ridge regression by level, not a network.
    """
    if axes not in (1, 2):
        raise ValueError(f"axes must be 1 or 2, not {axes}")
    table = check_noisy(noisy)
    if table.ndim < axes:
        raise ValueError(f"noisy must have at least axes = {axes} axes, not {table.ndim}")
    frame, unit = lattice(event), noise_unit(event)
    values = table.reshape(-1)
    codes = frame.index(values)
    layout = Frame.of(table.shape, axes)
    smooth = _smooth(values, codes, frame, layout)
    quiet, busy = _split(smooth, layout, unit)
    predicted = _predict(values, smooth, layout, busy, unit)
    posterior = _combine(values, codes, quiet, busy, predicted, frame, event)
    return replace(posterior, codes=posterior.codes.reshape(table.shape))


def _smooth(values: NDArray[np.int64], bins: NDArray[np.int32], frame: PosteriorLattice, layout: Frame) -> Flat:
    """SMOOTH: the posterior mean of each cell by itself, laid out."""
    parts = _chunked(values.size, lambda part: np.bincount(bins[part], minlength=frame.bins + 1))
    prior = deconvolve(sum(parts, np.zeros(frame.bins + 1, np.int64))[: frame.bins], frame)
    mean = np.append(summaries(prior[None, :], frame).mean, 0).astype(np.float32)
    smoothed = np.empty(values.size, np.float32)

    def look_up(part: slice) -> None:
        smoothed[part] = mean[bins[part]]
        # Above the bins the noise is small beside the count, which is kept as it is.
        above = bins[part] == frame.bins
        smoothed[part][above] = values[part][above]

    _chunked(values.size, look_up)
    return layout.lay(smoothed, np.float32)


def _split(smooth: Flat, layout: Frame, unit: float) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the half-octave of the level around each cell, and the numbers of the cells to predict one by one."""
    cells = int(np.prod(layout.shape))
    if cells <= SMALL_TABLE:
        return np.zeros(cells, np.uint8), np.arange(cells)
    # The top bits of a float32 are its exponent and the first bit of its fraction: shifted, they number half-octaves.
    highest = int(np.float32(QUIET_LEVEL * unit).view(np.int32)) >> 22
    octaves = np.empty(smooth.size, np.uint8)

    def classify(part: slice) -> None:
        level = layout.levels(smooth, part.start, part.stop)
        halves = (level.view(np.int32) >> 22) - (highest - _QUIET_ROWS)  # exponent and first bit of the fraction
        octaves[part] = np.clip(halves, 0, _QUIET_ROWS)

    _chunked(smooth.size, classify)
    quiet = np.ascontiguousarray(layout.view(octaves)).reshape(-1)
    return quiet, np.flatnonzero(quiet == _QUIET_ROWS)


def _predict(values: NDArray[np.int64], smooth: Flat, layout: Frame, busy: NDArray[np.int64], unit: float) -> Floats:
    """PREDICT: the busy cells from the rings around them."""
    # Noisy neighbours and smoothed ones: both are independent of the cell's own noise but for its part in the one
    # prior that all cells share.
    laid, present = layout.lay(values, np.float64), layout.lay(np.ones(values.size, np.float32), np.uint8)
    rings = len(layout.rings)
    features = np.empty((busy.size, 2 * rings))

    def gather(part: slice) -> None:
        places = layout.places(busy[part])
        layout.ring_means(laid, present, places, features[part, :rings])
        layout.ring_means(smooth, present, places, features[part, rings : 2 * rings])

    _chunked(busy.size, gather)
    level = features[:, rings : 2 * rings] @ level_weights(rings)
    return predict(values[busy].astype(np.float64), features, level, unit)


def _combine(
    values: NDArray[np.int64],
    bins: NDArray[np.int32],
    quiet: NDArray[np.uint8],
    busy: NDArray[np.int64],
    predicted: Floats,
    frame: PosteriorLattice,
    event: CountNoise,
) -> Posterior:
    """COMBINE: give each cell a row of priors, fit them, and look the posterior up; what was shrunk comes apart."""
    unit = noise_unit(event)
    # Predictions in steps of 5 %: the cells of one step share a row, that is one prior.
    scaled = np.maximum(predicted / unit, LEAST_PREDICTION)
    steps = np.rint(np.log(scaled / LEAST_PREDICTION) / ROW_STEP).astype(np.int64)
    mixed = _QUIET_ROWS + int(steps.max(initial=0)) + 1
    large = np.flatnonzero(scaled >= LARGE_PREDICTION)
    # Large predictions are shrunk along a line; where that says little, a prior is deconvolved.
    means, shares = shrink(values[busy[large]], predicted[large], event)
    broad = shares > BROAD
    # Large predictions have rows of their own, an octave each, whose priors are deconvolved.
    steps[large] = mixed - _QUIET_ROWS + np.log2(scaled[large] / LARGE_PREDICTION).astype(np.int64)
    row_of = quiet.astype(np.int32)
    row_of[busy] = _QUIET_ROWS + steps
    rows = int(row_of.max(initial=0)) + 1
    codes = _codes(row_of, bins, frame)
    # What was shrunk along the line has a posterior a cell, and leaves the histograms that priors are fitted to.
    apart = busy[large[~broad]]
    histograms = _histograms(codes, apart, rows, frame)
    priors = _priors(histograms, mixed, frame, unit)
    above = bins == frame.bins
    above[apart] = False
    kept, own = np.unique(values[above], return_inverse=True)
    tables = _padded(histograms, priors, frame)
    codes[above] = tables.mean.size + own.astype(np.int32)
    codes[apart] = tables.mean.size + kept.size + np.arange(apart.size, dtype=np.int32)
    return join(codes, tables, exact_rows(kept, event), shrunk_rows(means[~broad], shares[~broad], event))


def _codes(row_of: NDArray[np.int32], bins: NDArray[np.int32], frame: PosteriorLattice) -> NDArray[np.int32]:
    """Return row * (bins + 1) + bin; the last bin of a row stands for what lies above."""
    row_of *= np.int32(frame.bins + 1)
    row_of += bins
    return row_of


def _histograms(
    codes: NDArray[np.int32], apart: NDArray[np.int64], rows: int, frame: PosteriorLattice
) -> NDArray[np.int64]:
    """Count the cells by row and bin, those that were shrunk left out."""
    size = rows * (frame.bins + 1)
    total = sum(_chunked(codes.size, lambda part: np.bincount(codes[part], minlength=size)), np.zeros(size, np.int64))
    total -= np.bincount(codes[apart], minlength=size)
    return total.reshape(rows, frame.bins + 1)[:, :-1]


def _priors(histograms: NDArray[np.int64], mixed: int, frame: PosteriorLattice, unit: float) -> Floats:
    """Fit the prior of every row: mixtures around a prediction, then deconvolved ones."""
    # The prediction of each row, from the number of its step.
    x = LEAST_PREDICTION * np.exp(ROW_STEP * np.arange(mixed - _QUIET_ROWS)) * unit
    predictions = np.concatenate([_quiet_predictions(histograms[:_QUIET_ROWS], frame, unit), x])
    priors = np.zeros((len(histograms), frame.truths.size))
    used = np.flatnonzero(histograms[:mixed].any(axis=1))
    priors[used] = mixture_priors(histograms[used], predictions[used], frame, unit)
    for row in range(mixed, len(histograms)):
        priors[row] = deconvolve(histograms[row], frame)
    return priors


def _quiet_predictions(histograms: NDArray[np.int64], frame: PosteriorLattice, unit: float) -> Floats:
    """Return the mean of each quiet row's noisy values, made increasing with the level around the cells."""
    # SciPy takes a second to load, and a checker often needs none of it.
    from scipy.optimize import isotonic_regression

    counts = histograms.sum(axis=1)
    centres = frame.low + frame.width * np.arange(frame.bins) + (frame.width - 1) / 2
    means = histograms @ centres / np.maximum(counts, 1)
    # More around a cell cannot mean less in it: the means may only rise with the level.
    rising = isotonic_regression(means[: len(counts)], weights=np.maximum(counts, 1e-9)).x
    return np.maximum(rising, LEAST_PREDICTION * unit)


def _padded(histograms: NDArray[np.int64], priors: Floats, frame: PosteriorLattice) -> PosteriorRows:
    """Return the summaries of the rows that are in use, zeros elsewhere, with a place above the bins."""
    used = np.flatnonzero(histograms.any(axis=1))
    shape = (len(priors), frame.bins + 1)
    filled = [np.zeros(shape) for _ in range(6)]
    for target, part in zip(filled, summaries(priors[used], frame).parts(), strict=True):
        target[used, :-1] = part.reshape(used.size, frame.bins)
    return PosteriorRows(*(target.reshape(-1) for target in filled))


def _chunked(size: int, work: Callable[[slice], T]) -> list[T]:
    """Apply work to slices of the range, two at a time; the results in order."""
    parts = [slice(start, min(size, start + _CHUNK)) for start in range(0, size, _CHUNK)]
    if len(parts) <= 1:
        return [work(part) for part in parts]
    with ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(work, parts))
