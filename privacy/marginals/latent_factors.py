"""A latent factor model of categories, fitted to noisy residuals of all pairs: few numbers for many columns.

Where
    z_k     K public points in r dimensions         c, B    intercepts and loadings of every cell of every column
    a_k     chances of the cells, given z_k         Q       chances of all pairs of cells
    R_ij    noisy pair residual                     v_ij    variance of its numbers

    a_k = softmax, column by column, of  c + z_k B           Q = mean over k of a_k a_k'

and what is least is the misfit  Σ_i |mean a - m_i|² / v_i  +  Σ_i<j |P Q_ij P - R_ij|² / v_ij,  with P the projection
that takes the mean over a column's cells away. All pairs of cells are one matrix product.

How many factors: r = 1, 2, 4, 6, 9, ... until Mallows' C_p, misfit plus twice the number of loadings, no longer
falls. Each is fitted from the start. Points, starts and steps are fixed, so that the same measurements give the same
model up to rounding.

Source: Bock 1972 (categories that depend on latent traits); Mallows 1973 (C_p); Liu, Vietri, Wu 2021 (GEM: products
of distributions, fitted to noisy marginals); Kingma, Ba 2015 (the steps). GEM's are drawn from a network and refined
by rounds of choices; here points are fixed, loadings are linear, and all pairs are measured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np

from contracts.contract.impossible_cells import Clique
from privacy.arrays import Floats, Singles
from privacy.marginals.domain import CellDomain
from privacy.marginals.seeds import PostProcessingSeed

POINTS: Final = 256
"""K."""
FACTORS: Final = (1, 2, 4, 6, 9, 12, 16, 24, 32)
_STEPS: Final = 70
_STEP: Final = 0.05
_START: Final = 0.05
_MOMENTS: Final = (0.9, 0.99)
_SEED: Final = PostProcessingSeed(20211206)
_LEAST: Final = 1e-4


@dataclass(frozen=True, eq=False)
class LatentFactors:
    """A fitted model.

    Args:
        points: z, shape (K, r).
        intercepts: c, shape (cells of all columns,).
        loadings: B, shape (r, cells of all columns).
        misfit: of the pairs, over the numbers that are fitted.
    """

    points: Floats
    intercepts: Floats
    loadings: Floats
    misfit: float


@dataclass(frozen=True, eq=False)
class NoisyPairs:
    """What was measured, in shares of all rows.

    Args:
        domain: the columns.
        singles: m, noisy shares of every cell of every column, shape (cells of all columns,).
        single_variances: v_i, in the same shape.
        pairs: R, noisy residuals of pairs, shape (cells, cells), symmetric; 0 within a column.
        precisions: 1 / v_ij in that shape; 0 within a column.
    """

    domain: CellDomain
    singles: Singles
    single_variances: Singles
    pairs: Singles
    precisions: Singles

    @classmethod
    def of(
        cls,
        domain: CellDomain,
        parts: Mapping[Clique, Floats],
        variances: Mapping[Clique, float],
        rows: float,
    ) -> NoisyPairs:
        """Put residual parts together.

        Args:
            domain: the columns.
            parts: for each column and each pair its part of its own of the counts [rows].
            variances: of each part's numbers [rows²].
            rows: how many there are, > 0.
        """
        sizes = domain.shape
        ends = np.cumsum([0, *sizes])
        singles, of_singles = np.empty(ends[-1], np.float32), np.empty(ends[-1], np.float32)
        pairs, precisions = np.zeros((ends[-1], ends[-1]), np.float32), np.zeros((ends[-1], ends[-1]), np.float32)
        for place, name in enumerate(domain.columns):
            own = slice(ends[place], ends[place + 1])
            singles[own] = 1 / sizes[place]
            of_singles[own] = 1.0
            if sizes[place] > 1:
                singles[own] += parts[(name,)] / rows
                of_singles[own] = variances[(name,)] / rows**2
        for one, other in combinations(range(len(sizes)), 2):
            if min(sizes[one], sizes[other]) > 1:
                pair = domain.columns[one], domain.columns[other]
                own, across = slice(ends[one], ends[one + 1]), slice(ends[other], ends[other + 1])
                pairs[own, across] = parts[pair] / rows
                precisions[own, across] = rows**2 / variances[pair]
                pairs[across, own], precisions[across, own] = pairs[own, across].T, precisions[own, across].T
        return cls(domain, singles, of_singles, pairs, precisions)


def fit_latent_factors(noisy: NoisyPairs, progress: Callable[[float], None]) -> LatentFactors:
    """Fit with as many factors as C_p asks for. Post-processing.

    Args:
        noisy: the measurements.
        progress: told how much is done, 0 to 1.
    """
    fit = _Fit(noisy)
    best = fit.fitted(0)
    least = best.misfit * fit.numbers
    for place, factors in enumerate(FACTORS):
        progress(place / len(FACTORS))
        if factors > fit.loadings:
            break
        found = fit.fitted(factors)
        # Mallows: the misfit that a fresh measurement would have rises by two for each number that is fitted.
        criterion = found.misfit * fit.numbers + 2.0 * factors * fit.loadings
        if criterion >= least:
            break
        best, least = found, criterion
    return best


def public_points(count: int, dimensions: int) -> Singles:
    """Return K points like a normal sample, in opposite pairs, with covariance 1; shape (K, r)."""
    if not dimensions:
        return np.zeros((count, 0), np.float32)
    half = np.random.Generator(np.random.Philox(key=_SEED.value)).normal(size=(count // 2, dimensions))
    points = np.concatenate([half, -half])
    factor = np.linalg.cholesky(points.T @ points / count)
    return np.asarray(np.linalg.solve(factor, points.T).T, dtype=np.float32)


class _Fit:
    """The misfit of one table's measurements and its slope."""

    def __init__(self, noisy: NoisyPairs) -> None:
        sizes = np.array(noisy.domain.shape)
        self._noisy = noisy
        self._starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        self._column = np.repeat(np.arange(len(sizes)), sizes)
        self._sizes = sizes.astype(np.float32)
        self.loadings = int((sizes - 1).sum())
        """Free loadings of one factor."""
        free = sizes.astype(float) - 1
        self.numbers = float((free.sum() ** 2 - (free**2).sum()) / 2)
        """Free numbers of all pairs."""

    def fitted(self, factors: int) -> LatentFactors:
        """Minimise with so many factors, by Adam."""
        points = public_points(POINTS, factors)
        width = self._noisy.singles.size
        random = np.random.Generator(np.random.Philox(key=_SEED.value + 1))
        kept = np.maximum(self._noisy.singles, _LEAST)
        values = {
            "c": np.log(kept / self._sums(kept)[self._column]).astype(np.float32),
            "B": (_START * random.normal(size=(factors, width))).astype(np.float32),
        }
        first = {name: np.zeros_like(each) for name, each in values.items()}
        second = {name: np.zeros_like(each) for name, each in values.items()}
        one, two = _MOMENTS
        for step in range(1, _STEPS + 1):
            misfit, slopes = self._slopes(points, values["c"], values["B"])
            for name, slope in slopes.items():
                first[name] = one * first[name] + (1 - one) * slope
                second[name] = two * second[name] + (1 - two) * slope**2
                move = first[name] / (1 - one**step) / (np.sqrt(second[name] / (1 - two**step)) + 1e-9)
                values[name] = (values[name] - _STEP * move).astype(np.float32)
        misfit, _ = self._slopes(points, values["c"], values["B"])
        whole = [np.asarray(each, dtype=np.float64) for each in (points, values["c"], values["B"])]
        return LatentFactors(whole[0], whole[1], whole[2], misfit)

    def _slopes(self, points: Singles, c: Singles, loadings: Singles) -> tuple[float, dict[str, Singles]]:
        """Return the pairs' misfit over their numbers, and the slope of all misfit over the numbers."""
        noisy, count = self._noisy, np.float32(len(points))
        chances = self._softmax(c + points @ loadings)
        off = self._centred(chances.T @ chances / count - noisy.pairs)
        off *= noisy.precisions > 0
        slope = noisy.precisions * off
        misfit = float((slope * off).sum(dtype=np.float64)) / 2
        single = (chances.mean(axis=0) - noisy.singles) / noisy.single_variances
        of_chances = (2 * chances @ slope + 2 * single) / count
        of_logits = chances * (of_chances - self._sums(chances * of_chances)[:, self._column])
        of_logits /= np.float32(max(self.numbers, 1.0))
        return misfit / max(self.numbers, 1.0), {"c": of_logits.sum(axis=0), "B": points.T @ of_logits}

    def _softmax(self, logits: Singles) -> Singles:
        top = np.maximum.reduceat(logits, self._starts, axis=-1)[..., self._column]
        chances = np.exp(logits - top)
        return np.asarray(chances / self._sums(chances)[..., self._column])

    def _sums(self, values: Singles) -> Singles:
        return np.asarray(np.add.reduceat(values, self._starts, axis=-1))

    def _centred(self, square: Singles) -> Singles:
        """Take the mean over a column's cells away, along both axes."""
        for _ in range(2):
            square = square - (self._sums(square) / self._sizes)[:, self._column]
            square = square.T
        return square
