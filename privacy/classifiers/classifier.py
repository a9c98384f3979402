"""A released classifier: a fully connected network with its weights; computed here in plain numpy.

Where (one letter each, in `outputs` only)
    x   a row's vector without the entries of the label, in [0, 1]
    y   what a layer gives: max(0, W y + b), and W y + b after the last; the softmax of that are the cells' chances
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from contracts.contract.contract import Contract
from contracts.message import message
from contracts.release.classifier import ClassifierProduct
from privacy.arrays import Unsigned
from privacy.classifiers.safetensors import Tensors, from_safetensors, to_safetensors
from privacy.learning.layout import ColumnLayout, RowLayout, row_layout

WeightsAndBias = tuple[NDArray[np.float32], NDArray[np.float32]]
"""Weights (outputs, inputs) and biases (outputs,)."""
FORMAT: Final = "sudare-classifier/1"
_MOST_LAYERS: Final = 64
_PIECE: Final = 1 << 16


@dataclass(frozen=True)
class ParameterRange:
    """The ranges to which every weight, and every bias, was clamped before it was released."""

    lowest: float
    highest: float
    lowest_bias: float
    highest_bias: float

    @property
    def texts(self) -> tuple[str, str, str, str]:
        """The four limits as text, those of weights first."""
        return repr(self.lowest), repr(self.highest), repr(self.lowest_bias), repr(self.highest_bias)

    @classmethod
    def of(cls, texts: Sequence[str]) -> ParameterRange:
        """Read the four limits again.

        Raises:
            ValueError: more or fewer, or what is no number.
        """
        lowest, highest, lowest_bias, highest_bias = (float(each) for each in texts)
        return cls(lowest, highest, lowest_bias, highest_bias)

    def to_json(self) -> dict[str, str]:
        """Write the four limits as text, by name."""
        return {name: repr(limit) for name, limit in vars(self).items()}


@dataclass(frozen=True, eq=False)
class ClassifierModel:
    """A classifier of rows of codes.

    Args:
        layout: how the codes of a row, the label's among them, lie in a vector.
        label: the column that it tells.
        layers: float32, from the vector without the label's entries to one output a cell of the label.
        bounds: where every weight and bias must lie; None where nothing was clamped.
    Raises:
        ValueError: layers that do not fit, numbers that are not finite or outside of the bounds.
    """

    layout: RowLayout
    label: str
    layers: tuple[WeightsAndBias, ...]
    bounds: ParameterRange | None = None

    def __post_init__(self) -> None:
        classes = self.layout.column(self.label).width
        width = self.layout.width - classes
        for place, (weights, biases) in enumerate(self.layers):
            if weights.ndim != 2 or weights.shape[1] != width or biases.shape != weights.shape[:1]:
                raise ValueError(f"layer {place}: weights and biases do not fit {width} inputs")
            self._check_numbers(place, weights, biases)
            # The next layer takes what this one gives.
            width = weights.shape[0]
        if not self.layers or width != classes:
            raise ValueError(f"the last layer must have {classes} outputs, the cells of {self.label!r}")

    def _check_numbers(self, place: int, *arrays: NDArray[np.float32]) -> None:
        for what, array, limits in zip(("weights", "biases"), arrays, self._limits, strict=True):
            if array.dtype != np.float32 or not np.isfinite(array).all():
                raise ValueError(f"layer {place}: weights and biases must be finite float32")
            if limits is None:
                continue
            beyond = int(((array < limits[0]) | (array > limits[1])).sum())
            if beyond:
                allowed = f"{limits[0]:g} to {limits[1]:g}"
                raise ValueError(
                    f"layer {place}: {beyond} {what} outside of the range {allowed} that they were clamped to"
                )

    @property
    def _limits(self) -> tuple[tuple[float, float] | None, tuple[float, float] | None]:
        """Where weights, and where biases, must lie."""
        if self.bounds is None:
            return None, None
        return (self.bounds.lowest, self.bounds.highest), (self.bounds.lowest_bias, self.bounds.highest_bias)

    @property
    def features(self) -> NDArray[np.intp]:
        """The entries of a row's vector that are not the label's."""
        label = next(head for head in self.layout.heads if head.column == self.label)
        entries = np.arange(self.layout.width)
        return entries[(entries < label.start) | (entries >= label.stop)]

    @property
    def parameters(self) -> int:
        """How many weights and biases there are."""
        return sum(weights.size + biases.size for weights, biases in self.layers)

    @property
    def widths(self) -> tuple[int, ...]:
        """Entries of the input and of each layer's output."""
        return (self.layers[0][0].shape[1], *(weights.shape[0] for weights, _ in self.layers))

    def probabilities(self, codes: Unsigned) -> NDArray[np.float64]:
        """Return the chances of the label's cells, shape (rows, cells).

        Args:
            codes: rows of codes, shape (rows, code_width); what the label's say is not read.
        """
        # Piece by piece, which bounds the memory of the vectors.
        features = self.features
        parts = [
            _softmax(outputs(self.layers, self.layout.vectors(codes[start : start + _PIECE])[:, features]))
            for start in range(0, codes.shape[0], _PIECE)
        ]
        return np.concatenate(parts) if parts else np.empty((0, self.widths[-1]))

    def cells(self, codes: Unsigned) -> NDArray[np.int64]:
        """Return the most likely cell of the label for each row."""
        return np.asarray(self.probabilities(codes).argmax(axis=1), dtype=np.int64)

    def tensors(self) -> dict[str, NDArray[np.float32]]:
        """Return the weights and biases by name."""
        named: dict[str, NDArray[np.float32]] = {}
        for place, (weights, biases) in enumerate(self.layers):
            named |= {f"layers.{place}.weight": weights, f"layers.{place}.bias": biases}
        return named

    def to_bytes(self) -> bytes:
        """Write the weights as safetensors."""
        about = {"format": FORMAT, "label": self.label, "layout": self.layout.digest}
        if self.bounds is not None:
            about |= self.bounds.to_json()
        return to_safetensors(self.tensors(), about)


def read_classifier(data: bytes, layout: RowLayout, label: str, bounds: ParameterRange | None) -> ClassifierModel:
    """Read a classifier's weights from safetensors.

    Args:
        data: the file's bytes.
        layout, label, bounds: what the classifier is of, and where its numbers must lie.
    Raises:
        ValueError: not safetensors, other arrays, or numbers outside of the range that they were clamped to.
    """
    tensors, about = from_safetensors(data)
    # Weights fit one layout: its digest must be that of the rows that they were trained on.
    if (about.get("format"), about.get("label"), about.get("layout")) != (FORMAT, label, layout.digest):
        raise ValueError("the weights are of another format, label or layout of rows")
    return ClassifierModel(layout, label, _layers(tensors), bounds)


def _layers(tensors: Tensors) -> tuple[WeightsAndBias, ...]:
    count = len(tensors) // 2
    # Exactly these arrays: nothing is published that no layer reads.
    names = {f"layers.{place}.{part}" for place in range(count) for part in ("weight", "bias")}
    if set(tensors) != names or not 1 <= count <= _MOST_LAYERS:
        raise ValueError("the arrays must be layers.0.weight, layers.0.bias, and so on")
    return tuple((tensors[f"layers.{place}.weight"], tensors[f"layers.{place}.bias"]) for place in range(count))


def layers_of(vector: NDArray[np.float32], widths: tuple[int, ...]) -> tuple[WeightsAndBias, ...]:
    """Take a flat vector of parameters apart: each layer's weights, then its biases."""
    layers, start = [], 0
    for inputs, outputs_ in pairwise(widths):
        stop = start + inputs * outputs_
        layers.append((vector[start:stop].reshape(outputs_, inputs), vector[stop : stop + outputs_]))
        start = stop + outputs_
    return tuple(layers)


def parameters_in(widths: tuple[int, ...]) -> int:
    """How many weights and biases a network of such layers has."""
    return sum((inputs + 1) * outputs_ for inputs, outputs_ in pairwise(widths))


def outputs(layers: tuple[WeightsAndBias, ...], vectors: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return what the last layer gives, shape (rows, cells), in float64."""
    y = vectors.astype(np.float64)
    for place, (weights, biases) in enumerate(layers):
        y = y @ weights.T.astype(np.float64) + biases
        if place < len(layers) - 1:
            y = np.maximum(y, 0.0)
    return y


def _softmax(values: NDArray[np.float64]) -> NDArray[np.float64]:
    # Relative to the largest value, so that exp does not overflow.
    shifted = np.exp(values - values.max(axis=1, keepdims=True))
    chances: NDArray[np.float64] = shifted / shifted.sum(axis=1, keepdims=True)
    return chances


# --- The contract of a model's inputs, and its card.


DROWNED: Final = message(
    "Its noise is expected to drown its parameters: what it tells of a row is mostly chance (publish_noise: true)"
)
"""First line of a model card, and a note of the record."""

INPUTS_SCHEMA: Final = "sudare-model-inputs/1"
_ENCODED: Final = {
    "category": "one entry a cell: 1 for the value's cell, 0 for the others",
    "number": "the number of the value's cell; where nulls have a cell, a second entry that is 1 for a null, else 0",
    "array": "one entry a place: the number of its level",
}
_LAYERS: Final = (
    "y = x; for each layer y = W y + b, and max(0, y) but after the last; softmax(y) are the label's chances"
)


def classifier_layout(contract: Contract, product: ClassifierProduct) -> RowLayout:
    """Return how the rows of a model lie in vectors: as anywhere, or with one entry a cell for numbers too.

    Privacy: uses contract and product only.
    """
    layout = row_layout(contract, product.names(contract))
    if product.numbers == "scaled":
        return layout
    return RowLayout(
        tuple(
            ColumnLayout(each.name, "category", np.eye(each.table.shape[0])) if each.kind == "number" else each
            for each in layout.columns
        )
    )


def inputs_of(
    contract: Contract, product: ClassifierProduct, widths: Sequence[int], bounds: ParameterRange | None
) -> dict[str, Any]:
    """Describe how a row becomes the model's input, and what its outputs mean; a function of public values alone.

    Args:
        contract: declares the columns.
        product: says which columns are read, how, and which one is told.
        widths: entries of the input and of each layer's output.
        bounds: ranges to which weights and biases were clamped.
    Returns:
        dict: JSON values; numbers of cells as text of their shortest exact decimals.
    """
    layout, label = classifier_layout(contract, product), product.label
    features, start = [], 0
    for column in layout.columns:
        if column.name == label:
            continue
        features.append(
            {"column": column.name, "entries": [start, start + column.width], **_input_description(contract, column)}
        )
        start += column.width
    return {
        "schema": INPUTS_SCHEMA,
        "format": FORMAT,
        "contract": {"id": contract.id, "version": contract.version, "sha256": contract.digest},
        "inputs": features,
        "label": {"column": label, "cells": list(contract.column(label).labels)},
        "widths": list(widths),
        "computed": _LAYERS,
        "range": None if bounds is None else bounds.to_json(),
    }


def _input_description(contract: Contract, column: ColumnLayout) -> dict[str, Any]:
    declared = contract.column(column.name)
    told: dict[str, Any] = {
        "type": declared.logical_type,
        "encoded": _ENCODED[column.kind],
        "cells": list(declared.labels),
        "others": "a value that fits no cell is treated as the contract's domain of the column declares",
    }
    if column.kind != "category":
        told["numbers"] = [repr(float(number)) for number in column.points]
    return told


@dataclass(frozen=True)
class CardTerms:
    """What a model card says; all of it stands in the record too.

    Args:
        release, version: which version.
        title: name of the data.
        trainer, says: what made it, and what its guarantee bounds.
        label, names: the column that is told, and all columns that were learned from.
        widths: of the network.
        epsilon, delta: the joint guarantee, as text.
        unit, adjacency: who is protected, and the relation between neighbours.
        notes: of the trainer.
    """

    release: str
    version: int
    title: str
    trainer: str
    summary: str
    label: str
    names: tuple[str, ...]
    widths: tuple[int, ...]
    epsilon: str
    delta: str
    unit: str
    adjacency: str
    notes: tuple[str, ...]


def card_of(terms: CardTerms, files: Mapping[str, str]) -> bytes:
    """Write the model card, in Markdown.

    Args:
        terms: what it says.
        files: paths of weights and inputs, by "weights" and "inputs".
    Privacy: a function of public values.
    """
    others = [name for name in terms.names if name != terms.label]
    slack = "" if terms.delta == "0" else f", delta {terms.delta}"
    lines = [
        *([f"**{DROWNED}**", ""] if DROWNED in terms.notes else []),
        f"# {_plain(terms.release)} v{terms.version}",
        "",
        f"A classifier that tells `{_plain(terms.label)}` from {len(others)} other columns of {_plain(terms.title)}, "
        "trained under differential privacy.",
        "",
        "## What it is",
        f"- Fully connected, {' → '.join(map(str, terms.widths))}: max(0, x) between layers, softmax at the end",
        f"- Weights: `{files['weights']}` (safetensors, float32). How a row becomes its input: `{files['inputs']}`",
        f"- Columns it reads: {', '.join(f'`{_plain(name)}`' for name in others)}",
        "",
        "## What is guaranteed",
        f"- Jointly, for all weights together: epsilon {terms.epsilon}{slack}, for one {_plain(terms.unit)} "
        f"({terms.adjacency}). This was charged to the ledger; `record.json` has the whole account",
        f"- Trainer `{terms.trainer}`. {terms.summary[0].upper()}{terms.summary[1:]}",
        *(f"- {_plain(note)}" for note in terms.notes),
        "",
        "## What it is for",
        "- Classify rows that are encoded as the contract of inputs says. Test it on rows of your own first: how "
        "good it is on the confidential rows is private",
        "- Not for deciding about a person by itself. It errs more on small groups than on large ones",
        "- It tells what holds for many people. That it is used about one of them is outside of the guarantee",
        "",
        "## How to check it",
        f"`sudare verify {terms.release}/v{terms.version} --key FILE` checks weights, record, charge and signatures.",
        "",
    ]
    return "\n".join(lines).encode()


def _plain(text: str) -> str:
    """Keep a name from being read as Markdown."""
    return "".join(" " if sign in "\r\n" else sign for sign in text).replace("`", "'")
