"""The noise that a grant hands to the queries it draws: the only module that samples (law 1)."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from privacy.accounting.events import DiscreteGaussian, DiscreteLaplace, DiscreteLaplaceVector, KeySelection
from privacy.accounting.key_law import KeyCountLaw
from privacy.federation.plan import RoundedNoise, ShareNoise, WholeNoise
from privacy.grant.queries.query import IntegerNoise
from privacy.noise import bernoulli as poisson_sample
from privacy.noise import choice as exponential
from privacy.noise import choice as key_coins
from privacy.noise import choice as key_counts
from privacy.noise import choice as weighted_choice
from privacy.noise import discrete_gaussian as gaussian
from privacy.noise import discrete_laplace as laplace
from privacy.noise import lattice_gaussian, lattice_shares
from privacy.noise import lattice_gaussian as row_normals
from privacy.noise.random_bytes import RandomBytes
from privacy.noise.sparse_laplace import SparseLaplace


class SampledNoise:
    """Draws noise from random bytes; what each method means stands in `NoiseSource` and in `privacy.noise`.

    Args:
        source: the bytes.
    """

    def __init__(self, source: RandomBytes) -> None:
        self._source = source

    def take(self, size: int) -> NDArray[np.uint8]:
        """Return uniform bytes."""
        return self._source.take(size)

    def integers(self, size: int, *, event: IntegerNoise) -> NDArray[np.int64]:
        """Draw the noise of an event for so many numbers."""
        match event:
            case DiscreteLaplace(inverse_scale=t) | DiscreteLaplaceVector(inverse_scale=t):
                return laplace.discrete_laplace(size, inverse_scale=t, source=self._source)
            case DiscreteGaussian(sigma_squared=sigma_squared):
                return gaussian.discrete_gaussian(size, sigma_squared=sigma_squared, source=self._source)
            case _:
                assert_never(event)

    def exponential_mechanism(self, scores: Sequence[Fraction], *, epsilon: Fraction, sensitivity: Fraction) -> int:
        """Choose by exact scores; return the place of the choice."""
        return exponential.exponential_mechanism(
            scores, epsilon=epsilon, sensitivity=sensitivity, source=self._source
        )

    def weighted_choice(
        self, distances: NDArray[np.int64], weights: NDArray[np.int64], *, rate: Fraction
    ) -> tuple[int, int]:
        """Choose a run of candidates by distances and weights; return its place and a number below its weight."""
        return weighted_choice.weighted_choice(distances, weights, rate=rate, source=self._source)

    def sparse_laplace(
        self,
        codes: NDArray[np.int64],
        counts: NDArray[np.int64],
        *,
        cells: int,
        inverse_scale: Fraction,
        threshold: int,
    ) -> SparseLaplace:
        """Draw the cells of a sparse table that reach a threshold."""
        return SparseLaplace(
            codes, counts, cells=cells, inverse_scale=inverse_scale, threshold=threshold, source=self._source
        )

    def poisson_sample(self, rows: int, *, probability: Fraction) -> NDArray[np.int64]:
        """Sample each row by a coin of its own."""
        return poisson_sample.poisson_sample(rows, probability=probability, source=self._source)

    def add_lattice_gaussian(self, exact: NDArray[np.float32], *, standard_deviation: Fraction) -> None:
        """Add Gaussian noise on a lattice to a vector, in its place."""
        lattice_gaussian.add_noise(exact, standard_deviation=standard_deviation, source=self._source)

    def share(self, size: int, *, noise: ShareNoise) -> NDArray[np.int64]:
        """Draw what a site, or a server, adds to so many numbers."""
        match noise:
            case WholeNoise(variance):
                return gaussian.discrete_gaussian(size, sigma_squared=variance, source=self._source)
            case RoundedNoise(deviation):
                return lattice_shares.noise_share(size, standard_deviation=deviation, source=self._source)
            case _:
                assert_never(noise)

    def row_normals(self, rows: int, size: int) -> NDArray[np.float32]:
        """Draw normals, each row's from its own bytes."""
        return row_normals.row_normals(rows, size, source=self._source)

    def key_coins(self, units: NDArray[np.int64], *, event: KeySelection) -> NDArray[np.bool_]:
        """Toss the coin of every key, by how many units have it."""
        return key_coins.selected(units, epsilon=event.epsilon, delta=event.delta, source=self._source)

    def noisy_key_counts(
        self, rows: NDArray[np.int64], *, law: KeyCountLaw
    ) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """Draw the noisy count of every key, and whether it is published."""
        return key_counts.noisy_key_counts(rows, law=law, source=self._source)
