"""The manual of errors: every kind has its section, and no section is of an error that is not there."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import console
import contracts
import flows
import privacy
import tasks
from console.output import code_of, error_pages, spelled_code
from contracts.errors import Refused, SudareError
from tests.source_folders import EXTENSIONS

_ERROR = re.compile(r"^class \w+\(.*(?:Refused|Refusal|Error|Unavailable|Lost)\b", re.MULTILINE)
"""The head of what may be a kind of error; other modules need not be imported, and those of engines cannot."""
ROOT = Path(__file__).resolve().parents[2]


def _kinds(of: type[SudareError]) -> Iterator[type[SudareError]]:
    for each in of.__subclasses__():
        yield each
        yield from _kinds(each)


def test_every_kind_of_error_has_a_section_and_every_section_a_kind() -> None:
    for package in (contracts, privacy, tasks, flows, console, *map(importlib.import_module, EXTENSIONS)):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            source = Path(str(module.module_finder.path), f"{module.name.rpartition('.')[2]}.py")  # type: ignore[union-attr]
            if source.exists() and _ERROR.search(source.read_text()):
                importlib.import_module(module.name)
    ours = ("contracts.", "privacy.", "tasks.", "flows.", "console.", *(f"{name}." for name in EXTENSIONS))
    kinds = {code_of(each) for each in _kinds(SudareError) if each.__module__.startswith(ours)}
    assert set(error_pages()) == kinds - {code_of(Refused)}
    assert all(len(text.split()) > 8 for text in error_pages().values())


def test_the_manual_has_the_same_text() -> None:
    shipped = (ROOT / "console" / "error_pages.md").read_text(encoding="utf-8")
    assert (ROOT / "docs" / "errors.md").read_text(encoding="utf-8") == shipped


def test_a_code_is_found_as_it_is_printed_and_as_json_spells_it() -> None:
    assert spelled_code("BudgetExceeded") == spelled_code(" budget-exceeded") == "budget-exceeded"
