"""What may be trained: a closed set of frozen descriptions, each with a loss that is a sum over rows.

    Classifier     cross entropy of a network's outputs against a column
    LatentModel    the autoencoder family of P3GM: a decoder, an encoder whose mean and variance are each fixed or
                   trained, and a prior over latent vectors
    ClusteredModel one latent model a cluster of a public partition, trained together (DP-GM)

A loss term belongs to one row and depends on no other: per-row gradients exist, and clipping each bounds what one row
does. Arrays in a learner (projection, prior) are public or released before; they enter its digest.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from contracts.canonical import digest
from privacy.arrays import Singles
from privacy.learning.layout import RowLayout
from privacy.learning.network import CannotTrain, Network, Optimizer, Slot, check_optimizer, slots
from privacy.learning.window import Window

NumberLoss = Literal["bernoulli", "gaussian"]


@dataclass(frozen=True, eq=False)
class FixedMean:
    """The mean of a row's latent vector is a public linear map of it: axes' (x - centre).

    Args:
        centre: shape (width,).
        axes: shape (width, latent).
    """

    centre: Singles
    axes: Singles

    def __post_init__(self) -> None:
        _array(self, "centre", 1)
        _array(self, "axes", 2)


@dataclass(frozen=True)
class FixedDeviation:
    """The latent vector's standard deviation is the same constant for every row and entry; 0 is an autoencoder."""

    deviation: float

    def __post_init__(self) -> None:
        if type(self.deviation) is not float or not 0 <= self.deviation <= 1e6:
            raise CannotTrain("deviation", self.deviation, "a float from 0 to 10^6")


@dataclass(frozen=True, eq=False)
class GaussianMixture:
    """A prior over latent vectors.

    Args:
        weights: shape (components,), above 0; they add up to 1.
        means: shape (components, latent).
        factors: lower triangular, factor factor' the covariance, shape (components, latent, latent).
    """

    weights: Singles
    means: Singles
    factors: Singles

    def __post_init__(self) -> None:
        for name, dimensions in (("weights", 1), ("means", 2), ("factors", 3)):
            _array(self, name, dimensions)
        components, latent = self.means.shape
        if self.weights.shape != (components,) or self.factors.shape != (components, latent, latent):
            raise CannotTrain("prior", "shapes that do not fit", "weights (k,), means (k, d), factors (k, d, d)")
        # Weights of float32 add up to 1 only nearly.
        if not (self.weights > 0).all() or abs(float(self.weights.sum()) - 1) > 1e-3:
            raise CannotTrain("prior.weights", "other weights", "positive ones that add up to 1")
        # Such a factor is invertible, and its determinant is the product of its diagonal.
        if (np.triu(self.factors, 1) != 0).any() or not (np.diagonal(self.factors, axis1=1, axis2=2) > 0).all():
            raise CannotTrain("prior.factors", "another matrix", "lower triangular ones with positive diagonals")


@dataclass(frozen=True, eq=False)
class Classifier:
    """A network that tells a column's cell from the other columns of the layout.

    Args:
        network: from the vector without the label's entries to one output a cell.
        label: a category column.
        optimizer: what steps the parameters.
        seed: of the initial parameters; public.
        averaging: decay of the exponential average of parameters that is handed out; None hands out the last.
    """

    network: Network
    label: str
    optimizer: Optimizer
    seed: int
    averaging: float | None = None
    kind: ClassVar[str] = "classifier"

    @property
    def parts(self) -> tuple[tuple[str, Network], ...]:
        """The networks that are trained, by name."""
        return (("network", self.network),)

    def check(self, layout: RowLayout) -> None:
        """Refuse a layout that the network does not fit."""
        _checked(self)
        if self.label not in layout.names or layout.column(self.label).kind != "category":
            raise CannotTrain("label", self.label, "a category column of the rows")
        label = layout.column(self.label)
        _fits("network", self.network, layout.width - label.width, label.width)


@dataclass(frozen=True, eq=False)
class LatentModel:
    """A decoder from latent vectors to rows, with what it takes to train it.

    Loss of a row x: -log p(x | z) + kl_weight * KL(q(z | x) || prior), z drawn from q, mean over `samples`.

    Args:
        latent: entries of a latent vector.
        decoder: from (latent,) to the layout's width: logits of sigmoids and softmaxes.
        mean: fixed, or a network from (width,) to (latent,).
        deviation: fixed, or a network from (width,) to (latent,) that gives the logarithm of the variance.
        prior: a mixture, or None for the standard normal.
        numbers: loss of numbers in [0, 1]: "bernoulli", cross entropy with logits; "gaussian", squared error of the
            sigmoid over 2 * number_variance.
        number_variance: > 0; for "gaussian" only.
        kl_weight: >= 0; the paper's is 1.
        log_variance_start: added to what the network of the deviation gives, so that the training may begin near a
            variance that fits the prior.
        samples: latent vectors a row; their gradients are averaged before clipping.
        window: a part of the numbers' range; where there is one, x is the row within it.
        optimizer, seed, averaging: as of `Classifier`.
    Source: P3GM, equations 5 to 9; PGM and P3GM fix the mean, AE the deviation too, VAE neither.
    """

    latent: int
    decoder: Network
    mean: FixedMean | Network
    deviation: FixedDeviation | Network
    prior: GaussianMixture | None
    optimizer: Optimizer
    seed: int
    numbers: NumberLoss = "bernoulli"
    number_variance: float = 1.0
    kl_weight: float = 1.0
    log_variance_start: float = 0.0
    samples: int = 1
    averaging: float | None = None
    window: Window | None = None
    kind: ClassVar[str] = "latent_model"

    @property
    def parts(self) -> tuple[tuple[str, Network], ...]:
        """The networks that are trained, by name."""
        named = (("decoder", self.decoder), ("mean", self.mean), ("deviation", self.deviation))
        return tuple((name, part) for name, part in named if isinstance(part, Network))

    def check(self, layout: RowLayout) -> None:
        """Refuse a layout that the networks and arrays do not fit."""
        _checked(self)
        if type(self.mean) not in (FixedMean, Network):
            raise CannotTrain("mean", type(self.mean).__name__, "FixedMean or Network itself")
        if type(self.deviation) not in (FixedDeviation, Network):
            raise CannotTrain("deviation", type(self.deviation).__name__, "FixedDeviation or Network itself")
        if self.prior is not None and type(self.prior) is not GaussianMixture:
            raise CannotTrain("prior", type(self.prior).__name__, "GaussianMixture itself, or None")
        _fits("decoder", self.decoder, self.latent, layout.width)
        # The decoder is the first part; all others are encoders, from a whole row.
        for name, part in self.parts[1:]:
            _fits(name, part, layout.width, self.latent)
        if isinstance(self.mean, FixedMean) and (
            self.mean.centre.shape != (layout.width,) or self.mean.axes.shape != (layout.width, self.latent)
        ):
            raise CannotTrain("mean", f"axes of shape {self.mean.axes.shape}", f"{(layout.width, self.latent)}")
        if self.prior is not None and self.prior.means.shape[1] != self.latent:
            raise CannotTrain("prior", f"{self.prior.means.shape[1]} entries", f"{self.latent}, the latent vector's")
        if self.numbers not in ("bernoulli", "gaussian"):
            raise CannotTrain("numbers", self.numbers, "bernoulli or gaussian")
        for what, value, least in (("number_variance", self.number_variance, 1e-9), ("kl_weight", self.kl_weight, 0)):
            if type(value) is not float or not least <= value <= 1e9:
                raise CannotTrain(what, value, f"a float from {least:g} to 10^9")
        if type(self.log_variance_start) is not float or not -20 <= self.log_variance_start <= 20:
            raise CannotTrain("log_variance_start", self.log_variance_start, "a float from -20 to 20")
        if type(self.samples) is not int or not 1 <= self.samples <= 64:
            raise CannotTrain("samples", self.samples, "a whole number from 1 to 64")
        if self.window is not None and (type(self.window) is not Window or self.window.low.size != layout.width):
            raise CannotTrain("window", type(self.window).__name__, f"a Window itself, of {layout.width} entries")


@dataclass(frozen=True, eq=False)
class ClusteredModel:
    """One latent model a cluster: a row trains the member whose centre is nearest, and no other.

    A row's gradient lies in its member's block of the parameters, so that clipping bounds what it does to all of them
    together: the trainings cost what one costs (under add_remove, where a row that comes or goes is in one cluster).
    All blocks get noise; sums are divided by the whole batch's expected size, to which Adam is indifferent.

    Args:
        members: at least two, with one optimizer, seed and averaging.
        space: where distances are measured.
        centres: public or released, shape (members, dimension of the space).
    Source: DP-GM as P3GM's experiments have it: Acs, Melis, Castelluccia, De Cristofaro 2017.
    """

    members: tuple[LatentModel, ...]
    space: FixedMean
    centres: Singles
    kind: ClassVar[str] = "clustered_model"

    def __post_init__(self) -> None:
        _array(self, "centres", 2)
        if type(self.members) is not tuple or any(type(member) is not LatentModel for member in self.members):
            raise CannotTrain("members", "something else", "a tuple of LatentModel itself")
        # One step moves the parameters of all members at once, so they share what it depends on.
        settings = {(each.optimizer, each.seed, each.averaging) for each in self.members}
        if len(self.members) < 2 or len(settings) != 1:
            raise CannotTrain(
                "members", f"{len(self.members)}", "at least two, with one optimizer, seed and averaging"
            )

    @property
    def optimizer(self) -> Optimizer:
        """What steps the parameters."""
        return self.members[0].optimizer

    @property
    def seed(self) -> int:
        """Of the initial parameters, which differ between members."""
        return self.members[0].seed

    @property
    def averaging(self) -> float | None:
        """Decay of the exponential average of parameters."""
        return self.members[0].averaging

    @property
    def parts(self) -> tuple[tuple[str, Network], ...]:
        """The networks that are trained: "0/decoder", and so on."""
        return tuple((f"{k}/{name}", part) for k, member in enumerate(self.members) for name, part in member.parts)

    def check(self, layout: RowLayout) -> None:
        """Refuse a layout that the members, or the space, do not fit."""
        for member in self.members:
            member.check(layout)
        if type(self.space) is not FixedMean or self.space.axes.shape[0] != layout.width:
            raise CannotTrain("space", "another space", f"FixedMean itself, of {layout.width} entries")
        wanted = (len(self.members), self.space.axes.shape[1])
        if self.centres.shape != wanted:
            raise CannotTrain("centres", f"shape {self.centres.shape}", f"{wanted}: one a member, in the space")


Learner = Classifier | LatentModel | ClusteredModel


def learner_slots(learner: Learner) -> tuple[Slot, ...]:
    """Return where each layer's parameters lie in the flat vector."""
    return slots(learner.parts)


def parameters_of(learner: Learner) -> int:
    """Return how many parameters are trained."""
    return sum(network.parameters for _, network in learner.parts)


def learner_digest(learner: Learner) -> str:
    """Return the SHA-256 (hex) of all that a learner says, arrays included."""
    return digest(_to_json(learner))


def _to_json(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return {"shape": list(value.shape), "sha256": hashlib.sha256(value.tobytes()).hexdigest()}
    if hasattr(value, "to_json"):
        return value.to_json()
    if isinstance(value, Learner):
        # The kind keeps learners with equal fields apart in the digest.
        return {"kind": value.kind, **{name: _to_json(each) for name, each in vars(value).items()}}
    if isinstance(value, FixedMean | FixedDeviation | GaussianMixture | Window):
        return {"kind": type(value).__name__, **{name: _to_json(each) for name, each in vars(value).items()}}
    return [_to_json(each) for each in value] if isinstance(value, tuple) else value


def _checked(learner: Classifier | LatentModel) -> None:
    """Refuse what every learner must not have."""
    check_optimizer(learner.optimizer, learner.averaging)
    if type(learner.seed) is not int or not 0 <= learner.seed < 2**63:
        raise CannotTrain("seed", learner.seed, "a whole number from 0 to below 2^63")
    for name, network in learner.parts:
        if type(network) is not Network:
            raise CannotTrain(name, type(network).__name__, "Network itself")


def _fits(name: str, network: Network, inputs: int, outputs: int) -> None:
    if network.inputs != (inputs,) or network.outputs != (outputs,):
        found = f"a network from {network.inputs} to {network.outputs}"
        raise CannotTrain(name, found, f"one from ({inputs},) to ({outputs},), as the rows' layout has it")


def _array(owner: Any, name: str, dimensions: int) -> None:
    """Keep a read-only float32 copy of an array, or refuse it."""
    given = getattr(owner, name)
    if type(given) is not np.ndarray or given.ndim != dimensions or given.size == 0:
        raise CannotTrain(name, type(given).__name__, f"an array of {dimensions} dimensions")
    # A copy of its own, read-only: the digest must hold for as long as the learner is used.
    kept = np.array(given, dtype=np.float32, order="C")
    if not np.isfinite(kept).all():
        raise CannotTrain(name, "entries that are not finite", "finite numbers")
    kept.flags.writeable = False
    object.__setattr__(owner, name, kept)
