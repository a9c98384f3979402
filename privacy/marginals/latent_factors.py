"""A latent factor model of categories, fitted to noisy residuals of all pairs: few numbers for many columns.

Where
    z_k     K public points in r dimensions         c, B    intercepts and loadings of every cell of every column
    a_k     chances of the cells, given z_k         Q       chances of all pairs of cells
    R_ij    noisy pair residual                     v_ij    variance of its numbers

    a_k = softmax, column by column, of  c + z_k B           Q = mean over k of a_k a_k'

and what is least is the misfit  Σ_i |mean a - m_i|² / v_i  +  Σ_i<j |P Q_ij P - R_ij|² / v_ij,  with P the projection
that takes the mean over a column's cells away. Chances add up to one, so that  P Q P  is the mean of  b_k b_k'  with
b = a - 1 / n  (n cells of a column): all pairs of cells are one matrix product.

The loadings of a column, r by n, may be of low rank q:  B_i = W_i S_i  with r by q weights of the factors and q by n
scores of the cells. With q = 1 all factors move the cells along one scale, as they do where cells are steps of a
number. Such a column has  q (r + n - 1 - q)  free numbers in the place of  r (n - 1).

How many factors and of which rank: r = 1, 2, 4, 6, 9, ... and at each r loadings of full rank, and of rank 1 and 2
from there, until Mallows' C_p, misfit plus twice the free numbers of the loadings, no longer falls. Points, starts
and steps are fixed, so that the same measurements give the same model up to rounding.

Source: Bock 1972 (categories that depend on latent traits); Anderson 1984 (stereotype model: loadings of rank 1);
Mallows 1973 (C_p); Liu, Vietri, Wu 2021 (GEM: products of distributions, fitted to noisy marginals); Kingma, Ba 2015
(the steps). GEM's are drawn from a network and refined by rounds of choices; here points are fixed, loadings are
linear, and all pairs are measured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import combinations
from operator import itemgetter
from typing import Final

import numpy as np

from contracts.contract.impossible_cells import Clique
from privacy.arrays import Floats, Singles
from privacy.marginals.graph import CellDomain
from privacy.marginals.portable import PostProcessingSeed

POINTS: Final = 256
"""K."""
FACTORS: Final = (1, 2, 4, 6, 9, 12, 16, 24, 32)
RANKS: Final = (1, 2)
"""Of the loadings of a column, beside full rank."""
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
        cls, domain: CellDomain, parts: Mapping[Clique, Floats], variances: Mapping[Clique, float], rows: float
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
    """Fit with as many factors, and loadings of such a rank, as C_p asks for. Post-processing.

    Args:
        noisy: the measurements.
        progress: told how much is done, 0 to 1.
    """
    fit = _Fit(noisy)
    best = fit.fitted(0)
    least = fit.criterion(best, 0)
    for place, factors in enumerate(FACTORS):
        progress(place / len(FACTORS))
        if factors > fit.free.sum():
            break
        full = fit.fitted(factors)
        found = [(fit.criterion(full, factors), full)]
        for rank in RANKS:
            if rank < min(factors, fit.free.max()):
                reduced = fit.reduced(full, rank)
                found.append((fit.criterion(reduced, rank), reduced))
        criterion, model = min(found, key=itemgetter(0))
        if criterion >= least:
            break
        best, least = model, criterion
    return best


def public_points(count: int, dimensions: int) -> Singles:
    """Return K points like a normal sample, in opposite pairs, with covariance 1; shape (K, r)."""
    if not dimensions:
        return np.zeros((count, 0), np.float32)
    half = np.random.Generator(np.random.Philox(key=_SEED.value)).normal(size=(count // 2, dimensions))
    points = np.concatenate([half, -half])
    factor = np.linalg.cholesky(points.T @ points / count)
    return np.asarray(np.linalg.solve(factor, points.T).T, dtype=np.float32)


_Numbers = dict[str, Singles]
"""What a model is made of, or the slope of the misfit over each: intercepts `c`, and the loadings' parts."""


class _Fit:
    """The misfit of one table's measurements and its slope."""

    def __init__(self, noisy: NoisyPairs) -> None:
        sizes = np.array(noisy.domain.shape)
        self._noisy = noisy
        self._starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        self._column = np.repeat(np.arange(len(sizes)), sizes)
        self._even = (1 / sizes)[self._column].astype(np.float32)
        self.free = sizes - 1
        """Free chances of each column."""
        free = self.free.astype(float)
        self._numbers = max(float((free.sum() ** 2 - (free**2).sum()) / 2), 1.0)

    def criterion(self, found: LatentFactors, rank: int) -> float:
        """Return C_p: what a fresh measurement's misfit would be; it rises by two for each number that is fitted.

        Args:
            found: a model.
            rank: of its columns' loadings at most.
        """
        factors = len(found.loadings)
        most = np.minimum(np.minimum(factors, rank), self.free)
        return found.misfit * self._numbers + 2.0 * float((most * (factors + self.free - most)).sum())

    def fitted(self, factors: int) -> LatentFactors:
        """Minimise with so many factors."""
        random = np.random.Generator(np.random.Philox(key=_SEED.value + 1))
        kept = np.maximum(self._noisy.singles, _LEAST)
        start = {
            "c": np.log(kept / self._sums(kept)[self._column]).astype(np.float32),
            "B": (_START * random.normal(size=(factors, kept.size))).astype(np.float32),
        }
        return self._descended(start, lambda values: values["B"], lambda _, slope: {"B": slope})

    def reduced(self, full: LatentFactors, rank: int) -> LatentFactors:
        """Minimise with loadings of a rank, from the nearest ones of that rank."""
        weights = np.zeros((rank, len(full.loadings), len(self.free)), np.float32)
        scores = np.zeros((rank, full.loadings.shape[1]), np.float32)
        for column, (start, free) in enumerate(zip(self._starts, self.free, strict=True)):
            own = full.loadings[:, start : start + free + 1]
            # What all cells of a column have in common changes no chance.
            left, sizes, right = np.linalg.svd(own - own.mean(axis=1, keepdims=True), full_matrices=False)
            kept = np.sqrt(sizes[:rank])
            weights[: kept.size, :, column] = (left[:, : kept.size] * kept).T
            scores[: kept.size, start : start + free + 1] = kept[:, None] * right[: kept.size]

        def slopes(values: _Numbers, slope: Singles) -> _Numbers:
            of_weights = [self._sums(slope * each) for each in values["S"]]
            of_scores = [(slope * each[:, self._column]).sum(axis=0) for each in values["W"]]
            return {"W": np.stack(of_weights), "S": np.stack(of_scores)}

        def loadings(values: _Numbers) -> Singles:
            return np.asarray((values["W"][..., self._column] * values["S"][:, None]).sum(axis=0))

        start_values = {"c": full.intercepts.astype(np.float32), "W": weights, "S": scores}
        return self._descended(start_values, loadings, slopes)

    def _descended(
        self,
        values: _Numbers,
        loadings: Callable[[_Numbers], Singles],
        slopes: Callable[[_Numbers, Singles], _Numbers],
    ) -> LatentFactors:
        """Minimise from a start, by Adam.

        Args:
            values: intercepts `c`, shape (cells,), and the parts of the loadings.
            loadings: from the parts, shape (factors, cells).
            slopes: of the parts, from the slope over the loadings.
        """
        points = public_points(POINTS, len(loadings(values)))
        first = {name: np.zeros_like(each) for name, each in values.items()}
        second = {name: np.zeros_like(each) for name, each in values.items()}
        one, two = _MOMENTS
        for step in range(1, _STEPS + 1):
            of_logits = self._slope(self._softmax(values["c"] + points @ loadings(values)))
            parts = {"c": of_logits.sum(axis=0)} | slopes(values, points.T @ of_logits)
            for name, slope in parts.items():
                first[name] = one * first[name] + (1 - one) * slope
                second[name] = two * second[name] + (1 - two) * slope**2
                move = first[name] / (1 - one**step) / (np.sqrt(second[name] / (1 - two**step)) + 1e-9)
                values[name] = (values[name] - _STEP * move).astype(np.float32)
        found = loadings(values)
        off = self._off(self._softmax(values["c"] + points @ found) - self._even)
        misfit = float((self._noisy.precisions * off * off).sum(dtype=np.float64)) / 2 / self._numbers
        whole = [np.asarray(each, dtype=np.float64) for each in (points, values["c"], found)]
        return LatentFactors(whole[0], whole[1], whole[2], misfit)

    def _slope(self, chances: Singles) -> Singles:
        """Return the slope of all misfit over the numbers, of each logit of each point."""
        noisy, count = self._noisy, np.float32(len(chances))
        apart = chances - self._even
        of_pairs = self._off(apart)
        of_pairs *= noisy.precisions
        single = (chances.mean(axis=0) - noisy.singles) / noisy.single_variances
        of_chances = (2 * apart @ of_pairs + 2 * single) / count
        of_logits = chances * (of_chances - self._sums(chances * of_chances)[:, self._column])
        return np.asarray(of_logits / np.float32(self._numbers))

    def _off(self, apart: Singles) -> Singles:
        """Return how far the residuals of all pairs are off; of chances less those of even cells."""
        off = apart.T @ (apart / np.float32(len(apart)))
        off -= self._noisy.pairs
        return np.asarray(off)

    def _softmax(self, logits: Singles) -> Singles:
        top = np.maximum.reduceat(logits, self._starts, axis=-1)[..., self._column]
        chances = np.exp(logits - top)
        return np.asarray(chances / self._sums(chances)[..., self._column])

    def _sums(self, values: Singles) -> Singles:
        return np.asarray(np.add.reduceat(values, self._starts, axis=-1))
