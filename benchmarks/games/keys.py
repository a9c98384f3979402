"""Games on selections of keys: a key that nobody else has, several keys of one unit.

Each trial is one output: which of a few keys are published. The attacker knows how many others have each.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.games.game import Game
from privacy.accounting.amounts import ATTO
from privacy.accounting.events import KeySelection, key_selection
from privacy.accounting.key_law import ONE, KeyCountLaw, keep_chances, key_count_law
from privacy.arrays import Floats
from privacy.grant.sampled_noise import SampledNoise
from privacy.noise.random_bytes import SecureBytes

TRIALS: Final = 400_000
DELTA: Final = 0.01
"""Where so many trials see most of what is claimed."""
_CERTAIN: Final = 1e3
"""Log odds of what one table never gives."""
Coins = Callable[[NDArray[np.int64]], NDArray[np.bool_]]
"""From the units of each key to which are published."""


def crossing(event: KeySelection) -> int:
    """Return the number of units from which on what is missing to certainty shrinks by exp(epsilon) a unit."""
    chances, growth = keep_chances(event.epsilon, event.delta), float(np.exp(float(event.epsilon)))
    step = float(event.delta)
    odds = [chance / ONE for chance in chances]
    return next(n for n, odd in enumerate(odds[:-1]) if growth * odd + step >= odds[n + 1] * (1 + 1e-9))


def shipped_coins(units: NDArray[np.int64], *, event: KeySelection) -> NDArray[np.bool_]:
    """Toss the coins of the shipped rule."""
    return SampledNoise(SecureBytes()).key_coins(units, event=event)


def without_threshold(units: NDArray[np.int64], *, event: KeySelection) -> NDArray[np.bool_]:
    """Publish every key that somebody has."""
    return units > 0


def weighed(
    there: bool, trials: int, *, others: tuple[int, ...], has: tuple[int, ...], event: KeySelection, coins: Coins
) -> Floats:
    """Play the published keys, weighed by the chances of the shipped rule."""
    units = np.array(others) + (np.array(has) if there else 0)
    kept = coins(np.tile(units, trials)).reshape(trials, len(others))
    chances = np.array([chance / ONE for chance in keep_chances(event.epsilon, event.delta)])
    known = [chances[np.minimum(np.array(others) + added, chances.size - 1)] for added in (0, np.array(has))]
    with np.errstate(divide="ignore", invalid="ignore"):
        shown, hidden = (np.log(one) - np.log(other) for one, other in (known[::-1], (1 - known[1], 1 - known[0])))
        odds = np.where(kept, shown, hidden)
    return np.asarray(
        np.clip(np.nan_to_num(odds, posinf=_CERTAIN, neginf=-_CERTAIN), -_CERTAIN, _CERTAIN).sum(axis=1)
    )


def two_keys() -> Game:
    """A unit joins the others of two keys; the twin, which has no threshold, publishes one that nobody else has."""
    event = key_selection(Fraction(1), round(DELTA * ATTO), 2)
    at = crossing(event)
    coins = partial(shipped_coins, event=event)
    threat = "one unit more, in two keys; the published keys are seen"
    return Game(
        "selection of keys, 2 a unit",
        threat,
        1.0,
        DELTA,
        TRIALS,
        # What speaks for its absence are keys that are missing, so that the two tables change places.
        lambda there, trials: -weighed(not there, trials, others=(at, at), has=(1, 1), event=event, coins=coins),
        partial(weighed, others=(at, 0), has=(1, 1), event=event, coins=partial(without_threshold, event=event)),
        "keys are published without a threshold",
    )


def whole_epsilon() -> Game:
    """A unit joins the others of one key; all of epsilon is seen. The twin's unit is in two keys more than it may."""
    event = key_selection(Fraction(1), round(DELTA * ATTO), 1)
    at = crossing(event)
    coins = partial(shipped_coins, event=event)
    threat = "one unit more, in one key; the published keys are seen"
    return Game(
        "selection of keys",
        threat,
        1.0,
        DELTA,
        TRIALS,
        # What speaks for its absence is a key that is missing, so that the two tables change places.
        lambda there, trials: -weighed(not there, trials, others=(at,), has=(1,), event=event, coins=coins),
        lambda there, trials: -weighed(not there, trials, others=(at,) * 3, has=(1,) * 3, event=event, coins=coins),
        "the keys of a unit are not bounded",
    )


def counted(there: bool, trials: int, *, others: int, law: KeyCountLaw, threshold: bool) -> Floats:
    """Play the count of one key that others have, or that it is missing; weighed by the shipped law.

    The twin has no threshold: every key that somebody has is published with its count.
    """
    rows = others + there
    kept, noisy = SampledNoise(SecureBytes()).noisy_key_counts(np.full(trials, rows), law=law)
    kept = kept if threshold else np.full(trials, rows > 0)
    chances = np.array([0.0, *(chance / ONE for chance in law.chances)])
    parts = np.concatenate([[0.0], np.diff(chances), [0.0]])
    known = [chances[min(number, chances.size - 1)] for number in (others + 1, others)]
    index = np.clip(others + law.least - noisy, 0, parts.size - 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        shown = np.log(parts[index + 1]) - np.log(np.where(noisy >= law.least, parts[index], 0.0))
        hidden = np.log(1 - known[0]) - np.log(1 - known[1])
    odds = np.nan_to_num(np.where(kept, shown, hidden), posinf=_CERTAIN, neginf=-_CERTAIN)
    return np.asarray(np.clip(odds, -_CERTAIN, _CERTAIN))


def key_and_count() -> Game:
    """A row joins those of one key, whose count is published with it; all of epsilon is seen."""
    law = key_count_law(Fraction(1), Fraction(round(DELTA * 100), 100), rows_per_unit=1)
    threat = "one unit more, in one key; the published keys and their counts are seen"
    return Game(
        "selection of keys with their counts",
        threat,
        1.0,
        DELTA,
        TRIALS,
        partial(counted, others=3 * len(law.chances), law=law, threshold=True),
        partial(counted, others=0, law=law, threshold=False),
        "keys are published with their counts, without a threshold",
    )


GAMES: Final = {"keys": two_keys, "keys_one": whole_epsilon, "keys_counted": key_and_count}
