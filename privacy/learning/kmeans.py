"""Clusters by noisy k-means: each round measures counts and sums of the rows nearest to each centre.

One row is in one cluster, so that a round's counts and sums are two parts with one bound (`moments`): 2 m^2 under
add_remove, 4 m^2 under replace_one, for any number of clusters. Moving the centres is post-processing.

Source: Blum, Dwork, McSherry, Nissim 2005 (SuLQ k-means).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privacy.arrays import Floats
from privacy.learning.embedding import Embedding
from privacy.learning.lattice import to_lattice
from privacy.learning.mixture import Measure, into_bound, standard_normals
from privacy.learning.moments import MomentBlocks, Moments, NearestCentre
from privacy.marginals.portable import PostProcessingSeed


@dataclass(frozen=True, eq=False)
class Clusters:
    """Centres and sizes; released.

    Args:
        centres: shape (K, d), within the bound.
        counts: noisy sizes in the last round, not negative, shape (K,) [rows].
    """

    centres: Floats
    counts: Floats


def nearest_centre(centres: Floats, embedding: Embedding) -> NearestCentre:
    """Return the groups of rows by their nearest centre, on the embedding's lattice.

    Raises:
        ValueError: centres of another dimension's form, or far outside the ball.
    """
    return NearestCentre(to_lattice(into_bound(centres, float(embedding.bound)) / embedding.unit, 0))


def cluster_statistic(centres: Floats, embedding: Embedding) -> Moments:
    """Return what a round measures: counts and sums by nearest centre."""
    return Moments(embedding, nearest_centre(centres, embedding), ("counts", "sums"))


def initial_centres(count: int, *, variances: Floats, seed: PostProcessingSeed) -> Floats:
    """Return centres to begin with: normal, with public or released variances along the axes; shape (count, d)."""
    return standard_normals(seed, count * variances.size).reshape(count, -1) * np.sqrt(variances)


def moved(blocks: MomentBlocks, previous: Floats, *, bound: float, least: float) -> Clusters:
    """Return the clusters' means; a centre whose count is below `least` stays.

    Raises:
        ValueError: a block is missing.
    Privacy: post-processing where the blocks are released.
    """
    if blocks.counts is None or blocks.sums is None:
        raise ValueError("blocks must hold counts and sums")
    # A noisy sum over a count that may be all noise is no mean: such a centre stays where it is.
    known = blocks.counts >= least
    means = blocks.sums / np.where(known, blocks.counts, 1.0)[:, None]
    centres = np.where(known[:, None], into_bound(means, bound), previous)
    return Clusters(centres, np.maximum(blocks.counts, 0.0))


def fit_clusters(measure: Measure, initial: Floats, embedding: Embedding, *, rounds: int, least: float) -> Clusters:
    """Fit clusters by rounds of assignment and moving.

    Args:
        measure: measures a statistic in the round of that number, from 0; each is one draw.
        initial: public, or made of released numbers, shape (K, d).
        embedding: from rows to vectors.
        rounds: fixed beforehand.
        least: count below which a centre stays [rows].
    Privacy: that of the rounds' draws.
    """
    clusters = Clusters(into_bound(initial, float(embedding.bound)), np.zeros(initial.shape[0]))
    for turn in range(rounds):
        # ASSIGNMENT, inside the grant: one draw.
        blocks = measure(cluster_statistic(clusters.centres, embedding), turn)
        # UPDATE: post-processing.
        clusters = moved(blocks, clusters.centres, bound=float(embedding.bound), least=least)
    return clusters
