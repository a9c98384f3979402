"""Published versions for the tests of verify: made by the real ledger, grant, refinement, report and publication."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from privacy.ledger.journal.signing import Signer
from privacy.ledger.ledger import Ledger
from tasks.publish import publish
from tasks.records.auditor_copy import AuditorCopies
from tasks.records.facts import RunFacts
from tasks.records.software import software
from tasks.report import report
from tasks.verification.outcomes import VerificationReport
from tasks.verify import verify

SEED = bytes(range(32))


class AnyScenario(Protocol):
    """What a finished run of any kind of product is made from."""

    seeded: bool
    clock: str

    def run(self, folder: Path) -> RunFacts:
        """Make the run for real."""
        ...


@dataclass(frozen=True)
class Version:
    """A published version.

    Args:
        folder: where it is.
        signer: the key of its publisher.
    """

    folder: Path
    signer: Signer

    @property
    def key(self) -> str:
        return self.signer.public_key

    def copy(self, to: Path) -> Version:
        """Copy the version, writable, so that a test may spoil it."""
        shutil.copytree(self.folder, to)
        for path in (to, *to.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        return Version(to, self.signer)

    @property
    def files(self) -> list[str]:
        """Names of all its files."""
        return sorted(path.relative_to(self.folder).as_posix() for path in self.folder.rglob("*") if path.is_file())


def publish_version(scenario: AnyScenario, folder: Path, *, here: bool = False) -> Version:
    """Run a scenario in a folder and publish it; the noise is drawn from the CSPRNG.

    Args:
        here: whether the record names the very code that runs here, so that pages are compared byte for byte.
    """
    scenario.seeded = False
    facts = scenario.run(folder)
    facts = replace(facts, software=software()) if here else facts
    ledger = Ledger(f"sqlite:///{folder / 'ledger.sqlite'}", draws=folder / "draws", clock=lambda: scenario.clock)
    signer = Signer(SEED)
    auditors = AuditorCopies(folder / "records", signer)
    published = publish(
        ledger,
        signer,
        facts.run_key,
        folder / "releases",
        lambda staging, version: report(facts, folder=staging, auditors=auditors),
    )
    ledger.close()
    return Version(published.folder, signer)


def named(report: VerificationReport) -> set[str]:
    """The files that the findings name."""
    return {finding.where for finding in report.findings}


def broken(report: VerificationReport) -> set[int]:
    """The rules with findings."""
    return {check.rule for check in report.checks if check.findings}


def caught(version: Version, name: str, content: bytes) -> bool:
    """Write other bytes into a file, verify, put the old ones back; say whether a finding names the file."""
    path = version.folder / name
    original = path.read_bytes()
    assert content != original
    path.write_bytes(content)
    try:
        report = verify(version.folder, public_key=version.key)
    finally:
        path.write_bytes(original)
    return not report.ok and name in named(report)
