"""Noise on parameters and on their changes: sensitivity, cost, batches, and what the grant refuses and replays."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from privacy.accounting.amounts import PICO, AmountRefused
from privacy.accounting.calculus import PureCalculus, RenyiCalculus
from privacy.accounting.events import (
    DiscreteGaussian,
    DiscreteLaplace,
    DiscreteLaplaceVector,
    PrivacyEvent,
    UnsupportedEvent,
    event_from_json,
)
from privacy.accounting.renyi import best_epsilon, epsilon_at, pure_loss, renyi
from privacy.accounting.scale import scaled
from privacy.classifiers.trainer import parameter_epsilon
from privacy.grant.queries.parameters import ParameterQuery, assigned, clamped_steps, noisy_step, vectors_of
from privacy.grant.sampled_noise import SampledNoise
from privacy.learning.feed_forward import as_layers, initial_vector
from privacy.learning.network import CannotTrain
from privacy.learning.perturbed import STEPS, DeltaTraining, ParameterRelease, PlainTraining
from privacy.ledger.entries import GrantExceeded, LedgerRefusal
from privacy.marginals.sensitivity import GaussianNoise, LaplaceNoise
from privacy.noise.random_bytes import SecureBytes, SeededBytes
from tasks.verification.recompute.loss import recompute
from tests.privacy.learning.learning_rows import LAYOUT, private, random_rows
from tests.privacy.ledger.ledgers import Place, opened_grant

LABEL = next(column.name for column in LAYOUT.columns if column.kind == "category")
CLASSES = LAYOUT.column(LABEL).width
WIDTHS = (LAYOUT.width - CLASSES, 3, CLASSES)
PLAIN = PlainTraining(LABEL, WIDTHS, 2, 40, 0.1, 0.001, 1)
RELEASE = ParameterRelease(PLAIN, -1.0, 1.0, -1.0, 1.0)
DELTAS = DeltaTraining(replace(PLAIN, epochs=4), 200, 1.0, 1.0, 2)
NOISE = LaplaceNoise(Fraction(1, 10))
ROWS = random_rows(200)


@pytest.mark.parametrize(("scale", "move", "times"), [(Fraction(1, 7), 1, 5), (Fraction(1, 10**6), 65536, 40)])
def test_a_vector_costs_what_a_list_of_equal_moves_does(scale: Fraction, move: int, times: int):
    """At every order, in pure loss, and by the auditor's own code."""
    vector, listed = DiscreteLaplaceVector(scale, move, times), DiscreteLaplace(scale, (move,) * times)
    assert pure_loss(vector) == pure_loss(listed) == scale * move * times
    for order in (1.01, 2.0, 17.0, 1e4):
        assert renyi(vector, order) == pytest.approx(renyi(listed, order), rel=1e-9)
    mine = recompute([vector.to_json()], "1e-6", {"kind": "renyi", "order": "3"})
    theirs = recompute([listed.to_json()], "1e-6", {"kind": "renyi", "order": "3"})
    assert float(mine.epsilon_best or 0) == pytest.approx(float(theirs.epsilon_best or 0), rel=1e-12)
    assert mine.pure_epsilon == theirs.pure_epsilon
    assert event_from_json(vector.to_json()) == vector
    halved = scaled(vector, Fraction(1, 2))
    assert float(pure_loss(halved) or 0) == pytest.approx(float(scale * move * times / 2), rel=1e-6)


def test_vectors_that_cannot_be_are_refused():
    for changed in ({"move": 0}, {"times": 0}, {"times": True}, {"move": 1.5}, {"inverse_scale": Fraction(0)}):
        with pytest.raises(AmountRefused):
            DiscreteLaplaceVector(**{"inverse_scale": Fraction(1), "move": 1, "times": 1, **changed})  # type: ignore[arg-type]
    with pytest.raises(UnsupportedEvent):
        event_from_json({"kind": "discrete_laplace_vector", "inverse_scale": "1", "move": "1", "times": 1})


def test_the_joint_loss_is_at_most_p_epsilon_and_at_most_its_zcdp_composition():
    """The account is charged the least; for many parameters the second bound is far below the first."""
    delta = Fraction(1, 10**6)
    event = RELEASE.event(NOISE, rows_per_unit=1)
    joint, count = best_epsilon([event], delta)[0], PLAIN.parameters
    pure, rho = count * 0.1, count * 0.1**2 / 2
    assert joint <= pure
    assert joint <= min(epsilon_at(1 + x, (1 + x) * rho, delta) for x in np.geomspace(0.01, 1000, 200))
    assert PureCalculus().cost([event]) <= pure * PICO + 1
    assert parameter_epsilon(event, 1, 1, delta) == pytest.approx(0.1, rel=1e-9)
    many = replace(RELEASE, training=replace(PLAIN, widths=(WIDTHS[0], 400, CLASSES)))
    assert best_epsilon([many.event(NOISE, rows_per_unit=1)], delta)[0] < 0.2 * many.training.parameters * 0.1


def test_the_scale_is_theorem_4_s_and_does_not_depend_on_the_relation():
    """Scale of a change: range times E / epsilon; k rows of a unit may lie in k batches of an epoch."""
    event = DELTAS.event(NOISE, rows_per_unit=1)
    assert isinstance(event, DiscreteLaplaceVector)
    assert float(1 / event.inverse_scale) / STEPS == pytest.approx(4 / 0.1)
    assert (event.move, event.times) == (STEPS, PLAIN.parameters * 2)
    three = DELTAS.event(NOISE, rows_per_unit=3)
    assert isinstance(three, DiscreteLaplaceVector)
    assert (three.inverse_scale, three.times) == (event.inverse_scale, 3 * event.times)
    assert parameter_epsilon(event, 2, 2, Fraction(0)) == pytest.approx(0.1, rel=1e-9)


def test_gaussian_noise_costs_its_rho_over_all_draws():
    for made in (RELEASE, DELTAS):
        events = [made.event(GaussianNoise(Fraction(1, 4)), rows_per_unit=2)] * made.draws
        rho = sum(sum(m * m for m in each.moves) / (2 * each.sigma_squared) for each in events)  # type: ignore[union-attr]
        assert 0.25 * (1 - 1e-6) < float(rho) <= 0.25
        assert isinstance(events[0], DiscreteGaussian)


def test_a_clamped_number_moves_by_at_most_its_range_whatever_it_was():
    """Overflow, no number at all, an empty range: every step is a whole number from 0 to STEPS."""
    values = np.array([-np.inf, np.inf, np.nan, 1e300, -2.0, 0.25, 3.0])
    steps = clamped_steps(values, -np.ones(7), np.ones(7))
    assert steps.tolist() == [0, STEPS, STEPS // 2, STEPS, 0, STEPS * 5 // 8, STEPS]
    nothing = clamped_steps(values, np.zeros(7), np.zeros(7))
    assert (nothing == 0).all()


def test_two_ranges_move_each_number_by_at_most_its_own_and_change_no_cost():
    """A step is a share of the number's own range, so the event is the one range's, and the noise the paper's. Second
    derivation: in natural units the scale is (w_max - w_min) / epsilon of a weight, (b_max - b_min) / epsilon of a
    bias, and whatever the rows are a number moves by at most that difference, which costs epsilon."""
    two = replace(RELEASE, lowest_bias=-0.25, highest_bias=0.5)
    less = replace(DELTAS, bias_limit=0.125)
    for noise in (NOISE, GaussianNoise(Fraction(1, 4))):
        assert two.event(noise, rows_per_unit=1) == RELEASE.event(noise, rows_per_unit=1)
        assert less.event(noise, rows_per_unit=3) == DELTAS.event(noise, rows_per_unit=3)
    low, high = two.ranges
    ends = [clamped_steps(np.full(low.size, far), low, high) for far in (-1e300, 1e300)]
    assert (ends[0] == 0).all()
    assert (ends[1] == STEPS).all()
    event = two.event(NOISE, rows_per_unit=1)
    assert isinstance(event, DiscreteLaplaceVector)
    scales = (high - low) / STEPS / float(event.inverse_scale)
    for (weights, biases), (of_weights, of_biases) in zip(
        as_layers(high - low, WIDTHS), as_layers(scales, WIDTHS), strict=True
    ):
        assert (weights == 2.0).all()
        assert (biases == 0.75).all()
        assert of_weights == pytest.approx(2.0 / 0.1, rel=1e-9)
        assert of_biases == pytest.approx(0.75 / 0.1, rel=1e-9)


def test_the_change_of_a_bias_stays_within_its_own_limit():
    """Next to no noise and a step of 1 / batch: a weight may move by the limit, a bias by its own only."""
    steep = replace(DELTAS, training=replace(DELTAS.training, learning_rate=40.0, regulariser=0.0), bias_limit=0.125)
    event = steep.event(LaplaceNoise(Fraction(1000)), rows_per_unit=1)
    rows, targets = vectors_of(ROWS, LAYOUT, LABEL)
    before, after = initial_vector(WIDTHS, 1), initial_vector(WIDTHS, 1)
    noisy_step(after, rows, targets, training=steep, event=event, noise=SampledNoise(SeededBytes(9)))
    moved = as_layers(np.abs(after - before), WIDTHS)
    assert max(biases.max() for _, biases in moved) <= 0.125 * (1 + 1e-12)
    assert max(weights.max() for weights, _ in moved) > 0.5


def test_batches_of_an_epoch_are_disjoint_and_a_row_more_changes_no_other_row_s():
    """Each row's batch is drawn for it alone: with the same bytes the rows before it stay where they were."""
    some = assigned(199, 5, SampledNoise(SeededBytes(3)))
    assert (assigned(200, 5, SampledNoise(SeededBytes(3)))[:199] == some).all()
    assert set(some.tolist()) == set(range(5))
    assert some.shape == (199,)


def test_a_batch_without_rows_draws_its_noise_too_and_is_divided_by_the_declared_size():
    """Whether a batch has rows shows in nothing but the values: the same bytes are taken."""
    event = DELTAS.event(LaplaceNoise(Fraction(1000)), rows_per_unit=1)
    rows, targets = vectors_of(ROWS, LAYOUT, LABEL)
    moved = []
    for chosen in (slice(0, 0), slice(0, 7)):
        vector, source = initial_vector(WIDTHS, 1), SeededBytes(9)
        noisy_step(vector, rows[chosen], targets[chosen], training=DELTAS, event=event, noise=SampledNoise(source))
        moved.append((vector, source.take(4).tobytes()))
    assert moved[0][1] == moved[1][1]
    assert not (moved[0][0] == moved[1][0]).all()
    start = initial_vector(WIDTHS, 1)
    reach = 0.1 * (1.0 + 0.001 * np.abs(start).max()) / 40
    assert np.abs(moved[0][0] - start).max() <= reach * (1 + 1e-12)


@pytest.mark.stat
def test_the_noise_of_a_parameter_has_the_scale_that_is_charged():
    """n = 200,000 draws; mean size within 6 standard errors of the scale, and not of one 10 % smaller. A discrete
    Laplace of scale s has mean size about s and its size standard deviation about s: false alarm 2e-9."""
    event = RELEASE.event(NOISE, rows_per_unit=1)
    scale, count = float(1 / event.inverse_scale), 200_000  # type: ignore[union-attr]
    size = np.abs(SampledNoise(SecureBytes()).integers(count, event=event)).mean()
    room = 6 * scale / count**0.5
    assert abs(size - scale) < room
    assert abs(size - 0.9 * scale) > room


def grant_of(place: Place, made: Any, noise: Any = NOISE, **changed: Any) -> Any:
    events: tuple[PrivacyEvent, ...] = (made.event(noise, rows_per_unit=1),) * made.draws
    return opened_grant(place, changed.pop("events", events), **changed)


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("made", [RELEASE, DELTAS], ids=["parameters", "changes"])
def test_the_grant_draws_enters_and_replays(sqlite_place: Place, made: Any, adjacency: Any):
    """The journal holds every draw with its event; a second time the same values come back, and nothing is drawn."""
    ledger, grant = grant_of(sqlite_place, made, adjacency=adjacency)
    told: list[tuple[int, int]] = []
    first = grant.draw(ParameterQuery(private(ROWS), made, NOISE), key="p", progress=lambda d, n: told.append((d, n)))
    again = grant.draw(ParameterQuery(private(ROWS), made, NOISE), key="p")
    assert [each.sha256 for each in first] == [each.sha256 for each in again]
    assert told == [(place + 1, made.draws) for place in range(made.draws)]
    entered = [entry.body["event"] for entry in ledger.journal() if entry.kind == "noise_drawn"]
    assert entered == [each.event.to_json() for each in first]
    if made is RELEASE:
        assert first[0].values.min() >= 0
        assert first[0].values.max() <= STEPS
    with pytest.raises((GrantExceeded, LedgerRefusal)):
        grant.draw(ParameterQuery(private(ROWS), made, NOISE), key="another")


def test_another_training_under_the_same_key_is_refused(sqlite_place: Place):
    _, grant = grant_of(sqlite_place, RELEASE)
    grant.draw(ParameterQuery(private(ROWS), RELEASE, NOISE), key="p")
    with pytest.raises(LedgerRefusal):
        grant.draw(ParameterQuery(private(ROWS), replace(RELEASE, highest=2.0), NOISE), key="p")


class Sneaking(ParameterRelease):
    """Would say that it costs less."""


@pytest.mark.parametrize(
    "made",
    [
        Sneaking(PLAIN, -1.0, 1.0, -1.0, 1.0),
        replace(RELEASE, training=replace(PLAIN, widths=(WIDTHS[0] + 1, CLASSES))),
        replace(RELEASE, training=replace(PLAIN, label="nobody")),
        PLAIN,
    ],
)
def test_what_is_no_training_of_these_rows_is_refused_before_anything_is_drawn(sqlite_place: Place, made: Any):
    ledger, grant = grant_of(sqlite_place, RELEASE)
    with pytest.raises((CannotTrain, ValueError)):
        grant.draw(ParameterQuery(private(ROWS), made, NOISE), key="p")
    assert [entry for entry in ledger.journal() if entry.kind == "noise_drawn"] == []


@pytest.mark.parametrize(
    "changed",
    [
        {"widths": (3,)},
        {"epochs": 0},
        {"batch": 1.5},
        {"learning_rate": float("nan")},
        {"regulariser": -1.0},
        {"widths": (10**5, 10**5, 2)},
        {"seed": -1},
    ],
)
def test_trainings_out_of_range_are_refused(changed: dict[str, Any]):
    with pytest.raises(CannotTrain):
        replace(PLAIN, **changed)


def test_ranges_and_checkpoints_that_cannot_be_are_refused():
    for lowest, highest in ((1.0, 1.0), (float("nan"), 1.0), (-1e9, 1.0)):
        with pytest.raises(CannotTrain):
            ParameterRelease(PLAIN, lowest, highest, -1.0, 1.0)
        with pytest.raises(CannotTrain, match="lowest_bias"):
            ParameterRelease(PLAIN, -1.0, 1.0, lowest, highest)
    for terms in ({"checkpoints": 3}, {"rows_about": 1}, {"limit": 0.0}, {"bias_limit": float("inf")}):
        with pytest.raises(CannotTrain):
            replace(DELTAS, **terms)  # type: ignore[arg-type]


def test_the_calculus_of_an_account_prices_a_vector():
    event = RELEASE.event(NOISE, rows_per_unit=1)
    assert RenyiCalculus(Fraction(3)).cost([event]) < PureCalculus().cost([event])
