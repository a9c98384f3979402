"""Options of trainings by DP-SGD, and of the generators that train a decoder."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Final, Literal, TypedDict

from pydantic import BaseModel, ConfigDict, Field, model_validator

from privacy.generators.bin_places import NumberEntry
from privacy.learning.embedding import ClipNorm
from privacy.learning.layout import RowLayout
from privacy.learning.plan import MOST_BATCH, Schedule, check_batch

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
            of norms says (`number_scale`; not where `clip` is given); "declared", they are left as they are declared.
        numbers: how they enter: "scaled" by their bounds; "bins", by the places of their bins (`bin_places`); "auto",
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
