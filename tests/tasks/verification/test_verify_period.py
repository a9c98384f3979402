"""Verify a release of one period: the days that people are told of are those that were charged, and to whom."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks._periodic_place import make_periodic
from benchmarks.orchestration import release_plainly
from tests.tasks.verification.forgery import as_forged, forge, of_kind
from tests.worlds.versions import Version, broken

Change = Callable[[Any], object]


@pytest.fixture(scope="module")
def of_a_quarter(tmp_path_factory: pytest.TempPathFactory) -> Version:
    place = make_periodic(tmp_path_factory.mktemp("visits"))
    release_plainly(place.spec, place.workspace.root, period="2024Q1")
    return Version(place.workspace.releases / "visits-2024-q1" / "v1", place.workspace.signer())


def charged(**changed: str) -> Change:
    return lambda entries: of_kind(entries, "charge_reserved").update(changed)


def nothing(_: Any) -> None:
    return None


FORGERIES: dict[str, tuple[Change, Change, set[int]]] = {
    "the charge is for another quarter than its account's": (nothing, charged(days="2024-Q2", block="2024-Q2"), {7}),
    "record and charge name a quarter that nobody paid for": (nothing, charged(days="2024-Q2", block="2024-Q2"), {7}),
    "the charge is for more days than its account's": (
        nothing,
        charged(days="2024-01-01..2024-05-01", block="2024-01-01..2024-05-01"),
        {7},
    ),
    "measured are other days than the charge is for": (nothing, charged(days="2024-Q2"), {7}),
    "no block at all": (nothing, charged(days="next year", block="next year"), {7}),
}


def test_people_are_told_the_days_that_were_charged(of_a_quarter: Version):
    [step] = [each for each in of_a_quarter.words["preprocessing.steps"] if each["step"] == "rows of one period"]
    assert step["what"].endswith("in 2024-Q1")


def test_a_release_of_a_period_verifies(of_a_quarter: Version, tmp_path: Path):
    """As it is, and with everything signed anew without a change."""
    version = as_forged(of_a_quarter.copy(tmp_path / "v"))
    for each in (of_a_quarter, version):
        assert each.verify().ok


@pytest.mark.parametrize("name", FORGERIES)
def test_a_period_that_was_not_charged_is_caught(of_a_quarter: Version, tmp_path: Path, name: str):
    record, journal, rules = FORGERIES[name]
    version = forge(of_a_quarter.copy(tmp_path / "v"), record=record, journal=journal)
    assert broken(version.verify()) == rules
