"""Private-PGM: the graphical model that best fits noisy measurements.

Minimises  L(mu) = sum over measurements of ||mu_c - y_c||² / (2 variance_c)  over the marginals of distributions with
a given total, and among the minimisers takes the one nearest to the start (without one: of largest entropy).

Source: McKenna, Sheldon and Miklau 2019 .
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from privacy.marginals.accelerated_descent import minimise
from privacy.marginals.domain import Domain
from privacy.marginals.fit_objective import FitObjective
from privacy.marginals.graphical_model import GraphicalModel
from privacy.marginals.measured import Measured, StructuralZeros, combine, estimate_total
from privacy.marginals.triangulation import check_size

ROUNDING_VARIANCE = 1 / 12
"""Variance of rounding to a whole row: being nearer to the optimum than a part of that is worth nothing."""


@dataclass(frozen=True)
class Estimate:
    """A fitted model and how good the fit is.

    Args:
        model: the fitted model.
        loss: L at the model's marginals [noise variances].
        gap: loss is at most so much above the smallest loss that any distribution reaches [noise variances].
        iterations: steps of the search.
        converged: whether the gap came below what was asked.
    """

    model: GraphicalModel
    loss: float
    gap: float
    iterations: int
    converged: bool


def estimate(
    domain: Domain,
    measurements: Sequence[Measured],
    *,
    total: float | None = None,
    structural_zeros: Sequence[StructuralZeros] = (),
    start: GraphicalModel | None = None,
    tolerance: float = 0.01,
    max_iterations: int = 500,
    cap_mb: float | None = None,
) -> Estimate:
    """Fit a graphical model to noisy measurements.

    Args:
        domain: all columns; those in no measurement come out uniform and independent.
        measurements: noisy marginals, any cliques and variances, in any order.
        total: number of rows; None to estimate it from the measurements.
        structural_zeros: cells that cannot occur.
        start: a model to start from, usually the one fitted before the last measurement came; it changes how fast
            the answer is found, not the answer.
        tolerance: stop when the gap is below this fraction of the number of measured cells.
        max_iterations: stop there in any case.
        cap_mb: refuse a model above so many MB before it is built; None for no cap.
    Returns:
        Estimate: the model and its certificate.
    Raises:
        ModelTooLarge: the model would be above the cap.
        NothingPossible: the structural zeros exclude every row.
        ValueError: unknown columns, values of the wrong shape, NaN, or a variance that is not positive.
    Privacy: post-processing.
    """
    zeros = {domain.canonical(zero.clique): zero.on(domain) for zero in structural_zeros}
    check_size(domain, [*(one.clique for one in measurements), *zeros], cap_mb)
    rows = estimate_total(measurements) if total is None else float(total)
    merged = {clique: one for clique, one in combine(domain, measurements).items() if clique}
    objective = FitObjective(domain, merged, zeros, rows)
    if rows == 0 or not merged:
        uniform = np.zeros(objective.values.size)
        return Estimate(objective.model(uniform), objective.loss(objective.marginals(uniform)), 0.0, 0, True)
    allowed = tolerance * float(np.maximum(1.0, ROUNDING_VARIANCE / objective.variance).sum())
    found = minimise(objective, objective.starting_point(start), allowed, max_iterations)
    return Estimate(objective.model(found.point), found.loss, found.gap, found.iterations, found.converged)
