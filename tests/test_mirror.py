"""The tests mirror the packages: a file of tests stands in the folder of a room, and tests that room."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

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
def test_a_folder_of_tests_is_named_as_the_room_that_it_tests() -> None:
    assert {name for name in folders() if not (ROOT / name / "__init__.py").exists()} == WITHOUT_ROOM


def test_a_folder_of_tests_is_a_package() -> None:
    """Else two files of one name in two folders would be one module to pytest."""
    assert [name for name in folders() if not (TESTS / name / "__init__.py").exists()] == []


@pytest.mark.services
def test_a_test_imports_from_its_room_or_the_room_above() -> None:
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
