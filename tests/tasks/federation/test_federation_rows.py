"""Rows across sites: what is charged before the first sum, what is published, what the check makes again."""

import json
from collections.abc import Callable
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from contracts.errors import SpecRefused, SudareError
from contracts.release.federation_spec import load_site
from flows.federation.site import SiteService, joined
from privacy.federation.plans import PhasedPlan
from privacy.marginals.model import FORBIDDEN
from tasks.federation.flower import packed, unpacked
from tasks.records.files.write import write_arrays
from tasks.storage.workspace.settings import Workspace
from tasks.verification.files.array_reader import read_arrays
from tests.tasks.verification.forgery import as_forged, forge
from tests.worlds.federated_runs import FederatedRun, known_of, released
from tests.worlds.federations import (
    CONTRACT,
    GENERATOR,
    MARGINALS,
    SITES,
    TRUSTING,
    a_coordinator,
    a_site,
    drawn,
    ledger_of,
)

Array = np.ndarray[Any, Any]


def forged_arrays(run: FederatedRun, to: Path, name: str, change: Callable[[Array], Array]) -> set[str]:
    """What is found when a coordinator signs a model of which one array is another."""
    copy = as_forged(run.version.copy(to))
    path = copy.folder / "model" / "arrays.parquet"
    shapes = json.loads((copy.folder / "model" / "model.json").read_bytes())["shapes"]
    arrays = read_arrays(path.read_bytes(), shapes)
    name = name or next(iter(arrays))
    write_arrays({**arrays, name: change(arrays[name].copy())}, path, marks={})
    forge(copy)
    findings = copy.verify().findings
    return {each.field for each in findings if each.where == "model/arrays.parquet"} - {"the bytes"}


def first(value: int | None) -> Callable[[Array], Array]:
    """Change the first number of an array: to a forbidden cell, or by so many units."""

    def change(array: Array) -> Array:
        array.flat[0] = FORBIDDEN if value is None else array.flat[0] - value
        return array

    return change


@pytest.mark.long
def test_rows_of_p3gm_are_charged_for_both_phases_and_published(tmp_path: Path):
    run = released(tmp_path, GENERATOR)
    plan = run.known.plan
    assert isinstance(plan, PhasedPlan)
    assert run.told == [f"round {number} of {plan.rounds}" for number in range(1, plan.rounds + 1)]
    assert 19 < float(run.outcome.version.epsilon) <= 20
    lines = (run.folder / "data" / "long-stays.csv").read_text().splitlines()
    assert (lines[0], len(lines)) == ("age,ward,long", 501)
    assert {line.split(",")[1] for line in lines[1:]} <= {"A", "B", "C"}
    with closing(ledger_of(run.workspace)) as ledger:
        charge = ledger.charge(run.known.run_key)
    assert charge is not None
    kinds = list(dict.fromkeys(event.kind for event in charge.request.events))
    assert kinds == ["discrete_gaussian", "zero_concentrated", "poisson_sampled_gaussian"]
    assert len(drawn(run.workspace)) == plan.rounds
    for name in SITES:
        site = Workspace.open(tmp_path / name)
        assert [key.split("/")[1] for key in drawn(site)] == ["sums"] * plan.sums.rounds + ["training"] * 2
    moved = forged_arrays(run, tmp_path / "moved", "latent-means", lambda array: array + 400)
    assert "latent-means" in moved
    assert forged_arrays(run, tmp_path / "near", "latent-means", lambda array: array + 1) == set()


@pytest.mark.long
def test_rows_are_made_of_tables_that_are_counted_over_all_sites(tmp_path: Path):
    """600 rows, long where age is above 50: with the noise of epsilon 8 the rows keep that.

    A potential and a forbidden cell that are changed are found.
    """
    run = released(tmp_path, MARGINALS)
    assert run.told == ["round 1 of 2", "round 2 of 2"]
    assert float(run.outcome.version.epsilon) <= 8
    lines = [line.split(",") for line in (run.folder / "data" / "long-stays.csv").read_text().splitlines()]
    assert (lines[0], len(lines)) == (["age", "ward", "long"], 601)
    assert sum((float(age) >= 50) == (long == "yes") for age, _, long in lines[1:]) > 500
    assert {ward for _, ward, _ in lines[1:]} == {"A", "B", "C"}
    for number, value in enumerate((2**18, None)):
        assert forged_arrays(run, tmp_path / f"copy-{number}", "", first(value))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("[[age, long], [ward]]", "[]", "generator.options.cliques"),
        ("[[age, long], [ward]]", "[[age, street]]", "street"),
        ("options: {cliques: [[age, long], [ward]]}", "options: {label: long}", "cliques alone"),
        ("rows: 600", "columns: [age, long]", "columns of the rows that are made"),
        ("rows: 600}", "rows: 600}\ntraining: {rounds: 1, batch: 300, reserve: 2}", "another choice of products"),
    ],
)
def test_tables_that_no_rows_can_be_made_of_are_refused(tmp_path: Path, old: str, new: str, said: str):
    with pytest.raises(SpecRefused, match=said):
        known_of(a_coordinator(tmp_path / "c", federation=MARGINALS.replace(old, new))[0])


def test_a_site_pays_for_both_phases_before_it_joins(tmp_path: Path):
    """And answers no round without the sums that come before it."""
    path, workspace = a_site(tmp_path / "north", "north", federation=GENERATOR.replace(*TRUSTING))
    mine, spec = load_site(path)
    with joined(mine, spec, workspace) as site:
        with closing(ledger_of(workspace)) as ledger:
            assert ledger.account("north-2026").spent > 0
        answer, rounds = SiteService(site), site.federation.plan.rounds
        for number in (1, rounds - 1, rounds):
            call = {"op": "round", "number": number, "attempt": "0" * 16, **site.federation.digests}
            assert unpacked(answer(packed(call))) == ({"refused": "it failed"}, b"")
        told, body = unpacked(answer(packed({**call, "number": 0})))
        assert told == {"largest": 2 * site.federation.plan.largest_entry}
        assert len(body) == 4 * site.federation.plan.sums.sums[0].length  # type: ignore[union-attr]
    assert [key.split("/")[:3] for key in drawn(workspace)] == [["fed", "sums", "00000"]]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("name: p3gm", "name: aim", "p3gm"),
        ("dimensions: 3", "epochs: 3", "an option that a federation does not take"),
        ("dimensions: 3", "dimensions: 0", "generator.options.dimensions"),
        ("label: long", "label: short", "short"),
        ("rows: 500", "rows: 0", "rows"),
        ("rows: 500", "columns: [age, street]", "street"),
        ("rows: 500}", "rows: 500}\ntables: {cliques: [[age]], reserve: 0}", "another choice of products"),
        ("epsilon: 20", "epsilon: 0.001", "."),
    ],
)
def test_a_generator_that_cannot_be_followed_is_refused(tmp_path: Path, old: str, new: str, said: str):
    with pytest.raises(SudareError, match=said):
        known_of(a_coordinator(tmp_path / "c", federation=GENERATOR.replace(old, new))[0])


def test_rows_are_as_many_as_the_sites_declare_where_none_are_given(tmp_path: Path):
    spec, _ = a_coordinator(tmp_path / "c", federation=GENERATOR.replace(", rows: 500", ""))
    known = known_of(spec)
    assert known.spec.generator is not None
    assert known.spec.generator.rows is None
    assert known.spec.charge.epsilon == Decimal(20)


def test_replace_one_is_refused(tmp_path: Path):
    spec, _ = a_coordinator(tmp_path / "c", federation=GENERATOR)
    exchanged = CONTRACT.replace("adjacency: add_remove", "adjacency: replace_one")
    (spec.parent / "wards.odcs.yaml").write_text(exchanged)
    with pytest.raises(SpecRefused, match="add_remove, one row a unit"):
        known_of(spec)
