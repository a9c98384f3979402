"""What a release with a training costs: noisy sums first, and a training calibrated to what they leave. No data.

The sums take a share of the zCDP budget that (epsilon, delta) would be; the training's noise multiplier is then the
least with which the Rényi losses of all draws together fit into (epsilon, delta).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Final

from privacy.accounting.amounts import AmountRefused
from privacy.accounting.convert import rho_for
from privacy.accounting.events import DiscreteGaussian, PoissonSampledGaussian, PrivacyEvent
from privacy.generators.fit_times import START, training_seconds
from privacy.generators.generator import CannotGenerate, GeneratorPlan, PlannedStep, SynthesisTask
from privacy.generators.latent_options import TrainingOptions
from privacy.generators.spending import split, too_small
from privacy.learning.calibration import calibrated_multiplier
from privacy.learning.errors import CannotTrain
from privacy.learning.moments import Moments, sum_event
from privacy.learning.plan import TrainingPlan, checked_useful
from privacy.marginals.sensitivity import GaussianNoise

_MEGABYTE: Final = 2**20
_UNCERTAIN: Final = {"cpu": 4, "auto": 40, "cuda": 40}
"""A time limit is refused where this many times less than the estimate, which is of processors; by device."""


def check_relation(task: SynthesisTask, what: str, *, instead: str = "p3gm with decoder: linear") -> None:
    """Refuse a relation or contribution bound under which Poisson-sampled noise is not accounted for.

    Args:
        task: the relation, and rows per unit.
        what: the generator or trainer, for messages.
        instead: what takes every relation.
    Raises:
        CannotGenerate: with what the contract would have to declare.
    """
    if task.adjacency != "add_remove" or task.public_total is not None:
        raise CannotGenerate(
            f"{what}: adjacency is {task.adjacency}; allowed: add_remove, without a public total: each row is "
            f"sampled by a coin of its own; do: declare add_remove, or take {instead}"
        )
    if task.rows_per_unit != 1:
        raise CannotGenerate(
            f"{what}: max_rows_per_unit is {task.rows_per_unit}; allowed: 1: a unit is sampled and clipped as one "
            f"row; do: bound the contribution of a unit to one row, or take {instead}"
        )


def sum_noises(task: SynthesisTask, share: float, weights: Sequence[Fraction]) -> tuple[GaussianNoise, ...]:
    """Split the noisy sums' share of the whole zCDP budget over them.

    Raises:
        CannotGenerate: too small a charge.
    """
    try:
        rho = rho_for(task.epsilon, task.delta) * Fraction(share).limit_denominator(10**6)
        return tuple(GaussianNoise(part) for part in split(rho, weights))
    except AmountRefused as refused:
        raise too_small(refused) from refused


def sum_events(
    task: SynthesisTask, statistics: Sequence[Moments], noises: Sequence[GaussianNoise], what: str
) -> tuple[DiscreteGaussian, ...]:
    """Return the events of the sums, from stand-ins of the same bounds.

    Raises:
        CannotGenerate: too small a charge.
    """
    try:
        return tuple(
            sum_event(each, noise, adjacency=task.adjacency, rows_per_unit=task.rows_per_unit)
            for each, noise in zip(statistics, noises, strict=True)
        )
    except (AmountRefused, ValueError) as refused:
        raise CannotGenerate(f"{what}: {refused}; do: raise epsilon, or clip less") from refused


def planned_training(
    task: SynthesisTask, options: TrainingOptions, *, parameters: int, beside: Sequence[PrivacyEvent], what: str
) -> TrainingPlan:
    """Calibrate the training to what the sums leave of the charge.

    Raises:
        CannotGenerate: a batch of more than the declared rows, or noise that drowns what could be learnt.
    """
    plan = calibrated_training(task, options, beside=beside, what=what)
    try:
        # Refuses a lattice that is too coarse for so many parameters.
        plan.clipped_to(parameters)
        return checked_useful(plan, parameters, epsilon=task.epsilon)
    except CannotTrain as refused:
        raise CannotGenerate(f"{what}: {refused}") from refused


def calibrated_training(
    task: SynthesisTask, options: TrainingOptions, *, beside: Sequence[PrivacyEvent], what: str
) -> TrainingPlan:
    """Calibrate a training, whether or not it could learn anything.

    Raises:
        CannotGenerate: a batch of more than the declared rows, or too small a charge.
    """
    try:
        schedule = options.schedule
        return _plan(
            options,
            calibrated_multiplier(schedule, epsilon=task.epsilon, delta=task.delta, beside=tuple(beside)),
        )
    except (CannotTrain, AmountRefused) as refused:
        raise CannotGenerate(f"{what}: {refused}") from refused


def plan_of(options: TrainingOptions, events: Sequence[PrivacyEvent]) -> TrainingPlan:
    """Return the training that was planned, from the events of a generator's plan."""
    last = events[-1]
    if not isinstance(last, PoissonSampledGaussian):
        raise ValueError("the plan's last events must be a training's")
    return _plan(options, last.noise_multiplier)


def _plan(options: TrainingOptions, multiplier: Fraction) -> TrainingPlan:
    norm = Fraction(options.gradient_norm).limit_denominator(10**6)
    return options.schedule.plan(noise_multiplier=multiplier, clipping_norm=norm)


def generator_plan(
    options: TrainingOptions,
    sums: Sequence[tuple[str, int, float, str]],
    beside: Sequence[PrivacyEvent],
    plan: TrainingPlan,
    *,
    parameters: int,
    width: int,
    columns: int,
    what: str,
    networks: int = 1,
    seconds: float = 0.0,
) -> GeneratorPlan:
    """Say what a fit will draw and take, and refuse what cannot be done in the memory or the time that there is.

    Args:
        options: limits.
        sums: what is measured beforehand: name, draws, share of the budget, noise in words.
        beside: the events of these.
        plan: the training.
        parameters: how many are trained.
        width: entries of a row.
        columns: whose losses are added up.
        what: the generator's name.
        networks: that stand side by side; a row is in one of them.
        seconds: what the sums take.
    Raises:
        CannotGenerate: with the limit that would do.
    """
    megabytes = (
        4 * (8 * parameters + 8 * width * options.passes * min(options.rows_at_once, int(plan.expected_batch_size)))
        + 48 * width * width
        + options.rows_about * width
    ) / _MEGABYTE
    sizes = {"parameters": parameters, "width": width, "columns": columns, "networks": networks}
    seconds += START + training_seconds(plan, passes=options.passes, **sizes)
    if megabytes > options.max_memory_megabytes:
        raise CannotGenerate(
            f"{what}: about {megabytes:,.0f} MB of memory; allowed: max_memory_megabytes "
            f"{options.max_memory_megabytes:g}; do: raise it, or take a smaller batch or narrower hidden layers"
        )
    if options.time_limit is not None and options.time_limit * _UNCERTAIN[options.device] < seconds:
        raise CannotGenerate(
            f"{what}: time_limit {options.time_limit:g} s is too short for {plan.steps} steps, which take about "
            f"{seconds:,.0f} s; do: raise time_limit, or take fewer epochs or narrower hidden layers"
        )
    steps = [PlannedStep(name, count, share, noise) for name, count, share, noise in sums]
    noise = f"Poisson-sampled Gaussian, noise multiplier {float(plan.noise_multiplier):.4g}, {plan.steps} steps"
    steps.append(PlannedStep("training", plan.checkpoints, 1 - sum(each.share for each in steps), noise))
    return GeneratorPlan((*beside, *plan.events), tuple(steps), megabytes, seconds, {})


def sum_in_words(event: DiscreteGaussian, move: int) -> str:
    """Say what the noise of a sum is."""
    deviation = math.sqrt(float(event.sigma_squared)) / move
    return f"discrete Gaussian, standard deviation {deviation:.3g} times one row's bound"
