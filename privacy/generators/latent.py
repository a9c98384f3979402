"""Options of trainings by DP-SGD, and of the generators that train a decoder."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Annotated, Final, Literal, TypedDict

from pydantic import BaseModel, ConfigDict, Field, model_validator

from privacy.accounting.amounts import AmountRefused
from privacy.accounting.events import DiscreteGaussian, PoissonSampledGaussian, PrivacyEvent
from privacy.accounting.renyi import rho_for
from privacy.generators.fit_times import START, training_seconds
from privacy.generators.generator import (
    CannotGenerate,
    FitProgress,
    GeneratorPlan,
    OutOfTime,
    PlannedStep,
    SynthesisTask,
    split,
    too_small,
)
from privacy.generators.projection import NumberEntry
from privacy.grant.draws import Draws
from privacy.grant.measurement import SumMeasurement
from privacy.grant.queries.sums import SumQuery
from privacy.grant.queries.training import TrainingQuery
from privacy.learning.embedding import ClipNorm
from privacy.learning.layout import PrivateRows, RowLayout
from privacy.learning.learners import Learner
from privacy.learning.moments import MOST_GROUPS, MomentBlocks, Moments, sum_event
from privacy.learning.network import CannotTrain
from privacy.learning.plan import (
    MOST_BATCH,
    Execution,
    Schedule,
    TrainingPlan,
    calibrated_multiplier,
    check_batch,
    checked_useful,
)
from privacy.learning.trained import Trained
from privacy.marginals.sensitivity import GaussianNoise

LabelHandling = Literal["components", "joined"]
LayerWidth = Annotated[int, Field(ge=1, le=2**20)]
LossName = Literal["cross_entropy", "squared_error"]
Scale = Literal["measured", "declared"]
_JOINED: Final = 10
"""Components of a mixture that all labels share, where their number is not written."""


class RowLoss(TypedDict):
    """Those fields of a latent model that say what its loss of a row is."""

    numbers: Literal["bernoulli", "gaussian"]
    number_variance: float
    kl_weight: float
    samples: int


_BATCHES = 100
_SMALLEST_BATCH = 100
_OF_A_TRAINING: Final = (
    *("hidden", "batch", "epochs", "learning_rate", "gradient_norm"),
    *("checkpoints", "reserve", "device", "rows_at_once"),
    *("number_loss", "number_variance", "kl_weight", "latent_samples"),
    *("components", "rounds", "first_share", "spread", "variance_hidden"),
)
"""Options that say nothing of a decoder made of sums alone."""


class TrainingOptions(BaseModel):
    """What every training by DP-SGD may be asked; unknown options are refused.

    Args:
        rows_about: about how many rows there are; declared, since under add_remove the true number is private. How
            rows are sampled depends on it, no guarantee does [rows].
        hidden: widths of the hidden layers.
        batch: expected rows a step, at most 8192; a hundredth of rows_about, and at least 100, when not given [rows].
        epochs: how often a row is expected to take part.
        learning_rate: of Adam; it falls to 0 along a cosine.
        gradient_norm: to which a row's gradient is clipped.
        checkpoints: how often the training is made durable.
        reserve: how many intervals between checkpoints that a crash breaks off are paid for beforehand. Each costs as
            much as an interval does, used or not; with none left, a run that crashed while it trained cannot go on,
            and its charge is lost. A time limit breaks nothing off.
        device: "cpu", "cuda", or "auto": CUDA where there is one.
        rows_at_once: rows whose gradients are computed together: memory, nothing else.
        max_memory_megabytes: most memory that the fit may take [MB of 2^20 bytes].
        time_limit: stop after so many seconds; the same spec run again goes on from the last checkpoint [s].
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    rows_about: int = Field(ge=1, le=10**12)
    hidden: tuple[LayerWidth, ...] = Field(default=(200,), min_length=0, max_length=8)
    batch: int | None = Field(default=None, ge=1)
    epochs: float = Field(default=20, gt=0, le=10**6, allow_inf_nan=False)
    learning_rate: float = Field(default=2e-3, gt=0, le=10, allow_inf_nan=False)
    gradient_norm: float = Field(default=1.0, ge=1e-6, le=1e6, allow_inf_nan=False)
    checkpoints: int = Field(default=20, ge=1, le=5000)
    reserve: int = Field(default=0, ge=0, le=1000)
    device: Literal["auto", "cpu", "cuda"] = "cpu"
    rows_at_once: int = Field(default=1024, ge=1)
    max_memory_megabytes: float = Field(default=4096, gt=0, allow_inf_nan=False)
    time_limit: float | None = Field(default=None, gt=0, allow_inf_nan=False)

    @property
    def passes(self) -> int:
        """How often a network is run for a row and step."""
        return 1

    @property
    def schedule(self) -> Schedule:
        """How rows are sampled, and for how long.

        Raises:
            CannotTrain: a batch of more than the declared rows, or than a step holds.
        """
        hundredth = min(MOST_BATCH, max(_SMALLEST_BATCH, self.rows_about // _BATCHES))
        batch = self.batch or min(self.rows_about, hundredth)
        epochs = Fraction(self.epochs).limit_denominator(10**6)
        schedule = Schedule(self.rows_about, batch, epochs, self.checkpoints, self.reserve)
        check_batch(batch)  # after the declared rows, which bound it too
        return schedule


class LatentOptions(TrainingOptions):
    """What every generator that trains a decoder may be asked.

    The last four say what is trained on a row, and enter no cost: whatever a row's loss is, its gradient is clipped
    to `gradient_norm`, and sampling and steps stay as they are.

    Args:
        label: a column of listed values whose shares among the rows are kept.
        number_loss: of numbers and pixels: "cross_entropy", or "squared_error", the paper's, over twice the variance.
        number_variance: of a number about the decoder's output, with squared_error; 1/2, which is the plain squared
            error, when not given.
        kl_weight: what the divergence from the prior counts beside the reconstruction; the paper's is 1.
        latent_samples: latent vectors a row and step, over which its loss is averaged: L of the paper's equation 5.
    """

    label: str | None = None
    number_loss: LossName = "cross_entropy"
    number_variance: float | None = Field(default=None, ge=1e-6, le=1e6, allow_inf_nan=False)
    kl_weight: float = Field(default=1.0, ge=0, le=1000, allow_inf_nan=False)
    latent_samples: int = Field(default=1, ge=1, le=64)

    @model_validator(mode="after")
    def _a_variance_of_squares(self) -> LatentOptions:
        if self.number_variance is not None and self.number_loss != "squared_error":
            raise ValueError(
                "number_variance only beside number_loss: squared_error; leave it out, or write that loss"
            )
        return self

    @property
    def passes(self) -> int:
        """How often the decoder is run for a row and step."""
        return self.latent_samples

    @property
    def loss(self) -> RowLoss:
        """The loss of a row, in the words of a learner."""
        numbers: Literal["bernoulli", "gaussian"] = "bernoulli" if self.number_loss == "cross_entropy" else "gaussian"
        variance = 0.5 if self.number_variance is None else self.number_variance
        return {
            "numbers": numbers,
            "number_variance": variance,
            "kl_weight": self.kl_weight,
            "samples": self.latent_samples,
        }


class PhasedOptions(LatentOptions):
    """Options of `p3gm` and `ae`.

    Args:
        dimensions: principal axes that are kept, fewer where there are not so many entries.
        components: of the mixture; of each label's own, where labels are components. 10 where the label is joined,
            and else 1, when not given.
        labels: "components", each label has components of its own and rows take the label of theirs; "joined", the
            label is one more column of the rows that are trained on, as in the paper; "auto" joins it where some
            other column is of categories, which the contract says and no row.
        rounds: of expectation and maximisation; one is enough for one component a label.
        clip: norm to which vectors are clipped about their centre. Without it the root of 1/16 a number or pixel,
            1/4 a column that may be null, and 1 a category. Choose it without looking at the data.
        scale: "measured", numbers that fill little of their declared range are stretched, as far as a noisy count
            of norms says (`projection`; not where `clip` is given); "declared", they are left as they are declared.
        numbers: how they enter: "scaled" by their bounds; "bins", by the places of their bins (`projection`); "auto",
            by bins where those are far from even.
        first_share: of the budget that centre, axes and mixture take, the training taking the rest.
        spread: root mean square of the latent vectors' entries.
        variance_hidden: widths of the hidden layers of the network that gives a row's variance (`p3gm`).
        decoder: "trained"; "linear", made of noisy sums alone, which take the whole charge (`linear_decoder`), of
            labels that own components; "auto", linear where noise would drown most of the training.
    """

    dimensions: int = Field(default=20, ge=1, le=256)
    components: int | None = Field(default=None, ge=1, le=256)
    labels: Literal["auto", "components", "joined"] = "auto"
    rounds: int = Field(default=5, ge=1, le=100)
    clip: ClipNorm = None
    scale: Scale = "measured"
    numbers: NumberEntry = "auto"
    first_share: float = Field(default=0.4, ge=0.01, le=0.99)
    spread: float = Field(default=2.0, gt=0, le=100, allow_inf_nan=False)
    variance_hidden: tuple[LayerWidth, ...] = Field(default=(), max_length=8)
    decoder: Literal["auto", "trained", "linear"] = "auto"

    @model_validator(mode="after")
    def _no_options_of_a_training_that_is_not_there(self) -> PhasedOptions:
        fields = type(self).model_fields
        idle = [name for name in _OF_A_TRAINING if getattr(self, name) != fields[name].default]
        if self.decoder == "linear" and idle:
            raise ValueError(
                f"no options of a training ({', '.join(idle)}) beside decoder: linear, which trains nothing; leave "
                "them out, or write decoder: trained"
            )
        return self

    @property
    def without_effect(self) -> tuple[str, ...]:
        """The options that have no effect beside the others: those of a training that is not there."""
        return _OF_A_TRAINING if self.decoder == "linear" else ()

    def mixture_of(self, layout: RowLayout) -> tuple[LabelHandling, int]:
        """Return how the label is treated, and how many components there are; by the columns' kinds alone."""
        others = [column.kind for column in layout.columns if column.name != self.label]
        labels: LabelHandling = "joined" if "category" in others else "components"
        if self.labels != "auto":
            labels = self.labels
        shared = labels == "joined" and self.label is not None
        return labels, self.components or (_JOINED if shared else 1)


def rounds_note(options: PhasedOptions, made: int) -> tuple[str, ...]:
    """Say that rounds have no effect, where other ones are written than are made."""
    # No refusal: records state all options, and the default of another version is no other plan.
    if options.rounds in (made, PhasedOptions.model_fields["rounds"].default):
        return ()
    return (f"rounds: {options.rounds} has no effect: one round measures one component of each label",)


class VariationalOptions(LatentOptions):
    """Options of `vae`.

    Args:
        latent: entries of a latent vector.
        encoder_hidden: widths of the hidden layers of the encoder's two networks, for mean and for variance.
        first_share: of the budget that the count of rows, label by label, takes.
    """

    latent: int = Field(default=10, ge=1, le=256)
    encoder_hidden: tuple[LayerWidth, ...] = Field(default=(100,), max_length=8)
    first_share: float = Field(default=0.01, ge=0.001, le=0.99)


class ClusteredOptions(VariationalOptions):
    """Options of `dp_gm`.

    Args:
        clusters: how many clusters, each with a decoder of its own.
        dimensions: principal axes on which clusters are made.
        rounds: of noisy k-means.
        clip: as of `p3gm`.
        first_share: of the budget that centre, axes and clusters take.
    """

    clusters: int = Field(default=10, ge=2, le=64)
    dimensions: int = Field(default=20, ge=1, le=256)
    rounds: int = Field(default=4, ge=1, le=100)
    clip: ClipNorm = None
    first_share: float = Field(default=0.3, ge=0.01, le=0.99)
    hidden: tuple[LayerWidth, ...] = Field(default=(50,), max_length=8)
    encoder_hidden: tuple[LayerWidth, ...] = Field(default=(25,), max_length=8)


# --- What a release with a training costs.


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
            options, calibrated_multiplier(schedule, epsilon=task.epsilon, delta=task.delta, beside=tuple(beside))
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


# --- The training within a fit.


KEY: Final = "training-0001"
SUMS_DONE: Final = 0.2
"""Share of the progress that is told when the sums are measured."""


class Timer:
    """The time limit of a fit, and what is told on the way.

    Args:
        options: with the limit.
        progress: told a share from 0 to 1.
    """

    def __init__(self, options: TrainingOptions, progress: FitProgress) -> None:
        self._limit, self._progress, self._began = options.time_limit, progress, time.monotonic()

    def report(self, share: float, what: str) -> None:
        """Tell how far it is.

        Raises:
            OutOfTime: the limit has passed; what was drawn is durable.
        """
        if self._limit is not None and time.monotonic() - self._began >= self._limit:
            raise OutOfTime(
                f"time_limit {self._limit:g} s has passed while {what}; do: run the same spec again, which goes on "
                "from the last checkpoint; with another time_limit it is another release, and is charged anew"
            )
        self._progress(share, what)

    def training(self, start: float) -> Callable[[int, int], None]:
        """Return what a training is told by: steps done, of how many; `start` is the share done before."""
        began, first = time.monotonic(), [0]

        def report_step(done: int, steps: int) -> None:
            # Steps count from the first report on, which may hold those of an earlier run.
            first[0] = first[0] or done
            passed = done - first[0]
            left = (time.monotonic() - began) / passed * (steps - done) if passed else math.nan
            said = f"training, step {done} of {steps}" + ("" if math.isnan(left) else f", about {left:.0f} s left")
            self.report(start + (1 - start) * 0.99 * done / steps, said)

        return report_step


class Sums:
    """The noisy sums of a fit, measured one after the other; all that it holds is released.

    Args:
        grant: draws.
        rows: of all columns.
        noises: of the draws, in order.
        timer: told before each.
    """

    def __init__(self, grant: Draws, rows: PrivateRows, noises: Sequence[GaussianNoise], timer: Timer) -> None:
        self.drawn: list[SumMeasurement] = []
        self._grant, self._rows, self._noises, self._timer = grant, rows, noises, timer

    def measure(self, statistic: Moments) -> SumMeasurement:
        """Measure the next sum."""
        number = len(self.drawn)
        self._timer.report(SUMS_DONE * number / len(self._noises), "measuring sums over rows")
        key = f"measurement-{number + 1:04d}"
        self.drawn.append(self._grant.draw(SumQuery(self._rows, statistic, self._noises[number]), key=key))
        return self.drawn[-1]

    def blocks(self, statistic: Moments, _turn: int = 0) -> MomentBlocks:
        """Measure the next sum, and return it in natural units."""
        made = self.measure(statistic)
        return statistic.blocks(made.values, variance=made.variance)


def train(
    grant: Draws, rows: PrivateRows, learner: Learner, plan: TrainingPlan, options: TrainingOptions, timer: Timer
) -> Trained:
    """Train through the grant.

    Raises:
        OutOfTime: the limit has passed; the same run again goes on from the last checkpoint.
        TrainingDiverged: the parameters are of no use; what was drawn stays charged.
    """
    execution = Execution(options.device, options.rows_at_once)
    report_step = timer.training(SUMS_DONE)
    return grant.draw(TrainingQuery(rows, learner, plan, execution), key=KEY, progress=report_step)


# --- What options of latent generators must be beside the columns.


def check_numbers(
    layout: RowLayout, label: str | None, written: Mapping[str, str], *, pictures: bool = False
) -> None:
    """Refuse options of numbers where no column holds any: they would do nothing.

    Args:
        layout: of the columns.
        label: is none of them.
        written: options and what is written of them, but for those that stand as they do without being written.
        pictures: whether pictures are numbers too.
    Raises:
        CannotGenerate: with the first such option.
    """
    kinds = ("number", "array") if pictures else ("number",)
    others = [each for each in layout.columns if each.name != label]
    if not written or any(each.kind in kinds for each in others):
        return
    option, value = next(iter(written.items()))
    wanted = "of numbers, days or pictures" if pictures else "of numbers or days in bins"
    names = ", ".join(each.name for each in others)
    raise CannotGenerate(
        f"options.{option}: {value}, and no column {wanted} among {names}; allowed: beside at least one such column; "
        f"do: leave {option} out, or add such a column to columns"
    )


def check_loss(layout: RowLayout, options: LatentOptions) -> None:
    """Refuse a loss of numbers where no column holds numbers or pixels.

    Raises:
        CannotGenerate: with what to do.
    """
    written = {} if options.number_loss == "cross_entropy" else {"number_loss": options.number_loss}
    check_numbers(layout, options.label, written, pictures=True)


def check_phased(layout: RowLayout, options: PhasedOptions) -> None:
    """Refuse options that would do nothing, and more components than there may be.

    Raises:
        CannotGenerate: with what to do.
    """
    written = {} if options.numbers == "auto" else {"numbers": options.numbers}
    check_numbers(layout, options.label, written)
    check_loss(layout, options)
    _check_components(layout, options)
    if options.labels != "auto" and options.label is None:
        raise CannotGenerate(
            f"options.labels: {options.labels}, and no label; allowed: beside label; do: write label, or leave "
            "labels out"
        )


def _check_components(layout: RowLayout, options: PhasedOptions) -> None:
    """Refuse more components than a mixture holds."""
    treated, components = options.mixture_of(layout)
    owner = options.label if treated == "components" else None
    cells = 1 if owner is None else int(layout.column(owner).table.shape[0])
    if cells * components > MOST_GROUPS:
        raise CannotGenerate(
            f"options.components: {components} for each of the {cells:,} cells of {owner!r}; allowed: "
            f"{MOST_GROUPS:,} of all labels, {MOST_GROUPS // cells} of each; do: write fewer"
        )
