"""The auditors' record: signed, committed to by the published one, and no other passes for it."""

import json
import re
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from contracts.canonical import readable_json
from contracts.errors import SpecRefused
from privacy.ledger.journal.signing import Signer, key_id
from tasks.records.model.declarations import PURPOSE, commitment
from tasks.records.private_record import AuditorRecords
from tests.tasks.verification.forgery import Json, forge, load, told
from tests.worlds.tables import second
from tests.worlds.versions import Version, Worlds, broken

NAME = "record.auditor.json"


@pytest.fixture(scope="module")
def guild(worlds: Worlds) -> Version:
    return worlds.published(second())


@pytest.fixture
def version(guild: Version, tmp_path: Path) -> Version:
    return guild.copy(tmp_path / "v")


@pytest.fixture
def sealed(guild: Version, tmp_path: Path) -> Path:
    """A copy of the auditors' record."""
    name, number = guild.folder.parts[-2:]
    path = tmp_path / NAME
    path.write_bytes((guild.folder.parents[2] / "records" / name / number / NAME).read_bytes())
    return path


def sign_again(path: Path, change: Callable[[Json], object], signer: Signer) -> None:
    value = {key: part for key, part in load(path).items() if key != "signature"}
    change(value)
    value["key_id"] = key_id(signer.public_key)
    path.write_bytes(readable_json({**value, "signature": signer.sign(PURPOSE, value)}))


def test_the_record_of_the_version_passes(guild: Version, sealed: Path):
    """Rule 12 is checked when it is asked for, and only then; it holds for the version's own record."""
    report = guild.verify(auditor=sealed)
    assert report.ok, report.findings
    assert [check.rule for check in report.checks] == [*range(1, 11), 12]
    assert len(guild.verify().checks) == 10


def test_it_holds_what_the_public_one_withholds(guild: Version, sealed: Path):
    """Exact times and outcomes are in it; the commitment is to record and salt, and the salt is nowhere published."""
    value, public = load(sealed), load(guild.folder / "record.json")
    assert value["record"]["auditor"]["identity.finished"] == "2027-08-09T10:00:00Z"
    assert "auditor" not in public
    assert guild.words["identity.finished"] == "withheld"
    assert public["auditor_commitment"] == commitment(bytes.fromhex(value["salt"]), value["record"])
    assert all(value["salt"].encode() not in (guild.folder / name).read_bytes() for name in guild.files)


def test_nothing_public_tells_more_than_the_hour(guild: Version):
    """The clock stood at 11:12 past ten: no file of the version and no time of a file says so; one that does fails.

    A time here is an ISO 8601 one; that of the contract, which people declare, is left out.
    """
    declared = b"2027-08-01T09:30"
    finer = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:(?:(?!00)\d\d|00:(?!00)\d\d)")
    for name in guild.files:
        assert not finer.search((guild.folder / name).read_bytes().replace(declared, b"")), name
    assert finer.search((guild.folder / "PROOF.json").read_bytes().replace(b"T10:00:00Z", b"T10:11:12Z"))
    around = (guild.folder, guild.folder.parent, guild.folder.parent / "latest", *guild.folder.rglob("*"))
    assert {path.lstat().st_mtime % 3600 for path in around} == {0.0}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda v: v["record"]["auditor"].update({"identity.started": "2027-01-01T00:00:00Z"}), "commitment"),
        (lambda v: v.update(salt="0" * 64), "auditor_commitment"),
        (lambda v: v["record"]["replay"]["claim"].update(epsilon=1), "replay.claim.epsilon"),
        (lambda v: v["record"].pop("files"), "files"),
        (lambda v: v["record"]["declarations"]["about"].clear(), "declarations.about"),
        (lambda v: v.update(version=9), "version"),
        (lambda v: v.update(release="other"), "release"),
        (lambda v: v.update(record={}), "schema"),
    ],
)
def test_another_record_by_the_right_key_is_caught(
    version: Version, sealed: Path, change: Callable[[Json], object], says: str
):
    """Whoever owns the key can sign another complete record, but the published one does not commit to it."""
    sign_again(sealed, change, version.signer)
    report = version.verify(auditor=sealed)
    assert broken(report) == {12}
    assert says in "\n".join(map(str, report.findings))


def test_a_published_record_that_was_changed_afterwards_is_caught(version: Version, sealed: Path):
    """Signed anew, chained anew, and true by every other rule: the auditors' record tells of the change."""
    forge(version, record=lambda record: told(record, "about.contact", "nobody@example.org"))
    assert version.verify().ok
    report = version.verify(auditor=sealed)
    assert broken(report) == {12}
    assert "declarations.about" in str(report.findings)


def test_a_changed_or_foreign_file_is_caught(version: Version, sealed: Path):
    """A flipped byte, another signer, another purpose, JSON that is none: findings, never a traceback."""
    original = sealed.read_bytes()
    for content in (original.replace(b'"identity.started"', b'"identity.startef"', 1), b"{}\n", b"no JSON", b"[]\n"):
        sealed.write_bytes(content)
        report = version.verify(auditor=sealed)
        assert 12 in {check.rule for check in report.checks if not check.passed}
        assert {finding.where for finding in report.findings} <= {NAME, "record.json"}
    sealed.write_bytes(original)
    sign_again(sealed, lambda value: None, Signer(bytes(32)))
    assert "signature" in str(version.verify(auditor=sealed).findings)
    unsigned = {key: part for key, part in load(sealed).items() if key != "signature"}
    unsigned["key_id"] = key_id(version.key)
    sealed.write_bytes(readable_json({**unsigned, "signature": version.signer.sign("manifest", unsigned)}))
    assert broken(version.verify(auditor=sealed)) == {12}


def test_a_file_that_is_not_there_is_refused(version: Version, tmp_path: Path):
    """A wrong path is a wrong path, as for the key."""
    with pytest.raises(SpecRefused, match="auditors' record"):
        version.verify(auditor=tmp_path / "nothing.json")


def test_a_record_that_is_there_keeps_its_salt_and_another_is_replaced(sealed: Path, tmp_path: Path):
    """The same public record: the same bytes again. A record of somebody else, or of another run, gives way."""
    record = load(sealed)["record"]
    auditors = AuditorRecords(tmp_path / "records", Signer(bytes(32)))
    first = auditors.keep(record)
    path = auditors.path(record)
    content = path.read_bytes()
    assert auditors.keep(record) == first
    assert path.read_bytes() == content
    path.write_bytes(sealed.read_bytes())
    second_time = auditors.keep(record)
    assert second_time != first
    assert json.loads(path.read_bytes())["key_id"] == key_id(Signer(bytes(32)).public_key)
    assert auditors.keep({**record, "declared": []}) != second_time
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
