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

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from privacy.marginals.blocks import NothingPossible
from privacy.marginals.graph import CellDomain, check_size, junction_tree
from privacy.marginals.inference import BeliefPropagation, GraphicalModel

if TYPE_CHECKING:
    from contracts.contract.impossible_cells import Clique
    from privacy.arrays import Floats

# --- What a model is fitted by.


class FitObjective:
    """The function F of a set of measurements; it remembers the last point, whose marginals are then cheap.

    Args:
        domain: all columns.
        measured: one measurement a clique: values in the domain's order of columns, and the variance of a cell.
        zeros: impossible cells by clique, in the domain's order of columns.
        total: number of rows, ≥ 0.
    Raises:
        NothingPossible: the structural zeros exclude every row.
    """

    def __init__(
        self,
        domain: CellDomain,
        measured: Mapping[Clique, tuple[Floats, float]],
        zeros: Mapping[Clique, NDArray[np.bool_]],
        total: float,
    ) -> None:
        self.domain = domain
        self.total = total
        self.cliques = tuple(measured)
        bounds = np.cumsum([0, *(values.size for values, _ in measured.values())])
        self.slices = tuple(slice(int(low), int(high)) for low, high in pairwise(bounds))
        self.values = np.concatenate([np.empty(0), *(values.ravel() for values, _ in measured.values())])
        self.variance = np.concatenate([np.empty(0), *(np.full(values.size, v) for values, v in measured.values())])
        self._fixed = {clique: np.where(mask, -np.inf, 0.0) for clique, mask in zeros.items()}
        tree = junction_tree(domain, [*self.cliques, *self._fixed])
        uniform = np.zeros(self.values.size)
        self._propagation = BeliefPropagation(tree, self._factors(uniform))
        self._point = uniform
        # With all potentials 0, Z is 0 only where the structural zeros leave no row possible.
        if zeros and np.isneginf(self._propagation.log_partition):
            raise NothingPossible
        anything = np.ones(self.values.size, dtype=np.bool_)
        # Under the uniform model a cell has probability 0 only where a structural zero forbids it.
        self.possible = self.marginals(uniform) > 0 if zeros and total > 0 else anything
        self._level = self._levelled()
        self._aim = self._level

    def _levelled(self) -> Floats:
        """Return the values, each clique's shifted so that its possible cells sum to the total, as mu's do.

        By Pythagoras that changes P by a constant. It takes a direction out of F along which it has next to no
        curvature.
        """
        level = self.values.copy()
        for part in self.slices:
            possible = self.possible[part]
            values = level[part]
            values[possible] += (self.total - values[possible].sum()) / max(1, int(possible.sum()))
        return level

    def _factors(self, point: Floats) -> dict[Clique, Floats]:
        """Return the potentials at a point, structural zeros included."""
        factors = {
            clique: point[part].reshape(self.domain.sizes(clique))
            for clique, part in zip(self.cliques, self.slices, strict=True)
        }
        for clique, values in self._fixed.items():
            factors[clique] = factors[clique] + values if clique in factors else values
        return factors

    def stay_near(self, center: Floats, temperature: float) -> None:
        """Set c, 0 at first, for a temperature: F's linear part becomes y + temperature · variance · c."""
        self._aim = self._level + temperature * self.variance * center

    def _move(self, point: Floats) -> None:
        if point is not self._point:
            self._propagation.update(self._factors(point))
            self._point = point

    def log_partition(self, point: Floats) -> float:
        """Return log Z."""
        self._move(point)
        return self._propagation.log_partition

    def value(self, point: Floats, temperature: float) -> float:
        """Return F, but for a constant."""
        # F = total log Z(θ) - <θ, aim> + temperature/2 <θ, variance θ>: the dual, whose minimum has the primal's
        # marginals.
        # F = total log Z(θ) - <θ, y + temperature variance c> + temperature / 2 <θ, variance θ>, without <c, variance
        # c>.
        linear = self.total * self.log_partition(point) - float(point @ self._aim)
        return linear + 0.5 * temperature * float(point @ (self.variance * point))

    def rounding(self, point: Floats) -> float:
        """Return how wrong F can be by rounding: it is a small difference of large sums."""
        return 1e-13 * (self.total * abs(self.log_partition(point)) + float(np.abs(point) @ np.abs(self._aim)))

    def marginals(self, point: Floats) -> Floats:
        """Return the expected counts of the measured cliques, flat [rows]."""
        self._move(point)
        parts = [self._propagation.of_factor(clique).ravel() for clique in self.cliques]
        return self.total * np.concatenate([np.empty(0), *parts])

    def gradient(self, point: Floats, marginals: Floats, temperature: float) -> Floats:
        """Return the gradient of F, flat [rows]; 0 where a structural zero makes the cell impossible."""
        # The gradient is the expected counts less the wanted ones: 0 where the model says what was measured.
        slope = marginals - self._aim + temperature * self.variance * point
        return np.where(self.possible, slope, 0.0)

    def gap(self, gradient: Floats) -> float:
        """Return how far P can be above its minimum [noise variances]."""
        return float(np.sum(gradient**2 / (2 * self.variance)))

    def loss(self, marginals: Floats) -> float:
        """Return the first part of P, the misfit [noise variances]."""
        return float(np.sum((marginals - self.values) ** 2 / (2 * self.variance)))

    def model(self, point: Floats) -> GraphicalModel:
        """Return the model at a point."""
        factors = self._factors(point)
        return GraphicalModel(self.domain, tuple(factors), tuple(factors.values()), self.total)

    def starting_point(self, start: GraphicalModel | None) -> Floats:
        """Return the potentials of a model on the measured cliques that it knows, 0 on the others."""
        point = np.zeros(self.values.size)
        known = start.factors if start is not None else {}
        for clique, part in zip(self.cliques, self.slices, strict=True):
            if clique in known:
                # `_factors` adds what is fixed by itself: structural zeros, at minus infinity, and the base.
                fixed = self._fixed.get(clique, np.zeros(known[clique].shape))
                possible = ~np.isneginf(fixed)
                point[part] = np.subtract(known[clique], fixed, where=possible, out=np.zeros(fixed.shape)).ravel()
        return np.where(self.possible, point, 0.0)


# --- An approximate inverse of the fit's second derivative, which makes the search short.


@dataclass(frozen=True)
class _Member:
    """A clique that contains the shared columns: its number, its other axes, and how many cells those have."""

    number: int
    axes: tuple[int, ...]
    spanned: int


def shared_columns(cliques: Sequence[Clique]) -> list[Clique]:
    """Return the single columns, and the larger sets, that two cliques have in common; smaller sets first."""
    shared: set[Clique] = set()
    for one, other in combinations(cliques, 2):
        common = tuple(name for name in one if name in other)
        shared.update((name,) for name in common)
        if len(common) > 1:
            shared.add(common)
    return sorted(shared, key=lambda columns: (len(columns), columns))


class Redundancy:
    """Which measured cliques share which columns.

    Args:
        domain: all columns.
        cliques: the measured cliques, columns in the domain's order.
        slices: the place of each clique's cells in a flat vector.
    """

    def __init__(self, domain: CellDomain, cliques: Sequence[Clique], slices: Sequence[slice]) -> None:
        self._shapes = [domain.sizes(clique) for clique in cliques]
        self._slices = slices
        self._groups: list[list[_Member]] = []
        self._inner: list[list[tuple[int, ...]]] = [[] for _ in cliques]
        for columns in shared_columns(cliques):
            members = []
            for number, clique in enumerate(cliques):
                if set(columns) <= set(clique):
                    rest = tuple(axis for axis, name in enumerate(clique) if name not in columns)
                    members.append(_Member(number, rest, domain.cells([clique[axis] for axis in rest])))
                    self._inner[number].append(rest)
            self._groups.append(members)

    def scaled(self, marginals: Floats, ridge: Floats) -> Scaling:
        """Return the approximate inverse at a point.

        Args:
            marginals: expected counts of the measured cells, flat.
            ridge: temperature · variance of the measured cells, flat, > 0.
        """
        return Scaling(self, marginals, ridge)


class Scaling:
    """The approximate inverse at one point; call it with a gradient."""

    def __init__(self, redundancy: Redundancy, marginals: Floats, ridge: Floats) -> None:
        self._shapes, self._slices = redundancy._shapes, redundancy._slices
        self._groups, self._inner = redundancy._groups, redundancy._inner
        self._weight = marginals + ridge
        tables = [self._weight[part].reshape(shape) for part, shape in zip(self._slices, self._shapes, strict=True)]
        self._projections = [
            [(axes, table, table.sum(axis=axes, keepdims=True)) for axes in inner]
            for table, inner in zip(tables, self._inner, strict=True)
        ]
        self._shared: list[tuple[Floats, Floats]] = []
        for members in self._groups:
            first = members[0]
            counts = marginals[self._slices[first.number]].reshape(self._shapes[first.number]).sum(axis=first.axes)
            # One variance a clique: its first cell's ridge is that of all.
            own = np.array([ridge[self._slices[member.number].start] * member.spanned for member in members])
            # Sherman-Morrison for m 11ᵀ + diag(own): its inverse is 1/own less a rank-one part with this factor.
            self._shared.append((own, counts / (1.0 + counts * (1.0 / own).sum())))

    def __call__(self, gradient: Floats) -> Floats:
        """Return the approximate inverse times a flat gradient."""
        # Cell by cell first: 1 / (mu + temperature · variance).
        result = gradient / self._weight
        for part, shape, projections in zip(self._slices, self._shapes, self._projections, strict=True):
            if projections:
                table = result[part].reshape(shape)
                for axes, weight, sums in projections:
                    # Take out what is a function of the shared columns alone: that part is solved for all cliques
                    # together, below.
                    table = table - (weight * table).sum(axis=axes, keepdims=True) / sums
                result[part] = table.reshape(-1)
        for members, (own, correction) in zip(self._groups, self._shared, strict=True):
            parts = [
                gradient[self._slices[member.number]].reshape(self._shapes[member.number]).sum(axis=member.axes)
                / scale
                for member, scale in zip(members, own, strict=True)
            ]
            # Cliques that share columns agree on this much of the step: it is shared out by how well each is known.
            common = correction * sum(parts)
            for member, scale, value in zip(members, own, parts, strict=True):
                table = result[self._slices[member.number]].reshape(self._shapes[member.number])
                table += np.expand_dims(value - common / scale, member.axes)
        return result


# --- Limited-memory quasi-Newton search (L-BFGS) for the potentials, with the redundancy's inverse in its middle.


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


# --- What a model is fitted to.


ScalarT = TypeVar("ScalarT", np.float64, np.bool_)


@dataclass(frozen=True, eq=False)
class Measured:
    """Noisy counts of a marginal.

    Args:
        clique: the columns, each once; empty for the total.
        values: noisy counts, one axis a column in the clique's order, integer or float [rows].
        variance: of the noise in one cell, > 0 [rows²].
    Raises:
        ValueError: values that are not finite numbers, or a variance that is not positive and finite.
    """

    clique: Clique
    values: NDArray[np.int64] | Floats
    variance: float

    def __post_init__(self) -> None:
        if not (np.isfinite(self.variance) and self.variance > 0):
            raise ValueError(f"the variance of {'×'.join(self.clique) or 'the total'} must be positive and finite")
        if not np.isfinite(self.values).all():
            raise ValueError(f"the values of {'×'.join(self.clique) or 'the total'} must be finite")


@dataclass(frozen=True, eq=False)
class StructuralZeros:
    """Cells of a clique that no row can be in.

    Args:
        clique: the columns, each once.
        impossible: True where no row can be, one axis a column in the clique's order.
    """

    clique: Clique
    impossible: NDArray[np.bool_]

    def on(self, domain: CellDomain) -> NDArray[np.bool_]:
        """Return the mask with its axes in the domain's order of columns.

        Raises:
            ValueError: an unknown column, or a mask that does not have the clique's shape.
        """
        return _in_order(domain, self.clique, self.impossible)


def combine(domain: CellDomain, measurements: Sequence[Measured]) -> dict[Clique, tuple[Floats, float]]:
    """Return one measurement a clique: the mean weighted by inverse variances, and its variance.

    Source: for independent Gaussian noise the weighted mean is sufficient; the loss changes by a constant.
    """
    merged: dict[Clique, tuple[Floats, float]] = {}
    for one in measurements:
        clique = domain.canonical(one.clique)
        values = _in_order(domain, one.clique, np.asarray(one.values, dtype=np.float64))
        if clique in merged:
            before, variance = merged[clique]
            # The weight of what was there before is the other's share of the variances: precise measurements count
            # more.
            share = one.variance / (variance + one.variance)
            merged[clique] = before * share + values * (1 - share), variance * share
        else:
            merged[clique] = values, one.variance
    return merged


def estimate_total(measurements: Sequence[Measured]) -> float:
    """Return the number of rows from the sums of the measurements, weighted by inverse variances; at least 0.

    Formula: the sum of k cells has variance k · variance_c. Without measurements 0.
    """
    if not measurements:
        return 0.0
    # A sum over k cells has k times the variance of one: fine marginals say less about the total.
    weights = np.array([1.0 / (one.variance * one.values.size) for one in measurements])
    sums = np.array([float(one.values.sum()) for one in measurements])
    return max(0.0, float((weights / weights.sum()) @ sums))


def _in_order(domain: CellDomain, clique: Clique, values: NDArray[ScalarT]) -> NDArray[ScalarT]:
    """Return the values with their axes in the domain's order."""
    known = domain.canonical(clique)
    if values.shape != domain.sizes(clique):
        raise ValueError(
            f"the values of {'×'.join(clique) or 'the total'} have shape {values.shape}, the domain says "
            f"{domain.sizes(clique)}"
        )
    return values.transpose([clique.index(name) for name in known])


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
