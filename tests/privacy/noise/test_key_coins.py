"""The coins of a selection of keys: tossed with exactly their chances."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from privacy.accounting.key_law import ONE, keep_chances
from privacy.noise.choice import selected
from privacy.noise.limits import NoiseRefused
from privacy.noise.random_bytes import SeededBytes


def test_a_negative_number_of_units_is_refused() -> None:
    """Nothing is drawn."""
    source = SeededBytes(1)
    with pytest.raises(NoiseRefused):
        selected(np.array([-1]), epsilon=Fraction(1), delta=Fraction(1, 2), source=source)
    assert np.array_equal(source.take(8), SeededBytes(1).take(8))


class Scripted:
    security = "seeded"

    def __init__(self, words: list[int]) -> None:
        self._bytes = b"".join(word.to_bytes(16, "big") for word in words)

    def take(self, n: int) -> NDArray[np.uint8]:
        assert n == len(self._bytes)
        return np.frombuffer(self._bytes, np.uint8).copy()


def test_a_coin_is_decided_by_the_last_of_its_bits() -> None:
    """A uniform number of 128 bits below the chance publishes, one that equals it does not."""
    epsilon, delta = Fraction(1), Fraction(1, 10**3)
    chances = keep_chances(epsilon, delta)
    for units in (1, 2, 5, len(chances) - 2):
        words = [chances[units] - 1, chances[units], chances[units] + 1]
        kept = selected(np.full(3, units), epsilon=epsilon, delta=delta, source=Scripted(words))  # type: ignore[arg-type]
        assert kept.tolist() == [True, False, False]
    sure, most = len(chances) - 1, ONE - 1
    units = np.array([0, sure, sure + 10**6])
    kept = selected(units, epsilon=epsilon, delta=delta, source=Scripted([0, most, most]))  # type: ignore[arg-type]
    assert kept.tolist() == [False, True, True]


def test_coins_fall_as_often_as_they_should() -> None:
    """stat: 200,000 keys of each of five sizes; two-sided binomial tests, false alarm 1e-9 each. The same number of
    published keys is no plausible one for a chance of 10 % more."""
    epsilon, delta, keys = Fraction(1, 2), Fraction(1, 100), 200_000
    chances = keep_chances(epsilon, delta)
    source = SeededBytes(20)
    for units in (2, 4, 6, 8, 10):
        chance = chances[units] / ONE
        kept = int(selected(np.full(keys, units), epsilon=epsilon, delta=delta, source=source).sum())
        assert _plausible(kept, keys, chance)
        assert not _plausible(kept, keys, min(0.999, 1.1 * chance))


def _plausible(kept: int, keys: int, chance: float) -> bool:
    return bool(min(binom.cdf(kept, keys, chance), binom.sf(kept - 1, keys, chance)) >= 0.5e-9)
