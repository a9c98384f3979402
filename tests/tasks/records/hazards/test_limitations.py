"""The checklist of hazards follows the run; the known limits are those of the manual."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from contracts.release.about import About, Handling
from tasks.records.facts import RunFacts
from tasks.records.groups.field import Run
from tasks.records.hazards.data_hazards import HAZARDS as OF_DATA
from tasks.records.hazards.guarantee_hazards import HAZARDS as OF_GUARANTEE
from tasks.records.hazards.hazard import checklist
from tasks.records.hazards.implementation_hazards import HAZARDS as OF_IMPLEMENTATION
from tasks.records.hazards.limitations import LIMITS, known_limits, quality_warnings
from tasks.records.hazards.pipeline_hazards import HAZARDS as OF_PIPELINE
from tests.worlds.synthetic_rows import SyntheticScenario
from tests.worlds.tables import first, second

DOCS = Path(__file__).resolve().parents[4] / "docs"
ALL = (*OF_GUARANTEE, *OF_IMPLEMENTATION, *OF_DATA, *OF_PIPELINE)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, RunFacts]:
    folder = tmp_path_factory.mktemp("limits")
    return {
        "town": first().run(folder / "town"),
        "guild": second().run(folder / "guild"),
        "stays": SyntheticScenario().run(folder / "stays"),
    }


def lines(facts: RunFacts) -> dict[str, dict[str, str]]:
    return {line["hazard"]: line for line in checklist(ALL, Run(facts, ()))}


def test_each_hazard_stands_once_and_is_met_limited_or_not_applicable(runs: dict[str, RunFacts]) -> None:
    """No hazard twice, no empty line; every layer has something that is met and something left over."""
    assert len({hazard.hazard for hazard in ALL}) == len(ALL) >= 45
    for facts in runs.values():
        assert {line["status"] for line in lines(facts).values()} == {"met", "limit", "not applicable"}
        assert all(len(line["how"]) > 15 for line in lines(facts).values())
        for layer in (OF_GUARANTEE, OF_IMPLEMENTATION, OF_DATA, OF_PIPELINE):
            assert {"met", "limit"} <= {line["status"] for line in checklist(layer, Run(facts, ()))}


def test_which_hazards_concern_a_run_follows_from_its_draws(runs: dict[str, RunFacts]) -> None:
    """Private choices and a number of rows concern synthetic rows alone; suppression and thresholds tables alone."""
    choices = "scores of a selection on observed cells only, with too little noise, or exact thresholds"
    number, cells = "the exact number of rows published", "cells left out, or rounded, by their true count"
    batches = "shuffled or fixed batches accounted as Poisson samples"
    town, stays = lines(runs["town"]), lines(runs["stays"])
    assert [town[name]["status"] for name in (choices, number, cells)] == ["not applicable", "not applicable", "met"]
    assert [stays[name]["status"] for name in (choices, number, cells)] == ["met", "met", "not applicable"]
    assert town[batches]["status"] == stays[batches]["status"] == "not applicable"
    assert "seeded" in lines(runs["guild"])["noise from a generator that is seeded, guessable or replayed"]["how"]


def test_what_people_declared_is_in_the_checklist(runs: dict[str, RunFacts]) -> None:
    """Access before the release: as declared, none as declared, or not declared."""
    hazard = "people who explored the rows before the release was designed"
    handled = Handling(what="a clerk drew a chart", accounted="unaccounted")
    said = [
        lines(replace(runs["town"], about=About(exploratory_access=access)))[hazard]["how"]
        for access in (handled, "none", None)
    ]
    assert "a clerk drew a chart (unaccounted)" in said[0]
    assert said[1].startswith("none, as the publisher declares")
    assert said[2].startswith("not declared")


def test_the_hazards_are_those_of_the_manual() -> None:
    """docs/hazards.md numbers all of them, in the order of the checklist, and says how each stands."""
    page = (DOCS / "hazards.md").read_text(encoding="utf-8")
    entries = re.findall(
        r"^### ([0-9]+)\. (.+)\n\*\*(Met|Limit)\*\*, for (every release|releases \w+ .+?)\. ", page, re.MULTILINE
    )
    assert [int(number) for number, *_ in entries] == list(range(1, len(ALL) + 1))
    for hazard, (_, title, standing, which) in zip(ALL, entries, strict=True):
        assert hazard.hazard.partition(":")[0] == title[0].lower() + title[1:]
        assert (standing == "Limit", which == "every release") == (hazard.limit, hazard.concerns is None), title


def test_the_known_limits_are_those_of_the_manual() -> None:
    """Numbers and titles are those of the short list and of the long one, all of them, in order."""
    for page, heading in (
        ("guarantees.md", "\n## Known limits\n"),
        ("derivations.md", "\n## 9. Known limits, in detail\n"),
    ):
        section = (DOCS / page).read_text(encoding="utf-8").partition(heading)[2].partition("\n## ")[0]
        limits = re.findall(r"^([0-9]+)\. \*\*(.+?)\.?\*\*", section, re.MULTILINE)
        assert [(int(number), title) for number, title in limits] == [(limit.number, limit.title) for limit in LIMITS]


def test_limits_that_do_not_concern_a_run_are_left_out(runs: dict[str, RunFacts]) -> None:
    """Large moves only with several rows a unit, made-up rows and their limits only where there are some."""
    numbers = {name: {each["number"] for each in known_limits(Run(facts, ()))} for name, facts in runs.items()}
    assert 16 in numbers["guild"] - numbers["town"]
    assert 17 in numbers["stays"] - numbers["town"]
    assert 19 in numbers["town"] - numbers["stays"]
    assert all(4 not in each and 18 not in each for each in numbers.values())
    assert "the contract: Trades are as reported." in quality_warnings(Run(runs["guild"], ()))
