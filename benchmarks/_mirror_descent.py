"""Mirror descent as Private-PGM describes it, plain and accelerated: what the engine's search is measured against.

Source: McKenna, Sheldon and Miklau 2019, algorithm 1 (with backtracking); Tseng 2008, On accelerated proximal
gradient methods, algorithm 1 (entropy as the distance, adaptive step).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from privacy.arrays import Floats
from privacy.marginals.fit_objective import FitObjective


def plain(objective: FitObjective) -> Iterator[float]:
    """Yield the misfit after each step: down the gradient, the step halved until the misfit falls enough."""
    point = np.zeros(objective.values.size)
    marginals = objective.marginals(point)
    loss = objective.loss(marginals)
    step = 2.0 * float(objective.variance.min()) / objective.total
    while True:
        slope = (marginals - objective.values) / objective.variance
        while True:
            new_point = point - step * slope
            new_marginals = objective.marginals(new_point)
            new_loss = objective.loss(new_marginals)
            if new_loss <= loss - 0.5 * float(slope @ (marginals - new_marginals)):
                break
            step *= 0.5
        point, marginals, loss = new_point, new_marginals, new_loss
        step *= 1.1
        yield loss


def accelerated(objective: FitObjective) -> Iterator[float]:
    """Yield the misfit of the mirror point after each step."""
    point = np.zeros(objective.values.size)
    mirror = mean = objective.marginals(point)
    log_z = objective.log_partition(point)
    weight, curvature = 0.0, objective.total / float(objective.variance.min())
    while True:
        curvature *= 0.8
        while True:
            gain = (1 + np.sqrt(1 + 4 * curvature * weight)) / (2 * curvature)
            share = gain / (weight + gain)
            between = (1 - share) * mean + share * mirror
            step = -gain * (between - objective.values) / objective.variance
            new_mirror = objective.marginals(new_point := point + step)
            new_log_z = objective.log_partition(new_point)
            distance = float(step @ new_mirror) - objective.total * (new_log_z - log_z)
            new_mean = (1 - share) * mean + share * new_mirror
            if _half_square(objective, new_mean - between) <= share / gain * distance * (1 + 1e-9) + 1e-9:
                break
            curvature *= 2
        point, mirror, mean, log_z, weight = new_point, new_mirror, new_mean, new_log_z, weight + gain
        yield objective.loss(mirror)


def _half_square(objective: FitObjective, difference: Floats) -> float:
    return float(np.sum(difference**2 / (2 * objective.variance)))
