"""Principal axes of a released second moment: post-processing of one noisy symmetric matrix.

The second moment is uncentred, about a public centre: sum over rows of z z', |z| <= bound (`moments`, part "full").
Its noise is discrete Gaussian, symmetric, with nearly equal variances relative to the matrix's own norm.

Source: Dwork, Talwar, Thakurta, Zhang 2014, "Analyze Gauss", algorithm 1. P3GM's first version used the Wishart
mechanism, which is not differentially private.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privacy.arrays import Floats


@dataclass(frozen=True, eq=False)
class PrincipalComponents:
    """The leading axes of a second moment.

    Args:
        axes: orthonormal columns, shape (width, dimension), the largest first.
        moments: the second moment along each, not negative, shape (dimension,); in the unit of the matrix.
    """

    axes: Floats
    moments: Floats


def principal_components(squares: Floats, *, dimension: int) -> PrincipalComponents:
    """Return the leading eigenvectors of a noisy second moment.

    Each axis is turned so that its entry of largest magnitude, the first of several, is positive.

    Args:
        squares: symmetric, shape (width, width).
        dimension: how many axes, from 1 to width.
    Raises:
        ValueError: another shape, or no such dimension.
    Privacy: post-processing where the matrix is released.
    """
    width = squares.shape[0]
    if squares.shape != (width, width) or not 1 <= dimension <= width:
        raise ValueError(f"dimension must be from 1 to {width}, the width of a square matrix; found {dimension}")
    # Symmetrised, since eigh reads one triangle only.
    values, vectors = np.linalg.eigh((squares + squares.T) / 2)
    # eigh's eigenvalues ascend: the leading axes are the last columns.
    axes = vectors[:, ::-1][:, :dimension]
    # An eigenvector's sign is free; a fixed rule makes it the same in every run.
    largest = axes[np.argmax(np.abs(axes), axis=0), np.arange(dimension)]
    return PrincipalComponents(axes * np.where(largest < 0, -1.0, 1.0), np.maximum(values[::-1][:dimension], 0.0))


def noise_edge(width: int, deviation: float) -> float:
    """Return the eigenvalue that noise alone hardly exceeds: 2 deviation sqrt(width) (Wigner's semicircle).

    Args:
        width: of the matrix.
        deviation: standard deviation of the noise above its diagonal.
    """
    return 2 * deviation * float(np.sqrt(width))
