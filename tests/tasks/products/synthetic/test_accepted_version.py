"""Versions that were accepted: verified, fitted again, and forged acceptances that are found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from contracts.errors import SpecRefused
from privacy.generators.first_accepted import NothingAccepted
from tasks.verification.refinement_replay import values_sha256
from tests.tasks.verification.forgery import Json, assert_found_out, forge, load
from tests.worlds.synthetic_rows import accepted, pure
from tests.worlds.versions import Version, Worlds

TEST = "acceptance"


@pytest.fixture(scope="module")
def made(worlds: Worlds) -> Version:
    return worlds.published(accepted())


def stated_tests(record: Json) -> list[Json]:
    """The tests in the record: three of the first candidate, then three of the second."""
    return [draw for draw in record["replay"]["draws"] if draw["kind"] == TEST]


def test_an_accepted_version_says_how_each_candidate_ended_and_is_fitted_again(made: Version) -> None:
    """Independent columns are 20 deviations beyond the bound on pairs, the tree of pairs as far inside."""
    made.assert_verifies(deep=True)
    tests = stated_tests(load(made.folder / "record.json"))
    assert [(test["candidate"], test["criterion"]) for test in tests] == [(c, n) for c in (0, 1) for n in (0, 1, 2)]
    missed = [test["distance"] > test["passes_at"] for test in tests]
    assert (missed[0], missed[3:]) == (True, [False] * 3)
    assert [test["event"]["moves"] for test in tests] == [[6], [1], [1]] * 2
    words = made.words
    assert words["product.generator"] == "first_accepted"
    assert any("candidate 1, independent, was not accepted" in str(note) for note in words["product.notes"])
    assert any("candidate 2, mst, met all criteria" in str(note) for note in words["product.notes"])
    assert "acceptance tests" in words["noise.mechanism"]


def test_laplace_noise_and_a_public_total(worlds: Worlds) -> None:
    """A pure account and replace_one: one unit moves the distances of a marginal by two rows, a cell by one."""
    product = """{kind: synthetic, columns: [ward, age, bill], rows: 500, accept: {criteria: [
        {kind: worst_marginal, ways: 1, at_most: 0.3}, {kind: worst_cell, cells: [{ward: surgery}], at_most: 900}],
        candidates: [{generator: independent}]}}"""
    version = worlds.published(replace(pure(), product=product, release="accepted-pure"))
    version.assert_verifies(deep=True)
    tests = stated_tests(load(version.folder / "record.json"))
    assert [(test["event"]["kind"], test["event"]["moves"]) for test in tests] == [
        ("discrete_laplace", [2]),
        ("discrete_laplace", [1]),
    ]


def set_test(place: int, **changed: Any) -> Callable[[Json], object]:
    def change(record: Json) -> None:
        stated_tests(record)[place].update(changed)

    return change


def lower_distance(version: Version) -> None:
    """State a lower distance than was drawn: the digest in the journal is another."""
    forge(version, record=set_test(3, distance=0))


def told_lower(version: Version) -> None:
    """State a lower distance with its digest, in record and journal: then the first candidate had met all."""

    def record(value: Json) -> None:
        stated_tests(value)[0].update(distance=0, sha256=values_sha256(np.zeros(1, np.int64)))

    def journal(entries: list[Json]) -> None:
        key = "candidate-1-test-1"
        entry = next(e["body"] for e in entries if e["kind"] == "noise_drawn" and e["body"]["key"] == key)
        entry["sha256"] = values_sha256(np.zeros(1, np.int64))

    forge(version, record=record, journal=journal)


def raise_bound(version: Version) -> None:
    """Say that the accepted candidate had to meet less."""
    forge(version, record=set_test(3, passes_at=10**6))


def fail_the_first_otherwise(version: Version) -> None:
    """Say that the first candidate met the criterion that it missed."""
    forge(version, record=set_test(0, passes_at=10**6))


def understate(version: Version) -> None:
    """Say that one unit moves the sum of six distances by one row, in record, plan and journal."""

    def change(draws: Any) -> None:
        for each in draws:
            if each["event"].get("moves") == [6]:
                each["event"]["moves"] = [1]

    forge(
        version,
        record=lambda value: change(value["replay"]["draws"]),
        journal=lambda entries: change([e["body"] for e in entries if e["kind"] == "noise_drawn"]),
    )


def weaken(version: Version) -> None:
    """Publish under a stricter criterion than the one that was tested: the margin does not follow from it."""

    def change(record: Json) -> None:
        record["replay"]["product"]["options"]["criteria"][0]["at_most"] = "0.01"

    forge(version, record=change)


def forget_a_test(version: Version) -> None:
    """Leave a test of the accepted candidate out, in record and journal."""

    def record(value: Json) -> None:
        value["replay"]["draws"].remove(stated_tests(value)[5])

    def journal(entries: list[Json]) -> None:
        key = "candidate-2-test-3"
        entries.remove(next(e for e in entries if e["kind"] == "noise_drawn" and e["body"]["key"] == key))

    forge(version, record=record, journal=journal)


def name_a_candidate_out_of_reach(version: Version) -> None:
    """State a number of a candidate that no list could be made up to."""
    forge(version, record=set_test(5, candidate=2**53))


def spoil_the_event(version: Version) -> None:
    """State an event that is none."""
    forge(version, record=set_test(5, event={"kind": "discrete_gaussian", "moves": [1], "sigma_squared": "0/0"}))


FORGERIES = {
    lower_distance: "distance, its SHA-256",
    told_lower: "a candidate that met all",
    raise_bound: "which a model beyond the bound",
    fail_the_first_otherwise: "a candidate that met all",
    understate: "[6], under add_remove with 1 rows a unit",
    weaken: "which a model beyond the bound",
    forget_a_test: "5 acceptance tests",
    name_a_candidate_out_of_reach: "every criterion of 3",
    spoil_the_event: "discrete_laplace or discrete_gaussian",
}


@pytest.mark.parametrize(("forgery", "says"), FORGERIES.items(), ids=lambda each: getattr(each, "__name__", ""))
def test_a_forged_acceptance_is_found(
    made: Version, tmp_path: Path, forgery: Callable[[Version], None], says: str
) -> None:
    """The publisher owns the key, and makes every digest, chain and signature consistent again."""
    assert_found_out(made.copy(tmp_path / "version"), forgery, says)


def test_no_candidate_no_version(tmp_path: Path) -> None:
    """Nothing is sampled, no seed is drawn, and the charge stays opened; the same run again ends as before."""
    product = accepted().product.replace("ways: 2, at_most: 0.1", "ways: 2, at_most: 0.005")
    scenario = replace(accepted(), product=product, release="never")
    with pytest.raises(NothingAccepted) as first:
        scenario.run(tmp_path)
    with pytest.raises(NothingAccepted) as again:
        scenario.run(tmp_path)
    assert str(again.value) == str(first.value)
    assert list((tmp_path / "private").iterdir()) == []


@pytest.mark.parametrize(
    ("old", "new", "field", "says"),
    [
        ("[ward], [age]", "[ward], [agee]", "accept.criteria[1].marginals[1]", "'agee'"),
        ("kind: mean_marginal, ways: 2", "kind: sql, query: x", "accept.criteria[0].kind", "'sql'"),
        ("ways: 2", "ways: 2, rows: other.csv", "accept.criteria[0].rows", "unknown key"),
        ("ward: surgery, floor", "ward: surgry, floor", "accept.criteria[2].cells[0]", "'surgry'"),
        ("at_most: 0.1}", "at_most: 1.5}", "accept.criteria[0].at_most", "above 0 and below 1"),
        ("at_most: 400", "at_most: 2", "accept.criteria[2].at_most", "noise of the test"),
        ("[{generator: independent}, {generator: mst}]", "[]", "accept.candidates", "an empty list"),
        ("generator: mst", "generator: vae, options: {label: ward}", "accept.candidates[1].generator", "from rows"),
        ("generator: mst", "generator: first_accepted", "accept.candidates[1].generator", "fits a model itself"),
        ("generator: mst", "generator: aim, options: {degre: 2}", "accept.candidates[1].options.degre", "'degree'"),
        ("generator: mst", "generator: mst, options: {time_limit: 9}", "options.time_limit", "clock"),
        ("accept:", "generator: aim, accept:", "product.generator", "beside accept"),
        ("criteria:", "share_of_tests: 0, criteria:", "accept.share_of_tests", "above 0 and below 1"),
        ("ways: 2", "ways: 0", "accept.criteria[0].ways", "write `ways: 2`"),
        ("ways: 2", "ways: 9", "accept.criteria[0].ways", "write `ways: 2`"),
        ("[ward], [age]", "[ward, ward]", "accept.criteria[1].marginals[0]", "each column once"),
        ("at_most: 400", "at_most: 0.05", "accept.criteria[2].at_most", "shares are for worst_marginal"),
        ("at_most: 400", "at_most: 0", "accept.criteria[2].at_most", "how many rows a cell may be off"),
        ("criteria:", "rows_about: 0, criteria:", "accept.rows_about", "or drop the key"),
    ],
)
def test_what_cannot_be_accepted_is_refused_with_its_place(
    tmp_path: Path, old: str, new: str, field: str, says: str
) -> None:
    """By the plan, which reads no data and charges nothing; each says what to do."""
    scenario = accepted()
    assert old in scenario.product
    with pytest.raises(SpecRefused) as refused:
        replace(scenario, product=scenario.product.replace(old, new)).prepared(tmp_path)
    finding = refused.value.findings[0]
    assert field in finding.field
    assert says in str(finding)
    assert "do: " in str(finding)
    assert "spec.yaml:" in finding.where
