"""Games on noise on a network's parameters, and on their changes batch by batch: what `perturb` draws with.

The table is one row, or another one in its place. Both are chosen so that most numbers move over all of their range:
from one row the parameters go to one end of it, from the other to the other end. The attacker weighs the parameters
that are released along the difference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Final

import numpy as np

from benchmarks.games.attackers import claimed
from benchmarks.games.game import Game
from benchmarks.games.lower_bound import BoundMethod
from privacy.accounting.events import DiscreteGaussian, DiscreteLaplaceVector
from privacy.arrays import Floats, Unsigned
from privacy.grant.queries.parameters import noisy_epochs, noisy_parameters, noisy_step, vectors_of
from privacy.grant.sampled_noise import SampledNoise
from privacy.learning.feed_forward import as_layers, batch_deltas
from privacy.learning.layout import ColumnLayout, RowLayout
from privacy.learning.perturbed import DeltaTraining, ParameterRelease, PlainTraining, VectorEvent
from privacy.marginals.sensitivity import GaussianNoise, LaplaceNoise
from privacy.noise.random_bytes import RandomBytes, SecureBytes

TRIALS: Final = 20_000
DELTA: Final = 0.01
BATCHES: Final = 8
_ALWAYS: Final = 8
_LEVELS: Final = np.linspace(0, 1, 2)[:, None]
LAYOUT: Final = RowLayout(
    (
        *(ColumnLayout(f"always_{place}", "number", _LEVELS) for place in range(_ALWAYS)),
        ColumnLayout("x", "number", _LEVELS),
        ColumnLayout("kind", "category", np.eye(2)),
    )
)
"""Nine inputs, eight of them always 1, and two classes: a network without a hidden layer has 20 parameters."""
ROWS: Final[Mapping[bool, Unsigned]] = {
    True: np.array([[*[1] * _ALWAYS, 1, 0]], np.uint8),
    False: np.array([[*[1] * _ALWAYS, 0, 1]], np.uint8),
}
"""The canary, and the row in whose place it is."""
_WIDTHS: Final = (_ALWAYS + 1, 2)
_SURE: Final = 20.0
_WEIGHTS: Final = np.array([_SURE, *[0.0] * (_ALWAYS - 1), -2 * _SURE])
STATE: Final = np.concatenate([_WEIGHTS, -_WEIGHTS, np.zeros(2)])
"""Weights of a network that is sure of the wrong class of either row: their changes are opposite."""
_TOO_FAST: Final = 100.0
HALF: Final = "half the noise"
_PLAIN: Final = PlainTraining("kind", _WIDTHS, 1, 1, 1.0, 0.0, 1)
Play = Callable[[Unsigned, RandomBytes], Floats]


def parameters() -> Game:
    """Learning first, Laplace noise on parameters, each of which moves over all of its range."""
    release = ParameterRelease(replace(_PLAIN, learning_rate=_TOO_FAST, epochs=2), -1.0, 1.0, -1.0, 1.0)
    event = release.event(LaplaceNoise(Fraction(1, 5)), rows_per_unit=1)
    inputs = _ALWAYS + 1
    along = np.array([*[1.0] * inputs, *[-1.0] * inputs, 1.0, -1.0])

    def drawn(codes: Unsigned, source: RandomBytes, event: VectorEvent) -> Floats:
        return noisy_parameters(
            codes, release=release, layout=LAYOUT, event=event, noise=SampledNoise(source)
        ).astype(float)

    rows = {there: np.array([[*[1] * inputs, 0 if there else 1]], np.uint8) for there in (True, False)}
    plays = [partial(_scores, rows=rows, play=partial(drawn, event=each), along=along) for each in _and_half(event)]
    return _game("noise on every parameter of a network", event, plays, HALF)


def changes() -> Game:
    """Noisy changes, one batch, Gaussian noise."""
    training, event = _changing(1, GaussianNoise(Fraction(1, 2)))
    plays = [_played(partial(_epochs, training=training, event=each)) for each in _and_half(event)]
    return _game("noise on the changes of a batch", event, plays, HALF)


def batches() -> Game:
    """Noisy changes, an epoch of many batches; the twin has the row in all of them."""
    training, event = _changing(BATCHES, GaussianNoise(Fraction(1, 2)))
    plays = [_played(partial(each, training=training, event=event)) for each in (_epochs, _all_in_every_batch)]
    game = _game(f"noise on changes, {BATCHES} batches an epoch", event, plays, "the row is in every batch")
    return replace(game, trials=TRIALS // BATCHES)


def _changing(count: int, noise: LaplaceNoise | GaussianNoise) -> tuple[DeltaTraining, VectorEvent]:
    """Return a training of one epoch of so many batches, so slow that its weights stay about where they are."""
    training = DeltaTraining(replace(_PLAIN, learning_rate=1e-3), count, 1.0, 1.0, 1)
    return training, training.event(noise, rows_per_unit=1)


def _epochs(codes: Unsigned, source: RandomBytes, *, training: DeltaTraining, event: VectorEvent) -> Floats:
    """Train as it is shipped; return the parameters that are released."""
    drawn = noisy_epochs(
        codes, training=training, layout=LAYOUT, event=event, state=STATE, noise=SampledNoise(source)
    )
    return drawn.view(np.float64)


def _all_in_every_batch(
    codes: Unsigned, source: RandomBytes, *, training: DeltaTraining, event: VectorEvent
) -> Floats:
    """Train with batches that are not disjoint."""
    vector, (rows, targets) = STATE.copy(), vectors_of(codes, LAYOUT, training.training.label)
    for _ in range(training.batches):
        noisy_step(vector, rows, targets, training=training, event=event, noise=SampledNoise(source))
    return vector


def _played(play: Play) -> Callable[[bool, int], Floats]:
    """Weigh parameters by how the change of one row differs from the other's."""
    moves = {}
    for there, codes in ROWS.items():
        moves[there] = batch_deltas(as_layers(STATE, _WIDTHS), *vectors_of(codes, LAYOUT, "kind"))
    return partial(_scores, rows=ROWS, play=play, along=moves[False] - moves[True])


def _scores(there: bool, trials: int, *, rows: Mapping[bool, Unsigned], play: Play, along: Floats) -> Floats:
    """Train so often on one of the tables."""
    source = SecureBytes()
    return np.stack([play(rows[there], source) for _ in range(trials)]) @ along


def _and_half(event: VectorEvent) -> tuple[VectorEvent, VectorEvent]:
    """Return the event, and that of noise of half the standard deviation."""
    if isinstance(event, DiscreteGaussian):
        return event, DiscreteGaussian(event.sigma_squared / 4, event.moves)
    return event, DiscreteLaplaceVector(2 * event.inverse_scale, event.move, event.times)


def _game(name: str, event: VectorEvent, plays: list[Callable[[bool, int], Floats]], broken: str) -> Game:
    threat = "a table of one row or of another one; the released parameters are seen"
    how: BoundMethod = "gaussian" if isinstance(event, DiscreteGaussian) else "clopper_pearson"
    claim = claimed([event], DELTA)
    return Game(name, threat, claim, DELTA, TRIALS, plays[0], plays[1], broken, method=how, twin_method=how)


GAMES: Final[Mapping[str, Callable[[], Game]]] = {
    "perturbed_parameters": parameters,
    "perturbed_changes": changes,
    "perturbed_batches": batches,
}
