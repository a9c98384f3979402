"""Private-PGM: the graphical model that best fits noisy measurements.

Minimises over all distributions p with a given total, mu being its marginals, a few times in a row,

    sum over measurements of ||mu_c - y_c||² / (2 variance_c)  +  temperature · total · KL(p || the answer before)

the first time with the uniform distribution as the answer before. The first part is Private-PGM's loss. The second
makes the answer unique, so that it does not depend on where the search starts or how long it runs, and quick to find
at every noise level. It also makes the model better. The loss alone follows the noise of the smallest cells, and one
strong pull towards uniform flattens the large ones; with a few steps what is well measured is fitted fully and what
is mostly noise stays smooth. With counts in standard deviations of the noise, sigma, the temperature becomes
temperature · sigma, which is what stays the same from one noise level to another; see `default_temperature`.

The first search starts at a high temperature, where the answer is nearly uniform, and cools down in stages, each from
the answer of the one before; with a model to start from it begins at the last temperature.

Source: McKenna, Sheldon and Miklau 2019, Graphical-model based estimation and inference for differential privacy.
Deviates: the entropy, and a quasi-Newton search on the dual in place of mirror descent. Iterating: Osher et al. 2005,
An iterative regularization method for total variation-based image restoration.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from privacy.arrays import Floats
from privacy.marginals.domain import CellDomain
from privacy.marginals.fit_objective import FitObjective
from privacy.marginals.graphical_model import GraphicalModel
from privacy.marginals.measured import Measured, StructuralZeros, combine, estimate_total
from privacy.marginals.quasi_newton import SearchResult, minimise
from privacy.marginals.triangulation import check_size

STEPS = 4
RELATIVE_TEMPERATURE = 0.25
"""Temperature times the standard deviation of the noise, for each step; measured on Adult at epsilon 0.02 to 100."""
LEAST_DEVIATION = 0.3
"""Noise below that of rounding to whole rows (sqrt(1/12)) counts as that."""
FINEST_DEVIATION = 0.001
"""Noise of less than a thousandth of a row counts as that."""
FLOAT_PRECISION = 1e-10
"""Expected counts are exact to well below this share of the total; finer noise counts as that."""
COOLING = 4.0
ROUGH = 0.1
"""Each temperature but the last may end with a gap of this share of the misfit: the next moves further than that."""
CONTRADICTION = 1e-6
"""The gap may always be this share of the misfit: it matters only where measurements contradict each other by far."""


@dataclass(frozen=True)
class MarginalEstimate:
    """A fitted model and how good the fit is.

    Args:
        model: the fitted model.
        loss: the misfit, sum of (mu - y)² / (2 variance) [noise variances].
        gap: what is minimised last is at most so much above its minimum [noise variances].
        temperature: weight of the distance from the answer before [1 / row].
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
    domain: CellDomain,
    measurements: Sequence[Measured],
    *,
    total: float | None = None,
    structural_zeros: Sequence[StructuralZeros] = (),
    start: GraphicalModel | None = None,
    steps: int = STEPS,
    temperature: float | None = None,
    tolerance: float = 0.005,
    max_iterations: int = 1000,
    cap_mb: float | None = None,
) -> MarginalEstimate:
    """Fit a graphical model to noisy measurements.

    Args:
        domain: all columns; those in no measurement come out uniform and independent.
        measurements: noisy marginals, any cliques and variances, in any order.
        total: number of rows; None to estimate it from the measurements.
        structural_zeros: cells that cannot occur.
        start: a model to start from, usually the one fitted before the last measurement came; it changes how fast
            the answer is found, not the answer.
        steps: how often to minimise, ≥ 1; 1 is enough while more measurements are to come.
        temperature: weight of the distance from the answer before, > 0 [1 / row]; None for `default_temperature`.
        tolerance: stop when the gap is below this fraction of the number of measured cells: the fitted counts are
            then within sqrt(2 · tolerance) standard deviations of the noise of the optimum's, in the mean square; or
            of a row, where the noise is below one.
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
    finest = max(FINEST_DEVIATION, FLOAT_PRECISION * rows) ** 2
    # The empty clique is left out: it says the total, which is fixed by now.
    combined = combine(domain, measurements).items()
    merged = {clique: (values, max(variance, finest)) for clique, (values, variance) in combined if clique}
    objective = FitObjective(domain, merged, zeros, rows)
    final = default_temperature(objective.variance, steps) if temperature is None else temperature
    if not final > 0 or steps < 1:
        raise ValueError("the temperature must be positive, and there must be a step")
    # Nothing to fit: the uniform distribution is the answer.
    if rows == 0 or not merged:
        uniform = np.zeros(objective.values.size)
        return MarginalEstimate(
            objective.model(uniform), objective.loss(objective.marginals(uniform)), 0.0, final, 0, True
        )
    # A cell's share of the gap is `tolerance` noise variances, or rows² / variance where the noise is below one row.
    allowed = tolerance * float(np.maximum(1.0, 1.0 / objective.variance).sum())
    found = _in_steps(objective, start, steps, final, allowed, max_iterations)
    return MarginalEstimate(
        objective.model(found.point),
        objective.loss(found.marginals),
        found.gap,
        final,
        found.iterations,
        found.gap <= max(allowed, CONTRADICTION * objective.loss(found.marginals)),
    )


def default_temperature(variance: Floats, steps: int) -> float:
    """Return 0.25 · steps / sigma, sigma the harmonic mean of the deviations of the measured cells [1 / row]."""
    if not variance.size:
        return 1.0
    deviation = 1.0 / float(np.mean(1.0 / np.sqrt(variance)))
    return RELATIVE_TEMPERATURE * steps / max(deviation, LEAST_DEVIATION)


def _in_steps(
    objective: FitObjective,
    start: GraphicalModel | None,
    steps: int,
    temperature: float,
    allowed: float,
    max_iterations: int,
) -> SearchResult:
    """Minimise near uniform, then near each answer."""
    found = _cool(objective, start, temperature, allowed, max_iterations)
    used = found.iterations
    for _ in range(steps - 1):
        # c becomes the last answer: from now on the distance is measured from it (Osher et al. 2005).
        objective.stay_near(found.point, temperature)
        found = minimise(
            objective,
            found.point,
            temperature=temperature,
            allowed=allowed,
            max_iterations=max_iterations - used,
            share_of_loss=CONTRADICTION,
        )
        used += found.iterations
    return SearchResult(found.point, found.marginals, found.gap, used)


def _cool(
    objective: FitObjective, start: GraphicalModel | None, final: float, allowed: float, max_iterations: int
) -> SearchResult:
    """Minimise at falling temperatures, each from the answer of the one before."""
    temperatures = [final]
    # Beyond this temperature the answer is nearly uniform, and a search from uniform is short.
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
    found = minimise(
        objective,
        point,
        temperature=final,
        allowed=allowed,
        max_iterations=max_iterations - used,
        share_of_loss=CONTRADICTION,
    )
    return SearchResult(found.point, found.marginals, found.gap, used + found.iterations)
