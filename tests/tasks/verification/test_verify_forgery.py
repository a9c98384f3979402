"""Verify against the publisher: whoever owns the key and the ledger can sign anything, but not make it add up."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from contracts.canonical import readable_json
from contracts.release.tables.tables import Refine
from privacy.accounting.events import DiscreteLaplace
from privacy.ledger.journal.signing import Signer
from tests.tasks.verification.forgeries import FORGERIES, MEASURED
from tests.tasks.verification.forgery import (
    Change,
    Json,
    digest_of,
    edit,
    forge,
    load,
    of_kind,
    proof_head,
    prove,
    set_cell,
    sign_manifest,
    with_head,
)
from tests.worlds.versions import SEED, Version, broken


@pytest.mark.long
@pytest.mark.parametrize("name", ["town", "guild", "extract"])
def test_the_forger_s_tools_alone_change_nothing(versions: dict[str, Version], tmp_path: Path, name: str):
    """Re-signed and re-chained without a change, a version passes: what is caught below is caught for its content."""
    version = forge(versions[name].copy(tmp_path / "v"))
    version.assert_verifies()


@pytest.mark.parametrize("name", FORGERIES)
def test_a_consistent_forgery_is_caught_by_the_rule_it_breaks(
    versions: dict[str, Version], tmp_path: Path, name: str
):
    forgery = FORGERIES[name]
    forgery.check_found(versions[forgery.of].copy(tmp_path / "v"), alone=True)


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c["distribution"][0].update(sha256="0" * 64),
        lambda c: c["distribution"][0].update(contentUrl="data/other.parquet"),
        lambda c: c["distribution"].pop(),
        lambda c: c.update(distribution={}),
        lambda c: c.pop("distribution"),
        lambda c: c["distribution"].append(1),
    ],
)
def test_a_catalogue_entry_that_describes_other_files_is_caught(
    versions: dict[str, Version], tmp_path: Path, change: Change
):
    version = versions["guild"].copy(tmp_path / "v")
    edit(version.folder / "croissant.json", change)
    digest = sign_manifest(version.folder, version.signer)
    entries = [proven["entry"] for proven in load(version.folder / "PROOF.json")["entries"]]
    of_kind(entries, "version_published")["manifest"] = digest
    (version.folder / "PROOF.json").write_bytes(readable_json(prove(entries, version.signer)))
    report = version.verify()
    assert {check.rule for check in report.checks if not check.passed} == {10}
    assert {finding.where for finding in report.findings} == {"croissant.json"}


def test_what_verify_cannot_tell_it_does_not_claim(versions: dict[str, Version], tmp_path: Path):
    """A publisher who invents noisy values, and post-processes them honestly, passes; the report says so."""
    version = versions["town"].copy(tmp_path / "v")
    path = version.folder / MEASURED
    noisy = pq.read_table(path).column("noisy").to_numpy()
    moved = {"noisy": (noisy[0] + 1, noisy[1] - 1)}
    for column in ("noisy", "lower", "upper"):
        values = pq.read_table(path).column(column).to_numpy()
        moved[column] = (values[0] + 1, values[1] - 1)
    for column, (zeroth, after) in moved.items():
        set_cell(path, column, 0, zeroth)
        set_cell(path, column, 1, after)
    rewrite_refinement(version)
    report = version.verify()
    assert report.ok, report.findings
    assert any("noisy values" in line for line in report.cannot_tell)


def rewrite_refinement(version: Version) -> None:
    """Refine the town's ages again from what stands among its measurements, and state it everywhere."""
    from privacy.refine.tables import refine_table

    folder = version.folder
    noisy = pq.read_table(folder / MEASURED).column("noisy").to_numpy()
    total = int(pq.read_table(folder / "data/age.parquet").column("count").to_numpy().sum())  # not moved
    made = refine_table(
        noisy,
        Refine(method="simplex"),
        impossible=np.zeros(noisy.shape, bool),
        total=total,
        event=DiscreteLaplace(Fraction(1, 2), (1,)),
        ordered=(0,),
    )
    columns = {"count": made.values, "lower": made.intervals.lower, "upper": made.intervals.upper}
    for name, values in columns.items():
        for row, value in enumerate(values):
            set_cell(folder / "data/age.parquet", name, row, value)
    drawn, table = digest_of(folder / MEASURED, "noisy"), digest_of(folder / "data/age.parquet", "count")

    def record(value: Json) -> None:
        value["replay"]["draws"][0]["sha256"] = drawn
        value["replay"]["tables"][0]["sha256"] = table

    forge(version, record=record, journal=lambda entries: of_kind(entries, "noise_drawn").update(sha256=drawn))


def spoil_proof(version: Version, change: Change) -> set[str]:
    value = load(version.folder / "PROOF.json")
    change(value)
    (version.folder / "PROOF.json").write_bytes(readable_json(value))
    report = version.verify()
    assert broken(report) == {4}
    assert {finding.where for finding in report.findings} == {"PROOF.json"}
    return {finding.field.split(",")[0] for finding in report.findings}


def test_a_checkpoint_of_a_shorter_journal_is_caught(versions: dict[str, Version], tmp_path: Path):
    version = versions["guild"].copy(tmp_path / "v")
    last = load(version.folder / "PROOF.json")["entries"][-1]["entry"]["sequence"]
    assert "entries[5]" in spoil_proof(version, lambda proof: with_head(proof, version.signer, size=last))


@pytest.mark.parametrize(
    "change",
    [
        lambda proof: with_head(proof, Signer(SEED), size=proof_head(proof).size + 50),
        lambda proof: with_head(proof, Signer(SEED), root="0" * 64),
        lambda proof: with_head(proof, Signer(SEED), origin="another.example/journal"),
        lambda proof: proof["entries"][0]["path"].pop(),
        lambda proof: proof["entries"][0]["path"].append("0" * 64),
        lambda proof: proof["entries"][0].update(path=[]),
        lambda proof: proof["entries"][2]["entry"].update(sequence=0),
        lambda proof: proof["entries"][2]["entry"].update(previous="0" * 64),
        lambda proof: proof["entries"][2]["entry"].update(at="2001-01-01T00:00:00Z"),
        lambda proof: proof["entries"].reverse(),
        lambda proof: proof.update(entries=[]),
    ],
)
def test_a_proof_that_does_not_prove_is_caught(versions: dict[str, Version], tmp_path: Path, change: Change):
    assert spoil_proof(versions["guild"].copy(tmp_path / "v"), change)


def test_a_checkpoint_that_was_not_signed_is_caught(versions: dict[str, Version], tmp_path: Path):
    version = versions["guild"].copy(tmp_path / "v")
    size = proof_head(load(version.folder / "PROOF.json")).size
    found = spoil_proof(version, lambda p: p.update(checkpoint=p["checkpoint"].replace(f"\n{size}\n", "\n9999\n", 1)))
    assert "checkpoint" in found


def test_a_charge_that_was_returned_before_does_not_disturb(versions: dict[str, Version], tmp_path: Path):
    """A run whose first reservation was given back unopened is one run all the same."""
    version = versions["town"].copy(tmp_path / "v")

    def returned(entries: list[Json]) -> None:
        charge = entries[1]
        parts = [{name: part[name] for name in ("account", "amount")} for part in charge["body"]["parts"]]
        body = {"run_key": charge["body"]["run_key"], "parts": parts, "salt": "0" * 64}
        entries[1:1] = [{**charge}, {"kind": "charge_returned", "at": charge["at"], "body": body}]

    forge(version, journal=returned).assert_verifies()
