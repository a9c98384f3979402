"""Options of trainings by DP-SGD, and of the generators that train a decoder."""

from __future__ import annotations

from fractions import Fraction
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from privacy.learning.plan import MOST_BATCH, Schedule

Labels = Literal["components", "joined"]
Scale = Literal["measured", "declared"]
_BATCHES = 100
_SMALLEST_BATCH = 100


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

    model_config = ConfigDict(extra="forbid", frozen=True)

    rows_about: int = Field(ge=1, le=10**12)
    hidden: tuple[int, ...] = Field(default=(200,), min_length=0, max_length=8)
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
    def schedule(self) -> Schedule:
        """How rows are sampled, and for how long.

        Raises:
            CannotTrain: a batch of more than the declared rows.
        """
        hundredth = min(MOST_BATCH, max(_SMALLEST_BATCH, self.rows_about // _BATCHES))
        batch = self.batch or min(self.rows_about, hundredth)
        epochs = Fraction(self.epochs).limit_denominator(10**6)
        return Schedule(self.rows_about, batch, epochs, self.checkpoints, self.reserve)


class LatentOptions(TrainingOptions):
    """What every generator that trains a decoder may be asked.

    Args:
        label: a column of listed values whose shares among the rows are kept.
    """

    label: str | None = None


class PhasedOptions(LatentOptions):
    """Options of `p3gm` and `ae`.

    Args:
        dimensions: principal axes that are kept, fewer where there are not so many entries.
        components: of the mixture; of each label's own, where labels are components.
        labels: "components", each label has components of its own and rows take the label of theirs; "joined", the
            label is one more column of the rows that are trained on, as in the paper.
        rounds: of expectation and maximisation; one is enough for one component a label.
        clip: norm to which vectors are clipped about their centre. Without it the root of 1/16 a number or pixel,
            1/4 a column that may be null, and 1 a category. Choose it without looking at the data.
        scale: "measured", numbers that fill little of their declared range are stretched, as far as a noisy count
            of norms says (`number_scale`; not where `clip` is given); "declared", they are left as they are declared.
        first_share: of the budget that centre, axes and mixture take, the training taking the rest.
        spread: root mean square of the latent vectors' entries.
        variance_hidden: widths of the hidden layers of the network that gives a row's variance (`p3gm`).
    """

    dimensions: int = Field(default=20, ge=1, le=256)
    components: int = Field(default=1, ge=1, le=256)
    labels: Labels = "components"
    rounds: int = Field(default=5, ge=1, le=100)
    clip: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    scale: Scale = "measured"
    first_share: float = Field(default=0.4, ge=0.01, le=0.99)
    spread: float = Field(default=2.0, gt=0, le=100, allow_inf_nan=False)
    variance_hidden: tuple[int, ...] = Field(default=(), max_length=8)


class VariationalOptions(LatentOptions):
    """Options of `vae`.

    Args:
        latent: entries of a latent vector.
        encoder_hidden: widths of the hidden layers of the encoder's two networks, for mean and for variance.
        first_share: of the budget that the count of rows, label by label, takes.
    """

    latent: int = Field(default=10, ge=1, le=256)
    encoder_hidden: tuple[int, ...] = Field(default=(100,), max_length=8)
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
    clip: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    first_share: float = Field(default=0.3, ge=0.01, le=0.99)
    hidden: tuple[int, ...] = Field(default=(50,), max_length=8)
    encoder_hidden: tuple[int, ...] = Field(default=(25,), max_length=8)
