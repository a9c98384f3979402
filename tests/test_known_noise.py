"""Noise in tests repeats, except where a test is about chance; see tests/worlds/known_noise.py."""

from __future__ import annotations

import secrets

import pytest

from privacy.noise.random_bytes import SecureBytes
from tests.worlds.known_noise import known_noise


def drawn() -> tuple[bytes, int]:
    return SecureBytes().take(16).tobytes(), secrets.randbits(128)


@pytest.fixture
def of_a_fixture() -> tuple[bytes, int]:
    return drawn()


def test_a_name_gives_the_same_draws_again_each_unlike_the_others(of_a_fixture: tuple[bytes, int]) -> None:
    """Two sources of one block differ, and so do those of other names, of a fixture and of the test."""
    blocks = []
    for name in ("a", "a", "b"):
        with known_noise(name):
            blocks.append([drawn(), drawn()])
    assert blocks[0] == blocks[1]
    assert len({*blocks[0], *blocks[2], of_a_fixture, drawn(), drawn()}) == 7


def test_a_test_draws_what_it_drew_before() -> None:
    """Under its own name, whatever was run before it."""
    with known_noise("tests/test_known_noise.py::test_a_test_draws_what_it_drew_before call"):
        again = drawn()
    assert drawn() == again


@pytest.mark.stat
def test_a_test_of_chance_has_real_noise() -> None:
    """n = 1; two keys of 256 bits are the same with probability 2^-256."""
    with known_noise("tests/test_known_noise.py::test_a_test_of_chance_has_real_noise call"):
        known = drawn()
    assert drawn() != known
