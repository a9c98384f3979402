"""What a federation publishes: an ordinary version, that verify checks whole, whose record says how it was made."""

import json
import re
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jsonschema import Draft202012Validator

from contracts.canonical import readable_json
from flows.federation.federated_run import SiteNetwork, coordinate
from privacy.ledger.journal.signing import Signer
from tasks.federation.flower import EngineMissing
from tasks.products.across.across_checks import UNTOLD, draw_sha256
from tasks.products.across.results import file_names
from tasks.records.across.across_groups import ranges
from tasks.records.files.classifier_files import WEIGHTS
from tasks.records.files.synthetic_files import MODEL_VALUES
from tasks.records.files.write import ROUNDS, write_arrays
from tasks.records.strict_json import printable
from tasks.storage.manifest import digests_in
from tasks.verification.files.array_reader import read_arrays
from tasks.verify import verify
from tests.tasks.records.version_schemas import version_schemas
from tests.tasks.verification.forgery import as_forged, edit, forge, load, told
from tests.worlds.federated_runs import FederatedRun, released
from tests.worlds.federations import FEDERATION, GENERATOR, MARGINALS, TABLES, drawn
from tests.worlds.versions import Version

Json = dict[str, Any]
Kept = Callable[[str], FederatedRun]
KINDS = {"tables": TABLES, "rows of tables": MARGINALS, "model": FEDERATION, "rows of p3gm": GENERATOR}
MISSING = {0: {"north", "south"}, 2: {"east"}}
"""The first attempt of round 1 is lost, and round 2 is without east."""


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    """A version of each kind, made once; of tables an attempt is lost, and a site misses a round."""
    made: dict[str, FederatedRun] = {}

    def of(kind: str) -> FederatedRun:
        if kind not in made:
            silent = MISSING if kind == "tables" else None
            made[kind] = released(tmp_path_factory.mktemp("federation"), KINDS[kind], silent=silent)
        return made[kind]

    return of


@pytest.fixture
def copied(kept: Kept, tmp_path: Path) -> Callable[[str], Version]:
    """Copies that a forger with the coordinator's key may change."""
    numbers = count(1)

    def of(kind: str) -> Version:
        return kept(kind).version.copy(tmp_path / f"copy-{next(numbers)}" / "v1")

    return of


def found(version: Version) -> set[str]:
    return {each for finding in version.verify().findings for each in (finding.field, finding.where)}


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_published_as_an_ordinary_version(kept: Kept, kind: str):
    """All rules hold, words and pages byte by byte; data files are those that are known before."""
    run = kept(kind)
    report = verify(run.folder, public_key=run.version.key)
    assert report.ok, [*report.findings, *(check.skipped for check in report.checks)]
    assert UNTOLD in report.cannot_tell
    assert not {each for each in report.word if each.startswith("declarations.fields.")}
    data = {name for name in digests_in((run.folder / "MANIFEST.json").read_bytes()) if "/" in name}
    assert data == file_names(run.known)
    Draft202012Validator(version_schemas()["record"]).validate(load(run.folder / "record.json"))
    record = (run.folder / "record.json").read_text()
    assert str(run.workspace.root) not in record
    assert float(run.outcome.version.epsilon) <= float(run.known.spec.charge.epsilon)
    assert [each for each in run.told if each.startswith(f"round {run.known.plan.rounds} of")]
    assert not verify(run.folder, public_key=Signer(bytes(32), "elsewhere.example").public_key).ok


@pytest.mark.long
def test_the_record_says_who_took_part_what_it_cost_and_who_is_trusted(kept: Kept):
    """On the page in English too; an attempt that was lost is counted, and a site that missed a round is named."""
    run = kept("tables")
    assert (run.outcome.lost, run.outcome.left_out) == (1, {"east": 1})
    assert sum("/lost-" in key for key in drawn(run.workspace)) == 1
    values, known = run.version.words, run.known
    assert values["execution.lost"] == 1
    assert values["execution.sites"][1] == {"site": "east", "rows_about": 300, "rounds": "1 of 2", "without": "2"}
    assert values["execution.sites"][0]["without"] == "none"
    assert values["product.made"] == "2 tables of counts"
    assert values["execution.person_epsilon"] == values["guarantee.epsilon"] == run.outcome.version.epsilon
    assert values["integrity.spec_digest"] == known.spec.digest
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", (run.folder / "record.html").read_text()))
    for said in (*values["execution.trust"], *values["unprotected.quantities"], values["execution.not_checked"]):
        assert said.replace("'", "&#39;") in text, said
    assert "east 300 1 of 2 2" in text
    counts = (run.folder / "data" / "ward_x_long.csv").read_text().splitlines()
    assert counts[0] == "ward,long,count,lower,upper"
    assert [line.split(",")[:2] for line in counts[1:]] == [[w, y] for w in "ABC" for y in ("no", "yes")]
    total, deviation = sum(float(line.split(",")[2]) for line in counts[1:]), float(known.counting.sigma_squared)
    assert abs(total - 600) < 12 * (deviation * 3 * 6) ** 0.5
    missed = (run.folder / "data" / "age.csv").read_text().splitlines()[1:]
    assert abs(sum(float(line.split(",")[1]) for line in missed) - 400) < 12 * (deviation * 3 * 10) ** 0.5


def test_rounds_without_a_site_are_written_as_ranges():
    assert ranges([2, 3, 7, 9, 10, 11]) == "2-3, 7, 9-11"
    assert ranges([]) == ""


def put(*path: Any) -> Callable[[Json], None]:
    *way, last, value = path

    def change(record: Json) -> None:
        place: Any = record["replay"]
        for name in way:
            place = place[name]
        place[last] = value

    return change


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (put("execution", "spec", "charge", "epsilon", "0.1"), "replay.spec_digest"),
        (put("execution", "spec", "trust", "colluding", 0), "replay.spec_digest"),
        (put("execution", "spec", "more", "x"), "replay.execution.spec"),
        (put("execution", "spec", []), "replay.execution.spec"),
        (put("execution", "spec", "tables", "reserve", 10**9), "replay.execution.spec"),
        (put("execution", "plan", "sigma_squared", "1"), "replay.execution.plan"),
        (put("execution", "plan", "trust", "secure_aggregation", 1), "replay.execution.plan"),
        (put("execution", "record_epsilon", 1), "replay.execution.record_epsilon"),
        (put("execution", "notes", ["nobody is trusted"]), "replay.execution.notes"),
        (put("execution", "rounds", 0, "present", [True] * 9), "replay.execution.rounds[0].present"),
        (put("execution", "rounds", 0, "present", [True, False, False]), "replay.execution.rounds[0].present"),
        (put("execution", "rounds", 0, "present", [1, 1, 1]), "replay.execution.rounds[0].present[0]"),
        (put("execution", "rounds", 1, "present", [True, True, True]), "SHA-256 of fed/00001"),
        (put("execution", "rounds", 1, "length", 3), "replay.execution.rounds[1].length"),
        (put("execution", "rounds", []), "replay.execution.rounds"),
        (put("product", "tables", []), "replay.product"),
        (put("contract", "version", "9.9.9"), "replay.contract_digest"),
        (put("claim", "epsilon", 1), "replay.claim.epsilon"),
        (put("claim", "epsilon", 7 * 10**12), "replay.claim.epsilon"),
        (lambda record: record["replay"]["draws"].pop(), "replay.draws"),
        (put("draws", 0, "shape", [6]), "replay.draws[0].shape"),
        (put("draws", 1, "shape", [10**15]), "replay.draws[1].shape"),
        (put("draws", 1, "clique", ["diagnosis", "income"]), "replay.draws[1].clique"),
        (put("draws", 1, "coarsening", {"level": "country", "sha256": "0" * 64}), "replay.draws[1].coarsening"),
        (put("draws", 0, "listed", {"cells": 9, "threshold": 7, "rows": 3}), "replay.draws[0].listed"),
    ],
)
def test_a_record_that_says_something_else_is_found(
    copied: Callable[[str], Version], change: Callable[[Json], object], field: str
):
    """Signed again by the coordinator, journal and all."""
    version = copied("tables")
    forge(version, record=change)
    fields = found(version)
    assert field in fields or any(each.startswith(field) for each in fields), fields


@pytest.mark.parametrize("part", ["spec", "plan", "rounds", "record_epsilon", "notes", "kind"])
@pytest.mark.parametrize("value", [None, 5, [[]], {"x": {}}])
def test_parts_of_another_form_are_findings(copied: Callable[[str], Version], part: str, value: object):
    version = copied("tables")
    if load(version.folder / "record.json")["replay"]["execution"][part] == value:
        return
    edit(version.folder / "record.json", put("execution", part, value))
    assert found(version)


def test_more_draws_than_the_reserve_pays_for_and_other_events_are_found(copied: Callable[[str], Version]):
    """One lost attempt is told again as three, of a reserve of two; and a cheaper event stands for a round's."""

    def lost(entries: list[Json]) -> None:
        place = next(n for n, each in enumerate(entries) if "/lost-" in each["body"].get("key", ""))
        entries[place + 1 : place + 1] = [json.loads(json.dumps(entries[place])) for _ in range(2)]
        numbered = [each for each in entries if each["kind"] == "noise_drawn"]
        for number, each in enumerate(numbered):
            each["body"]["number"] = number
            if "/lost-" in each["body"]["key"]:
                each["body"]["key"] = f"fed/00000/lost-{number}"

    version = copied("tables")
    forge(version, journal=lost, record=lambda record: restated(record, version, lost))
    assert "replay.draws, fed" in found(version)
    again = copied("tables")
    cheap = {"kind": "discrete_gaussian", "moves": [1], "sigma_squared": "1000000"}
    forge(again, record=put("draws", 0, "event", cheap))
    assert {"replay.draws[0]"} <= found(again)


def restated(record: Json, version: Version, change: Callable[[list[Json]], None]) -> None:
    entries = [proven["entry"] for proven in load(version.folder / "PROOF.json")["entries"]]
    change(entries)
    drawn_ = [each["body"] for each in entries if each["kind"] == "noise_drawn"]
    form = record["replay"]["draws"][0]
    record["replay"]["draws"] = [
        {**form, **{name: body[name] for name in ("key", "number", "event", "sha256")}} for body in drawn_
    ]


def sums_of(version: Version) -> tuple[dict[str, np.ndarray[Any, Any]], Json]:
    rounds = load(version.folder / "record.json")["replay"]["execution"]["rounds"]
    shapes = {each["key"]: [each["length"]] for each in rounds}
    return read_arrays((version.folder / ROUNDS).read_bytes(), shapes), {each["key"]: each for each in rounds}


def with_sums(version: Version, key: str, steps: np.ndarray[Any, Any], *, entered: bool) -> set[str]:
    sums, rounds = sums_of(version)
    write_arrays({**sums, key: steps}, version.folder / ROUNDS, marks={"sudare_release": "long-stays"})
    sha256 = draw_sha256(tuple(rounds[key]["present"]), steps)

    def journal(entries: list[Json]) -> None:
        for each in entries:
            if entered and each["body"].get("key") == key:
                each["body"]["sha256"] = sha256

    def record(told: Json) -> None:
        for each in told["replay"]["draws"]:
            if entered and each["key"] == key:
                each["sha256"] = sha256

    forge(version, journal=journal, record=record)
    return found(version)


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("tables", "data/age.parquet"),
        ("rows of tables", "model/arrays.parquet"),
        ("model", WEIGHTS),
        ("rows of p3gm", "model/arrays.parquet"),
    ],
)
def test_made_up_sums_lead_elsewhere(copied: Callable[[str], Version], kind: str, name: str):
    """Sums that were not entered are found; sums that were lead to other tables, another model, other weights."""
    version = copied(kind)
    sums, _ = sums_of(version)
    key = list(sums)[-1]
    assert f"SHA-256 of {key}" in with_sums(version, key, sums[key][::-1] + 5000, entered=False)
    assert name in with_sums(version, key, sums[key][::-1] + 5000, entered=True)


@pytest.mark.long
def test_other_products_than_the_sums_lead_to_are_found(copied: Callable[[str], Version]):
    """Weights that are no numbers, a header that says more; other rows; a key more in a model's file."""
    version = copied("model")
    path = version.folder / WEIGHTS
    whole = path.read_bytes()
    size = int.from_bytes(whole[:8], "little")
    spaced = (size + 8).to_bytes(8, "little") + whole[8 : 8 + size] + b" " * 8 + whole[8 + size :]
    for other in (whole[:-4] + np.array([np.nan], "<f4").tobytes(), spaced, whole[:-1]):
        path.write_bytes(other)
        forge(version)
        assert {WEIGHTS, ROUNDS} & found(version)
    rows = copied("rows of tables")
    csv = rows.folder / "data" / "long-stays.csv"
    csv.write_bytes(csv.read_bytes().replace(b"yes", b"no", 1))
    forge(rows)
    assert "data/long-stays.csv" in found(rows)
    again = copied("rows of tables")
    told = load(again.folder / MODEL_VALUES)
    (again.folder / MODEL_VALUES).write_bytes(readable_json({**told, "more": "x"}))
    forge(again)
    assert MODEL_VALUES in found(again)


def test_files_that_nobody_made_are_found(copied: Callable[[str], Version]):
    """In the manifest, and beside it."""
    version = copied("tables")
    (version.folder / "data" / "extra.csv").write_text("age,ward\n3,A\n")
    assert printable("data/extra.csv") in found(version)
    forge(version)
    assert "files" in found(version)


def test_words_of_other_code_are_not_compared_and_forged_ones_are_found(copied: Callable[[str], Version]):
    """Who is trusted is said again from the terms; the record has no place for other words."""
    version = as_forged(copied("tables"))
    assert version.verify().ok
    page = version.folder / "record.html"
    page.write_text(page.read_text().replace("each site adds a share of the noise", "nobody is trusted"))
    forge(version)
    assert "record.html" in found(version)
    again = as_forged(copied("tables"))
    forge(again, record=lambda record: told(record, "fields.execution.trust", ["nobody is trusted"]))
    assert "declarations.fields.execution.trust" in found(again)


def test_what_is_released_is_not_made_again(kept: Kept):
    """Nothing is asked of any site, nothing is charged, nothing changes, without Flower."""
    run = kept("tables")
    network = SiteNetwork(run.folder / "no-flower", "127.0.0.1", 1, None, joining=1, answering=1, between=0)
    spec, told, before = run.workspace.root / "federation.yaml", list[str](), (run.folder / "PROOF.json").read_bytes()
    again = coordinate(spec, run.workspace, network, on_message=told.append)
    assert told == ["it was released before: nothing is asked of any site"]
    assert (again.version.folder, again.version.repeated, again.lost) == (str(run.folder), True, run.outcome.lost)
    assert again.left_out == run.outcome.left_out
    assert (run.folder / "PROOF.json").read_bytes() == before


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [("federation.yaml", "reserve: 2", "reserve: 3"), ("wards.odcs.yaml", "version: 1.0.0", "version: 1.1.0")],
)
def test_another_spec_or_contract_is_another_run(kept: Kept, file: str, old: str, new: str):
    """It would be the next version: here it gets as far as Flower, which is missing, and the first stays as it is."""
    run = kept("tables")
    network = SiteNetwork(run.folder / "no-flower", "127.0.0.1", 1, None, joining=1, answering=1, between=0)
    path, before = run.workspace.root / file, (run.folder / "MANIFEST.json").read_bytes()
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    try:
        with pytest.raises(EngineMissing):
            coordinate(run.workspace.root / "federation.yaml", run.workspace, network, on_message=lambda said: None)
    finally:
        path.write_text(text)
    assert (run.folder / "MANIFEST.json").read_bytes() == before
