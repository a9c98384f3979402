"""Limited-memory quasi-Newton search (L-BFGS) for the potentials, with the redundancy's inverse in its middle.

Source: Nocedal and Wright 2006, Numerical Optimization, algorithms 7.4 and 7.5; backtracking by algorithm 3.1.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from privacy.arrays import Floats
from privacy.marginals.fit_objective import FitObjective
from privacy.marginals.redundancy import Redundancy

MEMORY = 30
SUFFICIENT = 1e-4
FLATTER = 0.5
MOST_SHORTENINGS = 30
FURTHEST = 1e12
"""No potential goes beyond this [nats]: sums of such potentials are no longer exact to a small part of a nat."""
FIRST_STEP = 10.0
"""The first step, before any curvature is known, changes no potential by more than this [nats]."""


@dataclass(frozen=True, eq=False)
class SearchResult:
    """Where a search ended.

    Args:
        point: potentials of the measured cliques, flat.
        marginals: the expected counts there, flat [rows].
        gap: see FitObjective [noise variances].
        iterations: steps taken.
    """

    point: Floats
    marginals: Floats
    gap: float
    iterations: int


@dataclass(frozen=True, eq=False)
class _Place:
    """A point with all that is known there."""

    point: Floats
    value: float
    marginals: Floats
    gradient: Floats


def minimise(
    objective: FitObjective,
    start: Floats,
    *,
    temperature: float,
    allowed: float,
    max_iterations: int,
    share_of_loss: float = 0.0,
) -> SearchResult:
    """Minimise F from a starting point until the gap is small, or the iterations are used up.

    Stops too when no step along the steepest scaled descent leads on: nothing better can be found in floats.

    Args:
        objective: gives F.
        start: potentials to start from, flat.
        temperature: see FitObjective, > 0.
        allowed: what the gap may be [noise variances].
        max_iterations: steps at most.
        share_of_loss: what the gap may be as a share of the misfit, if that is more.
    """
    redundancy = Redundancy(objective.domain, objective.cliques, objective.slices)
    # The last term of F has the second derivative temperature · variance, which keeps the inverse bounded.
    ridge = temperature * objective.variance
    changes: deque[tuple[Floats, Floats, float]] = deque(maxlen=MEMORY)
    here = best = _look(objective, start, temperature)
    iterations = 0
    while iterations < max_iterations:
        # The best point by its certified gap: gaps need not fall from step to step, as F does.
        best = min(best, here, key=lambda place: _above(objective, place, here, temperature))
        enough = max(allowed, share_of_loss * objective.loss(best.marginals))
        if _above(objective, best, here, temperature) <= enough:
            break
        scaling = redundancy.scaled(here.marginals, ridge)
        direction = np.where(objective.possible, -product(here.gradient, changes, scaling), 0.0)
        # Not a direction of descent: what was remembered misleads. Begin again from the scaled gradient.
        if not float(here.gradient @ direction) < 0:
            changes.clear()
            direction = -here.gradient / (here.marginals + ridge)
        # Once curvature is known the quasi-Newton step has the right length; a first step must not go far.
        step = 1.0 if changes else min(1.0, FIRST_STEP / float(np.abs(direction).max()))
        there = _descend(objective, here, direction, step, temperature)
        if there is None and not changes:
            break
        if there is None:
            # No step along it lowers F: what was remembered misleads, and the next try is the scaled gradient.
            changes.clear()
            continue
        _remember(changes, there.point - here.point, there.gradient - here.gradient)
        here = there
        iterations += 1
    best = min(best, here, key=lambda place: _above(objective, place, here, temperature))
    return SearchResult(best.point, best.marginals, _above(objective, best, here, temperature), iterations)


def _above(objective: FitObjective, place: _Place, lowest: _Place, temperature: float) -> float:
    """Return how far P can be at a place above its minimum, which is at least the dual at the lowest point found.

    Formula: gap(place) - temperature · (F(place) - F(lowest)), and what rounding can make of that difference
    """
    gap = objective.gap(place.gradient)
    if place is lowest:
        return gap
    lower = place.value - lowest.value - 2 * objective.rounding(lowest.point)
    return gap - temperature * max(0.0, lower)


def _look(objective: FitObjective, point: Floats, temperature: float) -> _Place:
    marginals = objective.marginals(point)
    return _Place(
        point, objective.value(point, temperature), marginals, objective.gradient(point, marginals, temperature)
    )


def _descend(
    objective: FitObjective, here: _Place, direction: Floats, step: float, temperature: float
) -> _Place | None:
    """Shorten the step until F falls enough; None if it never does.

    Where F changes by no more than its rounding, the slope decides: F is convex, so a step after which the slope is
    still downwards, or at most half as steep upwards, is a good one.
    """
    slope = float(here.gradient @ direction)
    for _ in range(MOST_SHORTENINGS):
        point = here.point + step * direction
        # Such potentials are no longer exact: a tenth of the step, without a look at F.
        if float(np.abs(point).max()) > FURTHEST:
            step *= 0.1
            continue
        value = objective.value(point, temperature)
        # Armijo's condition: F fell by at least a small share of what the slope promised (algorithm 3.1).
        if value <= here.value + SUFFICIENT * step * slope:
            return _look(objective, point, temperature)
        if abs(value - here.value) <= objective.rounding(point):
            there = _look(objective, point, temperature)
            if float(there.gradient @ direction) <= -FLATTER * slope:
                return there
        excess = value - here.value - slope * step
        # The minimum of the parabola through this value, that slope and the value there; never less than a tenth of
        # the step, never more than half.
        fitted = -slope * step**2 / (2 * excess) if np.isfinite(excess) and excess > 0 else 0.0
        step = min(max(fitted, 0.1 * step), 0.5 * step)
    return None


def product(
    gradient: Floats, changes: Iterable[tuple[Floats, Floats, float]], scaling: Callable[[Floats], Floats]
) -> Floats:
    """Return the approximate inverse second derivative times the gradient (the two-loop recursion)."""
    result = gradient.copy()
    kept = []
    # First loop, from the newest change to the oldest (algorithm 7.4).
    for moved, turned, inverse in reversed(pairs := list(changes)):
        share = inverse * float(moved @ result)
        result -= share * turned
        kept.append(share)
    result = scaling(result)
    if pairs:
        moved, turned, inverse = pairs[-1]
        # The scaling's size along the last step, so that it agrees with the curvature that was seen there.
        result *= 1.0 / (inverse * float(turned @ scaling(turned)))
    # Second loop, from the oldest change to the newest.
    for (moved, turned, inverse), share in zip(pairs, reversed(kept), strict=True):
        result += (share - inverse * float(turned @ result)) * moved
    return result


def _remember(changes: deque[tuple[Floats, Floats, float]], moved: Floats, turned: Floats) -> None:
    """Keep a step and the change of the gradient along it, if the curvature shows above rounding."""
    # A convex function turns its gradient along the step; less than this is rounding, and its inverse would be noise.
    curvature = float(moved @ turned)
    if curvature > 1e-14 * float(np.sqrt((moved @ moved) * (turned @ turned))):
        changes.append((moved, turned, 1.0 / curvature))
