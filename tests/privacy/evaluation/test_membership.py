"""Membership inference: exact where it can be told by hand, nothing where nothing leaks, and a leak that is seen."""

from __future__ import annotations

import numpy as np
import pytest

from privacy.evaluation.membership import attack, likelihood_ratios, scaled_confidence


def test_the_area_is_the_chance_that_a_member_scores_above_another_row() -> None:
    """By hand: of the 6 pairs 4 are in order and one is a tie."""
    scores, members = np.array([3.0, 2.0, 1.0, 2.0, 0.0]), np.array([True, True, False, False, False])
    pairs = [(s > t) + 0.5 * (s == t) for s in scores[members] for t in scores[~members]]
    found = attack(scores, members)
    assert found.area == pytest.approx(np.mean(pairs)) == pytest.approx(5.5 / 6)
    assert found.caught_at_low_rate == 0.5


def test_scores_that_say_nothing_have_an_area_of_a_half() -> None:
    members = np.arange(2000) % 2 == 0
    assert attack(np.zeros(2000), members).area == 0.5
    guessed = attack(np.random.default_rng(1).random(2000), members)
    assert abs(guessed.area - 0.5) < 0.08
    assert guessed.caught_at_low_rate < 0.05


def test_members_and_others_there_must_be() -> None:
    for members in (np.zeros(3, bool), np.ones(3, bool)):
        with pytest.raises(ValueError, match="some rows must"):
            attack(np.zeros(3), members)


def test_confidence_is_the_logit_of_the_true_cell_and_always_finite() -> None:
    chances = np.array([[0.5, 0.5], [0.2, 0.8], [1.0, 0.0]])
    found = scaled_confidence(chances, np.array([0, 1, 1]))
    assert found[:2] == pytest.approx([0.0, np.log(4)])
    assert np.isfinite(found).all()


def test_shadow_models_see_what_a_threshold_cannot() -> None:
    """Rows that are hard for everybody hide the small shift of the members, until each is held against itself."""
    rng = np.random.default_rng(2)
    rows, models = 1500, 17
    hardness = rng.normal(0, 5, rows)
    trained_on = rng.random((models, rows)) < 0.5
    seen = hardness + 1.0 * trained_on + rng.normal(0, 0.5, (models, rows))
    plain = attack(seen[0], trained_on[0]).area
    ratio = attack(likelihood_ratios(seen[0], seen[1:], trained_on[1:]), trained_on[0]).area
    assert plain < 0.6
    assert ratio > 0.8
