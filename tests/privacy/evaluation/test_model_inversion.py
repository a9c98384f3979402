"""Model inversion and attribute inference: what is typical, or the one record; models that leak, and that do not.

Rows are drawn from a fixed seed, so that a run that passes once passes always; bounds are five deviations of a share.
"""

import numpy as np
import pytest

from privacy.arrays import Floats, Unsigned
from privacy.classifiers.classifier import ClassifierModel, layers_of, outputs, parameters_in
from privacy.evaluation.membership import (
    CellNumbers,
    PredictedShares,
    beyond,
    chosen_weight,
    evidence,
    guessed,
    inferred,
)
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


def test_the_gradient_is_that_of_the_logarithm_of_the_chance():
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


def test_what_is_found_is_an_input_that_a_row_could_have():
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


def test_the_projection_is_the_nearest_distribution():
    """No other of 2,000 distributions is nearer, for each of 50 vectors."""
    rng = np.random.default_rng(2)
    others = rng.dirichlet(np.full(4, 0.5), 2000)
    for vector in rng.normal(0, 1, (50, 4)):
        nearest = _onto_simplex(vector)
        assert nearest.min() >= 0
        assert nearest.sum() == pytest.approx(1)
        assert np.linalg.norm(nearest - vector) <= np.linalg.norm(others - vector, axis=1).min() + 1e-12


def test_of_a_class_of_many_rows_the_typical_one_is_found():
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


def test_of_a_class_of_one_row_that_row_is_found_unless_the_model_never_saw_it():
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


def test_vectors_that_do_not_vary_are_like_nothing():
    assert likeness(np.ones(4), np.arange(4.0)) == 0.0
    assert likeness(np.arange(4.0), 3 - 2 * np.arange(4.0)) == pytest.approx(-1)


PEOPLE, VALUES, PLACE = 4000, 4, 1
MEMBERS = np.arange(PEOPLE) < PEOPLE // 2


def people() -> tuple[Unsigned, CellNumbers]:
    rng = np.random.default_rng(7)
    secret, other = rng.integers(0, VALUES, PEOPLE), rng.integers(0, 5, PEOPLE)
    labels = np.where(rng.random(PEOPLE) < 0.5, secret % 2, rng.integers(0, 2, PEOPLE))
    return np.stack([np.arange(PEOPLE), secret, other], axis=1).astype(np.uint16), labels.astype(np.int64)


def memorising(codes: Unsigned, labels: CellNumbers) -> PredictedShares:
    seen = {tuple(row): int(label) for row, label in zip(codes[MEMBERS].tolist(), labels[MEMBERS], strict=True)}

    def told(asked: Unsigned) -> Floats:
        sure = np.full((len(asked), 2), 0.5)
        for place, row in enumerate(asked.tolist()):
            if tuple(row) in seen:
                sure[place] = 0.01
                sure[place, seen[tuple(row)]] = 0.99
        return sure

    return told


def of_the_population(asked: Unsigned) -> Floats:
    odd = np.where(asked[:, PLACE] % 2 == 1, 0.75, 0.25)
    return np.stack([1 - odd, odd], axis=1)


FLAT = np.full((PEOPLE, VALUES), 1 / VALUES)


def test_a_model_that_memorises_tells_the_secret_of_its_rows_and_of_no_other():
    codes, labels = people()
    found = evidence(memorising(codes, labels), codes, labels, place=PLACE, values=VALUES)
    told = inferred(guessed(FLAT, found, weight=1.0), codes[:, PLACE].astype(np.int64), MEMBERS)
    assert told.members == 1.0
    assert abs(told.others - 1 / VALUES) < 5 * (1 / VALUES * (1 - 1 / VALUES) / told.people[1]) ** 0.5
    assert told.leaked > 5 * told.deviation


def test_a_model_that_is_right_about_the_population_tells_as_much_of_others_as_of_its_rows():
    """It helps: two of four values are left. It leaks nothing."""
    codes, labels = people()
    found = evidence(of_the_population, codes, labels, place=PLACE, values=VALUES)
    told = inferred(guessed(FLAT, found, weight=1.0), codes[:, PLACE].astype(np.int64), MEMBERS)
    helped = 0.75 / 2
    assert abs(told.members - helped) < 5 * (helped * (1 - helped) / told.people[0]) ** 0.5
    assert abs(told.leaked) < 5 * told.deviation


def test_what_every_model_of_the_population_says_is_taken_off():
    """A leak that hides under what is true of everybody is seen against reference models."""
    codes, labels = people()
    leaks = evidence(memorising(codes, labels), codes, labels, place=PLACE, values=VALUES)
    common = evidence(of_the_population, codes, labels, place=PLACE, values=VALUES) * 10
    truth = codes[:, PLACE].astype(np.int64)
    hidden = inferred(guessed(FLAT, leaks + common, weight=1.0), truth, MEMBERS)
    seen = inferred(guessed(FLAT, beyond(leaks + common, [common, common]), weight=1.0), truth, MEMBERS)
    assert seen.members == 1.0
    assert hidden.members < 0.9


def test_a_model_that_says_nothing_leaves_the_guess_to_the_population():
    codes, labels = people()
    silent = evidence(lambda asked: np.full((len(asked), 2), 0.5), codes, labels, place=PLACE, values=VALUES)
    prior = np.tile([0.1, 0.6, 0.2, 0.1], (PEOPLE, 1))
    for weight in (0.0, 1.0, 4.0):
        assert (guessed(prior, silent, weight=weight) == 1).all()
    assert chosen_weight(prior, silent, codes[:, PLACE].astype(np.int64)) == 0.0


def test_the_attacker_chooses_to_ask_a_model_that_leaks():
    """With a prior that is sure of one wrong value, small weights do not suffice."""
    codes, labels = people()
    found = evidence(memorising(codes, labels), codes, labels, place=PLACE, values=VALUES)[MEMBERS]
    prior = np.tile([0.997, 0.001, 0.001, 0.001], (MEMBERS.sum(), 1))
    truth = codes[MEMBERS, PLACE].astype(np.int64)
    weight = chosen_weight(prior, found, truth)
    assert weight == 2.0  # log(0.997 / 0.001) = 6.9 against log(99) = 4.6 times the weight
    assert (guessed(prior, found, weight=weight) == truth).all()


def test_the_value_that_is_written_in_the_row_is_not_read():
    codes, labels = people()
    other = codes.copy()
    other[:, PLACE] = 0
    both = [evidence(of_the_population, each, labels, place=PLACE, values=VALUES) for each in (codes, other)]
    assert np.array_equal(*both)
    assert codes[:, PLACE].any()


def test_shares_are_of_members_and_of_others_and_both_there_must_be():
    truth = np.array([0, 1, 2, 3, 0])
    found = inferred(np.array([0, 1, 0, 3, 1]), truth, np.array([True, True, True, False, False]))
    assert (found.members, found.others, found.people) == (pytest.approx(2 / 3), 0.5, (3, 2))
    assert found.leaked == pytest.approx(1 / 6)
    assert found.deviation == pytest.approx((0.6 * 0.4 * (1 / 3 + 1 / 2)) ** 0.5)
    for members in (np.zeros(5, bool), np.ones(5, bool)):
        with pytest.raises(ValueError, match="some rows must"):
            inferred(truth, truth, members)
