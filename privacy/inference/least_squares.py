"""Least squares from noisy marginals: coefficients with the standard error that the noise, or also sampling, makes.

Where z are the terms x (the first of them 1) and the outcome y, each a function of the cell of one column,

    S = Σ over rows of z zᵀ,    β = S_xx⁻¹ S_xy,    residual r = y - xᵀβ

every entry of S is a sum over the cells of at most two columns, which noisy marginals of pairs tell (`components`).
The noise moves β by the sum over rows of its influence  ψ_j = (S_xx⁻¹ x)_j r,  again a sum over pairs of columns. So

    variance by noise  =  variance of the noisy sum of ψ_j          (the delta method, exact to first order)
    variance by sampling  =  RSS / (rows - terms) · (S_xx⁻¹)_jj     (classical: equal variances of the residuals)

Source: Evans and King 2023 correct regressions for noise on values of rows; here noise lies on the sums themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log1p, sqrt
from typing import Final

import numpy as np
from scipy.special import ndtri

from contracts.contract.impossible_cells import Clique
from contracts.errors import SudareError
from privacy.arrays import Floats
from privacy.inference.components import Components, EstimatedSum, Parts

_LEAST_CERTAINTY: Final = 3.0
"""The least eigenvalue of S_xx in standard errors: below it second-order terms of the noise are no longer small."""
INTERCEPT: Final = "(intercept)"


class NoiseTooLarge(SudareError):
    """The noise does not tell the terms of a regression apart, so that no interval would be honest."""

    exit_code = 2


@dataclass(frozen=True, eq=False)
class Term:
    """A number that each row has by its cell of one column.

    Args:
        name: how it is written.
        column: the column.
        scores: the number of each cell.
    """

    name: str
    column: str
    scores: Floats


@dataclass(frozen=True)
class Coefficient:
    """A coefficient and what makes it uncertain.

    Args:
        name: its term.
        estimate: in units of the outcome per unit of the term.
        noise_variance: by the noise alone: the error against the table's own coefficient.
        sampling_variance: of the table's own coefficient around that of the population that its rows were drawn from.
        unmeasured: columns that were not measured together and that it rests on; it is biased as far as the model
            that stands in their place is wrong, and no interval tells by how much.
    """

    name: str
    estimate: float
    noise_variance: float
    sampling_variance: float
    unmeasured: tuple[Clique, ...]

    def standard_error(self, *, population: bool) -> float:
        """Return the standard error against the table's own coefficient, or the population's."""
        return sqrt(self.noise_variance + (self.sampling_variance if population else 0.0))

    def interval(self, reach: float, *, population: bool) -> tuple[float, float]:
        """Return the interval that reaches so many standard errors to either side."""
        width = reach * self.standard_error(population=population)
        return self.estimate - width, self.estimate + width


def reach(level: float, *, heavy_tailed: bool) -> float:
    """Return how many standard errors an interval reaches to either side.

    Formula: Phi^-1((1 + level) / 2); with Laplace noise at least -ln(1 - level) / sqrt 2, that of one Laplace draw

    Args:
        level: in (0, 1).
        heavy_tailed: whether some noise is Laplace: a sum of few draws then has longer tails than a normal number.
    """
    normal = float(ndtri(0.5 + level / 2))
    return max(normal, -log1p(-level) / sqrt(2)) if heavy_tailed else normal


class _DesignTerms:
    """Linear combinations of the terms, and the sums over rows of products of two of them."""

    def __init__(self, components: Components, terms: Sequence[Term]) -> None:
        self._components, self._terms = components, terms
        self._columns = tuple(dict.fromkeys(term.column for term in terms))
        self.count = 1 + len(terms)

    def product(self, first: Floats, second: Floats) -> EstimatedSum:
        """Return the sum over rows of (aᵀz)(bᵀz), z with 1 at its first place."""
        one, other = self._by_column(first), self._by_column(second)
        parts = Parts(self._components.domain)
        parts.add((), np.array(first[0] * second[0]))
        for place, column in enumerate(self._columns):
            own = one[column] * other[column] + first[0] * other[column] + second[0] * one[column]
            parts.add((column,), own)
            for later in self._columns[place + 1 :]:
                both = np.multiply.outer(one[column], other[later]) + np.multiply.outer(other[column], one[later])
                if both.any():
                    parts.add((column, later), both)
        return self._components.estimate(parts)

    def moments(self) -> Floats:
        """Return S."""
        units = np.eye(self.count)
        found = np.zeros((self.count, self.count))
        for row in range(self.count):
            for column in range(row, self.count):
                found[row, column] = found[column, row] = self.product(units[row], units[column]).value
        return found

    def _by_column(self, weights: Floats) -> dict[str, Floats]:
        found: dict[str, Floats] = {}
        for weight, term in zip(weights[1:], self._terms, strict=True):
            found[term.column] = found.get(term.column, 0.0) + weight * term.scores
        return found


def least_squares(components: Components, outcome: Term, terms: Sequence[Term]) -> tuple[Coefficient, ...]:
    """Regress an outcome on terms by ordinary least squares, with an intercept first.

    Args:
        components: what noisy marginals tell.
        outcome: y.
        terms: x, without the intercept.
    Raises:
        NoiseTooLarge: the terms cannot be told apart through the noise, or never could.
    Privacy: post-processing.
    """
    known = _DesignTerms(components, [*terms, outcome])
    moments, count = known.moments(), 1 + len(terms)
    inverse = _inverse(known, moments[:count, :count])
    slopes = inverse @ moments[:count, count]
    residual = np.append(-slopes, 1.0)
    squares = max(0.0, float(residual @ moments @ residual))
    spread = squares / max(1.0, components.rows - count)
    found = []
    for place, name in enumerate([INTERCEPT, *(term.name for term in terms)]):
        influence = known.product(np.append(inverse[place], 0.0), residual)
        sampling = spread * float(inverse[place, place])
        found.append(Coefficient(name, float(slopes[place]), influence.variance, sampling, influence.unmeasured))
    return tuple(found)


def _inverse(known: _DesignTerms, design: Floats) -> Floats:
    """Invert S_xx; refuse one whose least eigenvalue, in units of its diagonal, the noise might have made."""
    diagonal = np.diag(design)
    if (diagonal > 0).all():
        scale = 1.0 / np.sqrt(diagonal)
        values, vectors = np.linalg.eigh(design * np.multiply.outer(scale, scale))
        weights = np.append(vectors[:, 0] * scale, 0.0)
        deviation = sqrt(known.product(weights, weights).variance)
        if values[0] > max(_LEAST_CERTAINTY * deviation, 1e-9):
            return np.asarray(np.linalg.inv(design))
    raise NoiseTooLarge("the noise does not tell the terms apart")
