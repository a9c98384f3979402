"""Versions that began with public rows: verified, fitted again, and forged choices and priors that are found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from console.products.modifier_views import PriorView
from contracts.canonical import digest, readable_json
from contracts.errors import SpecRefused
from contracts.release.source import Source
from flows.evaluation.attack_target import spec_of_version
from flows.request import planned_request
from tasks.products.version_records import published_record
from tasks.verification.refinement_replay import values_sha256
from tests.tasks.verification.forgery import Json, as_forged, assert_found_out, edit, forge, load
from tests.worlds.public_priors import (
    BECAUSE,
    OLD,
    with_prior,
    with_prior_of,
    with_prior_pure,
)
from tests.worlds.versions import Version, Worlds

CHOICE, FILE = "model_choice", "model/prior.json"


@pytest.fixture(scope="module")
def made(worlds: Worlds) -> Version:
    return worlds.published(with_prior())


def the_choice(record: Json) -> Json:
    (choice,) = [draw for draw in record["replay"]["draws"] if draw["kind"] == CHOICE]
    found: Json = choice
    return found


@pytest.mark.long
def test_a_version_that_began_with_public_rows_says_so_and_is_fitted_again(made: Version) -> None:
    """The two models are 0.2 of all rows apart, at noise of 0.002: the nearer one is chosen but for e^-90."""
    made.assert_verifies(deep=True)
    record = load(made.folder / "record.json")
    assert the_choice(record)["key"] == "prior-choice"
    assert the_choice(record)["index"] == 1
    stated = record["replay"]["product"]["prior"]
    assert stated["counts_sha256"] == digest(load(made.folder / FILE))
    assert len(load(made.folder / FILE)["counts"]) == 4 + 6
    assert any(f"begins with the dependence of columns in {OLD}" in str(note) for note in made.words["product.notes"])


def test_plan_and_version_say_what_was_read_and_chosen(made: Version, tmp_path: Path) -> None:
    _, _, plan, ledger = with_prior().prepared(tmp_path)
    ledger.close()
    view = PriorView()
    assert view.plan_lines(view.plan_object(plan)) == [("prior", f"{OLD}, 2,000 rows: 4 columns, 6 pairs")]
    assert view.version_lines(load(made.folder / "record.json")["replay"]) == [("prior", f"{OLD}, begun with")]


def test_a_reader_of_the_record_sees_whose_exact_counts_are_published_and_why(made: Version) -> None:
    """In the record's list of what is not protected, on its page, and on the label."""
    told = str(made.words["unprotected.quantities"][0])
    assert told.startswith(f"the exact counts of {OLD}")
    assert BECAUSE in told
    assert all(BECAUSE in (made.folder / page).read_text(encoding="utf-8") for page in ("record.html", "label.html"))


@pytest.mark.long
def test_laplace_noise_a_public_total_and_a_missing_column(worlds: Worlds) -> None:
    version = worlds.published(with_prior_pure())
    version.assert_verifies(deep=True)
    counted = {tuple(each["columns"]) for each in load(version.folder / FILE)["counts"]}
    assert {clique for clique in counted if len(clique) == 1} == {("age",), ("ward",), ("floor",)}


@pytest.mark.long
@pytest.mark.parametrize("generator", ["mst", "privbayes"])
def test_generators_that_choose_structure_begin_with_it_too(worlds: Worlds, generator: str) -> None:
    """The choice is one draw of the version; `--deep` makes it again from the published marginals."""
    version = worlds.published(with_prior_of(generator))
    version.assert_verifies(deep=True)
    assert the_choice(load(version.folder / "record.json"))["index"] == 1
    assert any("begins with the dependence of columns" in str(note) for note in version.words["product.notes"])


@pytest.mark.long
@pytest.mark.parametrize(
    ("generator", "options"), [("independent", ""), ("fixed", "options: {cliques: [[age], [ward, bill]]}, ")]
)
def test_generators_without_choices_take_the_columns_alone(worlds: Worlds, generator: str, options: str) -> None:
    version = worlds.published(with_prior_of(generator, options))
    version.assert_verifies(deep=True)
    draws = load(version.folder / "record.json")["replay"]["draws"]
    assert {draw["kind"] for draw in draws} == {"marginal"}


@pytest.mark.long
@pytest.mark.parametrize(("rows_about", "chosen"), [(100, "independent"), (1000, "mst"), (3000, "aim")])
def test_auto_hands_the_prior_to_the_generator_that_it_chooses(worlds: Worlds, rows_about: int, chosen: str) -> None:
    """Its number of rows decides. The version has the draws of that generator, the prior's choice among them where
    there is structure to choose; `--deep` makes generator, choice and model again."""
    scenario = replace(with_prior_of("auto", f"options: {{rows_about: {rows_about}}}, "), release=f"auto-{chosen}")
    version = worlds.published(scenario)
    version.assert_verifies(deep=True)
    notes = [str(note) for note in version.words["product.notes"]]
    assert any(f"{chosen} was chosen" in note for note in notes)
    record = load(version.folder / "record.json")
    assert record["replay"]["product"]["prior"]["counts_sha256"] == digest(load(version.folder / FILE))
    if chosen == "independent":
        assert {draw["kind"] for draw in record["replay"]["draws"]} == {"marginal"}
    else:
        assert the_choice(record)["index"] == 1
        assert any(f"begins with the dependence of columns in {OLD}" in note for note in notes)


def tell_another_choice(version: Version) -> None:
    """State the other model as chosen: the digest in the journal is another."""
    forge(version, record=lambda record: the_choice(record).update(index=0))


def add_a_row(version: Version) -> None:
    """Change a count of the prior."""
    value = load(version.folder / FILE)
    value["counts"][0]["counts"][0] += 1
    (version.folder / FILE).write_bytes(readable_json(value))
    forge(version)


def add_a_row_and_pin_it(version: Version) -> None:
    """Change a count of the prior, and state its digest: the marginals are not of one table."""
    add_a_row(version)
    found = digest(load(version.folder / FILE))
    forge(version, record=lambda record: record["replay"]["product"]["prior"].update(counts_sha256=found))


def deny_the_prior(version: Version) -> None:
    """Leave the prior out of the product."""
    forge(version, record=lambda record: record["replay"]["product"].pop("prior"))


def give_the_choice_a_marginal(version: Version) -> None:
    forge(version, record=lambda record: the_choice(record).update(clique=["age"]))


FORGERIES = {
    tell_another_choice: "index, its SHA-256",
    add_a_row: "SHA-256 of the marginals",
    add_a_row_and_pin_it: "marginals of a prior that are not of one table",
    deny_the_prior: "none, of a product without a prior",
    give_the_choice_a_marginal: "clique",
}


@pytest.mark.parametrize(("forgery", "says"), FORGERIES.items(), ids=lambda each: getattr(each, "__name__", ""))
def test_a_forged_prior_is_found(
    made: Version, tmp_path: Path, forgery: Callable[[Version], None], says: str
) -> None:
    """The publisher owns the key, and makes every digest, chain and signature consistent again."""
    assert_found_out(made.copy(tmp_path / "version"), forgery, says)


def choose_otherwise(version: Version) -> None:
    """State the other model with its digest, in record and journal."""
    told = values_sha256(np.zeros(1, np.int64))

    def journal(entries: list[Json]) -> None:
        drawn = [each["body"] for each in entries if each["kind"] == "noise_drawn"]
        next(body for body in drawn if body["key"] == "prior-choice")["sha256"] = told

    forge(version, record=lambda record: the_choice(record).update(index=0, sha256=told), journal=journal)


def choose_a_third(version: Version) -> None:
    """State a model that there is not, with its digest."""
    told = values_sha256(np.full(1, 7, np.int64))

    def journal(entries: list[Json]) -> None:
        drawn = [each["body"] for each in entries if each["kind"] == "noise_drawn"]
        next(body for body in drawn if body["key"] == "prior-choice")["sha256"] = told

    forge(version, record=lambda record: the_choice(record).update(index=7, sha256=told), journal=journal)


def begin_elsewhere(version: Version) -> None:
    """Publish marginals of another table, with their digest: the fit begins elsewhere."""
    value = load(version.folder / FILE)
    for each in value["counts"]:
        each["counts"].reverse()
    (version.folder / FILE).write_bytes(readable_json(value))
    pinned = digest(value)
    forge(version, record=lambda record: record["replay"]["product"]["prior"].update(counts_sha256=pinned))


@pytest.mark.parametrize("forgery", [choose_otherwise, choose_a_third, begin_elsewhere])
def test_a_consistent_forgery_is_found_by_fitting_again(
    made: Version, tmp_path: Path, forgery: Callable[[Version], None]
) -> None:
    """Every digest fits; the model does not follow."""
    version = as_forged(made.copy(tmp_path / "version"))
    forgery(version)
    report = version.verify(deep=True)
    assert not report.ok
    assert {finding.where for finding in report.findings} & {"model", "record.json"}


def test_an_attack_on_a_version_begins_with_the_marginals_that_it_publishes(made: Version, tmp_path: Path) -> None:
    """The file of the prior is not there, and need not be; marginals of another digest are refused."""
    folder = made.copy(tmp_path / "v").folder
    record, meaning = published_record(folder)
    spec = spec_of_version(folder, record, meaning.product, Source(path=tmp_path / "public.parquet"))
    plan: Any = planned_request(spec, meaning.contract).plan
    assert plan.task.prior.to_json() == load(folder / FILE)
    edit(folder / FILE, lambda counts: counts["counts"][0]["counts"].reverse())
    with pytest.raises(SpecRefused) as refused:
        planned_request(spec, meaning.contract)
    (finding,) = refused.value.findings
    assert (finding.where, finding.field) == (FILE, "SHA-256 of the marginals")
    (folder / FILE).unlink()
    with pytest.raises(SpecRefused, match="get the whole version again from its publisher"):
        planned_request(spec, meaning.contract)
