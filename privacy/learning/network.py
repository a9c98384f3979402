"""Networks as frozen descriptions: a closed set of layers, so that no code of a caller meets rows or gradients.

A layer maps one row's values; nothing here mixes rows (no batch normalisation), so that every row has a gradient of
its own. Parameters are one flat vector; `slots` says where each layer's weights and biases lie in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import cos, isfinite, pi, prod
from typing import Any, ClassVar, Final, Literal

from contracts.errors import SudareError

# --- What training refuses before any data is read.


class CannotTrain(SudareError, ValueError):
    """A training that cannot be done, or would be useless, as it is asked for; nothing was charged or drawn."""

    exit_code = 2

    def __init__(self, what: str, found: object, allowed: str, remedy: str = "") -> None:
        self.what, self.found, self.allowed = what, found, allowed
        super().__init__(f"{what} is {found}; allowed: {allowed}" + (f"; do: {remedy}" if remedy else ""))


class TrainingDiverged(SudareError):
    """The released parameters are of no use; what was drawn stays charged."""


MOST_PARAMETERS: Final = 200_000_000
_LARGEST: Final = 1 << 20
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Linear:
    """Weights (outputs, inputs) and a bias, on the last dimension."""

    inputs: int
    outputs: int
    kind: ClassVar[str] = "linear"

    @property
    def weight_shape(self) -> Shape:
        """Shape of the weights."""
        return (self.outputs, self.inputs)


@dataclass(frozen=True)
class Relu:
    """max(0, x), entry by entry."""

    kind: ClassVar[str] = "relu"


NetworkLayer = Linear | Relu
LAYERS: Final = (Linear, Relu)


@dataclass(frozen=True)
class Network:
    """Layers one after another.

    Args:
        inputs: shape of one row's input.
        layers: at least one that has parameters.
    Raises:
        CannotTrain: a layer of another kind, sizes that do not fit one another, or too many parameters.
    """

    inputs: Shape
    layers: tuple[NetworkLayer, ...]

    def __post_init__(self) -> None:
        # These types themselves: a subclass would run a caller's code on rows.
        if type(self.layers) is not tuple or any(type(layer) not in LAYERS for layer in self.layers):
            raise CannotTrain("layers", "a layer of another kind", ", ".join(layer.kind for layer in LAYERS))
        _sizes("inputs", self.inputs)
        shapes = list(self._shapes())
        if not shapes or not any(isinstance(layer, Linear) for layer in self.layers):
            raise CannotTrain("layers", "none with parameters", "at least one linear layer")
        if self.parameters > MOST_PARAMETERS:
            raise CannotTrain("parameters", self.parameters, f"at most {MOST_PARAMETERS}")

    @property
    def outputs(self) -> Shape:
        """Shape of one row's output."""
        return list(self._shapes())[-1]

    @property
    def parameters(self) -> int:
        """How many parameters there are."""
        return sum(prod(layer.weight_shape) + layer.outputs for _, layer in self.trainable)

    @property
    def trainable(self) -> tuple[tuple[int, Linear], ...]:
        """The layers that have parameters, with their places."""
        return tuple((place, layer) for place, layer in enumerate(self.layers) if isinstance(layer, Linear))

    def to_json(self) -> dict[str, Any]:
        """Write the network as JSON values."""
        layers = [{"kind": layer.kind, **_plain(vars(layer))} for layer in self.layers]
        return {"inputs": list(self.inputs), "layers": layers}

    def _shapes(self) -> Iterator[Shape]:
        shape = self.inputs
        for place, layer in enumerate(self.layers):
            _sizes(f"layer {place}", tuple(size for size in _flat(vars(layer).values())), zero=True)
            shape = _after(layer, shape, place)
            _sizes(f"layer {place}", shape)
            yield shape


@dataclass(frozen=True)
class Slot:
    """Where one layer's parameters lie in the flat vector.

    Args:
        part: name of the network in its learner.
        place: place of the layer in the network.
        layer: the layer.
        start: first entry of its weights; its biases follow them.
    """

    part: str
    place: int
    layer: Linear
    start: int

    @property
    def weights(self) -> slice:
        """The weights' entries."""
        return slice(self.start, self.start + prod(self.layer.weight_shape))

    @property
    def biases(self) -> slice:
        """The biases' entries."""
        return slice(self.weights.stop, self.weights.stop + self.layer.outputs)


def slots(parts: tuple[tuple[str, Network], ...]) -> tuple[Slot, ...]:
    """Lay the parameters of named networks out one after another."""
    made, start = [], 0
    for part, network in parts:
        for place, layer in network.trainable:
            made.append(Slot(part, place, layer, start))
            start = made[-1].biases.stop
    return tuple(made)


def perceptron(inputs: int, *hidden: int, outputs: int) -> Network:
    """Return linear layers with ReLU between them."""
    sizes, layers = (inputs, *hidden, outputs), list[NetworkLayer]()
    for left, right in pairwise(sizes):
        layers += [Linear(left, right), Relu()]
    # The last layer has no ReLU: outputs are logits or means, of either sign.
    return Network((inputs,), tuple(layers[:-1]))


def _after(layer: NetworkLayer, shape: Shape, place: int) -> Shape:
    match layer:
        case Linear(inputs, outputs) if shape[-1] == inputs:
            return (*shape[:-1], outputs)
        case Relu():
            return shape
    raise CannotTrain(
        f"layer {place}", f"{layer.kind} on a row of shape {shape}", "a layer that fits the one before it"
    )


def _sizes(where: str, sizes: Any, *, zero: bool = False) -> None:
    """Refuse what is not a tuple of whole numbers in range."""
    right = type(sizes) is tuple and all(type(size) is int and 1 - zero <= size <= _LARGEST for size in sizes)
    if not right or not (sizes or zero):
        raise CannotTrain(where, sizes, f"whole numbers from {1 - zero} to {_LARGEST}")


def _flat(values: Any) -> Iterator[Any]:
    for value in values:
        yield from value if isinstance(value, tuple) else (value,)


def _plain(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()}


# --- How a noisy gradient moves the parameters; post-processing, whatever it does.


Decay = Literal["none", "linear", "cosine"]


@dataclass(frozen=True)
class Sgd:
    """Gradient descent with momentum.

    Args:
        learning_rate: > 0.
        momentum: 0 <= momentum < 1.
        decay: how the rate falls over the steps.
    """

    learning_rate: float
    momentum: float = 0.0
    decay: Decay = "none"
    kind: ClassVar[str] = "sgd"

    def __post_init__(self) -> None:
        _checked(self.learning_rate, self.decay, self.momentum)

    def to_json(self) -> dict[str, Any]:
        """Write it as JSON values."""
        return {"kind": self.kind, **vars(self)}


@dataclass(frozen=True)
class Adam:
    """Adam.

    Args:
        learning_rate: > 0.
        first: decay of the mean of gradients, 0 <= first < 1.
        second: decay of the mean of their squares, 0 <= second < 1.
        decay: how the rate falls over the steps.
    Source: Kingma, Ba 2015, algorithm 1; epsilon is 10^-8.
    """

    learning_rate: float
    first: float = 0.9
    second: float = 0.999
    decay: Decay = "none"
    kind: ClassVar[str] = "adam"

    def __post_init__(self) -> None:
        _checked(self.learning_rate, self.decay, self.first, self.second)

    def to_json(self) -> dict[str, Any]:
        """Write it as JSON values."""
        return {"kind": self.kind, **vars(self)}


Optimizer = Sgd | Adam


def rate(optimizer: Optimizer, step: int, steps: int) -> float:
    """Return the learning rate of one step, counted from 0."""
    share = step / steps
    falls = {"none": 1.0, "linear": 1.0 - share, "cosine": 0.5 * (1.0 + cos(pi * share))}
    return optimizer.learning_rate * falls[optimizer.decay]


def check_optimizer(optimizer: object, averaging: object) -> None:
    """Refuse an optimizer of another making, and a decay of averaged weights out of range."""
    if type(optimizer) not in (Sgd, Adam):
        raise CannotTrain("optimizer", type(optimizer).__name__, "Sgd or Adam itself")
    if averaging is not None and not (type(averaging) is float and 0 < averaging < 1):
        raise CannotTrain("averaging", averaging, "a float above 0 and below 1, or None")


def _checked(learning_rate: Any, decay: Any, *shares: Any) -> None:
    if type(learning_rate) is not float or not isfinite(learning_rate) or not 0 < learning_rate <= 1000:
        raise CannotTrain("learning_rate", learning_rate, "a float above 0 and up to 1000")
    if decay not in ("none", "linear", "cosine"):
        raise CannotTrain("decay", decay, "none, linear or cosine")
    for share in shares:
        if type(share) is not float or not 0 <= share < 1:
            raise CannotTrain("momentum", share, "a float from 0 to below 1")
