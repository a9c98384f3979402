"""Accelerated mirror descent with an adaptive step, and the bound that certifies the result.

Three sequences: z is the mirror point (a model, theta = start - sum of a_k · gradient_k), x the running mean of the
z, and the gradient is taken in between. The mean of the gradients, weighted by a_k, is feasible in the dual of the
loss.

Source: Tseng 2008, On accelerated proximal gradient methods, algorithm 1 (entropy as the distance).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privacy.marginals.factor import Array
from privacy.marginals.fit_objective import FitObjective

CHECK_EVERY = 10
PATIENCE = 3
SHRINK = 0.8


@dataclass(frozen=True, eq=False)
class Found:
    """Where the search ended.

    Args:
        point: potentials of the measured cliques, flat.
        loss: L there [noise variances].
        gap: L is at most so much above its minimum [noise variances].
        iterations: steps taken.
        converged: whether the gap, or what a further step gains, came below what was asked.
    """

    point: Array
    loss: float
    gap: float
    iterations: int
    converged: bool


def minimise(objective: FitObjective, start: Array, allowed: float, max_iterations: int) -> Found:
    """Minimise the loss from a starting point until it is certified or no longer moves.

    Args:
        objective: the loss.
        start: potentials to start from, flat.
        allowed: what the gap may be [noise variances].
        max_iterations: steps at most.
    """
    theta, z = start.copy(), objective.marginals(start)
    log_z = objective.log_partition
    x, weight, curvature = z, 0.0, objective.total / float(objective.variance.min(initial=np.inf))
    bound, losses = 0.0, [objective.loss(z)]
    for iteration in range(1, max_iterations + 1):
        curvature *= SHRINK
        while True:
            a = (1 + np.sqrt(1 + 4 * curvature * weight)) / (2 * curvature)
            share = a / (weight + a)
            between = (1 - share) * x + share * z
            step = -a * objective.slope(between)
            new_z = objective.marginals(theta + step)
            new_log_z = objective.log_partition
            distance = float(step @ new_z) - objective.total * (new_log_z - log_z)
            new_x = (1 - share) * x + share * new_z
            if objective.distance(new_x, between) <= share / a * distance * (1 + 1e-9) + 1e-12 * losses[0]:
                break
            curvature *= 2
        theta, z, log_z, x, weight = theta + step, new_z, new_log_z, new_x, weight + a
        if iteration % CHECK_EVERY == 0:
            losses.append(objective.loss(z))
            bound = max(bound, objective.bound((start - theta) / weight))
            still = len(losses) > PATIENCE and max(losses[-PATIENCE:]) - min(losses[-PATIENCE:]) < allowed / 4
            if losses[-1] - bound <= allowed or still:
                return Found(theta, losses[-1], losses[-1] - bound, iteration, True)
    loss = objective.loss(z)
    return Found(theta, loss, loss - bound, max_iterations, False)
