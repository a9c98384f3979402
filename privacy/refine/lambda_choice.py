"""Which λ negative ℓ2 should use: from the noisy values, from an earlier version, or for a wanted sparsity.

None of the three reads private data. `auto` and `sparsity` see the noisy measurements alone, which is
post-processing; `reference` sees a table that was published before. So none costs anything.

The error that a λ makes depends on the true cells, and over many cells on their distribution alone. `auto` is a
parametric bootstrap: take an estimate for the truth, put noise on it again, keep the λ with the least error.
Three choices make it land within 1 % of the best λ's error (benchmarks/tables):
- The average over all redraws is computed, not drawn: no seed, no luck, the same λ at each
  replay.
- It runs three times. The first truth is the plain projection, which shrinks every cell by θ and asks for too small
  a λ; then it is negative ℓ2 at the last λ, which shrinks less. A fourth round changes nothing that can be measured.
- Where the table is rounded, the error is that of the rounded table: at ε = 1 the error jumps by
  some per cent with λ, where cells of one small value all stay or all go, and the smooth error misses that.
The truth is rounded to whole numbers, since counts are: at ε = 10 the fractions would dominate the error.
A λ just above 0 is kept even where it gains next to nothing: at λ = 0 all cells of an integer table have the same
remainder, and cell numbers would decide which are rounded up; at any λ > 0 the larger cells come first, and the small
ones, which are more likely noise, are dropped (ε = 10, 64 × 64: an error of 0.001 instead of 0.006).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, sqrt
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from privacy.accounting.events import CountNoise
from privacy.refine.noise_mass import noise_likelihood, noise_unit
from privacy.refine.simplex import check_projectable, over_chunks

# --- What rounding to whole numbers adds to the expected error.
# Under little noise few noisy values occur near the threshold, and whether all cells that show a 3 stay or go
# depends on the cut between the remainders. So for tables that are rounded, the expected number of cells N(v) at
# each noisy value v is rounded as a whole: cells of one value are alike, and where the cut falls among them a share
# is raised. With d = ⌊b(v)⌋ - v, D(v) = Σ (x - v) over the cells that show v, and s the share that is raised by
# one, the squared error is  Σ N (d² + s (2d + 1)) - 2 D (d + s) + cells · variance.


TOP: Final = 1 << 10
"""Larger amounts lie far above the threshold that serves under little noise; their rounding is left out."""


_ANY: Final = 1e-9
"""Cells: fewer are expected nowhere that matters, and a division by less would overflow."""


@dataclass(frozen=True)
class RiskLattice:
    """The cells with small amounts, by the noisy value that they would show.

    Args:
        values: v, consecutive whole numbers [units].
        cells: N(v), the expected number of cells.
        difference: D(v), the expected sum of x - v over them [units].
        variance: Σ variance over these cells [units²].
    """

    values: NDArray[np.float64]
    cells: NDArray[np.float64]
    difference: NDArray[np.float64]
    variance: float

    @staticmethod
    def of(amounts: NDArray[np.float64], cells: NDArray[np.float64], mass: NDArray[np.float64]) -> RiskLattice:
        """Spread the cells over the values that they would show.

        Args:
            amounts: whole numbers from 0 to TOP, at least one.
            cells: how many cells hold each.
            mass: P(noise = z) for z from -reach to reach.
        """
        reach = mass.size // 2
        noise = np.arange(-reach, reach + 1)
        held = np.bincount(np.rint(amounts).astype(np.int64), weights=cells).astype(np.float64)
        values = np.arange(-reach, held.size + reach, dtype=np.float64)
        variance = float(cells.sum() * (mass @ noise**2))
        return RiskLattice(values, np.convolve(held, mass), np.convolve(held, -noise * mass), variance)

    def squared_error(self, lambda_: float, theta: float) -> tuple[float, float]:
        """Return the expected squared error of these cells, and how many of them stay above 0."""
        refined = np.maximum(self.values - theta, 0.0) / (1 - lambda_)
        whole = np.floor(refined)
        raised = self._raised(refined, refined - whole, lambda_)
        d = whole - self.values
        # β - x = (d + b) - (x - v), b the raised unit, 0 or 1: b² = b, the cross term is D(v)'s, and the last square
        # is the noise's variance.
        squared = self.cells @ (d * d + raised * (2 * d + 1)) - 2 * float(self.difference @ (d + raised))
        return float(squared) + self.variance, float(self.cells @ np.where(whole > 0, 1.0, raised))

    def _raised(
        self, refined: NDArray[np.float64], remainder: NDArray[np.float64], lambda_: float
    ) -> NDArray[np.float64]:
        """Return the share of the cells at each value that gets one of the units left over."""
        left = float(self.cells @ remainder)
        raised = np.zeros(remainder.size)
        if lambda_ == 0:  # every remainder is the same: cell numbers decide, which is to say chance
            active = refined > 0
            raised[active] = left / max(float(self.cells[active].sum()), 1.0)
            return raised
        order = np.flatnonzero(remainder)
        order = order[np.argsort(-remainder[order], kind="stable")]
        held = self.cells[order]
        # Largest remainders first, until the units are used up; the value at which they run out gets them in part.
        raised[order] = np.clip((left - (np.cumsum(held) - held)) / np.maximum(held, _ANY), 0, 1)
        return raised


# --- What error negative ℓ2 would make on a table that is taken for the truth, over all noise that could be drawn.
# The parametric bootstrap draws noise on such a table again and again. Here the average over all draws is computed
# instead, so that no random number is needed: both the threshold and the squared error are sums over cells, and a
# sum over many cells hardly differs from its expectation. With x a true cell, Z its noise, γ = 1 - λ, y = x - θ and
# u = (λx - θ)/γ, the cell's error is u + Z/γ where Z > -y and -x elsewhere, hence
#     θ:      Σ E[(y + Z)⁺] = γ Σx
#     risk:   Σ u² P(Z > -y) + 2u E[Z; Z > -y]/γ + E[Z²; Z > -y]/γ² + x² P(Z ≤ -y)
# and only three tables of tail moments of Z are needed, whatever the range of the counts.


STEPS_PER_UNIT: Final = 32
_REACH: Final = 32
"""Standard deviations: e^-45 of discrete Laplace noise lies beyond, and less of a Gaussian."""
_MOST_AMOUNTS: Final = 1 << 14
_LATTICE_BELOW: Final = 8.0
"""Standard deviation: with more noise, rounding changes the error by less than the choice could gain."""
_NEWTON_STEPS: Final = 100
_CLOSE: Final = 1e-12


@dataclass(frozen=True)
class CellPopulation:
    """Cells by what they hold: all that the risk depends on.

    Args:
        amounts: distinct values, ≥ 0, ascending, shape (values,) [units].
        cells: how many cells hold each, shape (values,).
    """

    amounts: NDArray[np.float64]
    cells: NDArray[np.float64]


@dataclass(frozen=True)
class Risk:
    """The expected error at one λ.

    Args:
        rmse: root of the mean squared error a cell [units].
        nonzero_share: share of the cells above 0.
    """

    rmse: float
    nonzero_share: float


def population(amounts: NDArray[np.float64], cells: NDArray[np.int64], *, unit: float) -> CellPopulation:
    """Merge equal amounts; where there are very many, neighbours far closer than the noise is wide, too."""
    merged, place = np.unique(amounts, return_inverse=True)
    if merged.size > _MOST_AMOUNTS:
        # arcsinh(x / unit) is linear near 0 and logarithmic far up: what merges differs by little beside its size.
        stretched = np.arcsinh(amounts / unit)
        _, place = np.unique(np.round(stretched * (_MOST_AMOUNTS / stretched.max())), return_inverse=True)
    counted = np.bincount(place, weights=cells).astype(np.float64)
    held = np.bincount(place, weights=cells * amounts).astype(np.float64)
    return CellPopulation(held / counted, counted)


def expected_risks(
    truth: CellPopulation, event: CountNoise, lambdas: Sequence[float], *, integers: bool
) -> list[Risk]:
    """Return the expected error of negative ℓ2 at each λ, were `truth` the table.

    Args:
        truth: the table, one cell at least.
        event: the noise that is put on it.
        lambdas: in [0, 1), ascending.
        integers: whether the refined table is rounded to whole numbers. Under noise that is far wider than one unit
            that makes no difference and is left out.
    Returns:
        one Risk for each λ.
    Privacy: none of its own: post-processing of whatever `truth` was made from.
    """
    tails, risks = _Tails.of(event), []
    total = float(truth.cells @ truth.amounts)
    small = (
        truth.amounts <= TOP
        if integers and noise_unit(event) < _LATTICE_BELOW
        else np.zeros(truth.amounts.size, np.bool_)
    )
    lattice = RiskLattice.of(truth.amounts[small], truth.cells[small], tails.mass()) if small.any() else None
    large = CellPopulation(truth.amounts[~small], truth.cells[~small])
    theta = -np.inf
    for lambda_ in lambdas:
        theta = _expected_threshold(truth, tails, (1 - lambda_) * total, theta)
        squared, nonzero = _squared_error(large, tails, lambda_, theta)
        rounded, kept = (0.0, 0.0) if lattice is None else lattice.squared_error(lambda_, theta)
        cells = float(truth.cells.sum())
        risks.append(Risk(sqrt(max(0.0, squared + rounded) / cells), (nonzero + kept) / cells))
    return risks


@dataclass(frozen=True)
class _Tails:
    """Σ p(z), Σ z p(z) and Σ z² p(z) over the noise z > bound, for every bound on a grid."""

    step: int
    moments: NDArray[np.float64]

    @staticmethod
    def of(event: CountNoise) -> _Tails:
        """Tabulate the noise in steps of 1, or of a 32nd of its standard deviation where that is more."""
        step = max(1, int(noise_unit(event) / STEPS_PER_UNIT))
        reach = ceil(_REACH * noise_unit(event) / step)
        noise = np.arange(-reach, reach + 1) * step
        mass = noise_likelihood(event, noise)
        mass /= mass.sum()
        terms = np.stack([mass, noise * mass, noise.astype(np.float64) ** 2 * mass])
        suffix = np.cumsum(terms[:, ::-1], axis=1)[:, ::-1]
        return _Tails(step, np.concatenate([suffix, np.zeros((3, 1))], axis=1))

    def mass(self) -> NDArray[np.float64]:
        """Return p(z) over the grid."""
        mass: NDArray[np.float64] = -np.diff(self.moments[0])
        return mass

    def above(self, bound: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the three moments of the noise strictly above each bound, shape (3, bounds)."""
        reach = (self.moments.shape[1] - 2) // 2
        first = np.floor(bound / self.step) + 1 + reach
        return self.moments[:, np.clip(first, 0, 2 * reach + 1).astype(np.int64)]


def _expected_threshold(truth: CellPopulation, tails: _Tails, total: float, lower: float) -> float:
    """Solve Σ E[(y + Z)⁺] = total for θ: Newton's method from below, where the convex sum exceeds the total."""
    # θ grows with λ, and θ is at least what it would be if no cell were cut off: Newton starts from the larger.
    theta = max(lower, float(truth.cells @ truth.amounts - total) / float(truth.cells.sum()))
    for _ in range(_NEWTON_STEPS):
        y = truth.amounts - theta
        mass, first, _ = tails.above(-y)
        slope = float(truth.cells @ mass)
        excess = float(truth.cells @ (y * mass + first)) - total
        if slope <= 0 or excess <= _CLOSE * total:
            break
        theta += excess / slope
    return theta


def _squared_error(cells: CellPopulation, tails: _Tails, lambda_: float, theta: float) -> tuple[float, float]:
    """Evaluate the second sum above, and how many cells stay above 0."""
    gamma, x = 1 - lambda_, cells.amounts
    mass, first, second = tails.above(theta - x)
    u = (lambda_ * x - theta) / gamma
    squared = u * u * mass + 2 * u * first / gamma + second / gamma**2 + x * x * (1 - mass)
    return float(cells.cells @ squared), float(cells.cells @ mass)


_WINDOW: Final = 1 << 17
"""Counted directly: so many steps from the least value on. The few larger values are sorted."""


def distinct_counts(values: NDArray[np.int64], *, step: int = 1) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the distinct values in ascending order and the number of cells that hold each.

    Args:
        values: any shape, within ±2^62 [units].
        step: round down to multiples of this first, ≥ 1 [units].
    Privacy: post-processing.
    """
    flat = values.reshape(-1)
    if flat.size == 0:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    least = min(over_chunks(lambda cells: int(flat[cells].min()), flat.size)) // step

    def count(cells: slice) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        steps = flat[cells] - least if step == 1 else flat[cells] // step - least
        # Most noisy counts lie in a window of 2^17 values above the least: counting them by place spares a sort.
        inside = steps < _WINDOW
        if inside.all():
            return np.bincount(steps), np.empty(0, np.int64)
        return np.bincount(steps[inside]), steps[~inside]

    parts = over_chunks(count, flat.size)
    low = np.zeros(max(part.size for part, _ in parts), np.int64)
    for part, _ in parts:
        low[: part.size] += part
    high, high_counts = np.unique(np.concatenate([part for _, part in parts]), return_counts=True)
    found = np.flatnonzero(low)
    return (np.concatenate([found, high]) + least) * step, np.concatenate([low[found], high_counts])


How = Literal["auto", "reference", "sparsity"]
_COARSE: Final = (0.0, *np.geomspace(1e-6, 0.95, 43).tolist())
_FINE: Final = 9
_ROUNDS: Final = 3
_HALVINGS: Final = 60
_LARGEST: Final = 0.999999
_TIED: Final = 1e-9
"""Errors that differ by less than this share of them are alike: sums in another order differ by as much."""
_NOTHING: Final = 1e-6
"""Nor does anybody see so small a difference [units]."""


@dataclass(frozen=True)
class LambdaChoice:
    """A λ and where it comes from.

    Args:
        lambda_: λ in [0, 1), at most six digits, so that it can be written down and used again exactly.
        how: auto, reference or sparsity.
        expected_rmse: the error that is expected at this λ, or None where no noise was given (sparsity); from `auto`
            about a tenth too high on sparse tables, since an estimate still has more nonzero cells than the truth
            [units].
        nonzero_share: share of the cells that is expected above 0, in [0, 1].
    """

    lambda_: float
    how: How
    expected_rmse: float | None
    nonzero_share: float


def choose_lambda_auto(
    noisy: NDArray[np.int64], total: float, *, event: CountNoise, integers: bool, absent: int = 0
) -> LambdaChoice:
    """Choose λ from the noisy values by the parametric bootstrap of the module's docstring.

    Args:
        noisy: noisy counts, any shape [units].
        total: the sum that the refined table will have, ≥ 0 [units].
        event: the noise that the counts carry.
        integers: whether the refined table is rounded to whole numbers.
        absent: further cells that are known to become 0 at each λ, since they lie below the threshold at λ = 0, which
            is the lowest.
    Returns:
        LambdaChoice: λ with the error expected at it; λ = 0 for an empty table or a total of 0.
    Raises:
        ValueError: the total is negative or not finite, or positive without a cell.
    Privacy: post-processing.
    """
    check_projectable(noisy, total)
    if total == 0 or noisy.size == 0:
        return LambdaChoice(0.0, "auto", 0.0, 0.0)
    unit = noise_unit(event)
    values, cells = distinct_counts(noisy, step=max(1, int(unit / STEPS_PER_UNIT)))
    best, risk = 0.0, Risk(0.0, 0.0)
    for _ in range(_ROUNDS):
        # The truth of this round is the refinement at the last round's λ, rounded to whole numbers.
        estimate, _ = _refined(values, cells, total, best)
        amounts, holding = np.rint(estimate), cells
        if absent:
            amounts, holding = np.append(amounts, 0.0), np.append(cells, absent)
        best, risk = _least_risk(population(amounts, holding, unit=unit), event, integers)
    return LambdaChoice(best, "auto", risk.rmse, risk.nonzero_share)


def lambda_for_reference(reference: NDArray[np.int64], *, event: CountNoise, integers: bool) -> LambdaChoice:
    """Choose the λ that would serve an earlier published version best, were this noise put on it.

    Its own sum is the total there, so a population that grew since does not matter.

    Args:
        reference: a published table of the same kind, any shape, non-negative [units].
        event: the noise of the new table.
        integers: whether the refined table will be rounded to whole numbers.
    Returns:
        LambdaChoice: λ with the error expected at it on the reference.
    Raises:
        ValueError: the reference has a negative cell.
    Privacy: nothing private is read; `reference` must have been published.
    Source: negative ℓ2 paper, section 4.1 (an earlier census instead of the truth).
    """
    if reference.size and int(reference.min()) < 0:
        raise ValueError("reference must not have a cell below 0")
    if not reference.any():
        return LambdaChoice(0.0, "reference", 0.0, 0.0)
    values, cells = distinct_counts(reference)
    best, risk = _least_risk(population(values.astype(np.float64), cells, unit=noise_unit(event)), event, integers)
    return LambdaChoice(best, "reference", risk.rmse, risk.nonzero_share)


def lambda_for_sparsity(noisy: NDArray[np.int64], total: int, *, target_share: float, integers: bool) -> LambdaChoice:
    """Choose the λ at which the share of nonzero cells comes nearest to a wanted one.

    The share falls as λ grows, in steps of one cell at least. λ = 0 keeps the most cells: a larger target gets it.

    Args:
        noisy: noisy counts, any shape, one cell at least [units].
        total: the sum that the refined table will have, > 0 [units].
        target_share: wanted share of nonzero cells, in (0, 1].
        integers: whether the refined table is rounded to whole numbers, which leaves fewer cells above 0.
    Returns:
        LambdaChoice: λ with the share that it reaches.
    Raises:
        ValueError: target_share outside (0, 1], or a total that is not above 0.
    Privacy: post-processing.
    """
    if not 0 < target_share <= 1:
        raise ValueError(f"target_share must lie in (0, 1], not {target_share}")
    check_projectable(noisy, total)
    if total == 0:
        raise ValueError("total must be above 0: a table of zeros has no share of nonzero cells to choose")
    values, cells = distinct_counts(noisy)

    def share(lambda_: float) -> float:
        estimate, _ = _refined(values, cells, total, lambda_)
        return _nonzero_cells(estimate, cells, total, integers) / noisy.size

    best = min(_ends(share, target_share), key=lambda lambda_: (abs(share(lambda_) - target_share), lambda_))
    return LambdaChoice(best, "sparsity", None, share(best))


def _ends(share: Callable[[float], float], target_share: float) -> tuple[float, ...]:
    """Halve [0, 1) until the λ above and below the target are neighbours."""
    low, high = 0.0, _LARGEST
    if share(low) <= target_share:
        return (low,)
    for _ in range(_HALVINGS):
        middle = _written(low + (high - low) / 2)
        if middle in (low, high):
            break
        low, high = (middle, high) if share(middle) > target_share else (low, middle)
    return low, high


def _written(lambda_: float) -> float:
    """Keep six digits: a λ that a record can carry as text."""
    return float(f"{lambda_:.6g}")


def _least_risk(truth: CellPopulation, event: CountNoise, integers: bool) -> tuple[float, Risk]:
    """Search a geometric grid of λ, then a finer one around its best.

    Of a whole-number table λ = 0 has to err less than the least λ above it: where they tie, ties are broken by λ.
    """
    grid = [_written(lambda_) for lambda_ in _COARSE]
    risks = expected_risks(truth, event, grid, integers=integers)
    best = min(range(len(grid)), key=lambda index: risks[index].rmse)
    if best == 0 and integers and risks[1].rmse <= (1 + _TIED) * risks[0].rmse + _NOTHING:
        best = 1
    if best == 0:
        return 0.0, risks[0]
    fine = np.geomspace(grid[max(best - 1, 1)], grid[min(best + 1, len(grid) - 1)], 2 * _FINE + 1)
    grid = sorted({_written(lambda_) for lambda_ in fine.tolist()})
    fine_risks = expected_risks(truth, event, grid, integers=integers)
    best = min(range(len(grid)), key=lambda index: fine_risks[index].rmse)
    return grid[best], fine_risks[best]


def _refined(
    values: NDArray[np.int64], cells: NDArray[np.int64], total: float, lambda_: float
) -> tuple[NDArray[np.float64], float]:
    """Return negative ℓ2 of a table given by its distinct values, and its threshold (eq. 9 and 10, ascending)."""
    gamma = 1 - lambda_
    kept, held = np.cumsum(cells[::-1]), np.cumsum((cells * values.astype(np.float64))[::-1])
    thetas = (held - gamma * total) / kept
    above = np.flatnonzero(values[::-1] > thetas)  # none where the total is lost beside a huge value's last digit
    theta = float(thetas[above[-1] if above.size else 0])
    return np.maximum(values - theta, 0.0) / gamma, theta


def _nonzero_cells(estimate: NDArray[np.float64], cells: NDArray[np.int64], total: int, integers: bool) -> int:
    """Count the cells above 0, after rounding to whole numbers where that is asked for."""
    if not integers:
        return int(cells[estimate > 0].sum())
    whole = np.floor(estimate)
    missing = total - int((whole * cells).sum())
    # The cells of one value have one remainder: they are raised together, until no unit is missing.
    order = np.argsort(-(estimate - whole), kind="stable")
    before = np.cumsum(cells[order]) - cells[order]
    raised = np.clip(missing - before, 0, cells[order])
    return int(cells[whole >= 1].sum() + raised[whole[order] < 1].sum())
