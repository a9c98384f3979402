"""λ chosen on an earlier version: found in the journal, chosen again where that version lies beside, else said so."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from hashlib import sha256
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pyarrow.parquet as pq
import pytest

from contracts.contract.odcs import load_contract
from contracts.errors import SpecRefused
from contracts.release.spec import load_spec
from contracts.release.tables.tables import Refine
from privacy.accounting.events import DiscreteLaplace, event_from_json
from privacy.evaluation.against_noisy import distance
from privacy.ledger.journal.signing import Signer
from privacy.ledger.ledger import Ledger
from privacy.refine.lambda_choice import lambda_for_reference
from privacy.refine.tables import refine_table
from tasks.products.tables.reference_version import earlier_version
from tasks.verify import verify
from tasks.withdraw import withdraw
from tests.tasks.records.version_schemas import version_schemas
from tests.tasks.verification.forgery import (
    assert_caught,
    digest_of,
    forge,
    load,
    raised,
    replay,
    set_cell,
    sign_manifest,
)
from tests.worlds.tables import Scenario, first
from tests.worlds.versions import SEED, Version, broken, copied, publish_version

ON_TOWN = "{method: negative_l2, lambda: {reference: town/1}}"


def second_census(refine: str = ON_TOWN, tables: str = "[[age], [age, sex]]") -> Scenario:
    """The same tables again, later, with a lambda that serves the first version best."""
    base = first()
    spec = base.spec.replace("{method: simplex}", refine).replace("epsilon: 1.0", "epsilon: 0.5")
    return replace(base, spec=spec.replace("[[age], [age, sex]]", tables))


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger and a store with town v1, by simplex, and v2, whose lambda is chosen on v1."""
    folder = tmp_path_factory.mktemp("reference")
    publish_version(first(), folder)
    publish_version(second_census(), folder)
    return folder


@pytest.fixture
def folder(published: Path, tmp_path: Path) -> Path:
    return copied(published, tmp_path / "copy")


def version(folder: Path, number: int = 2) -> Version:
    return Version(folder / "releases" / "town" / f"v{number}", Signer(SEED))


def told(report: Any) -> list[str]:
    return [line for line in report.cannot_tell if "lambda" in line]


@pytest.mark.long
def test_lambda_is_the_one_that_serves_the_earlier_version_best(published: Path):
    """Computed here from the published files alone; verify chooses it again, for the earlier version lies beside."""
    later = version(published)
    report = later.verify()
    assert report.ok, report.findings
    assert told(report) == []
    record = load(later.folder / "record.json")
    jsonschema.Draft202012Validator(version_schemas()["record"]).validate(record)
    for table, draw in zip(record["replay"]["tables"], record["replay"]["draws"], strict=True):
        counts = pq.read_table(version(published, 1).folder / table["data"])["count"].to_numpy()
        event = event_from_json(draw["event"])
        assert isinstance(event, DiscreteLaplace)
        best = lambda_for_reference(counts, event=event, integers=True)
        assert Decimal(table["lambda"]) == Decimal(repr(best.lambda_))
        assert table["chosen"] == {"of": "lambda", "by": "reference"}
        assert float(table["estimated_rmse"]["negative_l2"]) == pytest.approx(best.expected_rmse, rel=1e-5)


def test_the_record_names_the_version_and_says_why_it_is_free(published: Path):
    record = load(version(published).folder / "record.json")
    manifest = version(published, 1).folder / "MANIFEST.json"
    reference = record["replay"]["reference"]
    assert (reference["release"], reference["version"]) == ("town", 1)
    assert reference["manifest"] == sha256(manifest.read_bytes()).hexdigest()
    chosen = next(each for each in version(published).words["product.tables"] if each["table"] == "age")["chosen"]
    assert f"town v1 (MANIFEST.json {reference['manifest']})" in chosen
    page = (version(published).folder / "record.html").read_text(encoding="utf-8")
    assert "what this noise would err on the counts of town v1" in page
    assert "estimated from the noisy counts" not in page
    assert "published and paid for before" in chosen
    assert "costs nothing" in chosen
    assert load(version(published, 1).folder / "record.json")["replay"]["reference"] is None


# --- the earlier version is not at hand ------------------------------------------------------------------------


@pytest.fixture
def alone(folder: Path, tmp_path: Path) -> Version:
    """The later version without its neighbour."""
    return version(folder).copy(tmp_path / "alone" / "town" / "v2")


def test_alone_it_passes_and_says_that_lambda_was_not_chosen_again(alone: Version):
    report = alone.verify()
    assert report.ok, report.findings
    (line,) = told(report)
    assert "whether lambda is the one that town v1 leads to" in line
    assert "does not lie beside this one" in line
    assert line in report.to_json()["cannot_tell"]


def test_alone_everything_that_follows_from_the_stated_lambda_is_checked(alone: Version):
    for row, by in ((0, 1), (1, -1)):
        raised("data/age.parquet", "count", row, by)(alone.folder)
    digest = digest_of(alone.folder / "data" / "age.parquet", "count")
    forge(alone, record=replay(lambda r: r["tables"][0].update(sha256=digest)))
    assert broken(alone.verify()) == {9}


@pytest.mark.parametrize("lambda_", ["1", "1.5", "7"])
def test_a_lambda_that_is_none_is_caught_alone_too(alone: Version, lambda_: str):
    another = replay(lambda r: r["tables"][0].update({"lambda": lambda_}))
    assert 9 in broken(forge(alone, record=another).verify())


def other_lambda(folder: Path, lambda_: str = "0.3") -> Any:
    """Refine the first table with another lambda, and make every file and digest agree."""
    record = load(folder / "record.json")
    draw, total = record["replay"]["draws"][0], record["replay"]["total"]["value"]
    noisy = pq.read_table(folder / "measurements" / "age.parquet")["noisy"].to_numpy()
    made = refine_table(
        noisy,
        Refine.model_validate({"method": "negative_l2", "lambda": lambda_}),
        impossible=np.zeros(noisy.shape, bool),
        total=total,
        event=event_from_json(draw["event"]),  # type: ignore[arg-type]
        ordered=(0,),
    )
    path = folder / "data" / "age.parquet"
    for row in range(noisy.size):
        set_cell(path, "count", row, int(made.values[row]))
        set_cell(path, "lower", row, int(made.intervals.lower[row]))
        set_cell(path, "upper", row, int(made.intervals.upper[row]))
    digest = digest_of(path, "count")

    def change(record: Any) -> None:
        record["replay"]["tables"][0].update({"sha256": digest, "lambda": lambda_})
        record["replay"]["distances"]["table:age"] = distance(made.values, noisy).to_json()

    return change


def test_another_lambda_is_caught_beside_the_earlier_version_and_not_claimed_to_be_alone(
    folder: Path, alone: Version
):
    """What verify cannot tell, it does not claim; where it can tell, it finds it."""
    report = forge(alone, record=other_lambda(alone.folder)).verify()
    assert report.ok, report.findings
    assert len(told(report)) == 1
    beside = version(folder)
    assert_caught(forge(beside, record=other_lambda(beside.folder)), {9}, "chosen again")


def test_a_reference_to_another_manifest_is_caught(folder: Path):
    forge(version(folder), record=replay(lambda r: r["reference"].update(manifest="0" * 64)))
    report = verify(version(folder).folder, public_key=version(folder).key)
    assert broken(report) == {4, 9}  # 4: the forged journal is not the one that v1 beside it has seen
    assert "replay.reference.manifest" in [finding.field for finding in report.findings]
    assert len(told(report)) == 1


@pytest.mark.parametrize(
    "change",
    [
        replay(lambda r: r.update(reference=None)),
        replay(lambda r: r["reference"].update(version=2)),
        replay(lambda r: r["reference"].update(release="village")),
    ],
)
def test_a_record_that_names_another_version_is_caught(folder: Path, change: Any):
    forge(version(folder), record=change)
    assert 5 in broken(verify(version(folder).folder, public_key=version(folder).key))


def test_a_neighbour_that_was_damaged_since_tells_nothing_and_accuses_nobody(folder: Path):
    path = version(folder, 1).folder / "data" / "age.parquet"
    path.write_bytes(path.read_bytes()[:-1])
    report = verify(version(folder).folder, public_key=version(folder).key)
    assert report.ok, report.findings
    (line,) = told(report)
    assert "cannot be read: data/age.parquet" in line


# --- what cannot be named --------------------------------------------------------------------------------------


@pytest.fixture
def ledger(folder: Path) -> Iterator[Ledger]:
    opened = Ledger(f"sqlite:///{folder / 'ledger.sqlite'}", draws=folder / "draws", clock=lambda: first().clock)
    yield opened
    opened.close()


def refusal(folder: Path, ledger: Ledger, scenario: Scenario) -> str:
    """What the release of a scenario is told before anything is charged."""
    (folder / "spec.yaml").write_text(scenario.spec)
    spec, contract = load_spec(folder / "spec.yaml"), load_contract(folder / "contract.odcs.yaml")
    with pytest.raises(SpecRefused) as refused:
        earlier_version(spec, contract, ledger, folder / "releases")
    assert all(finding.where.rpartition(":")[2].isdigit() for finding in refused.value.findings)
    assert all("lambda.reference" in finding.field for finding in refused.value.findings)
    return str(refused.value)


def test_a_version_that_is_not_in_the_journal_is_refused(folder: Path, ledger: Ledger):
    said = refusal(folder, ledger, second_census(ON_TOWN.replace("town/1", "town/3")))
    assert "one of town/1, town/2" in said
    said = refusal(folder, ledger, second_census(ON_TOWN.replace("town/1", "village/1")))
    assert "of village there is none here" in said


def test_a_withdrawn_version_is_refused(folder: Path, ledger: Ledger):
    withdraw(ledger, folder / "releases", "town", 1, reason="wrong year")
    said = refusal(folder, ledger, second_census())
    assert "town/1, which was withdrawn" in said
    assert "one of town/2" in said


def test_a_version_that_is_not_as_it_was_published_is_refused(folder: Path, ledger: Ledger):
    """Its folder is gone, its manifest was signed anew, or a table was changed under its manifest."""
    before = version(folder, 1).folder
    path = before / "data" / "age.parquet"
    whole = path.read_bytes()
    path.write_bytes(whole + b"x")
    assert "data/age.parquet" in refusal(folder, ledger, second_census())
    path.write_bytes(whole)
    sign_manifest(before, version(folder).signer, lambda manifest: manifest.update(release="town2"))
    assert "not in the release store as it was published" in refusal(folder, ledger, second_census())
    shutil.rmtree(before)
    assert "restore its folder" in refusal(folder, ledger, second_census())


def test_a_version_without_the_same_table_is_refused(folder: Path, ledger: Ledger):
    said = refusal(folder, ledger, second_census(tables="[[age], [sex]]"))
    assert "data/sex.parquet" in said
    assert "a table named 'sex'" in said
    edited = second_census(tables="[[age], {columns: [sex, age], name: age_x_sex}]")
    assert "data/age_x_sex.parquet, columns" in refusal(folder, ledger, edited)


def test_a_version_whose_cells_are_others_is_refused(folder: Path, ledger: Ledger):
    """The contract has other bins by now."""
    text = (folder / "contract.odcs.yaml").read_text()
    (folder / "contract.odcs.yaml").write_text(text.replace("{width: 10}", "{width: 20}"))
    assert "data/age.parquet, rows" in refusal(folder, ledger, second_census())


def test_a_version_with_counts_below_zero_is_refused(tmp_path: Path):
    """Unrefined counts are no table of people. That none of 30 noisy ones is below 0 has a chance under 1e-7."""
    publish_version(replace(second_census("{method: none}"), rows=20), tmp_path)
    counts = pq.read_table(version(tmp_path, 1).folder / "data" / "age_x_sex.parquet")["count"].to_numpy()
    opened = Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}", draws=tmp_path / "draws", clock=lambda: first().clock)
    assert counts.min() < 0
    assert "so that none is below 0" in refusal(tmp_path, opened, second_census())
    opened.close()


def test_without_a_reference_nothing_is_read(folder: Path, ledger: Ledger):
    (folder / "spec.yaml").write_text(first().spec)
    spec, contract = load_spec(folder / "spec.yaml"), load_contract(folder / "contract.odcs.yaml")
    assert earlier_version(spec, contract, ledger, folder / "nowhere") is None
