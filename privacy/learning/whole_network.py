"""A decoder in whole numbers: a mixture of normal latents, layers, and what comes out, the same bytes anywhere.

Every number stands for a multiple of 2^-12 (biases of 2^-24). A matrix product of whole numbers is exact in float64,
in whatever order it is summed, while the sums of absolute products stay below 2^53; the constructors prove that they
do. So no processor and no library decides a rounding.

Where (one letter each)
    a   activations [2^-12], |a| <= 2^22 after clipping      W   weights [2^-12]      b   biases [2^-24]

    next a = clip(floor((a W' + b + 2^11) / 2^12)), and its positive part but for the last layer
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from privacy.learning.lattice import EXACT, LatticePoints, to_lattice
from privacy.learning.portable_normal import BITS, normal_steps
from privacy.marginals.portable import PostProcessingSeed

ONE: Final = 2**BITS
LARGEST_ACTIVATION: Final = 2**22
LARGEST_LATENT: Final = 2**20
"""How far from 0 a mean may lie [2^-12]."""
WEIGHT: Final = 2**40
"""Of the weights of a mixture that add up to 1."""
_LARGEST_NORMAL: Final = 9 * ONE

StepSizes = NDArray[np.float64]
"""Whole numbers held in float64."""


@dataclass(frozen=True, eq=False)
class LatentMixture:
    """A mixture of normal distributions, K components in k dimensions.

    Args:
        weights: shape (K,), at least 0, not all 0, summing to at most 2^52.
        means: shape (K, k), |mean| <= 2^20 [2^-12].
        factors: shape (K, k, k), lower triangular; a component's covariance is factor · factor' [2^-12].
    Raises:
        ValueError: another shape or range.
    """

    weights: LatticePoints
    means: LatticePoints
    factors: LatticePoints

    def __post_init__(self) -> None:
        count, size = self.means.shape
        if self.weights.shape != (count,) or self.factors.shape != (count, size, size) or count < 1 or size < 1:
            raise ValueError("a mixture has weights (K,), means (K, k) and factors (K, k, k)")
        if self.weights.min() < 0 or not 0 < float(self.weights.sum(dtype=np.float64)) < EXACT / 2:
            raise ValueError("weights of a mixture must be at least 0, and not all 0")
        # Normals are quantiles of at least 2^-54, hence within 9 of 0: their products sum to below 2^52.
        rows = np.abs(self.factors.astype(np.float64)).sum(axis=2)
        if not (_within(self.means, LARGEST_LATENT) and rows.max() * _LARGEST_NORMAL < EXACT / 2):
            raise ValueError("means or factors of a mixture are too large")

    @property
    def size(self) -> int:
        """Dimensions of the latent."""
        return int(self.means.shape[1])

    def sample(self, words: NDArray[np.uint64], allowed: NDArray[np.bool_]) -> tuple[NDArray[np.intp], StepSizes]:
        """Draw components and latents.

        Args:
            words: random, shape (1 + k, rows).
            allowed: which components, shape (K,); at least one of positive weight.
        Returns:
            components, shape (rows,); latents, shape (rows, k) [2^-12].
        """
        ends = np.cumsum(np.where(allowed, self.weights, 0))
        # A component by its weight: the first end above a uniform place.
        at = (words[0] % np.uint64(ends[-1])).astype(np.int64)
        component = np.searchsorted(ends, at, side="right")
        latents = np.empty((at.size, self.size))
        normals = normal_steps(words[1:]).T
        for each in np.unique(component):
            rows = np.flatnonzero(component == each)
            # Products of whole numbers whose sums stay below 2^53: exact, whichever library sums them.
            moved = normals[rows] @ self.factors[each].T.astype(np.float64)
            latents[rows] = self.means[each] + _shifted(moved)
        return component, np.clip(latents, -LARGEST_ACTIVATION, LARGEST_ACTIVATION)


@dataclass(frozen=True, eq=False)
class WholeLayer:
    """An affine layer.

    Args:
        weights: shape (outputs, inputs) [2^-12].
        biases: shape (outputs,) [2^-24].
    Raises:
        ValueError: another shape, or so large that a sum could reach 2^53.
    """

    weights: LatticePoints
    biases: LatticePoints

    def __post_init__(self) -> None:
        if self.weights.ndim != 2 or self.biases.shape != self.weights.shape[:1] or not self.weights.size:
            raise ValueError("a layer has weights (outputs, inputs) and biases (outputs,)")
        # The largest that a sum can become, for the largest activations: below 2^52 nothing is ever rounded.
        reach = np.abs(self.weights.astype(np.float64)).sum(axis=1) * LARGEST_ACTIVATION
        if not (reach + np.abs(self.biases.astype(np.float64)) < EXACT / 2).all():
            raise ValueError("weights or biases of a layer are too large")

    def __call__(self, activations: StepSizes) -> StepSizes:
        """Return what comes out before any nonlinearity, clipped [2^-12]."""
        # Multiples of 2^-12 times multiples of 2^-12 are in the biases' unit, 2^-24; exact by the constructor.
        summed = activations @ self.weights.T.astype(np.float64) + self.biases.astype(np.float64)
        return np.clip(_shifted(summed), -LARGEST_ACTIVATION, LARGEST_ACTIVATION)


@dataclass(frozen=True, eq=False)
class WholeNetwork:
    """Layers one after the other, rectified in between.

    Args:
        layers: at least one; each takes as many inputs as the one before gives.
    Raises:
        ValueError: layers that do not fit.
    """

    layers: tuple[WholeLayer, ...]

    def __post_init__(self) -> None:
        widths = [layer.weights.shape for layer in self.layers]
        if not widths or any(before[0] != after[1] for before, after in itertools.pairwise(widths)):
            raise ValueError("layers must fit together")

    def __call__(self, latents: StepSizes) -> StepSizes:
        """Return the outputs of rows, shape (rows, outputs) [2^-12]."""
        values = latents
        for layer in self.layers[:-1]:
            values = np.maximum(layer(values), 0.0)
        return self.layers[-1](values)


def to_steps(values: NDArray[np.floating], *, bits: int = BITS) -> LatticePoints:
    """Round to multiples of 2^-bits.

    Raises:
        ValueError: a value that is not finite, or beyond 2^62 steps.
    """
    return to_lattice(values, bits)


def whole_layers(layers: Sequence[tuple[NDArray[np.floating], NDArray[np.floating]]]) -> WholeNetwork:
    """Round real layers, (weights, biases) each, to a network in whole numbers."""
    return WholeNetwork(tuple(WholeLayer(to_steps(w), to_steps(b, bits=2 * BITS)) for w, b in layers))


def words_of(seed: PostProcessingSeed, stream: int, shape: tuple[int, int]) -> NDArray[np.uint64]:
    """Return random words of one stream in the given shape."""
    return seed.words(stream, shape[0] * shape[1]).reshape(shape)


def _shifted(products: StepSizes) -> StepSizes:
    """Divide by 2^12, rounding halves up; exact."""
    return np.floor((products + ONE / 2) * 2.0**-BITS)


def _within(values: LatticePoints, largest: int) -> bool:
    return bool(values.min() >= -largest and values.max() <= largest)
