"""Rows of labels as vectors: a mean each, a normal vector on a few axes, an even spread; and the decoder of that."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from privacy.arrays import Floats
from privacy.generators.decoder_model import DecoderModel
from privacy.generators.generator import SynthesisTask
from privacy.generators.projection import Projected, Projection
from privacy.learning.mixture import Mixture
from privacy.learning.outputs import output_columns
from privacy.learning.whole_network import LARGEST_LATENT, WEIGHT, LatentMixture, to_steps, whole_layers

_LEAST_SPREAD: Final = 0.1
"""Of what varies in all: at least so much is spread evenly, however large noise has made the labels' means."""


@dataclass(frozen=True, eq=False)
class LabelledVectors:
    """What the noisy sums say of rows as vectors about the released centre; no longer private.

    Args:
        counts: of rows by label, at least 0, shape (labels,) [rows].
        middle: the mean of all rows, shrunk, shape (width,).
        offsets: the mean of each label, shape (labels, width).
        axes: directions whose variance stands out of noise, shape (width, axes).
        mixture: the labels on the axes; None without a second moment.
        varies: mean squared norm of the rows.
    """

    counts: Floats
    middle: Floats
    offsets: Floats
    axes: Floats
    mixture: Mixture | None
    varies: float

    @property
    def shares(self) -> Floats:
        """Of the labels; equal ones where noise says of no row."""
        total = float(self.counts.sum())
        return self.counts / max(total, 1.0) if total > 0 else np.full(self.counts.size, 1 / self.counts.size)

    @property
    def spread(self) -> float:
        """The deviation of each entry that is on no axis: what labels' means and axes leave of the mean square."""
        within = 0.0
        if self.mixture is not None:
            within = float(self.shares @ np.trace(self.mixture.covariances, axis1=1, axis2=2))
        left = self.varies - float(self.shares @ (self.offsets**2).sum(axis=1)) - within
        width, kept = self.axes.shape
        return math.sqrt(max(left, _LEAST_SPREAD * self.varies) / max(width - kept, 1))


def one_layer(
    task: SynthesisTask, projection: Projection, made: Projected, label: str, found: LabelledVectors
) -> DecoderModel:
    """Write a label's mean and what varies about it as a decoder of one layer.

    Args:
        task: what rows are impossible, and the public total.
        projection: the columns of the vectors.
        made: the released centre, and the factors of its entries.
        label: the column of labels.
        found: of the vectors.
    Privacy: post-processing.
    """
    latents, directions = _latents(found)
    return DecoderModel(
        rows=task.public_total if task.public_total is not None else round(float(found.counts.sum())),
        columns=output_columns(projection.layout),
        latents=latents,
        network=whole_layers([(directions / made.factors[:, None], made.centre + found.middle / made.factors)]),
        reading="values",
        spreads=to_steps(found.spread / made.factors),
        label=label,
        labels=np.arange(found.counts.size, dtype=np.int64),
        impossible=task.impossible,
    )


def _latents(found: LabelledVectors) -> tuple[LatentMixture, Floats]:
    """Return the mixture of latent vectors, and which direction each latent entry moves a row along.

    Latent entries are the axes' and then those of the directions, beside the axes, in which labels' means differ.
    """
    axes, mixture, kept = found.axes, found.mixture, found.axes.shape[1]
    away = found.offsets - found.middle
    beside = away - away @ axes @ axes.T
    _, sizes, directions = np.linalg.svd(beside, full_matrices=False)
    directions = directions[sizes > 1e-9] if (sizes > 1e-9).any() else directions[:1]
    on_axes = found.offsets @ axes if mixture is None else mixture.means
    means = np.concatenate([on_axes - found.middle @ axes, beside @ directions.T], axis=1)
    covariances = np.zeros((found.counts.size, means.shape[1], means.shape[1]))
    if mixture is not None:
        covariances[:, :kept, :kept] = mixture.cholesky()
    latents = LatentMixture(
        # At least 1: no label becomes impossible by rounding.
        np.maximum(np.rint(found.shares * WEIGHT), 1.0).astype(np.int64),
        np.clip(to_steps(means), -LARGEST_LATENT, LARGEST_LATENT),
        to_steps(covariances),
    )
    return latents, np.concatenate([axes, directions.T], axis=1)
