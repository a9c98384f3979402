"""The checklist of hazards follows the run; the known limits are those of the manual."""

import re
from pathlib import Path

import pytest

from tasks.records.facts import RunFacts
from tasks.records.groups.field import Run
from tasks.records.hazards.limits import (
    CONCERNS,
    COUNT,
    LIMITED,
    LIMITS,
    VERSION,
    hazards,
    limits_of,
    quality_warnings,
)
from tasks.records.record import named_fields
from tests.worlds.synthetic_rows import SyntheticScenario
from tests.worlds.tables import first, second

DOCS = Path(__file__).resolve().parents[4] / "docs"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, RunFacts]:
    folder = tmp_path_factory.mktemp("limits")
    return {
        "town": first().run(folder / "town"),
        "guild": second().run(folder / "guild"),
        "stays": SyntheticScenario().run(folder / "stays"),
    }


def standings(facts: RunFacts) -> dict[int, str]:
    stated = hazards(Run(facts, ()))
    return {number: standing for standing in ("met", "limit", "not_applicable") for number in stated[standing]}


@pytest.mark.long
def test_each_hazard_stands_once_and_is_met_limited_or_not_applicable(runs: dict[str, RunFacts]):
    for facts in runs.values():
        stated = hazards(Run(facts, ()))
        listed = [*stated["met"], *stated["limit"], *stated["not_applicable"]]
        assert sorted(listed) == list(range(1, COUNT + 1))
        assert all(stated[standing] for standing in ("met", "limit", "not_applicable"))


def test_which_hazards_concern_a_run_follows_from_its_draws(runs: dict[str, RunFacts]):
    """Private choices and a number of rows concern synthetic rows alone; suppression and thresholds tables alone."""
    town, stays = standings(runs["town"]), standings(runs["stays"])
    choices, rows, cells, thresholds, batches = 31, 27, 26, 39, 14
    assert [town[number] for number in (choices, rows, cells, thresholds)] == [
        *["not_applicable"] * 2,
        "met",
        "limit",
    ]
    assert [stays[number] for number in (choices, rows, cells, thresholds)] == ["met", "met", *["not_applicable"] * 2]
    assert town[batches] == stays[batches] == "not_applicable"


def test_the_hazards_are_those_of_the_manual():
    """docs/hazards.md has the version, numbers all of them, and says of each how it stands and whom it concerns."""
    page = (DOCS / "hazards.md").read_text(encoding="utf-8")
    assert page.startswith(f"# Hazards, version {VERSION}\n")
    entries = re.findall(
        r"^### ([0-9]+)\. .+\n\*\*(Met|Limit)\*\*, for (every release|releases \w+ .+?)\. ", page, re.MULTILINE
    )
    assert [int(number) for number, *_ in entries] == list(range(1, COUNT + 1))
    assert {int(number) for number, standing, _ in entries if standing == "Limit"} == LIMITED
    concerns = {(which, CONCERNS.get(int(number))) for number, _, which in entries}
    assert ("every release", None) in concerns
    assert len({which for which, _ in concerns}) == len({concern for _, concern in concerns}) == len(concerns)


def test_a_hazard_cites_limits_and_fields_that_are_there():
    """Known limits by number, fields of a record by section and name."""
    page = (DOCS / "hazards.md").read_text(encoding="utf-8")
    cited = {int(number) for number in re.findall(r"\blimit ([0-9]+)", page)}
    assert cited <= {limit.number for limit in LIMITS}
    names = {path for kind in ("tables", "synthetic", "classifier") for path, _ in named_fields(kind)}
    sections = {path.partition(".")[0] for path in names}
    fields = set(re.findall(r"`([a-z]+(?:\.[a-z_]+)?)`", page)) - {"ae", "aim", "mst", "vae"}
    assert len(fields) > 20
    assert fields <= names | sections


def test_the_known_limits_are_those_of_the_manual():
    """Numbers and titles are those of the short list and of the long one, all of them, in order."""
    for page, heading in (
        ("guarantees.md", "\n## Known limits\n"),
        ("derivations.md", "\n## 9. Known limits, in detail\n"),
    ):
        section = (DOCS / page).read_text(encoding="utf-8").partition(heading)[2].partition("\n## ")[0]
        limits = re.findall(r"^([0-9]+)\. \*\*(.+?)\.?\*\*", section, re.MULTILINE)
        assert [(int(number), title) for number, title in limits] == [(limit.number, limit.title) for limit in LIMITS]


def test_limits_that_do_not_concern_a_run_are_left_out(runs: dict[str, RunFacts]):
    """Large moves only with several rows a unit, made-up rows and their limits only where there are some."""
    numbers = {name: {each["number"] for each in limits_of(Run(facts, ()))} for name, facts in runs.items()}
    assert 16 in numbers["guild"] - numbers["town"]
    assert 17 in numbers["stays"] - numbers["town"]
    assert 19 in numbers["town"] - numbers["stays"]
    assert all(4 not in each and 18 not in each for each in numbers.values())
    assert "the contract: Trades are as reported." in quality_warnings(Run(runs["guild"], ()))
