"""Publication: a version that would not verify is never entered or seen, and its run goes on."""

import json
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from contracts.canonical import readable_json
from contracts.contract.contract import Contract
from privacy.ledger.journal.signing import Signer
from privacy.ledger.ledger import Ledger
from privacy.ledger.terms import VersionEntry
from tasks.publish import publish
from tasks.records.private_record import AuditorRecords
from tasks.report import report
from tasks.verify import UnverifiedVersion, check_staged, verify
from tests.worlds.tables import Scenario, first
from tests.worlds.versions import SEED, publish_version


@dataclass
class ClockSet(Scenario):
    """A run whose account was opened while the clock was years ahead; then the clock was set, and that entered."""

    def _ledger(self, folder: Path, account: str, contract: Contract) -> Ledger:
        right, self.clock = self.clock, "2031-05-05T05:05:05Z"
        super()._ledger(folder, account, contract).close()
        self.clock = right
        ledger = Ledger(f"sqlite:///{folder / 'ledger.sqlite'}", draws=folder / "draws", clock=lambda: self.clock)
        assert ledger.correct_clock() is not None
        return ledger


def forge_claim(staging: Path) -> None:
    """What a bug of the record would be: an ε below the charged one, in a file that the manifest then vouches for."""
    record = staging / "record.json"
    value = json.loads(record.read_bytes())
    value["replay"]["claim"]["epsilon"] //= 2
    record.write_bytes(readable_json(value))


def forge_count(staging: Path) -> None:
    """What a bug of the refinement would be: a table that does not follow from its measurements."""
    file = next(staging.glob("measurements/*.parquet"))
    next((staging / "data").glob("*.parquet")).write_bytes(file.read_bytes())


@pytest.mark.parametrize(("bug", "rule"), [(forge_claim, "7"), (forge_count, "9")])
def test_a_version_that_would_not_verify_is_not_published_and_its_run_goes_on(
    tmp_path: Path, bug: Callable[[Path], None], rule: str
):
    """Checked in staging, signed and all: the journal has no publication, readers see nothing, no draw is lost."""
    scenario, signer = first(), Signer(SEED)
    scenario.seeded = False
    facts = scenario.run(tmp_path)
    ledger = Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}", draws=tmp_path / "draws", clock=lambda: scenario.clock)
    auditors, store = AuditorRecords(tmp_path / "records", signer), tmp_path / "releases"

    def write(staging: Path, _version: VersionEntry) -> None:
        report(facts, folder=staging, auditors=auditors)

    def spoiled(staging: Path, version: VersionEntry) -> None:
        write(staging, version)
        bug(staging)

    with closing(ledger):
        before = ledger.journal()
        with pytest.raises(UnverifiedVersion) as refused:
            publish(ledger, signer, facts.run_key, store, spoiled, check=check_staged)
        assert refused.value.exit_code == 5
        assert f"{rule} (" in refused.value.findings[0].found
        assert ledger.journal() == before
        assert [each.status for each in ledger.versions()] == ["allocated"]
        assert list(store.rglob("*.*")) == []
        made = publish(ledger, signer, facts.run_key, store, write, check=check_staged)
        assert ledger.verify(public_key=signer.public_key) == []
    assert verify(made.folder, public_key=signer.public_key).ok
    proof = json.loads((made.folder / "PROOF.json").read_bytes())
    kept = [each.body["sha256"] for each in before if each.kind == "noise_drawn"]
    assert [each["entry"]["body"]["sha256"] for each in proof["entries"] if "sha256" in each["entry"]["body"]] == kept


def test_a_version_that_was_charged_after_the_clock_was_corrected_verifies(tmp_path: Path):
    """Its proof has the entry that corrects the clock: without it the account would be younger than the charge."""
    version = publish_version(ClockSet(**vars(first())), tmp_path)
    found = version.verify()
    assert found.ok, found.findings
    assert "journal.clock_corrected.latest" in found.word
    proof = json.loads((version.folder / "PROOF.json").read_bytes())
    assert [each["entry"]["kind"] for each in proof["entries"]].count("clock_corrected") == 1
