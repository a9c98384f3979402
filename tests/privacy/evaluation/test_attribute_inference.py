"""Attribute inference: a model that leaks its rows, one that is right about everybody, one that says nothing.

Rows are drawn from a fixed seed, so that a run that passes once passes always; bounds are five deviations of a share.
"""

from __future__ import annotations

import numpy as np
import pytest

from privacy.arrays import Floats, Unsigned
from privacy.evaluation.membership import (
    CellNumbers,
    PredictedShares,
    beyond,
    chosen_weight,
    evidence,
    guessed,
    inferred,
)

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


def test_a_model_that_memorises_tells_the_secret_of_its_rows_and_of_no_other() -> None:
    codes, labels = people()
    found = evidence(memorising(codes, labels), codes, labels, place=PLACE, values=VALUES)
    told = inferred(guessed(FLAT, found, weight=1.0), codes[:, PLACE].astype(np.int64), MEMBERS)
    assert told.members == 1.0
    assert abs(told.others - 1 / VALUES) < 5 * (1 / VALUES * (1 - 1 / VALUES) / told.people[1]) ** 0.5
    assert told.leaked > 5 * told.deviation


def test_a_model_that_is_right_about_the_population_tells_as_much_of_others_as_of_its_rows() -> None:
    """It helps: two of four values are left. It leaks nothing."""
    codes, labels = people()
    found = evidence(of_the_population, codes, labels, place=PLACE, values=VALUES)
    told = inferred(guessed(FLAT, found, weight=1.0), codes[:, PLACE].astype(np.int64), MEMBERS)
    helped = 0.75 / 2
    assert abs(told.members - helped) < 5 * (helped * (1 - helped) / told.people[0]) ** 0.5
    assert abs(told.leaked) < 5 * told.deviation


def test_what_every_model_of_the_population_says_is_taken_off() -> None:
    """A leak that hides under what is true of everybody is seen against reference models."""
    codes, labels = people()
    leaks = evidence(memorising(codes, labels), codes, labels, place=PLACE, values=VALUES)
    common = evidence(of_the_population, codes, labels, place=PLACE, values=VALUES) * 10
    truth = codes[:, PLACE].astype(np.int64)
    hidden = inferred(guessed(FLAT, leaks + common, weight=1.0), truth, MEMBERS)
    seen = inferred(guessed(FLAT, beyond(leaks + common, [common, common]), weight=1.0), truth, MEMBERS)
    assert seen.members == 1.0
    assert hidden.members < 0.9


def test_a_model_that_says_nothing_leaves_the_guess_to_the_population() -> None:
    codes, labels = people()
    silent = evidence(lambda asked: np.full((len(asked), 2), 0.5), codes, labels, place=PLACE, values=VALUES)
    prior = np.tile([0.1, 0.6, 0.2, 0.1], (PEOPLE, 1))
    for weight in (0.0, 1.0, 4.0):
        assert (guessed(prior, silent, weight=weight) == 1).all()
    assert chosen_weight(prior, silent, codes[:, PLACE].astype(np.int64)) == 0.0


def test_the_attacker_chooses_to_ask_a_model_that_leaks() -> None:
    """With a prior that is sure of one wrong value, small weights do not suffice."""
    codes, labels = people()
    found = evidence(memorising(codes, labels), codes, labels, place=PLACE, values=VALUES)[MEMBERS]
    prior = np.tile([0.997, 0.001, 0.001, 0.001], (MEMBERS.sum(), 1))
    truth = codes[MEMBERS, PLACE].astype(np.int64)
    weight = chosen_weight(prior, found, truth)
    assert weight == 2.0  # log(0.997 / 0.001) = 6.9 against log(99) = 4.6 times the weight
    assert (guessed(prior, found, weight=weight) == truth).all()


def test_the_value_that_is_written_in_the_row_is_not_read() -> None:
    codes, labels = people()
    other = codes.copy()
    other[:, PLACE] = 0
    both = [evidence(of_the_population, each, labels, place=PLACE, values=VALUES) for each in (codes, other)]
    assert np.array_equal(*both)
    assert codes[:, PLACE].any()


def test_shares_are_of_members_and_of_others_and_both_there_must_be() -> None:
    truth = np.array([0, 1, 2, 3, 0])
    found = inferred(np.array([0, 1, 0, 3, 1]), truth, np.array([True, True, True, False, False]))
    assert (found.members, found.others, found.people) == (pytest.approx(2 / 3), 0.5, (3, 2))
    assert found.leaked == pytest.approx(1 / 6)
    assert found.deviation == pytest.approx((0.6 * 0.4 * (1 / 3 + 1 / 2)) ** 0.5)
    for members in (np.zeros(5, bool), np.ones(5, bool)):
        with pytest.raises(ValueError, match="some rows must"):
            inferred(truth, truth, members)
