"""Gaussian mixtures from noisy sufficient statistics (DP-EM).

Each round is one draw: the rows' responsibilities under the current mixture, which is public or released, and their
counts, sums and second moments (`moments`), all components together. The maximisation is post-processing:

    weight_g = N_g / sum N        mean_g = S_g / N_g        covariance_g = Q_g / N_g - mean_g mean_g'

with N, S, Q the noisy blocks. What noise can spoil is put right: counts are not negative; a component whose count is
below `least` keeps its mean and covariance; means stay within the bound; eigenvalues (variances, where diagonal) are
lowered to bound^2 and raised to a floor, or to what the noise alone makes of them where that is more.

Source: Park, Foulds, Chaudhuri, Welling 2017. Deviates in the joint bound: 3 m^2 a round under add_remove and 6 m^2
under replace_one, for any number of components.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from privacy.arrays import Floats
from privacy.learning.embedding import Embedding
from privacy.learning.lattice import LatticePoints, to_lattice
from privacy.learning.moments import (
    ABOVE,
    CENTRE_BITS,
    FACTOR_BITS,
    ON,
    LabelCodes,
    MomentBlocks,
    Moments,
    Responsibilities,
)
from privacy.learning.portable_normal import normal_quantiles
from privacy.learning.principal_components import noise_edge
from privacy.marginals.portable import PostProcessingSeed

Covariance = Literal["full", "diagonal"]
Measure = Callable[[Moments, int], MomentBlocks]
"""Gives the (noisy) blocks of a statistic in the round of that number."""


@dataclass(frozen=True, eq=False)
class Mixture:
    """A Gaussian mixture; released or public.

    Args:
        weights: not negative, adding up to 1, shape (K,).
        means: shape (K, d).
        covariances: positive definite, shape (K, d, d); variances, shape (K, d), where they are diagonal.
        owners: the label that each component belongs to, shape (K,); None where rows have none.
    """

    weights: Floats
    means: Floats
    covariances: Floats
    owners: LatticePoints | None = None

    @property
    def covariance(self) -> Covariance:
        """Whether covariances are matrices."""
        return "full" if self.covariances.ndim == 3 else "diagonal"

    def cholesky(self) -> Floats:
        """Return lower triangular factors L with L L' = covariance, shape (K, d, d)."""
        if self.covariances.ndim == 3:
            return np.asarray(np.linalg.cholesky(self.covariances))
        return np.sqrt(self.covariances)[:, :, None] * np.eye(self.means.shape[1])


def initial_mixture(
    components: int,
    *,
    variances: Floats,
    covariance: Covariance,
    floor: float,
    seed: PostProcessingSeed,
    labels: int = 0,
) -> Mixture:
    """Return a mixture to begin with, from public or released numbers: normal means, the given variances all round.

    Args:
        components: how many; a label, where there are labels.
        variances: along each axis, such as the moments of principal components over the rows, shape (d,).
        covariance: its form.
        floor: to which variances are raised.
        seed: public.
        labels: cells of the label column, each of which gets components of its own; 0 for none.
    Privacy: post-processing.
    """
    count, dimension = components * max(labels, 1), variances.size
    raised = np.maximum(variances, floor)
    means = standard_normals(seed, count * dimension).reshape(count, dimension) * np.sqrt(raised)
    each = np.diag(raised) if covariance == "full" else raised
    owners = np.repeat(np.arange(labels, dtype=np.int64), components) if labels else None
    return Mixture(np.full(count, 1 / count), means, np.repeat(each[None], count, axis=0), owners)


def mixture_statistic(
    mixture: Mixture, embedding: Embedding, *, weight_bits: int, labels: LabelCodes | None = None
) -> Moments:
    """Return what a round measures: counts, sums and second moments by the rows' responsibilities.

    Args:
        mixture: public or released.
        embedding: from rows to vectors.
        weight_bits: responsibilities are multiples of 2^-weight_bits.
        labels: the column that the mixture's owners are cells of.
    Raises:
        ValueError: a mixture that is too sharp for whole numbers, or a lattice that is too fine.
    Privacy: the statistic is public; measuring it is not.
    """
    # Units of a mixture's lattice in one unit of the vectors.
    size = float((1 << (embedding.bits + CENTRE_BITS)) / embedding.bound)
    factors = mixture.cholesky()
    log_scale = np.log(np.diagonal(factors, axis1=1, axis2=2)).sum(axis=1)
    # With covariance = L L' the precision is L'^-1 L^-1: its factor is the transposed inverse of L.
    inverse = np.linalg.inv(factors).transpose(0, 2, 1)
    if mixture.covariance == "diagonal":
        inverse = np.diagonal(inverse, axis1=1, axis2=2)
    groups = Responsibilities(
        # A weight of 0 would have no logarithm.
        to_lattice(np.log(np.maximum(mixture.weights, 1e-12)) - log_scale, 20),
        to_lattice(mixture.means * size, 0),
        to_lattice(inverse / size, FACTOR_BITS),
        weight_bits,
        labels,
        mixture.owners,
    )
    return Moments(embedding, groups, ("counts", "sums", mixture.covariance))


def maximised(blocks: MomentBlocks, previous: Mixture, *, bound: float, floor: float, least: float) -> Mixture:
    """Return the mixture that (noisy) statistics give.

    Args:
        blocks: counts, sums and second moments of the components.
        previous: what components with too small a count keep.
        bound: norm bound of the vectors.
        floor: least variance in any direction, > 0 and at most bound^2.
        least: count below which a component keeps its mean and covariance, > 0 [rows].
    Raises:
        ValueError: a block is missing.
    Privacy: post-processing where the blocks are released.
    """
    if blocks.counts is None or blocks.sums is None or blocks.squares is None:
        raise ValueError("blocks must hold counts, sums and second moments")
    counts = np.maximum(blocks.counts, 0.0)
    # Where the count may be noise, so may everything that is divided by it.
    known = counts >= least
    divisor = np.where(known, counts, 1.0)[:, None]
    # Vectors lie in the ball, so their mean does: what sticks out is noise.
    means = into_bound(blocks.sums / divisor, bound)
    if previous.covariance == "full":
        spread = blocks.squares / divisor[:, :, None] - means[:, :, None] * means[:, None, :]
        # A symmetric matrix of noise alone has eigenvalues up to this: smaller ones of the estimate say nothing.
        noise = noise_edge(means.shape[1], blocks.deviation * ON / ABOVE)
    else:
        spread = blocks.squares / divisor - means * means
        noise = blocks.deviation
    # Sums of squares are divided by the count, and so is what their noise makes of an eigenvalue.
    least_variance = np.clip(noise * bound * bound / divisor, floor, bound * bound)
    covariances = _limited(spread, least_variance, bound * bound)
    kept = np.where(known.reshape(-1, *[1] * (spread.ndim - 1)), covariances, previous.covariances)
    # A component that noise has emptied keeps a small weight, whose logarithm is finite.
    weights = np.maximum(counts, 1e-6 * max(float(counts.sum()), 1.0))
    return Mixture(weights / weights.sum(), np.where(known[:, None], means, previous.means), kept, previous.owners)


def fit_mixture(
    measure: Measure,
    initial: Mixture,
    embedding: Embedding,
    *,
    rounds: int,
    weight_bits: int,
    floor: float,
    least: float,
    labels: LabelCodes | None = None,
) -> Mixture:
    """Fit a mixture by rounds of expectation and maximisation.

    Args:
        measure: measures a statistic in the round of that number, from 0; each is one draw.
        initial: public, or made of released numbers.
        embedding: from rows to vectors.
        rounds: fixed beforehand.
        weight_bits: responsibilities are multiples of 2^-weight_bits.
        floor: least variance in any direction.
        least: count below which a component keeps its mean and covariance [rows].
        labels: the column that the mixture's owners are cells of.
    Returns:
        Mixture: the last round's.
    Raises:
        ValueError: a floor so low that components could become too sharp for whole numbers.
    Privacy: that of the rounds' draws.
    """
    if not smallest_floor(embedding) <= floor <= float(embedding.bound) ** 2:
        raise ValueError(
            f"floor must be from {smallest_floor(embedding):.3g} (fewer dimensions or more bits allow a lower one) "
            f"to the squared bound, {float(embedding.bound) ** 2:.3g}; found {floor:.3g}"
        )
    mixture = initial
    for turn in range(rounds):
        # EXPECTATION, inside the grant
        statistic = mixture_statistic(mixture, embedding, weight_bits=weight_bits, labels=labels)
        blocks = measure(statistic, turn)
        # MAXIMISATION
        mixture = maximised(blocks, mixture, bound=float(embedding.bound), floor=floor, least=least)
    return mixture


def smallest_floor(embedding: Embedding) -> float:
    """Return the least variance at which every precision factor fits into whole numbers: 2^14 d / size^2.

    A column of a factor has norm at most 1 / sqrt(floor), hence entries that add up to at most sqrt(d / floor);
    `Responsibilities` takes them below 2^25 in units of size / 2^32, size = 2^(bits + 8) / bound.
    """
    size = float((1 << (embedding.bits + CENTRE_BITS)) / embedding.bound)
    return 1.01 * 2.0**14 * embedding.dimension / size**2


def into_bound(vectors: Floats, bound: float) -> Floats:
    """Shorten vectors to a norm bound."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors * np.minimum(1.0, bound / np.maximum(norms, 1e-300)))


def standard_normals(seed: PostProcessingSeed, count: int) -> Floats:
    """Return standard normals of a public seed; no noise, whose source they must never be."""
    return normal_quantiles(seed.words(0, count))


def _limited(spread: Floats, floor: Floats, ceiling: float) -> Floats:
    """Raise and lower variances, or the eigenvalues of symmetric matrices, to their limits; floor of shape (K, 1)."""
    if spread.ndim == 2:
        return np.clip(spread, floor, ceiling)
    # The nearest matrix with eigenvalues within the limits keeps the eigenvectors.
    values, vectors = np.linalg.eigh((spread + spread.transpose(0, 2, 1)) / 2)
    return np.asarray((vectors * np.clip(values, floor, ceiling)[:, None, :]) @ vectors.transpose(0, 2, 1))


# --- Gaussians of classes whose noisy covariances are drawn towards the one that all classes share.


DIFFERENCE: Final = 0.01
"""t: how much classes are taken to differ in a whitened entry, squared. Chosen on training pictures of MNIST."""
_NARROWEST, _WIDEST = 0.15, 8.0
"""Limits of a class's variance in any direction, over that of all classes."""


def shrunk_classes(
    blocks: MomentBlocks, *, bound: float, difference: float = DIFFERENCE, owners: LatticePoints | None = None
) -> Mixture:
    """Return one Gaussian for each label, or for each of their components, from the (noisy) moments of these.

    A label or component whose count may be noise gets the mean of all and the pooled covariance.

    Args:
        blocks: counts (K,), sums (K, d) and full second moments (K, d, d) of the labels' or components' rows.
        bound: norm bound of the vectors.
        difference: t, > 0.
        owners: the label of each component, shape (K,); without it each is its own.
    Raises:
        ValueError: a block is missing.
    Privacy: post-processing where the blocks are released.
    """
    if blocks.counts is None or blocks.sums is None or blocks.squares is None or blocks.squares.ndim != 3:
        raise ValueError("blocks must hold counts, sums and full second moments")
    counts = np.maximum(blocks.counts, 0.0)
    # Below twice its noise a count may be that of no row.
    known = counts >= max(1.0, 2 * blocks.deviation)
    divisor = np.where(known, counts, 1.0)
    total = max(float(counts.sum()), 1.0)
    middle = into_bound(blocks.sums.sum(axis=0, keepdims=True) / total, bound)
    means = np.where(known[:, None], into_bound(blocks.sums / divisor[:, None], bound), middle)
    spread = blocks.squares / divisor[:, None, None] - means[:, :, None] * means[:, None, :]
    deviations = blocks.deviation * bound * bound * ON / ABOVE / divisor
    scales, axes = _pooled(spread, np.where(known, counts, 0.0), deviations, bound)
    # A class of which nothing is known has an endless variance of noise: it keeps the pooled covariance.
    noise = np.where(known, deviations, np.inf)[:, None, None] ** 2 / np.outer(scales, scales)
    covariances = _shrunk(spread, noise, scales, axes, difference)
    weights = np.maximum(counts, 1e-6 * total)
    labels = np.arange(counts.size, dtype=np.int64) if owners is None else owners
    return Mixture(weights / weights.sum(), means, covariances, labels)


def _pooled(spread: Floats, counts: Floats, deviations: Floats, bound: float) -> tuple[Floats, Floats]:
    """Return variances and axes of the pooled covariance; variances are at least what half its noise may make."""
    dimension = spread.shape[1]
    total = float(counts.sum())
    if total <= 0:
        # No label is known: at this variance the expected squared norm is bound^2.
        return np.full(dimension, bound * bound / dimension), np.eye(dimension)
    shares = counts / total
    values, axes = np.linalg.eigh(np.tensordot(shares, spread, axes=1))
    noise = noise_edge(dimension, float(np.sqrt((shares**2) @ (deviations**2))))
    return np.clip(values, max(noise / 2, bound * bound * 1e-6), bound * bound), axes


def _shrunk(spread: Floats, noise: Floats, scales: Floats, axes: Floats, difference: float) -> Floats:
    """Shrink whitened differences entry by entry, cut eigenvalues, and return covariances."""
    identity = np.eye(scales.size)
    whitening = axes / np.sqrt(scales)
    away = whitening.T @ spread @ whitening - identity
    values, vectors = np.linalg.eigh(identity + away * (difference / (difference + noise)))
    cut = (vectors * np.clip(values, _NARROWEST, _WIDEST)[:, None, :]) @ vectors.transpose(0, 2, 1)
    colouring = axes * np.sqrt(scales)
    made = colouring @ cut @ colouring.T
    return np.asarray((made + made.transpose(0, 2, 1)) / 2)
