"""Train on made-up rows, test on real ones: every learner learns what is there, and equal rows count as often."""

import sys

import numpy as np
import pytest

from privacy.evaluation.cells import EncodedRows
from tasks.evaluation.scores import (
    LEARNERS,
    PACKAGES,
    EvaluationExtraMissing,
    accuracies,
    check_installed,
    decision_tree,
)

COLUMNS, SHAPE = ("a", "b", "y"), (4, 3, 2)


def made(number: int, seed: int, *, flipped: float) -> EncodedRows:
    """Rows whose target says whether a >= 2, but for a share of them."""
    random = np.random.default_rng(seed)
    a, b = random.integers(0, 4, number), random.integers(0, 3, number)
    wrong = random.random(number) < flipped
    return EncodedRows(COLUMNS, SHAPE, np.stack([a, b, (a >= 2) ^ wrong], axis=1).astype(np.int64))


def test_every_learner_finds_the_rule_and_is_tested_on_the_real_rows():
    """Learned from rows of which a tenth is wrong, tested on rows of which a fifth is: 0.8."""
    real = made(1000, 2, flipped=0.2)
    share = float(np.mean((real.codes[:, 0] >= 2) == real.codes[:, 2]))
    reached = accuracies(made(2000, 1, flipped=0.1), real, target="y")
    assert reached == {name: pytest.approx(share) for name in LEARNERS}


def test_rows_without_a_rule_teach_nothing():
    """The wrong case: targets that are turned round give the opposite."""
    real = made(1000, 2, flipped=0.2)
    reached = accuracies(made(2000, 1, flipped=0.9), real, target="y")
    assert all(accuracy < 0.3 for accuracy in reached.values())


@pytest.mark.parametrize("name", LEARNERS)
def test_weights_stand_for_equal_rows(name: str):
    """A learner that is given every row with weight 1 predicts the same."""
    train, test = made(300, 3, flipped=0.3), made(200, 4, flipped=0.3)
    encoded = [
        np.concatenate([np.eye(4)[rows.codes[:, 0]], np.eye(3)[rows.codes[:, 1]]], axis=1) for rows in (train, test)
    ]
    learner = LEARNERS[name]().fit(encoded[0], train.codes[:, 2])
    expected = float(np.mean(learner.predict(encoded[1]) == test.codes[:, 2]))
    assert accuracies(train, test, target="y")[name] == pytest.approx(expected)


def test_a_target_that_never_varies_is_predicted_without_learning():
    train = EncodedRows(COLUMNS, SHAPE, np.array([[0, 0, 1], [3, 2, 1]]))
    test = EncodedRows(COLUMNS, SHAPE, np.array([[0, 0, 1], [3, 2, 0], [1, 1, 0], [1, 0, 0]]))
    assert set(accuracies(train, test, target="y").values()) == {0.25}


def test_a_target_of_more_than_two_values_some_of_which_were_never_made():
    """Codes 0 and 2 of three: xgboost wants consecutive ones."""
    codes = np.array([[a, b, 2 * (a >= 2)] for a in range(4) for b in range(3)] * 20)
    rows = EncodedRows(COLUMNS, (4, 3, 3), codes)
    assert set(accuracies(rows, rows, target="y").values()) == {1.0}


def test_what_cannot_be_learned_is_refused():
    rows = made(10, 1, flipped=0)
    with pytest.raises(ValueError, match="target must be one of"):
        accuracies(rows, rows, target="z")
    with pytest.raises(ValueError, match="at least one row to learn from"):
        accuracies(EncodedRows(COLUMNS, SHAPE, rows.codes[:0]), rows, target="y")
    with pytest.raises(ValueError, match="same columns"):
        accuracies(EncodedRows(COLUMNS, (5, 3, 2), rows.codes), rows, target="y")


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "sklearn.tree", None)
    with pytest.raises(EvaluationExtraMissing, match=r"scikit-learn.*sudare\[evaluate\]"):
        decision_tree()
    check_installed(*PACKAGES)
    monkeypatch.setitem(sys.modules, "xgboost", None)
    with pytest.raises(EvaluationExtraMissing, match=r"xgboost-cpu.*sudare\[evaluate\]"):
        check_installed(*PACKAGES)
