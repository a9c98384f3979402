"""Gaussians of classes whose noisy covariances are drawn towards the one that all classes share.

A class has few rows, so noise spoils most of its covariance; all classes together have many. With W the pooled
covariance, W = V diag(p) V', the whitened covariance of class c is

    G_c = H' S_c H,     H = V diag(p)^-1/2          I, were the class like all others

Entry (i, j) of G_c - I has the noise variance v_ij = s_c² / (p_i p_j), with s_c the deviation of S_c's entries. It is
multiplied with t / (t + v_ij), which is its posterior mean where such entries are normal with variance t. So little
is left of what noise makes, and all where noise is small. Then eigenvalues of G_c are cut to limits.

Source: Efron, Morris 1973 (empirical Bayes shrinkage of several means towards their own mean).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from privacy.arrays import Floats
from privacy.learning.lattice import LatticePoints
from privacy.learning.mixture import Mixture, into_bound
from privacy.learning.moments import ABOVE, ON, MomentBlocks
from privacy.learning.principal_components import noise_edge

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
