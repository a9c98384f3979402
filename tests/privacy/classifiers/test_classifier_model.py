"""Classifiers: the file format, refused weights, numpy computes what torch computes; noise that drowns parameters."""

import json
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
import torch

from contracts.contract.contract import Contract
from contracts.release.classifier import ClassifierProduct
from privacy.classifiers.classifier import (
    DROWNED,
    CardTerms,
    ClassifierModel,
    ParameterRange,
    card_of,
    layers_of,
    outputs,
    parameters_in,
    read_classifier,
)
from privacy.classifiers.safetensors import from_safetensors, to_safetensors
from privacy.classifiers.trainer import plan_classifier, trainer
from privacy.generators.calibration import FittedPlan
from privacy.generators.generator import CannotGenerate
from privacy.learning.layout import ColumnLayout, RowLayout

LAYOUT = RowLayout(
    (
        ColumnLayout("age", "number", np.linspace(0, 1, 5)[:, None]),
        ColumnLayout("ward", "category", np.eye(3)),
        ColumnLayout("floor", "category", np.eye(2)),
    )
)
WIDTHS = (3, 4, 3)


def model(bounds: ParameterRange | None = None) -> ClassifierModel:
    numbers = np.random.default_rng(1).uniform(-1, 1, parameters_in(WIDTHS)).astype(np.float32)
    return ClassifierModel(LAYOUT, "ward", layers_of(numbers, WIDTHS), bounds)


def test_weights_are_read_back_as_they_were_written_with_the_same_bytes():
    made = model(ParameterRange(-1.0, 1.0, -1.0, 1.0))
    again = read_classifier(made.to_bytes(), LAYOUT, "ward", ParameterRange(-1.0, 1.0, -1.0, 1.0))
    assert again.to_bytes() == made.to_bytes()
    assert again.widths == WIDTHS
    assert made.parameters == parameters_in(WIDTHS) == 31


def test_the_file_is_laid_out_as_the_format_says():
    """Eight bytes of length, a JSON header with offsets from the end of the header, then float32, little-endian."""
    data = to_safetensors({"a": np.array([[1, 2]], np.float32), "b": np.array([3], np.float32)}, {"label": "x"})
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    assert header["a"] == {"dtype": "F32", "shape": [1, 2], "data_offsets": [0, 8]}
    assert header["b"] == {"dtype": "F32", "shape": [1], "data_offsets": [8, 12]}
    assert header["__metadata__"] == {"label": "x"}
    assert (8 + size) % 8 == 0
    assert data[8 + size :] == np.array([1, 2, 3], "<f4").tobytes()


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda data: data[:-4], "where its shape says"),
        (lambda data: data + b"\0\0\0\0", "beyond the arrays"),
        (lambda data: b"\xff" * 8 + data[8:], "stated length"),
        (lambda data: b"", "stated length"),
        (lambda data: data.replace(b'"F32"', b'"F64"', 1), "no array of F32"),
        (lambda data: data.replace(b'"shape":[3]', b'"shape":[4]', 1), "where its shape says"),
        (lambda data: data[:8] + b"[" + data[9:], "JSON"),
        (lambda data: data[:-4] + np.array([np.nan], "<f4").tobytes(), "no finite number"),
        (lambda data: data.replace(b"layers.1.bias", b"layers.9.bias"), "layers.0.weight"),
        (lambda data: data.replace(b'"label":"ward"', b'"label":"waxd"'), "another format, label or layout"),
    ],
)
def test_files_that_are_no_weights_of_this_model_are_refused(spoil, says: str):  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=says):
        read_classifier(spoil(model().to_bytes()), LAYOUT, "ward", None)


def test_weights_outside_of_the_range_that_they_were_clamped_to_are_refused():
    """The message says how many and what is allowed, and no weight; biases have a range of their own."""
    data = model().to_bytes()
    with pytest.raises(ValueError, match=r"layer 0: \d+ weights outside of the range -0.5 to 0.5") as refused:
        read_classifier(data, LAYOUT, "ward", ParameterRange(-0.5, 0.5, -1.0, 1.0))
    assert str(float(model().layers[0][0].max()))[:6] not in str(refused.value)
    with pytest.raises(ValueError, match=r"layer 0: \d+ biases outside of the range -0.1 to 0.1"):
        read_classifier(data, LAYOUT, "ward", ParameterRange(-1.0, 1.0, -0.1, 0.1))


def test_layers_that_do_not_fit_are_refused():
    layers = model().layers
    with pytest.raises(ValueError, match="3 outputs, the cells of 'ward'"):
        ClassifierModel(LAYOUT, "ward", layers[:1])
    with pytest.raises(ValueError, match="do not fit 3 inputs"):
        ClassifierModel(LAYOUT, "ward", layers[1:])


def test_a_stranger_s_network_gives_the_same_chances():
    """Another implementation of what inputs.json says, in torch, on rows with every label's code."""
    made, rng = model(), np.random.default_rng(2)
    codes = np.stack([rng.integers(0, size, 200) for size in (5, 3, 2)], axis=1).astype(np.uint8)
    x = torch.from_numpy(np.concatenate([np.linspace(0, 1, 5)[codes[:, :1]], np.eye(2)[codes[:, 2]]], axis=1))
    (w0, b0), (w1, b1) = (tuple(torch.from_numpy(each.astype(np.float64)) for each in layer) for layer in made.layers)
    theirs = torch.softmax(torch.relu(x @ w0.T + b0) @ w1.T + b1, dim=1).numpy()
    assert np.allclose(made.probabilities(codes), theirs, atol=1e-6)
    other = codes.copy()
    other[:, 1] = 0
    assert (made.probabilities(other) == made.probabilities(codes)).all()
    assert (made.cells(codes) == theirs.argmax(1)).all()
    assert outputs(made.layers, np.zeros((0, 3), np.float32)).shape == (0, 3)


def test_an_archive_of_nothing_has_nothing():
    assert from_safetensors(to_safetensors({}, {})) == ({}, {})


ABOUT: dict[str, dict[str, Any]] = {"learning_first": {}, "anonymized_learning": {"rows_about": 45_000}}


def planned(contract: Contract, name: str, epsilon: str, **options: Any) -> FittedPlan[Any]:
    product = ClassifierProduct(kind="classifier", trainer=name, label="income", columns=("age", "sex", "income"))
    read = trainer(name).options.model_validate({"epochs": 3, "hidden": (8,), **ABOUT[name], **options})
    return plan_classifier(product, contract, read, epsilon=Decimal(epsilon), delta=Decimal("1e-9"))


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(ABOUT))
def test_noise_that_drowns_the_parameters_is_refused_by_the_plan(contract: Contract, name: str):
    """At epsilon 0.1 it is; asked for, it is planned; with a hundred thousand times the epsilon it is not."""
    with pytest.raises(CannotGenerate, match=rf"{name}: noise that drowns its \d+ parameters.*publish_noise: true"):
        planned(contract, name, "0.1")
    assert planned(contract, name, "0.1", publish_noise=True).events
    assert planned(contract, name, "1000").events


def test_an_epsilon_of_each_parameter_counts_as_it_is_written(contract: Contract):
    with pytest.raises(CannotGenerate, match="parameter_epsilon of about"):
        planned(contract, "learning_first", "1000", parameter_epsilon=0.5)
    assert planned(contract, "learning_first", "1000", parameter_epsilon=5).events


def test_the_card_says_it_first():
    terms = CardTerms(
        "r", 1, "t", "learning_first", "says", "y", ("x", "y"), (1, 2), "1", "0", "row", "add_remove", ()
    )
    drowned = CardTerms(**{**vars(terms), "notes": (DROWNED,)})
    files = {"weights": "w", "inputs": "i"}
    assert card_of(drowned, files).decode().splitlines()[0] == f"**{DROWNED}**"
    assert card_of(terms, files).decode().startswith("# r v1")
