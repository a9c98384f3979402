"""Private-PGM: the graphical model that best fits noisy measurements.

Minimises over all distributions p with a given total, mu being its marginals,

    sum over measurements of ||mu_c - y_c||² / (2 variance_c)  +  temperature · total · sum p log p

The first part is Private-PGM's loss. The second makes the answer unique, so that it does not depend on where the
search starts or how long it runs, and quick to find at every noise level. It also makes it a little better: without
it the model follows the noise of the smallest cells (a search that is stopped early hides this by accident). With
counts measured in standard deviations of the noise, sigma, the temperature becomes temperature · sigma, which is what
stays the same from one noise level to another; see `default_temperature`.

The search starts at a high temperature, where the answer is nearly uniform, and cools down in steps, each from the
answer before; from a start that is nearly the answer it begins at the last temperature.

Source: McKenna, Sheldon and Miklau 2019, Graphical-model based estimation and inference for differential privacy.
Deviates: the entropy term, and a quasi-Newton search on the dual in place of mirror descent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from privacy.marginals.domain import Domain
from privacy.marginals.fit_objective import FitObjective
from privacy.marginals.graphical_model import GraphicalModel
from privacy.marginals.measured import Measured, StructuralZeros, combine, estimate_total
from privacy.marginals.quasi_newton import Found, minimise
from privacy.marginals.triangulation import check_size

RELATIVE_TEMPERATURE = 0.1
"""Temperature times the standard deviation of the noise. AIM on Adult: 0.03 to 0.2 are equally good, 0.7 is worse."""
LEAST_DEVIATION = 0.3
"""Noise below that of rounding to whole rows (sqrt(1/12)) counts as that."""
COOLING = 4.0
ROUGH = 0.1
"""Each temperature but the last may end with a gap of this share of the misfit: the next moves further than that."""


@dataclass(frozen=True)
class Estimate:
    """A fitted model and how good the fit is.

    Args:
        model: the fitted model.
        loss: the misfit, sum of (mu - y)² / (2 variance) [noise variances].
        gap: what is minimised is at most so much above its minimum [noise variances].
        temperature: weight of the entropy [1 / row].
        iterations: steps of the search.
        converged: whether the gap came below what was asked.
    """

    model: GraphicalModel
    loss: float
    gap: float
    temperature: float
    iterations: int
    converged: bool


def estimate(
    domain: Domain,
    measurements: Sequence[Measured],
    *,
    total: float | None = None,
    structural_zeros: Sequence[StructuralZeros] = (),
    start: GraphicalModel | None = None,
    temperature: float | None = None,
    tolerance: float = 0.005,
    max_iterations: int = 1000,
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
        temperature: weight of the entropy, > 0 [1 / row]; None for `default_temperature`.
        tolerance: stop when the gap is below this fraction of the number of measured cells: the fitted counts are
        then
            within sqrt(2 · tolerance) standard deviations of the noise of the optimum's, in the mean square.
        max_iterations: stop there in any case.
        cap_mb: refuse a model above so many MB before it is built; None for no cap.
    Returns:
        Estimate: the model and its certificate.
    Raises:
        ModelTooLarge: the model would be above the cap.
        NothingPossible: the structural zeros exclude every row.
        ValueError: unknown columns, values of the wrong shape, a temperature that is not positive.
    Privacy: post-processing.
    """
    zeros = {domain.canonical(zero.clique): zero.on(domain) for zero in structural_zeros}
    check_size(domain, [*(one.clique for one in measurements), *zeros], cap_mb)
    rows = estimate_total(measurements) if total is None else float(total)
    merged = {clique: one for clique, one in combine(domain, measurements).items() if clique}
    objective = FitObjective(domain, merged, zeros, rows)
    final = default_temperature(objective.variance) if temperature is None else temperature
    if not final > 0:
        raise ValueError("the temperature must be positive")
    if rows == 0 or not merged:
        uniform = np.zeros(objective.values.size)
        return Estimate(objective.model(uniform), objective.loss(objective.marginals(uniform)), 0.0, final, 0, True)
    allowed = tolerance * float(np.maximum(1.0, LEAST_DEVIATION**2 / objective.variance).sum())
    found = _cool(objective, start, final, allowed, max_iterations)
    return Estimate(
        objective.model(found.point),
        objective.loss(found.marginals),
        found.gap,
        final,
        found.iterations,
        found.gap <= allowed,
    )


def default_temperature(variance: np.ndarray) -> float:
    """Return 0.1 / sigma, sigma the harmonic mean of the standard deviations of the measured cells [1 / row]."""
    if not variance.size:
        return 1.0
    deviation = 1.0 / float(np.mean(1.0 / np.sqrt(variance)))
    return RELATIVE_TEMPERATURE / max(deviation, LEAST_DEVIATION)


def _cool(
    objective: FitObjective, start: GraphicalModel | None, final: float, allowed: float, max_iterations: int
) -> Found:
    """Minimise at falling temperatures, each from the answer of the one before."""
    temperatures = [final]
    hottest = 0.3 * objective.total / float(objective.variance.min())
    while start is None and temperatures[-1] * COOLING < hottest:
        temperatures.append(temperatures[-1] * COOLING)
    point, used = objective.starting_point(start), 0
    for temperature in reversed(temperatures[1:]):
        found = minimise(
            objective,
            point,
            temperature=temperature,
            allowed=allowed,
            max_iterations=max_iterations - used,
            share_of_loss=ROUGH,
        )
        point, used = found.point, used + found.iterations
    found = minimise(objective, point, temperature=final, allowed=allowed, max_iterations=max_iterations - used)
    return Found(found.point, found.marginals, found.gap, used + found.iterations)
