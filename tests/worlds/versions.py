"""Published versions for the tests of verify: made by the real ledger, grant, refinement, report and publication."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

import pytest

from privacy.ledger.journal.signing import Signer
from privacy.ledger.ledger import Ledger
from tasks.publish import publish
from tasks.records.facts import RunFacts
from tasks.records.private_record import AuditorRecords
from tasks.records.record import published_explanation
from tasks.records.software import software
from tasks.report import report
from tasks.verification.outcomes import VerificationReport
from tasks.verify import check_staged, verify
from tests.worlds.once import once

SEED = bytes(range(32))


class AnyScenario(Protocol):
    """What a finished run of any kind of product is made from."""

    seeded: bool
    clock: str

    def run(self, folder: Path) -> RunFacts: ...


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
        return Version(copied(self.folder, to), self.signer)

    def verify(self, **options: Any) -> VerificationReport:
        """Check it against its publisher's key; options are those of `tasks.verify.verify`."""
        return verify(self.folder, public_key=self.key, **options)

    def assert_verifies(self, **options: Any) -> None:
        report = self.verify(**options)
        assert report.ok, report.findings

    @property
    def words(self) -> dict[str, Any]:
        """What its record tells people, by name of the field."""
        return published_explanation(lambda name: (self.folder / name).read_bytes()).values

    @property
    def files(self) -> list[str]:
        return sorted(path.relative_to(self.folder).as_posix() for path in self.folder.rglob("*") if path.is_file())


def copied(folder: Path, to: Path) -> Path:
    """Copy a folder, writable, so that a test may spoil it; links stay links."""
    shutil.copytree(folder, to, symlinks=True)
    for path in (to, *to.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() else 0o644)
    return to


def publish_version(scenario: AnyScenario, folder: Path, *, here: bool = False) -> Version:
    """Run a scenario in a folder and publish it; the noise is drawn from the CSPRNG, under a key that repeats."""
    scenario.seeded = False
    facts = scenario.run(folder)
    facts = replace(facts, software=software()) if here else facts
    ledger = Ledger(f"sqlite:///{folder / 'ledger.sqlite'}", draws=folder / "draws", clock=lambda: scenario.clock)
    signer = Signer(SEED)
    auditors = AuditorRecords(folder / "records", signer)
    published = publish(
        ledger,
        signer,
        facts.run_key,
        folder / "releases",
        lambda staging, version: report(facts, folder=staging, auditors=auditors),
        check=check_staged,
    )
    ledger.close()
    return Version(published.folder, signer)


class Worlds:
    """Published versions that tests read and copy; each is made once for all processes of a test run."""

    def __init__(self, factory: pytest.TempPathFactory) -> None:
        self._factory = factory
        self._digests: dict[Path, str] = {}

    def published(self, scenario: AnyScenario, *, here: bool = False) -> Version:
        """Return the version that a scenario makes; `publish_version` says what `here` is."""
        name = sha256(f"{here} {scenario!r}".encode()).hexdigest()[:16]
        made = once(self._factory, name, lambda folder: publish_version(scenario, folder, here=here))
        [manifest] = [path for path in made.glob("*/*/*/MANIFEST.json") if not path.parent.is_symlink()]
        self._digests.setdefault(manifest.parent, digest(manifest.parent))
        return Version(manifest.parent, Signer(SEED))

    def changed(self, version: Version, change: Callable[[Version], object]) -> Version:
        """Return one of these versions, changed by a function of a name of its own; that is done once, too."""
        name = f"{version.folder.parents[2].name}-{change.__module__}-{change.__name__}"
        made = once(self._factory, name, lambda folder: change(version.copy(folder / "v"))) / "v"
        self._digests.setdefault(made, digest(made))
        return Version(made, version.signer)

    def check(self) -> None:
        """Say which version a test has changed in its place instead of in a copy."""
        assert [str(folder) for folder, before in self._digests.items() if digest(folder) != before] == []


def digest(folder: Path) -> str:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return sha256(b"".join(str(path).encode() + sha256(path.read_bytes()).digest() for path in files)).hexdigest()


def named(report: VerificationReport) -> set[str]:
    return {finding.where for finding in report.findings}


def broken(report: VerificationReport) -> set[int]:
    return {check.rule for check in report.checks if check.findings}


def caught(version: Version, name: str, content: bytes) -> bool:
    """Write other bytes into a file, verify, put the old ones back; say whether a finding names the file."""
    path = version.folder / name
    original = path.read_bytes()
    assert content != original
    path.write_bytes(content)
    try:
        report = version.verify()
    finally:
        path.write_bytes(original)
    return not report.ok and name in named(report)
