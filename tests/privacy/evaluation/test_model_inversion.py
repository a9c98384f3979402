"""Model inversion: its gradient, what an input may be, and what it finds: what is typical, or the one record."""

from __future__ import annotations

import numpy as np
import pytest

from privacy.arrays import Floats
from privacy.classifiers.classifier import ClassifierModel, layers_of, outputs, parameters_in
from privacy.evaluation.seen_releases import _ascent, _onto_simplex, inverted, likeness
from privacy.learning.feed_forward import initial_vector, train_plainly
from privacy.learning.layout import ColumnLayout, RowLayout

PIXELS, CLASSES = 36, 4
PICTURES = RowLayout(
    (
        ColumnLayout("picture", "array", np.linspace(0, 1, 256)[:, None], length=PIXELS),
        ColumnLayout("label", "category", np.eye(CLASSES)),
    )
)
MIXED = RowLayout(
    (
        ColumnLayout("age", "number", np.array([[0.0, 0.0], [0.5, 0.0], [1.0, 0.0], [0.0, 1.0]])),
        ColumnLayout("label", "category", np.eye(2)),
        ColumnLayout("ward", "category", np.eye(3)),
    )
)


def made(layout: RowLayout, widths: tuple[int, ...], seed: int = 3) -> ClassifierModel:
    numbers = np.random.default_rng(seed).normal(0, 1, parameters_in(widths)).astype(np.float32)
    return ClassifierModel(layout, "label", layers_of(numbers, widths))


def shapes() -> Floats:
    return np.random.default_rng(11).integers(0, 2, (CLASSES, PIXELS)).astype(np.float64)


def trained(rows: Floats, labels: np.typing.NDArray[np.int64]) -> ClassifierModel:
    widths = (PIXELS, 16, CLASSES)
    fitted = train_plainly(
        initial_vector(widths, 1),
        widths,
        rows,
        np.eye(CLASSES)[labels],
        epochs=80,
        batch=10,
        learning_rate=0.1,
        regulariser=0.001,
        seed=1,
    )
    return ClassifierModel(PICTURES, "label", layers_of(fitted.astype(np.float32), widths))


def blurred(shape: Floats, count: int, seed: int) -> Floats:
    """Pictures of a class: its shape with a tenth of the pixels turned over."""
    turned = np.random.default_rng(seed).random((count, PIXELS)) < 0.1
    return np.where(turned, 1 - shape, shape)


def test_the_gradient_is_that_of_the_logarithm_of_the_chance() -> None:
    """Against central differences in every entry, through two hidden layers."""
    model = made(PICTURES, (PIXELS, 8, 7, CLASSES))
    at = np.random.default_rng(5).random(PIXELS)

    def log_chance(vector: Floats) -> float:
        last = outputs(model.layers, vector[None])[0]
        return float(last[2] - last.max() - np.log(np.exp(last - last.max()).sum()))

    chance, gradient = _ascent(model.layers, at, 2)
    steps = np.eye(PIXELS) * 1e-6
    expected = [(log_chance(at + step) - log_chance(at - step)) / 2e-6 for step in steps]
    assert np.log(chance) == pytest.approx(log_chance(at))
    assert gradient == pytest.approx(expected, abs=1e-5)


def test_what_is_found_is_an_input_that_a_row_could_have() -> None:
    """Numbers within [0, 1], a category's entries a distribution; the label in the middle of the row is left out."""
    model = made(MIXED, (5, 6, 2))
    for cell in range(2):
        found = inverted(model, cell)
        assert found.vector.shape == (5,)
        assert found.vector.min() >= 0
        assert found.vector.max() <= 1
        assert found.vector[2:].sum() == pytest.approx(1)
        assert found.start == pytest.approx([0.5, 0, 1 / 3, 1 / 3, 1 / 3])
        begun, _ = _ascent(model.layers, found.start, cell)
        assert found.chance > begun


def test_the_projection_is_the_nearest_distribution() -> None:
    """No other of 2,000 distributions is nearer, for each of 50 vectors."""
    rng = np.random.default_rng(2)
    others = rng.dirichlet(np.full(4, 0.5), 2000)
    for vector in rng.normal(0, 1, (50, 4)):
        nearest = _onto_simplex(vector)
        assert nearest.min() >= 0
        assert nearest.sum() == pytest.approx(1)
        assert np.linalg.norm(nearest - vector) <= np.linalg.norm(others - vector, axis=1).min() + 1e-12


def test_of_a_class_of_many_rows_the_typical_one_is_found() -> None:
    """It is as like pictures of the class that were not trained on as those that were: no row is found."""
    each = shapes()
    rows, others = (
        np.concatenate([blurred(shape, 50, 10 * seed + place) for place, shape in enumerate(each)]) for seed in (1, 2)
    )
    labels = np.repeat(np.arange(CLASSES), 50)
    model = trained(rows, labels)
    for cell in range(CLASSES):
        found = inverted(model, cell)
        like = [likeness(found.moved, shape) for shape in each]
        assert int(np.argmax(like)) == cell
        assert like[cell] > 0.6
        inside, outside = (
            np.mean([likeness(found.moved, row) for row in rows_of[labels == cell]]) for rows_of in (rows, others)
        )
        assert abs(inside - outside) < 0.1


def test_of_a_class_of_one_row_that_row_is_found_unless_the_model_never_saw_it() -> None:
    each = shapes()
    many = np.concatenate([blurred(shape, 50, place) for place, shape in enumerate(each[:-1])])
    labels = np.repeat(np.arange(CLASSES - 1), 50)
    alone, others = blurred(each[-1], 1, 77), blurred(each[-1], 200, 78)
    seen = trained(np.concatenate([many, alone]), np.append(labels, CLASSES - 1))
    found = inverted(seen, CLASSES - 1).moved
    assert likeness(found, alone[0]) > max(likeness(found, other) for other in others)
    unseen = inverted(trained(many, labels), CLASSES - 1).moved
    assert likeness(unseen, alone[0]) < likeness(found, alone[0]) / 2
    rank = np.mean([likeness(unseen, other) < likeness(unseen, alone[0]) for other in others])
    assert rank < 0.99


def test_vectors_that_do_not_vary_are_like_nothing() -> None:
    assert likeness(np.ones(4), np.arange(4.0)) == 0.0
    assert likeness(np.arange(4.0), 3 - 2 * np.arange(4.0)) == pytest.approx(-1)
