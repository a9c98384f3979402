"""Membership inference and shadow models: exact by hand, nothing where nothing leaks, and a leak that is seen.

Rows and coins come from fixed seeds, so that a run that passes once passes always; a sound mechanism is refuted with
a chance of at most 1e-6 over fresh ones.
"""

from math import exp

import numpy as np
import pytest

from privacy.arrays import Floats
from privacy.classifiers.classifier import ClassifierModel, layers_of
from privacy.evaluation.membership import attack, likelihood_ratios, scaled_confidence
from privacy.evaluation.seen_releases import SeenModel, SeenRows, SeenTable, SeenTables
from privacy.evaluation.shadow_attacks import FALSE_ALARM, Inside, TestedClaim, Trials, guessing, interval, judged
from privacy.learning.feed_forward import initial_vector, train_plainly
from privacy.learning.layout import ColumnLayout, RowLayout

RELEASES, ROWS, COLUMNS, CELLS = 8, 200, 6, 4
CLAIM = TestedClaim(1.0, 1e-9)


def tossed(seed: int, *, paired: bool = False, releases: int = RELEASES) -> Trials:
    random = np.random.default_rng(seed)
    heads = random.random((releases, ROWS // 2 if paired else ROWS)) < 0.5
    return Trials(np.concatenate([heads, ~heads], axis=1) if paired else heads, releases // 2, paired)


def people(seed: int = 1) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    return np.random.default_rng(seed).integers(0, CELLS, (ROWS, COLUMNS))


def answered(inside: Inside, epsilon: float, seed: int) -> Floats:
    """Randomized response about each row: the most that epsilon allows."""
    random = np.random.default_rng(seed)
    kept = random.random(inside.shape) < exp(epsilon) / (1 + exp(epsilon))
    return np.where(kept == inside, 1.0, 0.0) + random.random(inside.shape) * 1e-3


@pytest.mark.parametrize("paired", [False, True])
def test_rows_that_are_handed_out_are_found_out(paired: bool):
    """The twin publishes its rows: who is in is told, and the other value of a row that was not in is not."""
    rows, trials = people(), tossed(2, paired=paired)
    seen = [SeenRows(rows[inside]) for inside in trials.inside]
    found = judged(np.stack([each.presence(rows) for each in seen], axis=1), trials, CLAIM)
    assert not found.holds
    assert found.chance < FALSE_ALARM
    assert found.advantage > 0.7 > found.allowed_advantage
    assert found.area > 0.9 > found.allowed_area
    assert found.least_epsilon > 2
    evidence = np.stack([each.evidence(rows, 0, CELLS) for each in seen])
    guessed, told = guessing(evidence, np.full((ROWS, CELLS), 1 / CELLS), rows[:, 0], trials)
    assert guessed.members > 0.8
    assert guessed.others < 0.5
    assert guessed.low > 0.3
    assert not judged(told, trials, CLAIM).holds


def test_tables_without_noise_are_found_out_and_with_noise_are_not():
    """All 15 pairs of columns, exact; and with Laplace noise, each table taking a 15th of epsilon 1."""
    rows, trials, random = people(), tossed(3), np.random.default_rng(4)
    pairs = [(i, j) for i in range(COLUMNS) for j in range(i)]
    scores = {}
    for scale in (0.0, 15.0):
        seen = []
        for inside in trials.inside:
            tables = []
            for pair in pairs:
                cells = np.ravel_multi_index(tuple(rows[inside][:, place] for place in pair), (CELLS, CELLS))
                counts = np.bincount(cells, minlength=CELLS**2).reshape(CELLS, CELLS).astype(np.float64)
                if scale:
                    counts += random.laplace(0, scale, counts.shape)
                tables.append(SeenTable(pair, counts, 2 * scale**2))
            seen.append(SeenTables(tuple(tables)))
        scores[scale] = judged(np.stack([each.presence(rows) for each in seen], axis=1), trials, CLAIM)
    assert not scores[0.0].holds
    assert scores[0.0].least_epsilon > 1.5
    assert scores[15.0].holds
    assert scores[15.0].high < scores[15.0].allowed_advantage


def test_a_model_that_knows_its_rows_by_heart_is_found_out():
    """Trained without noise on labels that nothing tells, until it has learned them: its losses show who was in."""
    random, trials = np.random.default_rng(5), tossed(6)
    rows = np.concatenate([random.integers(0, CELLS, (ROWS, 8)), random.integers(0, 2, (ROWS, 1))], axis=1)
    columns = [ColumnLayout(f"c{place}", "category", np.eye(CELLS)) for place in range(8)]
    layout = RowLayout((*columns, ColumnLayout("label", "category", np.eye(2))))
    widths = (8 * CELLS, 32, 2)
    seen = []
    for number, inside in enumerate(trials.inside):
        vectors = layout.vectors(rows[inside].astype(np.uint32)).astype(np.float64)
        start = initial_vector(widths, number)
        how = {"epochs": 60, "batch": 20, "learning_rate": 0.3, "regulariser": 0.0, "seed": number}
        trained = train_plainly(start, widths, vectors[:, :-2], vectors[:, -2:], **how)
        model = ClassifierModel(layout, "label", layers_of(trained.astype(np.float32), widths))
        seen.append(SeenModel(model, 8))
    found = judged(np.stack([each.presence(rows) for each in seen], axis=1), trials, CLAIM)
    assert not found.holds
    assert found.low > found.allowed_advantage
    like = judged(np.stack([each.likeness(rows) for each in seen]), trials, CLAIM)
    assert -1 <= like.low <= like.advantage <= like.high <= 1


def test_the_most_leaky_mechanism_of_a_claim_keeps_it_and_one_of_twice_as_much_does_not():
    """Randomized response at the claim's epsilon, at nearly all that it allows; and at twice that."""
    trials = tossed(7, releases=20)
    sound = judged(answered(trials.inside, 1.0, 8), trials, CLAIM)
    assert sound.holds
    assert sound.advantage > 0.8 * sound.allowed_advantage
    assert sound.least_epsilon > 0.7
    loud = judged(answered(trials.inside, 2.0, 9), trials, CLAIM)
    assert not loud.holds
    assert loud.least_epsilon > 1


@pytest.mark.long
def test_a_sound_claim_is_refuted_as_seldom_as_is_said():
    """60 games of randomized response at the claim, at a stated chance of 5 %: on average at most 3 are refuted.
    Sixteen or more have a chance below 1e-6 if each is refuted with 5 %; the seed is fixed."""
    refuted = 0
    for game in range(60):
        trials = tossed(1000 + game, releases=4)
        refuted += not judged(answered(trials.inside, 1.0, 5000 + game), trials, CLAIM, unsure=0.05).holds
    assert refuted < 16


def test_scores_that_say_nothing_prove_nothing():
    trials = tossed(10)
    found = judged(np.random.default_rng(11).random(trials.inside.shape), trials, CLAIM)
    assert found.holds
    assert found.low < 0 < found.high
    assert found.least_epsilon < 0.5
    same = judged(np.zeros(trials.inside.shape), trials, CLAIM)
    assert (same.holds, same.area, same.advantage) == (True, 0.5, 0.0)


def test_an_interval_holds_its_mean_as_often_as_it_says():
    """4,000 intervals of eight normal values: 95 %, within five deviations of a share (0.0035 each)."""
    random = np.random.default_rng(12)
    held = sum(low <= 0.1 <= high for _, low, high in (interval(random.normal(0.1, 0.05, 8)) for _ in range(4000)))
    assert abs(held / 4000 - 0.95) < 5 * 0.0035


def test_the_area_is_the_chance_that_a_member_scores_above_another_row():
    """By hand: of the 6 pairs 4 are in order and one is a tie."""
    scores, members = np.array([3.0, 2.0, 1.0, 2.0, 0.0]), np.array([True, True, False, False, False])
    pairs = [(s > t) + 0.5 * (s == t) for s in scores[members] for t in scores[~members]]
    found = attack(scores, members)
    assert found.area == pytest.approx(np.mean(pairs)) == pytest.approx(5.5 / 6)
    assert found.caught_at_low_rate == 0.5


def test_scores_that_say_nothing_have_an_area_of_a_half():
    members = np.arange(2000) % 2 == 0
    assert attack(np.zeros(2000), members).area == 0.5
    guessed = attack(np.random.default_rng(1).random(2000), members)
    assert abs(guessed.area - 0.5) < 0.08
    assert guessed.caught_at_low_rate < 0.05


def test_members_and_others_there_must_be():
    for members in (np.zeros(3, bool), np.ones(3, bool)):
        with pytest.raises(ValueError, match="some rows must"):
            attack(np.zeros(3), members)


def test_confidence_is_the_logit_of_the_true_cell_and_always_finite():
    chances = np.array([[0.5, 0.5], [0.2, 0.8], [1.0, 0.0]])
    found = scaled_confidence(chances, np.array([0, 1, 1]))
    assert found[:2] == pytest.approx([0.0, np.log(4)])
    assert np.isfinite(found).all()


def test_shadow_models_see_what_a_threshold_cannot():
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
