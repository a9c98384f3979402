"""The mixture that latent vectors come from: measured by rounds of DP-EM in the projected space, then scaled.

    MEASURE    counts, sums and second moments of rows shared out among the components, round by round
    SCALE      so that latent entries have a given root mean square; the decoder's training starts from there

Where the label is one of the projected columns, components begin where a row of each label would lie if only its
label were known, so that they part by labels from the first round on; that is public but for the released axes.

With a label whose cells own components, a row is shared out among its own label's components only, so that the
components' weights keep the labels' noisy counts.

Source: P3GM, section 3.1.1; Park, Foulds, Chaudhuri, Welling 2017.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

import numpy as np

from privacy.arrays import Floats
from privacy.generators.projection import BITS, Projected, Projection
from privacy.learning.embedding import Embedding, least_bound
from privacy.learning.groups import LabelCodes
from privacy.learning.learners import FixedMean, GaussianMixture
from privacy.learning.mixture import Mixture, fit_mixture, initial_mixture, mixture_statistic, smallest_floor
from privacy.learning.moments import MomentBlocks, Moments
from privacy.learning.whole_network import LARGEST_LATENT, WEIGHT, LatentMixture, to_steps
from privacy.marginals.seeds import PostProcessingSeed

_WEIGHT_BITS: Final = 9
_SEED: Final = PostProcessingSeed(20210106)
_NARROWER: Final = 0.5
"""How much narrower than all rows components are in the beginning, where nothing else parts them."""
_LEAST, _LEAST_STRETCHED = Fraction(1, 100), Fraction(1, 2)
"""How much smaller it may be than the bound before the projection; stretched, products must stay whole."""
_FARTHEST: Final = 60
"""Norm bounds from the origin that a component's entries may begin at; the lattice of mixtures holds 64."""
_ROOM: Final = 1.5
"""The norm bound in the projected space, over the rows' root mean square norm there."""


@dataclass(frozen=True)
class Prior:
    """What mixture is wanted; public.

    Args:
        components: in all, or of each label.
        labels: the column whose cells own components; None for none.
        rounds: of expectation and maximisation.
        spread: root mean square of the latent entries.
        joined: the label's entries of a projected vector, where the label is among the projected columns.
    """

    components: int
    labels: LabelCodes | None
    rounds: int
    spread: float
    joined: range | None = None

    def statistic(self, embedding: Embedding) -> Moments:
        """Return a stand-in of the same bounds as each round's statistic."""
        return mixture_statistic(
            self._initial(embedding, np.full(embedding.dimension, min(1.0, float(embedding.bound) ** 2))),
            embedding,
            weight_bits=_WEIGHT_BITS,
            labels=self.labels,
        )

    def fit(
        self,
        projection: Projection,
        projected: Projected,
        measure: Callable[[Moments, int], MomentBlocks],
        *,
        deviation: float,
    ) -> Mixture:
        """Fit the mixture in the projected space; one draw a round.

        Args:
            projection: what is projected.
            projected: centre and axes.
            measure: draws.
            deviation: of the noise of a count [rows].
        Privacy: that of the rounds' draws.
        """
        bound = reach(projection, projected)
        axes = projected.axes if projection.projects else None
        embedding = projection.embedding(projected.centre, axes, bound=bound, factors=projected.factors)
        initial = self._started(self._initial(embedding, projected.variances), projected)
        # Components that begin outside of what the lattice holds would end a fit that is charged already.
        within = _FARTHEST * float(bound)
        initial = replace(initial, means=np.clip(initial.means, -within, within))
        floor = max(smallest_floor(embedding), float(bound) ** 2 * 1e-6)
        # A component keeps its mean and covariance where its count may be noise.
        least = max(1.0, 2 * deviation)
        fitted = fit_mixture(
            measure,
            initial,
            embedding,
            rounds=self.rounds,
            weight_bits=_WEIGHT_BITS,
            floor=floor,
            least=least,
            labels=self.labels,
        )
        return fitted

    def scale(self, projected: Projected) -> float:
        """Return what projected vectors are multiplied with to be latent ones."""
        return self.spread / math.sqrt(max(float(projected.variances.mean()), 1e-9))

    def _started(self, initial: Mixture, projected: Projected) -> Mixture:
        """Narrow the components that share their rows, and part them by the joined label."""
        if self.labels is not None:
            return initial
        means = initial.means * _NARROWER
        if self.joined is not None:
            # A row of which only the label is known: one of the label's entries is 1, all others lie at the centre.
            entries = np.eye(len(self.joined)) - projected.centre[self.joined]
            anchors = entries @ projected.axes[self.joined]
            # The components take the labels in turn.
            means = means + anchors[np.arange(self.components) % len(anchors)]
        return replace(initial, means=means, covariances=initial.covariances * _NARROWER**2)

    def _initial(self, embedding: Embedding, variances: Floats) -> Mixture:
        floor = smallest_floor(embedding)
        count = 0 if self.labels is None else self.labels.count
        return initial_mixture(
            self.components, variances=variances, covariance="full", floor=floor, seed=_SEED, labels=count
        )


def reach(projection: Projection, projected: Projected) -> Fraction:
    """Return the norm bound in the projected space: half as much again as the rows' root mean square norm there.

    Where rows are nearly alike it is not below what sums hold exactly (`least_bound`).
    Privacy: made of released numbers.
    """
    wide = Fraction(_ROOM * math.sqrt(float(projected.variances.sum()))).limit_denominator(10**6)
    least = _LEAST if projected.window is None else _LEAST_STRETCHED
    exact = least_bound(projected.axes, bits=BITS)
    return min(projection.bound, max(wide, projection.bound * least, exact))


def fixed_mean(projected: Projected, scale: float) -> FixedMean:
    """Return the encoder's mean: the projection, scaled; of rows within the window, where there is one."""
    window = projected.window
    # Rows are looked at within the window, so the centre is, too.
    centre = projected.centre if window is None else (projected.centre - window.low) * window.factors
    return FixedMean(centre.astype(np.float32), (projected.axes * scale).astype(np.float32))


def prior_of(mixture: Mixture, scale: float) -> GaussianMixture:
    """Return the mixture of latent vectors that a training's divergence is taken to."""
    # A weight of 0 would have no logarithm.
    weights = np.maximum(mixture.weights, 1e-6)
    factors = np.tril(mixture.cholesky()) * scale
    return GaussianMixture(
        (weights / weights.sum()).astype(np.float32),
        (mixture.means * scale).astype(np.float32),
        factors.astype(np.float32),
    )


def log_variance_start(mixture: Mixture, scale: float) -> float:
    """Return the mean log variance that latent vectors keep under the mixture, less log 4: reconstruction wants less.

    A vector's divergence from a component is least where its variance along each axis is 1 / the precision's entry.
    """
    precisions = np.diagonal(np.linalg.inv(mixture.covariances), axis1=1, axis2=2)
    logs = -np.log(np.maximum(precisions, 1e-12)).mean(axis=1) + 2 * math.log(scale) - math.log(4)
    return float(np.clip(mixture.weights @ logs, -20.0, 20.0))


def latents_of(mixture: Mixture, scale: float) -> LatentMixture:
    """Return the mixture of latent vectors in whole numbers; means that noise threw far out are cut to the range."""
    return LatentMixture(
        np.maximum(np.rint(mixture.weights * WEIGHT), 1.0).astype(np.int64),
        np.clip(to_steps(mixture.means * scale), -LARGEST_LATENT, LARGEST_LATENT),
        to_steps(np.tril(mixture.cholesky()) * scale),
    )
