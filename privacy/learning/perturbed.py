"""What may be trained with noise on parameters or on their changes: frozen descriptions, sensitivity and cost.

    ParameterRelease   learning first: train without noise, clamp every parameter, add noise to each, clamp again
    DeltaTraining      anonymized learning: in every batch clamp the change of every parameter, add noise, clamp again

Where
    P       parameters                     S   `STEPS`, into which the range of a clamped number is divided
    E       epochs                         k   rows of a privacy unit

A clamped number is rounded to one of the S + 1 points of its range, so that whatever the rows are it moves by at most
S steps; noise is whole numbers of steps. All P numbers may move: that is one vector with `times` = P of Laplace
noise, or an L2 norm of S sqrt(P) of Gaussian noise. Weights and biases have ranges of their own, as in the paper; a
step is as long as the number's own range makes it, so that neither range enters the cost.

In an epoch of `DeltaTraining` every row is in one batch, drawn for it alone, so one row more or less changes one
batch: P numbers move once an epoch, k P with k rows. (With replace_one the row in another's place takes its batch.)

Source: Sei, Ohsuga, section 4-2, theorems 3 and 4: the scale (max - min) / epsilon, and (max - min) E / epsilon, of
each parameter alone. What is charged is the loss of all of them; docs/derivations.md, section 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, isqrt
from typing import Any, ClassVar, Final

from contracts.canonical import digest
from privacy.accounting.events import DiscreteGaussian, DiscreteLaplaceVector, gaussian_sigma_squared
from privacy.arrays import Floats
from privacy.learning.feed_forward import by_part, count_of
from privacy.learning.layout import RowLayout
from privacy.learning.network import CannotTrain
from privacy.marginals.sensitivity import LaplaceNoise, Noise

STEPS: Final = 2**16
"""Steps into which the range of a clamped number is divided."""
MOST_PARAMETERS: Final = 10**7
_MOST_EPOCHS: Final = 10**5
_LARGEST_RATE: Final = 100.0
_DIGITS: Final = 10**18
VectorEvent = DiscreteLaplaceVector | DiscreteGaussian


@dataclass(frozen=True)
class PlainTraining:
    """Ordinary gradient descent on a fully connected network (equations 5 and 6).

    Args:
        label: a category column of the rows.
        widths: entries of the input, the hidden layers, and the output.
        epochs, batch, learning_rate, regulariser: E, B, alpha and lambda of the paper.
        seed: of the initial parameters, and in `ParameterRelease` of the order of rows; public.
    Raises:
        CannotTrain: a field out of range.
    """

    label: str
    widths: tuple[int, ...]
    epochs: int
    batch: int
    learning_rate: float
    regulariser: float
    seed: int

    def __post_init__(self) -> None:
        if type(self.label) is not str or type(self.widths) is not tuple or len(self.widths) < 2:
            raise CannotTrain("widths", self.widths, "a label, and a tuple of at least two widths")
        whole = (("epochs", 1, _MOST_EPOCHS), ("batch", 1, 10**6), ("seed", 0, 2**63 - 1))
        for name, least, most in (*whole, *((f"widths[{i}]", 1, 10**5) for i in range(len(self.widths)))):
            value = self.widths[int(name[7:-1])] if name.startswith("widths") else getattr(self, name)
            if type(value) is not int or not least <= value <= most:
                raise CannotTrain(name, value, f"a whole number from {least} to {most}")
        for name in ("learning_rate", "regulariser"):
            rate = getattr(self, name)
            if type(rate) is not float or not 0 <= rate <= _LARGEST_RATE:
                raise CannotTrain(name, rate, f"a float from 0 to {_LARGEST_RATE:g}")
        if self.parameters > MOST_PARAMETERS:
            raise CannotTrain("parameters", self.parameters, f"at most {MOST_PARAMETERS}")

    @property
    def parameters(self) -> int:
        """How many weights and biases there are: P."""
        return count_of(self.widths)

    def check(self, layout: RowLayout) -> None:
        """Refuse a layout that the network does not fit."""
        if self.label not in layout.names or layout.column(self.label).kind != "category":
            raise CannotTrain("label", self.label, "a category column of the rows")
        classes = layout.column(self.label).width
        if (self.widths[0], self.widths[-1]) != (layout.width - classes, classes):
            raise CannotTrain("widths", self.widths, f"from {layout.width - classes} to {classes}, as the rows lie")


@dataclass(frozen=True)
class ParameterRelease:
    """Learning first: one draw, of all clamped parameters.

    Args:
        training: what is trained, without noise.
        lowest, highest: range to which every weight is clamped.
        lowest_bias, highest_bias: range to which every bias is clamped.
    Raises:
        CannotTrain: no range.
    """

    training: PlainTraining
    lowest: float
    highest: float
    lowest_bias: float
    highest_bias: float
    kind: ClassVar[str] = "parameters"

    def __post_init__(self) -> None:
        if type(self.training) is not PlainTraining:
            raise CannotTrain("training", type(self.training).__name__, "PlainTraining itself")
        for names in (("lowest", "highest"), ("lowest_bias", "highest_bias")):
            low, high = (getattr(self, name) for name in names)
            if type(low) is not float or type(high) is not float:
                raise CannotTrain(", ".join(names), "no floats", "floats")
            if not -1000 <= low < high <= 1000:
                raise CannotTrain(", ".join(names), f"{low} to {high}", "a range within 1000 of 0")

    @property
    def draws(self) -> int:
        """How many draws there are."""
        return 1

    @property
    def ranges(self) -> tuple[Floats, Floats]:
        """The least and the largest that each parameter is clamped to, as flat vectors."""
        widths = self.training.widths
        return (
            by_part(widths, weights=self.lowest, biases=self.lowest_bias),
            by_part(widths, weights=self.highest, biases=self.highest_bias),
        )

    def event(self, noise: Noise, *, rows_per_unit: int) -> VectorEvent:
        """Return the event of the draw; the noise's amount is of each parameter (Laplace) or of all (Gaussian)."""
        return _event(noise, parameters=self.training.parameters, epochs=1, of_epochs=1)

    def to_json(self) -> dict[str, Any]:
        """Write it as JSON values; floats as text."""
        names = ("lowest", "highest", "lowest_bias", "highest_bias")
        return {"kind": self.kind, **{name: repr(getattr(self, name)) for name in names}, **_to_json(self.training)}


@dataclass(frozen=True)
class DeltaTraining:
    """Anonymized learning: a draw from one checkpoint to the next, of noisy changes batch by batch.

    Args:
        training: what is trained; `batch` is B, by which changes are divided whatever a batch's true size.
        rows_about: about how many rows there are; gives the number of batches of an epoch [rows].
        limit: beside equations 20 to 26, no change of a weight leaves [-limit, limit].
        bias_limit: nor does one of a bias leave [-bias_limit, bias_limit].
        checkpoints: draws; the epochs are a multiple of them.
    Raises:
        CannotTrain: a field out of range.
    """

    training: PlainTraining
    rows_about: int
    limit: float
    bias_limit: float
    checkpoints: int
    kind: ClassVar[str] = "deltas"

    def __post_init__(self) -> None:
        if type(self.training) is not PlainTraining:
            raise CannotTrain("training", type(self.training).__name__, "PlainTraining itself")
        if type(self.rows_about) is not int or not self.training.batch <= self.rows_about <= 10**12:
            raise CannotTrain("batch", self.training.batch, f"at most the declared number of rows, {self.rows_about}")
        for name in ("limit", "bias_limit"):
            limit = getattr(self, name)
            if type(limit) is not float or not 1e-9 <= limit <= 1e9:
                raise CannotTrain(name, limit, "a float from 1e-9 to 1e9")
        if type(self.checkpoints) is not int or not 1 <= self.checkpoints <= self.training.epochs:
            raise CannotTrain(
                "checkpoints", self.checkpoints, f"a whole number from 1 to epochs, {self.training.epochs}"
            )
        if self.training.epochs % self.checkpoints:
            raise CannotTrain("epochs", self.training.epochs, f"a multiple of checkpoints, {self.checkpoints}")

    @property
    def draws(self) -> int:
        """How many draws there are."""
        return self.checkpoints

    @property
    def limits(self) -> Floats:
        """How far the change of each parameter may go in a batch, as a flat vector."""
        return by_part(self.training.widths, weights=self.limit, biases=self.bias_limit)

    @property
    def epochs_per_draw(self) -> int:
        """Epochs from one checkpoint to the next: b."""
        return self.training.epochs // self.checkpoints

    @property
    def batches(self) -> int:
        """Batches of an epoch."""
        return ceil(self.rows_about / self.training.batch)

    def event(self, noise: Noise, *, rows_per_unit: int) -> VectorEvent:
        """Return the event of one draw; the noise's amount is of the whole training, as of `ParameterRelease`."""
        # k rows of a unit are in k batches an epoch at most, and each batch moves P numbers.
        moved = self.training.parameters * rows_per_unit
        return _event(noise, parameters=moved, epochs=self.training.epochs, of_epochs=self.epochs_per_draw)

    def to_json(self) -> dict[str, Any]:
        """Write it as JSON values; floats as text."""
        limits = {"limit": repr(self.limit), "bias_limit": repr(self.bias_limit)}
        told = {"rows_about": self.rows_about, **limits, "checkpoints": self.checkpoints}
        return {"kind": self.kind, **told, **_to_json(self.training)}


Perturbation = ParameterRelease | DeltaTraining


def perturbation_digest(perturbation: Perturbation) -> str:
    """Return the SHA-256 (hex) of all that it says."""
    return digest(perturbation.to_json())


def root_up(square: int) -> int:
    """Return the least whole number whose square is at least this."""
    root = isqrt(square)
    return root if root * root == square else root + 1


def _event(noise: Noise, *, parameters: int, epochs: int, of_epochs: int) -> VectorEvent:
    """Return the event of `of_epochs` of the epochs, P numbers of each moving by S."""
    if isinstance(noise, LaplaceNoise):
        # Each number moves by S in each of E epochs; rounding the inverse scale down rounds the noise up.
        inverse_scale = Fraction(noise.epsilon * _DIGITS // (STEPS * epochs), _DIGITS)
        return DiscreteLaplaceVector(inverse_scale, STEPS, parameters * of_epochs)
    # The L2 norm of the change, S times the root of how many numbers move, rounded up.
    moves = (root_up(STEPS * STEPS * parameters * of_epochs),)
    # The draw's share of rho is that of its epochs, rounded down.
    share = Fraction(noise.rho * of_epochs * _DIGITS // epochs, _DIGITS)
    return DiscreteGaussian(gaussian_sigma_squared(share, moves), moves)


def _to_json(training: PlainTraining) -> dict[str, Any]:
    told = {**vars(training), "widths": list(training.widths)}
    return {name: repr(value) if isinstance(value, float) else value for name, value in told.items()}
