"""The contract of a model's inputs, and its card: all that a stranger needs to use the weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from contracts.contract.contract import Contract
from contracts.message import message
from contracts.release.classifier import ClassifierProduct
from privacy.classifiers.classifier_model import FORMAT, ParameterRange
from privacy.learning.layout import ColumnLayout, RowLayout, row_layout

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
