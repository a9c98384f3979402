"""The plan of a private training: sampling, clipping, noise and event in one frozen value, so that none drifts apart.

How fast it runs (device, rows that are in memory at once) is no part of it: `execution`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import ceil, floor, sqrt
from typing import Any, Final, Literal, cast

from privacy.accounting.amounts import PICO, RealNumber, exact, probability
from privacy.accounting.events import PoissonSampledGaussian, PrivacyEvent
from privacy.accounting.renyi import epsilon_at, renyi
from privacy.learning.network import CannotTrain

LATTICE: Final = 2.0**-20
"""The noise's lattice is at most this many standard deviations wide."""
MOST_STEPS: Final = 10**7
MOST_CHECKPOINTS: Final = 10_000
MOST_BATCH: Final = 8192
"""Expected rows a step: beyond, float32 sums may be off by more than `clipped_to` leaves room for [rows]."""
_USEFUL: Final = 0.3
"""Least ratio of signal to noise."""
_LARGEST_NORM: Final = Fraction(10**6)
_SMALLEST_NORM: Final = Fraction(1, 10**6)


def check_batch(batch: int) -> None:
    """Refuse a batch that somebody asks for and no plan holds.

    Raises:
        CannotTrain: more than `MOST_BATCH` rows a step.
    """
    if batch > MOST_BATCH:
        raise CannotTrain("batch", batch, f"at most {MOST_BATCH} rows", f"write batch: {MOST_BATCH}, or less")


@dataclass(frozen=True)
class TrainingPlan:
    """DP-SGD as it is accounted for.

    Each step draws a Poisson sample, sums the clipped per-row gradients, adds Gaussian noise of standard deviation
    noise_multiplier * clipping_norm to every entry, and divides by the expected batch size, which is public.
    A checkpoint is released after every `checkpoint_every` steps: that many steps are one draw. `reserve` more such
    draws are charged from the beginning; an interval that a crash interrupted is paid again out of them.

    Args:
        sampling_probability: q, exact [probability].
        expected_batch_size: what sums are divided by; public, declared [rows].
        steps: a multiple of checkpoint_every.
        clipping_norm: C, the largest L2 norm of one row's gradient [dimensionless].
        noise_multiplier: standard deviation / C [dimensionless].
        checkpoint_every: steps from one durable checkpoint to the next.
        reserve: interrupted intervals that may be made up for.
    Raises:
        CannotTrain, AmountRefused: a field out of range.
    Privacy: add_remove, one row a unit: `events` is its whole cost, charged whether the reserve is used or not.
    """

    sampling_probability: Fraction
    expected_batch_size: Fraction
    steps: int
    clipping_norm: Fraction
    noise_multiplier: Fraction
    checkpoint_every: int
    reserve: int

    def __post_init__(self) -> None:
        for name in ("sampling_probability", "expected_batch_size", "clipping_norm", "noise_multiplier"):
            if type(getattr(self, name)) is not Fraction:
                raise CannotTrain(name, type(getattr(self, name)).__name__, "a Fraction: exact")
        for name, least, most in (
            ("steps", 1, MOST_STEPS),
            ("checkpoint_every", 1, self.steps),
            ("reserve", 0, MOST_CHECKPOINTS),
        ):
            value = getattr(self, name)
            if type(value) is not int or not least <= value <= most:
                raise CannotTrain(name, value, f"a whole number from {least} to {most}")
        if self.steps % self.checkpoint_every or self.steps // self.checkpoint_every > MOST_CHECKPOINTS:
            raise CannotTrain(
                "steps", self.steps, f"up to {MOST_CHECKPOINTS} times checkpoint_every, and a multiple of it"
            )
        if not _SMALLEST_NORM <= self.clipping_norm <= _LARGEST_NORM:
            raise CannotTrain("clipping_norm", self.clipping_norm, f"{float(_SMALLEST_NORM):g} to {_LARGEST_NORM}")
        if not 0 < self.expected_batch_size <= MOST_BATCH:
            raise CannotTrain("expected_batch_size", self.expected_batch_size, f"above 0, and at most {MOST_BATCH}")
        self.event.to_json()

    @property
    def event(self) -> PoissonSampledGaussian:
        """The event of one interval between checkpoints."""
        return PoissonSampledGaussian(self.noise_multiplier, self.sampling_probability, self.checkpoint_every)

    @property
    def checkpoints(self) -> int:
        """How many checkpoints there will be, the last one included."""
        return self.steps // self.checkpoint_every

    @property
    def events(self) -> tuple[PoissonSampledGaussian, ...]:
        """All that the charge must hold: one event an interval, and the reserve."""
        return (self.event,) * (self.checkpoints + self.reserve)

    @property
    def standard_deviation(self) -> Fraction:
        """Of the noise on each entry of a summed gradient."""
        return self.noise_multiplier * self.clipping_norm

    def clipped_to(self, parameters: int) -> float:
        """Return the norm to which gradients are clipped, so that what rounding adds stays within clipping_norm.

        C - lattice * sqrt(parameters) - C / 1024: the first is a bound on what rounding a sum to the noise's lattice
        adds (`privacy.noise.lattice_gaussian`), the second is room for float32 sums, whose rounding is about a
        hundredth of it (docs/derivations.md).

        Args:
            parameters: how many are trained.
        Raises:
            CannotTrain: the lattice of so much noise is too coarse: a tenth of C would be lost.
        """
        norm, lattice = float(self.clipping_norm), float(self.standard_deviation) * LATTICE
        # Rounding may take a tenth of the norm at most, else clipping would take most of the gradients.
        if lattice * sqrt(parameters) > 0.1 * norm:
            found = f"{float(self.noise_multiplier):g} for {parameters} parameters"
            raise CannotTrain("noise_multiplier", found, f"at most {0.1 / LATTICE / sqrt(parameters):.3g}")
        return norm - lattice * sqrt(parameters) - norm / 1024

    def to_json(self) -> dict[str, Any]:
        """Write the plan as JSON values; rationals as text."""
        return {name: str(value) if isinstance(value, Fraction) else value for name, value in vars(self).items()}


@dataclass(frozen=True)
class Schedule:
    """How rows are sampled, for how long, and how often a checkpoint is kept; all but the noise.

    Args:
        rows_about: about how many rows there are; declared, since the true number is private under add_remove [rows].
        batch: expected rows a step [rows].
        epochs: how often a row is expected to be in a step's sample.
        checkpoints: how many checkpoints, at least; the steps are rounded up to a multiple of them.
        reserve: interrupted intervals that may be made up for.
    Raises:
        CannotTrain: a field out of range, such as a batch of more than the declared rows.
    """

    rows_about: int
    batch: int
    epochs: Fraction
    checkpoints: int
    reserve: int

    def __post_init__(self) -> None:
        for name, least in (("rows_about", 1), ("batch", 1), ("checkpoints", 1), ("reserve", 0)):
            value = getattr(self, name)
            if type(value) is not int or value < least:
                raise CannotTrain(name, value, f"a whole number, at least {least}")
        if self.batch > self.rows_about:
            allowed = f"at most the declared number of rows, {self.rows_about}"
            raise CannotTrain("batch", self.batch, allowed, "take a smaller batch, or correct the declared number")
        if type(self.epochs) is not Fraction or self.epochs <= 0:
            raise CannotTrain("epochs", self.epochs, "a Fraction above 0")

    @property
    def sampling_probability(self) -> Fraction:
        """Batch / rows_about, exact."""
        return Fraction(self.batch, self.rows_about)

    @property
    def checkpoint_every(self) -> int:
        """Steps between checkpoints."""
        return max(1, ceil(self.epochs / self.sampling_probability / self.checkpoints))

    @property
    def steps(self) -> int:
        """Steps in all: epochs / q, rounded up to a multiple of checkpoint_every."""
        # Rounded down: only the last checkpoint's steps may go beyond the declared epochs.
        wanted = max(1, floor(self.epochs / self.sampling_probability))
        return ceil(Fraction(wanted, self.checkpoint_every)) * self.checkpoint_every

    def plan(self, *, noise_multiplier: Fraction, clipping_norm: Fraction) -> TrainingPlan:
        """Return the plan with that noise and that bound on a row's gradient."""
        return TrainingPlan(
            self.sampling_probability,
            Fraction(self.batch),
            self.steps,
            clipping_norm,
            noise_multiplier,
            self.checkpoint_every,
            self.reserve,
        )


def signal_to_noise(plan: TrainingPlan, parameters: int) -> float:
    """Say how far all steps together could move the parameters, relative to what the noise alone moves them.

    sqrt(steps) * batch / (noise_multiplier * sqrt(parameters)): every row pulls with its full norm in one direction,
    while the noise of all steps adds up as a random walk. Below about 0.3 nothing can be learnt.

    Args:
        plan: the plan.
        parameters: how many parameters are trained.
    """
    pull = sqrt(plan.steps) * float(plan.expected_batch_size)
    return pull / (float(plan.noise_multiplier) * sqrt(parameters))


def checked_useful(plan: TrainingPlan, parameters: int, *, epsilon: RealNumber) -> TrainingPlan:
    """Return the plan, or refuse it where the noise drowns all that could be learnt.

    Raises:
        CannotTrain: with the batch, or about the epsilon, that would do.
    """
    ratio = signal_to_noise(plan, parameters)
    if ratio >= _USEFUL:
        return plan
    missing = _USEFUL / ratio
    batch = ceil(plan.expected_batch_size * Fraction(missing))
    rows = plan.expected_batch_size / plan.sampling_probability
    # A batch of more than the declared rows, or than a step holds, would be refused in turn.
    larger = f"a batch of about {batch} rows" if batch <= rows and batch <= MOST_BATCH else "many more rows"
    raise CannotTrain(
        "noise_multiplier",
        f"{float(plan.noise_multiplier):.4g}, which leaves a signal-to-noise ratio of {ratio:.2g}",
        f"a ratio of at least {_USEFUL}",
        f"take an epsilon of about {float(epsilon) * missing:.2g}, {larger}, or a smaller network",
    )


# --- Calibration of DP-SGD.


_DIGITS: Final = 10_000
"""Multipliers are whole multiples of 1/10,000."""
_SMALLEST: Final = 1_000
_LARGEST: Final = 10**7
_ROUNDS: Final = 3
_NARROW: Final = 2e-3
_GOLDEN: Final = (math.sqrt(5) - 1) / 2
_ORDERS: Final = tuple(1 + 10 ** (step / 8) for step in range(-8, 33))
_GROWS: Final = 1 - 1e-9
"""Of a loss, what a larger order's is at least, computed."""
_POSITIVE: Final = 1e-300
"""A loss of no order is less."""
_ROUNDED: Final = 1e-9 + 4096 / PICO
"""Each draw is rounded up to 10^-12 of its own; 4,096 of them are allowed for."""
_REMEMBERED: Final = 64
"""Calibrations whose results are kept: each is a function of its arguments alone."""


def calibrated_multiplier(
    schedule: Schedule, *, epsilon: RealNumber, delta: RealNumber, beside: Sequence[PrivacyEvent] = ()
) -> Fraction:
    """Find the least noise multiplier with which the schedule, its reserve and what is beside it fit.

    Args:
        schedule: sampling, steps, checkpoints and reserve.
        epsilon: what all may cost, > 0 [dimensionless].
        delta: at this probability, 0 < delta < 1.
        beside: the other events of the release, fixed beforehand.
    Returns:
        Fraction: a multiple of 1/10,000, rounded up: more noise [dimensionless].
    Raises:
        CannotTrain: no multiplier up to 1,000 will do; with the epsilon at which it would.
        AmountRefused: an amount out of range.
    Privacy: the events together are (epsilon, delta)-DP by the Rényi order that it was found at.
    """
    return _calibrated(schedule, float(exact(epsilon, what="epsilon")), probability(delta), tuple(beside))


@lru_cache(maxsize=_REMEMBERED)
def _calibrated(schedule: Schedule, budget: float, delta: Fraction, beside: tuple[PrivacyEvent, ...]) -> Fraction:
    """Find it; a plan is made again when its charge is checked, and by everyone who verifies."""

    def costs(units: int) -> _Costs:
        steps = schedule.steps + schedule.reserve * schedule.checkpoint_every
        training = PoissonSampledGaussian(Fraction(units, _DIGITS), schedule.sampling_probability, steps)
        return _Costs((training, *beside), delta)

    # The largest multiplier costs least: where it does not fit, none does.
    if not costs(_LARGEST).fit(_room(budget)):
        _, least = costs(_LARGEST).best()
        remedy = f"an epsilon of at least {least * 1.01:.3g}, fewer epochs, or a smaller batch"
        raise CannotTrain(
            "epsilon", f"{budget:g}", "an epsilon that some noise multiplier up to 1,000 reaches", remedy
        )
    low, units = _SMALLEST - 1, _LARGEST
    # Bisect the logarithm of the multiplier: cost falls as it grows, over many powers of ten.
    while units > 1.1 * low:
        middle = math.isqrt(low * units)
        low, units = (low, middle) if costs(middle).fit(_room(budget)) else (middle, units)
    for _ in range(_ROUNDS):
        # The best order hangs on the multiplier and the other way round: find them in turn. Any order is a valid
        # bound, so that a narrow search costs noise, never privacy.
        order = _best_order(costs(units))
        fewer = _smallest(costs, order, budget, units)
        if fewer >= units:
            break
        units = fewer
    return Fraction(units, _DIGITS)


@dataclass(frozen=True)
class _Costs:
    """What events cost at a delta by each order.

    A Rényi loss grows with its order. So one order's loss bounds from below what all larger ones cost, and those that
    this rules out are never summed: the sum is what takes time.
    """

    events: tuple[PrivacyEvent, ...]
    delta: RealNumber

    def at(self, order: float) -> float:
        """Cost by an order."""
        return epsilon_at(order, _loss(self.events, order), self.delta)

    def fit(self, room: float) -> bool:
        """Say whether they cost at most that by one of the orders."""
        return any(cost <= room for _, cost in self._below(room))

    def best(self) -> tuple[int, float]:
        """Return the place of the best order, and what they cost by it."""
        ceiling = min(self.at(order) for order in _ORDERS[::8])
        return min(self._below(ceiling), key=lambda found: found[1])

    def _below(self, ceiling: float) -> Iterator[tuple[int, float]]:
        """Yield places and costs of the orders that are not known to cost more than a ceiling, or than one before."""
        least = _POSITIVE
        for place, order in enumerate(_ORDERS):
            # The loss by a smaller order bounds this one's from below: an order that cannot win is not summed.
            if epsilon_at(order, least, self.delta) <= ceiling:
                loss = _loss(self.events, order)
                cost, least = epsilon_at(order, loss, self.delta), loss * _GROWS
                ceiling = min(ceiling, cost)
                yield place, cost


def _best_order(costs: _Costs) -> float:
    """Narrow the best of the orders to a thousandth of its distance from 1, by golden section."""
    place, _ = costs.best()
    # The optimum lies between the best order's neighbours; the search is over the logarithm of order - 1.
    left, right = (math.log(_ORDERS[min(max(place + by, 0), len(_ORDERS) - 1)] - 1) for by in (-1, 1))
    while right - left > _NARROW:
        lower, upper = right - _GOLDEN * (right - left), left + _GOLDEN * (right - left)
        left, right = (
            (left, upper) if costs.at(1 + math.exp(lower)) <= costs.at(1 + math.exp(upper)) else (lower, right)
        )
    return 1 + math.exp((left + right) / 2)


def _smallest(costs: Callable[[int], _Costs], order: float, budget: float, fits: int) -> int:
    """Search below a multiplier that fits for the least that does, by one order."""
    # Only multipliers that fit become `high`; where none below fits, the one that was known to fit comes back.
    low, high = _SMALLEST - 1, fits
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if costs(middle).at(order) <= _room(budget) else (middle, high)
    return high


def _room(budget: float) -> float:
    """Leave what the roundings of the draws may take."""
    return budget - _ROUNDED


def _loss(events: Sequence[PrivacyEvent], order: float) -> float:
    counted = Counter(events)
    return math.fsum(count * renyi(event, order) for event, count in counted.items())


# --- How a training runs.


_DEVICES: Final = ("auto", "cpu", "cuda")
_EXACT: Final = ("none", "ieee")
"""How torch calls products of float32 in all their bits."""


@dataclass(frozen=True)
class Execution:
    """Speed and memory.

    Args:
        device: "cpu", "cuda", or "auto": CUDA where there is one.
        rows_at_once: rows whose gradients are computed together.
    """

    device: Literal["auto", "cpu", "cuda"] = "cpu"
    rows_at_once: int = 1024

    def __post_init__(self) -> None:
        if self.device not in _DEVICES:
            raise CannotTrain("device", self.device, ", ".join(_DEVICES))
        if type(self.rows_at_once) is not int or self.rows_at_once < 1:
            raise CannotTrain("rows_at_once", self.rows_at_once, "a whole number, at least 1")

    def chosen_device(self) -> str:
        """Return the device's name in torch.

        Raises:
            CannotTrain: CUDA is asked for and there is none, torch is not installed, or it is told to multiply in
                fewer bits than float32 has, which the room for rounding does not cover (`TrainingPlan.clipped_to`).
                No layer convolves, so nothing is asked of convolutions, which have fewer bits on CUDA by default.
        """
        try:
            import torch
        except ImportError as error:
            raise CannotTrain("torch", "not installed", "torch 2.13", "make neural") from error
        # The room that a plan leaves for rounding is that of float32 sums; TF32 products would round far more.
        for backend in (torch.backends.cuda, torch.backends.mkldnn):
            precision = cast(Any, backend).matmul.fp32_precision
            if precision not in _EXACT:
                remedy = "leave torch.set_float32_matmul_precision and TORCH_ALLOW_TF32_CUBLAS_OVERRIDE alone"
                raise CannotTrain("torch's precision of float32 products", precision, "ieee", remedy)
        if self.device == "cpu":
            return "cpu"
        if torch.cuda.is_available():
            return "cuda"
        if self.device == "cuda":
            raise CannotTrain("device", "cuda, and there is none", "cpu or auto")
        return "cpu"
