"""The tests mirror the packages, each file in the folder of the room that it tests, and their noise is known."""

import re
import secrets
from pathlib import Path

import pytest

from privacy.noise.random_bytes import SecureBytes
from tests.worlds.known_noise import known_noise

ROOT = Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests"
STRANGERS = TESTS / "plug_ins"
WITHOUT_ROOM = frozenset({".", "extensions", "fence", "worlds"})
"""Folders of tests alone: the repository, extensions as such, what builds finished runs, what they may not lose."""


def folders() -> set[str]:
    """Every folder with a module in it, by its path in the tests, without packages that tests install."""
    return {
        path.parent.relative_to(TESTS).as_posix() for path in TESTS.rglob("*.py") if STRANGERS not in path.parents
    }


@pytest.mark.services
def test_a_folder_of_tests_is_named_as_the_room_that_it_tests():
    assert {name for name in folders() if not (ROOT / name / "__init__.py").exists()} == WITHOUT_ROOM


def test_a_folder_of_tests_is_a_package():
    """Else two files of one name in two folders would be one module to pytest."""
    assert [name for name in folders() if not (TESTS / name / "__init__.py").exists()] == []


@pytest.mark.services
def test_a_test_imports_from_its_room_or_the_room_above():
    """Commands are typed and pages are read from outside, so the console's tests need no import."""
    elsewhere = set()
    for path in TESTS.rglob("test_*.py"):
        room = path.parent.relative_to(TESTS).as_posix().removeprefix("extensions/")
        above = room.rpartition("/")[0] or room
        imported = rf"\b(?:{above.replace('/', '.')}|tests\.worlds)(?:\.| import )"
        outside = room in WITHOUT_ROOM or room.startswith("console")
        if not outside and not re.search(imported, path.read_text(encoding="utf-8")):
            elsewhere.add(path.relative_to(TESTS).as_posix())
    assert elsewhere == FROM_OUTSIDE


FROM_OUTSIDE = {
    "extensions/sudare_exchange/test_catalog.py",
    "flows/periods/test_nobody.py",
    "flows/test_kills.py",
    "tasks/storage/sources/test_table_schema.py",
}
"""Tests that type a command, start a whole process or server, or come to the room through the step above it."""


def drawn() -> tuple[bytes, int]:
    return SecureBytes().take(16).tobytes(), secrets.randbits(128)


@pytest.fixture
def of_a_fixture() -> tuple[bytes, int]:
    return drawn()


def test_a_name_gives_the_same_draws_again_each_unlike_the_others(of_a_fixture: tuple[bytes, int]):
    """Two sources of one block differ, and so do those of other names, of a fixture and of the test."""
    blocks = []
    for name in ("a", "a", "b"):
        with known_noise(name):
            blocks.append([drawn(), drawn()])
    assert blocks[0] == blocks[1]
    assert len({*blocks[0], *blocks[2], of_a_fixture, drawn(), drawn()}) == 7


def test_a_test_draws_what_it_drew_before():
    """Under its own name, whatever was run before it."""
    with known_noise("tests/test_mirror.py::test_a_test_draws_what_it_drew_before call"):
        again = drawn()
    assert drawn() == again


@pytest.mark.stat
def test_a_test_of_chance_has_real_noise():
    """n = 1; two keys of 256 bits are the same with probability 2^-256."""
    with known_noise("tests/test_mirror.py::test_a_test_of_chance_has_real_noise call"):
        known = drawn()
    assert drawn() != known
