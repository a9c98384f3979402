"""That noise on parameters and on their changes is drawn, how much of it, and to which batches each row goes.

A training is done again without noise, from the rows or from the checkpoint before; what is left of the released
numbers is the noise. Ranges are wide beside it: fewer than 1 in 200 numbers are clamped, and then by so little that
it changes the mean size by less than a third of a standard error.
"""

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from math import sqrt
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.games import perturbed
from benchmarks.games.distinguishing import distinguish
from privacy.accounting.calculus import RenyiCalculus
from privacy.accounting.events import DiscreteLaplaceVector
from privacy.grant.grant import Grant, open_grant
from privacy.grant.queries import parameters as perturbing
from privacy.grant.queries.parameters import ParameterQuery, clamped_steps, noisy_epochs, vectors_of
from privacy.grant.sampled_noise import SampledNoise
from privacy.learning.feed_forward import as_layers, batch_deltas, delta_ranges, initial_vector, train_plainly
from privacy.learning.layout import ColumnLayout, RowLayout
from privacy.learning.perturbed import STEPS, DeltaTraining, ParameterRelease, PlainTraining, VectorEvent
from privacy.marginals.sensitivity import GaussianNoise, LaplaceNoise, Noise
from privacy.noise.random_bytes import SecureBytes
from tests.privacy.learning.learning_rows import LAYOUT, private, random_rows
from tests.privacy.ledger.ledgers import Place, bind, request, terms
from tests.privacy.noise.noise_statistics import lag_rejects

WIDTHS = (LAYOUT.width - 3, 3000, 3)
PLAIN = PlainTraining("label", WIDTHS, 2, 40, 0.1, 0.001, 1)
RELEASE = ParameterRelease(PLAIN, -100.0, 100.0, -50.0, 50.0)
CHANGES = DeltaTraining(replace(PLAIN, regulariser=0.0, learning_rate=1.0), 40, 1.0, 0.5, 2)
ROWS = random_rows(200)
COUNT = PLAIN.parameters
LEAST_WIDE = 1e-3
SURE = 6.5
"""Standard errors; a mean beyond them is a false alarm, with a chance of 8e-11."""
NOISES: tuple[Noise, ...] = (LaplaceNoise(Fraction(30)), GaussianNoise(Fraction(8**2 * COUNT, 2)))
"""A range is 30 scales wide, or 8 standard deviations; with two epochs 15, or 5.7."""


def granted(place: Place, made: Any, noise: Noise) -> Grant:
    events = (made.event(noise, rows_per_unit=1),) * made.draws
    ledger = place.open()
    ledger.open_account(terms(RenyiCalculus(Fraction(11, 10)), epsilon=10**6))
    bind(ledger, "2024")
    ledger.reserve(request(events=events, epsilon=9 * 10**17, delta=10**9))
    return open_grant(ledger, "run-1")


def expected_size(event: VectorEvent) -> tuple[float, float]:
    """The mean of |noise| and its standard deviation; both are the scale, or those of a half normal [steps]."""
    if isinstance(event, DiscreteLaplaceVector):
        return float(1 / event.inverse_scale), float(1 / event.inverse_scale)
    sigma = sqrt(event.sigma_squared)
    return sigma * sqrt(2 / np.pi), sigma * sqrt(1 - 2 / np.pi)


def charged_noise(noise: NDArray[np.int64], event: VectorEvent, times: float = 1.0) -> bool:
    """Whether noise has mean 0, the size of an event's `times` over, and no draw goes with the next ones."""
    mean, deviation = expected_size(event)
    error, size = times * deviation / sqrt(noise.size), np.abs(noise).mean()
    spread = times * sqrt(mean**2 + deviation**2) / sqrt(noise.size)
    near = abs(size - times * mean) < SURE * error and abs(noise.mean()) < SURE * spread
    return bool(near and not lag_rejects(noise, (1, 2, 3, 7)))


@pytest.mark.stat
@pytest.mark.parametrize("noise", NOISES, ids=["laplace", "gaussian"])
def test_released_parameters_have_the_noise_that_is_charged(sqlite_place: Place, noise: Noise):
    """n = 24,003 parameters; false alarm 2 x 8e-11 for size and mean, 1e-9 for lags; noise 10 % off is refused. 10 %
    of the mean size are 15 standard errors of a Laplace distribution's, 20 of a Gaussian's."""
    (drawn,) = granted(sqlite_place, RELEASE, noise).draw(ParameterQuery(private(ROWS), RELEASE, noise), key="p")
    rows, targets = vectors_of(ROWS, LAYOUT, "label")
    told = {name: getattr(PLAIN, name) for name in ("epochs", "batch", "learning_rate", "regulariser", "seed")}
    trained = train_plainly(initial_vector(WIDTHS, 1), WIDTHS, rows, targets, **told)
    added = drawn.values - clamped_steps(trained, *RELEASE.ranges)
    assert charged_noise(added, RELEASE.event(noise, rows_per_unit=1))
    for wrong in (0.9, 1.1):
        assert not charged_noise(added, drawn.event, wrong)
    assert not charged_noise(0 * added, drawn.event)
    assert not charged_noise(np.repeat(added[::2], 2), drawn.event)


@pytest.mark.stat
@pytest.mark.parametrize("noise", NOISES, ids=["laplace", "gaussian"])
def test_noisy_changes_have_the_noise_that_is_charged(sqlite_place: Place, noise: Noise):
    """n = 26,000 changes at least, in two draws of one batch each; false alarms as above. The table has one row, so
    that its change lies inside of its range. Looked at are changes in the middle of a range, and of those that can
    be: the range of a weight behind a node that no row excites is 0."""
    codes = ROWS[:1]
    events = CHANGES.event(noise, rows_per_unit=1)
    drawn = granted(sqlite_place, CHANGES, noise).draw(ParameterQuery(private(codes), CHANGES, noise), key="p")
    states = [initial_vector(WIDTHS, 1), *(each.values.view(np.float64) for each in drawn)]
    rows, targets = vectors_of(codes, LAYOUT, "label")
    found = []
    for before, after in pairwise(states):
        layers = as_layers(before, WIDTHS)
        low, high = (np.clip(each, -CHANGES.limits, CHANGES.limits) for each in delta_ranges(layers))
        exact = clamped_steps(batch_deltas(layers, rows, targets), low, high)
        wide = (high - low > LEAST_WIDE) & (np.abs(exact - STEPS // 2) < STEPS // 100)
        change = (before - after) * PLAIN.batch / CHANGES.training.learning_rate
        steps = np.rint((change - low)[wide] / (high - low)[wide] * STEPS).astype(np.int64)
        found.append(steps - exact[wide])
        assert wide.sum() > 13_000
    added = np.concatenate(found)
    assert charged_noise(added, events)
    for wrong in (0.9, 1.1):
        assert not charged_noise(added, events, wrong)
    assert not np.array_equal(found[0][:1000], found[1][:1000])


def test_every_row_is_in_one_batch_an_epoch_and_every_batch_draws_noise(monkeypatch: pytest.MonkeyPatch):
    """Rows are told apart by a number; the step itself is the real one, and it is watched only."""
    layout = RowLayout((ColumnLayout("number", "number", np.linspace(0, 1, 200)[:, None]), LAYOUT.columns[-1]))
    codes = np.stack([np.arange(200), np.arange(200) % 3], axis=1).astype(np.uint8)
    plain = PlainTraining("label", (1, 3), 6, 40, 0.1, 0.0, 1)
    training = DeltaTraining(plain, 200, 1.0, 1.0, 2)
    event = training.event(LaplaceNoise(Fraction(1)), rows_per_unit=1)
    seen: list[list[int]] = []
    step = perturbing.noisy_step

    def watched(vector: Any, rows: Any, targets: Any, **named: Any) -> None:
        seen.append(np.rint(rows[:, 0] * 199).astype(int).tolist())
        before = vector.copy()
        step(vector, rows, targets, **named)
        assert named["event"] == event
        assert not np.array_equal(vector, before)

    monkeypatch.setattr(perturbing, "noisy_step", watched)
    state = initial_vector(plain.widths, 1)
    noisy_epochs(codes, training=training, layout=layout, event=event, state=state, noise=SampledNoise(SecureBytes()))
    assert len(seen) == training.epochs_per_draw * training.batches == 15
    epochs = [seen[start : start + 5] for start in range(0, 15, 5)]
    for epoch in epochs:
        assert Counter(row for batch in epoch for row in batch) == Counter(range(200))
    assert epochs[0] != epochs[1] != epochs[2]
    seen.clear()
    noisy_epochs(
        codes[:0], training=training, layout=layout, event=event, state=state, noise=SampledNoise(SecureBytes())
    )
    assert seen == [[]] * 15


@pytest.mark.long
@pytest.mark.stat
@pytest.mark.parametrize(
    ("name", "trials", "between"),
    [("perturbed_parameters", 800, 1.3), ("perturbed_changes", 800, 1.15), ("perturbed_batches", 200, 1.1)],
)
def test_two_tables_are_as_far_apart_as_the_noise_lets_them_be_and_a_twin_s_are_farther(
    name: str, trials: int, between: float
):
    """n = 800 trainings of each table (200 of 8 batches each); false alarm 1e-9 for each side, and for the bound. How
    far the attacker's numbers are apart, in standard deviations of one table's: as drawn 0.9, 0.8 and 0.3; with half
    the noise, or the row in every batch, 1.8, 1.55 and 2.2. The mean of n is off by about sqrt(2 / n), so the line
    between is more than 6 standard errors from either. Without noise they would be apart for certain."""
    game = perturbed.GAMES[name]()
    shipped, twin = ([each(there, trials) for there in (True, False)] for each in (game.shipped, game.twin))
    assert apart(*shipped) < between < apart(*twin)
    bound = distinguish(*shipped, delta=game.delta, confidence=1 - 1e-9, method=game.method)
    assert bound.epsilon <= game.epsilon < bound.largest_certifiable


def apart(there: NDArray[np.float64], not_there: NDArray[np.float64]) -> float:
    spread = sqrt((there.var() + not_there.var()) / 2)
    return float((there.mean() - not_there.mean()) / spread) if spread else float("inf")


@pytest.mark.parametrize("made", [RELEASE, CHANGES], ids=["parameters", "changes"])
def test_a_table_without_rows_is_trained_on_like_any_other(made: Any, sqlite_place: Place):
    """Whether there was a row must not show in a training that fails."""
    noise = NOISES[0]
    drawn = granted(sqlite_place, made, noise).draw(ParameterQuery(private(ROWS[:0]), made, noise), key="p")
    assert [each.values.size for each in drawn] == [COUNT] * made.draws
