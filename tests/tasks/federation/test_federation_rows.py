"""Rows of P3GM across sites: what is charged before the first sum, what is released, what the check makes again."""

from __future__ import annotations

import hashlib
import json
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from contracts.errors import SpecRefused, SudareError
from contracts.release.federation_spec import load_federation, load_site
from flows.federation.site import SiteService, joined
from privacy.federation.phases import PhasedPlan
from privacy.generators.models import FORBIDDEN
from privacy.ledger.journal.signing import Signer
from tasks.federation.federation_release import check_released
from tasks.federation.federation_run import Federation, understood
from tasks.federation.generator_outputs import ARRAYS, MODEL, ROWS, SAMPLED
from tasks.federation.statement_checks import draw_digest, sum_read
from tasks.federation.wire_format import packed, unpacked
from tasks.records.files.array_file import write_arrays
from tasks.storage.workspace.settings import Workspace
from tasks.verification.files.array_reader import read_arrays
from tests.tasks.federation.test_federation_sites import known_of, otherwise, released, sign
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


def test_rows_are_released_and_made_again_from_the_sums(tmp_path: Path) -> None:
    release, known, workspace, told = released(tmp_path, GENERATOR)
    plan = known.plan
    assert isinstance(plan, PhasedPlan)
    assert told == [f"round {number} of {plan.rounds}" for number in range(1, plan.rounds + 1)]
    assert 19 < float(release.epsilon) <= 20
    key = workspace.public_key_file.read_text().strip()
    assert check_released(tmp_path / "m", known, public_key=key) == []
    lines = (tmp_path / "m" / ROWS).read_text().splitlines()
    assert (lines[0], len(lines)) == ("age,ward,long", 501)
    assert {line.split(",")[1] for line in lines[1:]} <= {"A", "B", "C"}
    assert json.loads((tmp_path / "m" / SAMPLED).read_text())["rows"] == 500
    account = json.loads((tmp_path / "m" / "federation.json").read_bytes())
    assert [each["event"]["kind"] for each in account["cost"]["events"]][-2:] == [
        "zero_concentrated",
        "poisson_sampled_gaussian",
    ]
    assert len(drawn(workspace)) == plan.rounds
    for name in SITES:
        site = Workspace.open(tmp_path / name)
        assert [key.split("/")[1] for key in drawn(site)] == ["sums"] * plan.sums.rounds + ["training"] * 2
    assert "cost.events" in otherwise(
        tmp_path / "m", ("cost", "events"), account["cost"]["events"][:1], known, workspace
    )


def test_a_forged_model_other_rows_and_other_sums_are_found(tmp_path: Path) -> None:
    """Each signed again by the coordinator; the noisy sums of either phase lead to another model."""
    _, known, workspace, _ = released(tmp_path, GENERATOR)
    folder, sums = tmp_path / "m", known.plan.sums.rounds  # type: ignore[union-attr]
    shapes = json.loads((folder / MODEL).read_bytes())["shapes"]
    arrays = read_arrays((folder / ARRAYS).read_bytes(), shapes)

    def model(**changed: Any) -> bytes:
        write_arrays({**arrays, **changed}, tmp_path / "arrays", marks={})
        return (tmp_path / "arrays").read_bytes()

    def moved(number: int) -> bytes:
        path = folder / f"round-{number:05d}.npy"
        np.save(tmp_path / "other.npy", np.load(path) * 2)
        return (tmp_path / "other.npy").read_bytes()

    rows = (folder / ROWS).read_bytes()
    other_seed = json.loads((folder / SAMPLED).read_bytes()) | {"seed": "0" * 32}
    forgeries = {
        ROWS: rows.replace(b"yes", b"no", 1),
        SAMPLED: json.dumps(other_seed).encode(),
        ARRAYS: model(**{"latent-means": arrays["latent-means"] + 400}),
        "round-00000.npy": moved(0),
        f"round-{sums:05d}.npy": moved(sums),
    }
    np.save(tmp_path / "fewer.npy", np.load(folder / f"round-{sums:05d}.npy")[:-1])
    for name in ("round-00000.npy", f"round-{sums:05d}.npy"):
        assert found(folder, name, (tmp_path / "fewer.npy").read_bytes(), known, workspace) == {folder.name}
    wanted = {ROWS: {ROWS}, SAMPLED: {SAMPLED}, ARRAYS: {ARRAYS, ROWS}}
    for name, data in forgeries.items():
        assert found(folder, name, data, known, workspace) >= wanted.get(name, {ARRAYS}), name
    assert found(folder, ARRAYS, model(), known, workspace) == set()


def found(folder: Path, name: str, data: bytes, known: Federation, workspace: Workspace) -> set[str]:
    """The files that are found wrong when a coordinator signs another one; it is put back."""
    kept = {each: (folder / each).read_bytes() for each in (name, "federation.json", "federation.sig")}
    account = json.loads(kept["federation.json"])
    (folder / name).write_bytes(data)
    account["files"][name] = hashlib.sha256(data).hexdigest()
    if name.endswith(".npy"):
        told = account["rounds"][int(name[6:11])]
        told["sha256"] = draw_digest(told["present"], sum_read(data))
    sign(folder, account, workspace)
    key = Signer(workspace.signing_seed()).public_key
    findings = check_released(folder, known, public_key=key)
    for each, held in kept.items():
        (folder / each).write_bytes(held)
    return {Path(finding.where).name for finding in findings}


def test_rows_are_made_of_tables_that_are_counted_over_all_sites(tmp_path: Path) -> None:
    """600 rows, long where age is above 50: with the noise of epsilon 8 the rows keep that, and the check agrees.

    Tables that were counted otherwise lead to another model; so do a potential and a forbidden cell that are changed.
    """
    release, known, workspace, told = released(tmp_path, MARGINALS)
    folder, key = tmp_path / "m", workspace.public_key_file.read_text().strip()
    assert told == ["round 1 of 2", "round 2 of 2"]
    assert float(release.epsilon) <= 8
    assert check_released(folder, known, public_key=key) == []
    lines = [line.split(",") for line in (folder / ROWS).read_text().splitlines()]
    assert (lines[0], len(lines)) == (["age", "ward", "long"], 601)
    agree = sum((int(age) >= 50) == (long == "yes") for age, _, long in lines[1:])
    assert agree > 500
    assert {ward for _, ward, _ in lines[1:]} == {"A", "B", "C"}
    np.save(tmp_path / "other.npy", np.load(folder / "round-00000.npy")[::-1])
    assert found(folder, "round-00000.npy", (tmp_path / "other.npy").read_bytes(), known, workspace) >= {ARRAYS}
    shapes = json.loads((folder / MODEL).read_bytes())["shapes"]
    arrays = read_arrays((folder / ARRAYS).read_bytes(), shapes)
    name = next(iter(arrays))
    for change in (2**18, None):
        other = arrays[name].copy()
        other.flat[0] = FORBIDDEN if change is None else other.flat[0] - change
        write_arrays({**arrays, name: other}, tmp_path / "arrays", marks={})
        assert ARRAYS in found(folder, ARRAYS, (tmp_path / "arrays").read_bytes(), known, workspace)


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
def test_tables_that_no_rows_can_be_made_of_are_refused(tmp_path: Path, old: str, new: str, said: str) -> None:
    with pytest.raises(SpecRefused, match=said):
        known_of(a_coordinator(tmp_path / "c", federation=MARGINALS.replace(old, new))[0])


def test_a_site_pays_for_both_phases_before_it_joins(tmp_path: Path) -> None:
    """And answers no round without the sums that come before it."""
    plainly = GENERATOR.replace(*TRUSTING)
    path, workspace = a_site(tmp_path / "north", "north", federation=plainly)
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
def test_a_generator_that_cannot_be_followed_is_refused(tmp_path: Path, old: str, new: str, said: str) -> None:
    with pytest.raises(SudareError, match=said):
        known_of(a_coordinator(tmp_path / "c", federation=GENERATOR.replace(old, new))[0])


def test_rows_are_as_many_as_the_sites_declare_where_none_are_given(tmp_path: Path) -> None:
    spec, _ = a_coordinator(tmp_path / "c", federation=GENERATOR.replace(", rows: 500", ""))
    known = known_of(spec)
    assert known.spec.generator is not None
    assert known.spec.generator.rows is None
    assert known.spec.charge.epsilon == Decimal(20)


def test_replace_one_is_refused(tmp_path: Path) -> None:
    spec, _ = a_coordinator(tmp_path / "c", federation=GENERATOR)
    exchanged = CONTRACT.replace("adjacency: add_remove", "adjacency: replace_one")
    (spec.parent / "wards.odcs.yaml").write_text(exchanged)
    with pytest.raises(SpecRefused, match="add_remove, one row a unit"):
        understood(load_federation(spec), spec.parent / "wards.odcs.yaml")
