"""A Gaussian copula over cells in an order: normal numbers behind the columns, cut where their shares say.

Where, for column i
    z_i      a standard normal number      t_c  where it is cut: c is the cell of  t_c <= z < t_(c+1)
    m_c      share of cell c               s_c  score of the cell        h_k  coefficients of the score in z_i:

    h_k = E s He_k(z) / √k!  =  Σ_c s_c (φ(t_c) He_(k-1)(t_c) - φ(t_(c+1)) He_(k-1)(t_(c+1))) / √k!,     h_0 = E s

Two columns whose numbers have correlation r then have  E s_i s_j = Σ_k h_ik h_jk r^k,  which rises with r where
scores rise. So measured products of scores tell r. Correlations under noise are fitted by factors: with the noise of
all products alike, of deviation τ, an eigenvalue l of a matrix of d columns is seen as  λ = l + d τ² / l,  and one
that is seen below  2 τ √d  is noise (the spiked model). What each number has for itself fills its diagonal.

Source: Kendall, Stuart 1979, chapter 26 (polychoric series by tetrachoric functions); Li, Xiong, Jiang 2014
(DPCopula: margins and correlations under privacy); Baik, Ben Arous, Péché 2005 and Benaych-Georges, Nadakuditi 2011
(spikes); Thomson 1934 (principal factors). Unlike DPCopula all products are measured by one sum of bounded vectors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from privacy.arrays import Floats

ORDERS: Final = 24
"""Terms of the series."""
MOST_CORRELATED: Final = 0.995
_FARTHEST: Final = 8.0
_HALVINGS: Final = 30
_ROUNDS: Final = 100
_SETTLED: Final = 1e-6
_FLAT: Final = 1e-9


@dataclass(frozen=True, eq=False)
class CutNormal:
    """A normal number that is cut into cells.

    Args:
        shares: m, shape (cells,), at least 0, adding up to 1.
    """

    shares: Floats

    @property
    def cuts(self) -> Floats:
        """Where cells begin and end, from -8 to 8, shape (cells + 1,)."""
        from scipy.special import ndtri  # here, so that a list of generators does not load it

        ends = np.clip(np.concatenate([[0.0], np.cumsum(self.shares)]), 0.0, 1.0)
        ends[-1] = 1.0
        return np.asarray(np.clip(ndtri(ends), -_FARTHEST, _FARTHEST))

    @property
    def means(self) -> Floats:
        """The mean of the number in each cell, shape (cells,); of an empty cell where it lies."""
        cuts = self.cuts
        density = _density(cuts)
        middle = (cuts[1:] + cuts[:-1]) / 2
        wide = self.shares > 1e-9
        return np.where(wide, (density[:-1] - density[1:]) / np.where(wide, self.shares, 1.0), middle)

    def coefficients(self, scores: Floats) -> Floats:
        """Return h, shape (ORDERS,)."""
        cuts = self.cuts
        density, before, polynomial = _density(cuts), np.zeros_like(cuts), np.ones_like(cuts)
        found = [float(self.shares @ scores)]
        factor = 1.0
        for order in range(1, ORDERS):
            factor /= np.sqrt(order)
            edges = density * polynomial * factor
            found.append(float(scores @ (edges[:-1] - edges[1:])))
            # He_(k+1) = z He_k - k He_(k-1)
            before, polynomial = polynomial, cuts * polynomial - (order - 1) * before
        return np.array(found)


def correlations(products: Floats, coefficients: Floats) -> Floats:
    """Return the correlation of each pair that gives the mean product of its scores, at most 0.995 either way.

    Args:
        products: E s s', shape (columns, columns).
        coefficients: h of each column, shape (columns, ORDERS).
    """
    low = np.full(products.shape, -MOST_CORRELATED)
    high = -low
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        # Horner, from the highest order down.
        value = np.zeros_like(middle)
        for order in range(coefficients.shape[1] - 1, -1, -1):
            value = value * middle + np.outer(coefficients[:, order], coefficients[:, order])
        low, high = np.where(value < products, middle, low), np.where(value < products, high, middle)
    return np.asarray((low + high) / 2)


def factor_loadings(covariances: Floats, sizes: Floats, deviation: float) -> Floats:
    """Return the loadings of standard normal numbers on the factors that stand out of the noise.

    Args:
        covariances: noisy, shape (columns, columns), symmetric; the diagonal is not looked at.
        sizes: standard deviation of each column's number, > 0; 0 where it has none.
        deviation: τ, of the noise of each covariance.
    Returns:
        Shape (columns, factors); no row is longer than √0.995. The factors may be none.
    """
    count = len(sizes)
    edge = 2 * deviation * np.sqrt(count)
    most = MOST_CORRELATED * sizes**2
    shared = most / 2
    loadings = np.zeros((count, 0))
    for _ in range(_ROUNDS):
        matrix = covariances.copy()
        np.fill_diagonal(matrix, shared)
        seen, axes = np.linalg.eigh(matrix)
        kept = seen > max(edge, 1e-12)
        true = (seen[kept] + np.sqrt(seen[kept] ** 2 - edge**2)) / 2
        loadings = axes[:, kept] * np.sqrt(true)
        found = np.minimum((loadings**2).sum(axis=1), most)
        settled = np.abs(found - shared).max() < _SETTLED
        shared = found
        if settled:
            break
    standard = loadings / np.where(sizes > 0, sizes, 1.0)[:, None] * (sizes > 0)[:, None]
    length = np.sqrt((standard**2).sum(axis=1, keepdims=True))
    return np.asarray(standard * np.minimum(1.0, np.sqrt(MOST_CORRELATED) / np.maximum(length, 1e-12)))


def line_through(normal: CutNormal, points: Floats) -> tuple[float, float]:
    """Return the line over the numbers of cells that is nearest to the means of the normal number in them.

    Args:
        normal: the column.
        points: the number of each cell that has one; cells without one come after them.
    Returns:
        The slope, and where the line is 0, which is within the points. The slope is 0 where one cell has all rows.
    """
    weights = normal.shares[: len(points)]
    total = float(weights.sum())
    if total <= 0:
        return 0.0, float(points[0])
    centre = float(weights @ points) / total
    spread = float(weights @ (points - centre) ** 2)
    slope = float(weights @ ((points - centre) * normal.means[: len(points)])) / spread if spread > _FLAT else 0.0
    return slope, min(max(centre, float(points.min())), float(points.max()))


def _density(places: Floats) -> Floats:
    """Return φ; 0 at the ends, which stand for infinity."""
    return np.where(np.abs(places) < _FARTHEST, np.exp(-(places**2) / 2) / np.sqrt(2 * np.pi), 0.0)
