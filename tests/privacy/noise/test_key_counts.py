"""Noisy counts of keys: the law's probabilities, ties of first words, and how many bytes are taken."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from privacy.accounting.key_law import ONE, KeyCountLaw, key_count_law
from privacy.noise.choice import noisy_key_counts
from privacy.noise.limits import NoiseRefused
from privacy.noise.random_bytes import SecureBytes

LAW = key_count_law(Fraction(1), Fraction(1, 100), rows_per_unit=1)


class WrittenBytes:
    """Bytes that a test writes down: one whole number of 128 bits for each key."""

    security = "seeded"

    def __init__(self, numbers: list[int]) -> None:
        self._bytes = np.frombuffer(b"".join(each.to_bytes(16, "big") for each in numbers), dtype=np.uint8)

    def take(self, size: int) -> NDArray[np.uint8]:
        assert size == self._bytes.size
        return self._bytes


def test_each_place_begins_exactly_at_its_chance() -> None:
    """The number below a chance has its index, the chance itself the next one; also where first words are equal."""
    narrow = KeyCountLaw((5, 7, 2**64 - 1, 2**64, 2**64 + 3, ONE), 3, Fraction(1))
    for law in (LAW, narrow):
        numbers = [each + off for each in law.chances[:-1] for off in (-1, 0)] + [0, ONE - 1]
        rows = np.full(len(numbers), 10**6)
        kept, noisy = noisy_key_counts(rows, law=law, source=WrittenBytes(numbers))
        expected = [1 + sum(each <= number for each in law.chances) for number in numbers]
        assert (10**6 + law.least - noisy).tolist() == expected
        assert kept.all()


@pytest.mark.stat
@pytest.mark.parametrize("rows", [1, 4, 9, 30])
def test_counts_have_the_law(rows: int) -> None:
    """n = 200,000; by DKW at alpha = 1e-9 no distribution function is off by more than 0.00732. A threshold that is
    one row off is seen where it matters most: near the crossing chances differ by 0.2 a row."""
    kept, noisy = noisy_key_counts(np.full(200_000, rows), law=LAW, source=SecureBytes())
    index = rows + LAW.least - noisy
    found = np.array([(index <= place).mean() for place in range(1, len(LAW.chances) + 1)])
    chances = np.array(LAW.chances) / ONE
    assert np.abs(found - chances).max() < 0.00732
    assert np.abs(found[1:] - chances[:-1]).max() > 0.02
    assert (kept == (noisy >= LAW.least)).all()
    assert abs(kept.mean() - chances[min(rows, len(chances)) - 1]) < 0.00732


def test_a_key_that_nobody_has_is_never_published_and_a_common_one_always() -> None:
    rows = np.array([0] * 1000 + [len(LAW.chances)] * 1000)
    kept, _ = noisy_key_counts(rows, law=LAW, source=SecureBytes())
    assert not kept[:1000].any()
    assert kept[1000:].all()
    with pytest.raises(NoiseRefused, match="0 or more"):
        noisy_key_counts(np.array([-1]), law=LAW, source=SecureBytes())
