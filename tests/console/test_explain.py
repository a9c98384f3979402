"""`sudare explain` and the manual of errors: what a spec publishes, what a version tells, what an error means."""

import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import console
import contracts
import flows
import privacy
import tasks
from console.output import code_of, error_pages, spelled_code
from contracts.errors import Refused, SudareError
from tests.console.conftest import Typed
from tests.source_folders import EXTENSIONS
from tests.tasks.verification.forgery import edit
from tests.worlds.statistics import StatisticsScenario
from tests.worlds.tables import first
from tests.worlds.versions import AnyScenario, Worlds

ADULT = Path(__file__).resolve().parents[2] / "examples" / "adult"


def test_a_spec_is_told_without_its_rows(typed: Typed, tmp_path: Path):
    """The source may be away: nothing of it is read."""
    for name in ("statistics.yaml", "adult.odcs.yaml"):
        (tmp_path / name).write_bytes((ADULT / name).read_bytes())
    said = typed("explain", str(tmp_path / "statistics.yaml"))
    said.assert_printed("Noisy counts, sums and means about adult", "62.25 %", "one row: whether it is in the table")


@pytest.mark.parametrize("scenario", [first(), StatisticsScenario()], ids=["tables", "statistics"])
def test_a_version_tells_its_first_screen(typed: Typed, worlds: Worlds, scenario: AnyScenario):
    folder = worlds.published(scenario).folder
    told = typed("explain", str(folder), "--json").json["paragraphs"]
    words = typed("explain", str(folder / "record.json")).out
    assert all(paragraph.splitlines()[0] in words for paragraph in told)
    assert any("% sure afterwards" in paragraph for paragraph in told)
    assert any(paragraph.startswith("Noise does not cover:") for paragraph in told)


def test_a_version_is_not_vouched_for(typed: Typed, worlds: Worlds, tmp_path: Path):
    """An edited record is refused; what is told of any other is said to be unchecked, before it is told."""
    version = worlds.published(first()).copy(tmp_path / "v")
    assert "Nothing of it was checked here" in typed("explain", str(version.folder), "--json").json["paragraphs"][1]
    edit(version.folder / "record.json", lambda record: record["replay"]["charge"].update(epsilon="0.01"))
    typed("explain", str(version.folder)).assert_ended(2, "another file than the manifest of the version names")


def test_an_error_is_told_by_its_code(typed: Typed):
    assert "under the cap of its account" in typed("explain", "BudgetExceeded").out


def test_what_is_neither_is_refused_with_the_nearest_code(typed: Typed, tmp_path: Path):
    said = typed("explain", "budget-exceded")
    assert (said.code, "budget-exceeded" in said.err) == (2, True)
    assert "sudare explain source-unreadable" in said.err
    (tmp_path / "v1").mkdir()
    assert "no readable record" in typed("explain", str(tmp_path / "v1")).err


_ERROR = re.compile(r"^class \w+\(.*(?:Refused|Refusal|Error|Unavailable|Lost)\b", re.MULTILINE)
"""The head of what may be a kind of error; other modules need not be imported, and those of engines cannot."""
ROOT = Path(__file__).resolve().parents[2]


def _kinds(of: type[SudareError]) -> Iterator[type[SudareError]]:
    for each in of.__subclasses__():
        yield each
        yield from _kinds(each)


def test_every_kind_of_error_has_a_section_and_every_section_a_kind():
    for package in (contracts, privacy, tasks, flows, console, *map(importlib.import_module, EXTENSIONS)):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            source = Path(str(module.module_finder.path), f"{module.name.rpartition('.')[2]}.py")  # type: ignore[union-attr]
            if source.exists() and _ERROR.search(source.read_text()):
                importlib.import_module(module.name)
    ours = ("contracts.", "privacy.", "tasks.", "flows.", "console.", *(f"{name}." for name in EXTENSIONS))
    kinds = {code_of(each) for each in _kinds(SudareError) if each.__module__.startswith(ours)}
    assert set(error_pages()) == kinds - {code_of(Refused)}
    assert all(len(text.split()) > 8 for text in error_pages().values())


def test_the_manual_has_the_same_text():
    shipped = (ROOT / "console" / "error_pages.md").read_text(encoding="utf-8")
    assert (ROOT / "docs" / "errors.md").read_text(encoding="utf-8") == shipped


def test_a_code_is_found_as_it_is_printed_and_as_json_spells_it():
    assert spelled_code("BudgetExceeded") == spelled_code(" budget-exceeded") == "budget-exceeded"
