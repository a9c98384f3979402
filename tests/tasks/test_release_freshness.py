"""LATEST.note: rollback, freeze, a clock an hour off and two faces are found out, each in words."""

import hashlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from privacy.ledger.journal.key_changes import TrustedKey
from privacy.ledger.journal.notes import LatestStatement, MalformedNote, hour_of, read_latest
from privacy.ledger.journal.signing import Signer
from tasks.release_freshness import show_latest
from tasks.storage.manifest import LATEST_NOTE
from tasks.storage.workspace.keys import WorkspaceRefused
from tasks.storage.workspace.settings import Workspace
from tasks.verification.outcomes import CheckerTerms
from tasks.verification.status import CheckedVersion, check_latest
from tests.worlds.tables import first
from tests.worlds.versions import SEED, Version, Worlds

SIGNER = Signer(SEED)
NOW = datetime(2026, 11, 25, 12, 30, tzinfo=UTC)
SAID = LatestStatement("town", 3, "a" * 64, 57, "2026-11-25T12:00:00Z", "2026-12-02T12:00:00Z")


@pytest.fixture
def version(tmp_path: Path) -> CheckedVersion:
    (tmp_path / "town" / "v3").mkdir(parents=True)
    write(tmp_path, SAID)
    return CheckedVersion(tmp_path / "town" / "v3", "town", 3, "a" * 64, 57)


def write(place: Path, said: LatestStatement, signer: Signer = SIGNER) -> None:
    (place / "town" / LATEST_NOTE).write_bytes(signer.note(said.text).to_bytes())


def told(version: CheckedVersion, now: datetime = NOW, pins: Path | None = None) -> list[tuple[str, str]]:
    found = check_latest(version, public_key=SIGNER.public_key, now=now, pins=pins)
    return [(finding.field, finding.remedy) for finding in found]


def test_the_newest_version_holds_while_the_note_is_good(version: CheckedVersion):
    """An hour is allowed on either side: clocks differ, and one that is an hour off finds nothing."""
    for now in (NOW, NOW - timedelta(minutes=90), datetime(2026, 12, 2, 13, 0, tzinfo=UTC)):
        assert told(version, now) == []


def test_the_key_that_signs_now_is_believed_and_one_that_was_given_up_is_not(version: CheckedVersion):
    """After a change the new key signs the note beside versions of the old one; a thief has the old one alone."""
    successor = Signer(bytes([9]) * 32, SIGNER.verifier.name)
    old = TrustedKey(SIGNER.public_key, 40, "2026-11-25T11:00:00Z", "")
    keys = (old, TrustedKey(successor.public_key, None, None, ""))

    def fields() -> list[str]:
        found = check_latest(version, public_key=SIGNER.public_key, trusted=keys, now=NOW, pins=None)
        return [finding.field for finding in found]

    assert fields() == ["signature"]
    write(version.folder.parents[1], SAID, successor)
    assert fields() == []


def test_a_note_that_is_too_old_or_of_tomorrow_is_found(version: CheckedVersion):
    """Freeze: whoever keeps newer notes back is found once the last one is too old."""
    [(field, remedy)] = told(version, datetime(2026, 12, 2, 13, 1, tzinfo=UTC))
    assert (field, "newer ones are kept from you" in remedy) == ("until", True)
    [(field, remedy)] = told(version, datetime(2026, 11, 25, 10, 59, tzinfo=UTC))
    assert (field, "--at TIME" in remedy) == ("made", True)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"version": 4}, "version"),
        ({"version": 2}, "version"),
        ({"version": 0}, "version"),
        ({"manifest": "b" * 64}, "manifest"),
        ({"release": "village"}, "release"),
        ({"size": 56}, "size"),
    ],
)
def test_another_state_than_the_version_s_is_found(
    version: CheckedVersion, tmp_path: Path, change: dict[str, object], field: str
):
    write(tmp_path, replace(SAID, **change))  # type: ignore[arg-type]
    assert [each for each, _ in told(version)] == [field]


def test_an_older_state_than_was_seen_before_is_found(version: CheckedVersion, tmp_path: Path):
    """Rollback: all of it is signed and not too old, and this checker has seen more."""
    pins = tmp_path / "pins"
    old = replace(SAID, size=50, made="2026-11-25T11:00:00Z")
    older = replace(version, size=50)
    write(tmp_path, old)
    assert told(older, pins=pins) == []
    write(tmp_path, SAID)
    assert told(version, pins=pins) == []
    write(tmp_path, old)
    [(field, remedy)] = told(older, pins=pins)
    assert (field, "put back" in remedy) == ("size", True)
    assert told(older) == [], "who remembers nothing cannot find it"
    write(tmp_path, SAID)
    assert told(version, pins=pins) == []


SOUND = '{"size": 5, "version": 1, "made": "2026-11-25T11:00:00Z"}'


@pytest.mark.parametrize(
    "content",
    [
        *("5", "{}", "[]", "", "\\xff", "[" * 100_000, '{"a town": 5}', '{"a town": {}}', '{"a town": {"size": 5}}'),
        SOUND.join(['{"a town": ', ', "b town": null}']),
        *(
            '{"a town": ' + SOUND.replace(*change) + "}"
            for change in (("5,", '"5",'), ("5,", "-5,"), ("1,", "true,"))
        ),
        *(
            '{"a town": ' + SOUND.replace(*change) + "}"
            for change in (("2026-11-25", "9999"), ('"2026', '1, "x": "2026'))
        ),
    ],
)
def test_a_damaged_memory_is_named_and_the_publisher_is_not_blamed(
    version: CheckedVersion, tmp_path: Path, content: str
):
    """What the checker remembers is its own file: nothing is read from it, and nothing is written over it."""
    seen = tmp_path / "pins" / "seen.json"
    assert told(version, pins=seen.parent) == []
    seen.write_text(content)
    [finding] = check_latest(version, public_key=SIGNER.public_key, now=NOW, pins=seen.parent)
    assert finding.where == str(seen)
    assert f"move {seen} away" in finding.remedy
    assert "The publisher is not at fault" in finding.remedy
    assert "is forgotten then" in finding.remedy
    assert seen.read_text() == content
    seen.unlink()
    assert told(version, pins=seen.parent) == []


def test_a_note_of_another_key_or_form_or_none_is_found(version: CheckedVersion, tmp_path: Path):
    write(tmp_path, SAID, Signer(bytes(32)))
    assert [each for each, _ in told(version)] == ["signature"]
    note = tmp_path / "town" / LATEST_NOTE
    whole = SIGNER.note(SAID.text).to_bytes()
    for place in range(len(whole)):
        note.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert told(version), f"byte {place}"
    note.unlink()
    assert [each for each, _ in told(version)] == ["the file"]


@pytest.mark.parametrize(
    ("old", "new"),
    [("\n3\n", "\n03\n"), ("sudare-latest/1", "sudare-latest/2"), ("a" * 64, "A" * 64), (":00:00Z", ":30:00Z")],
)
def test_a_note_is_read_strictly(old: str, new: str):
    with pytest.raises(MalformedNote, match="newest version"):
        read_latest(SIGNER.note(SAID.text).to_bytes().replace(old.encode(), new.encode()))


def test_a_published_release_is_the_newest_by_its_note(worlds: Worlds, tmp_path: Path):
    """From the ledger to the rule: the note that a workspace writes holds for the version that it published."""
    version = worlds.published(first())
    release = version.folder.parent.name
    copied = version.copy(tmp_path / release / version.folder.name)
    workspace = Workspace.create(tmp_path / "w")
    settings = workspace.root / "sudare.toml"
    assert show_latest(workspace, None, release, tmp_path) is None  # type: ignore[arg-type]
    settings.write_text(settings.read_text().replace("[publish]", '[publish]\nfresh_for = "soon"\n#'))
    with pytest.raises(WorkspaceRefused, match="a number of days"):
        show_latest(Workspace.open(workspace.root), None, release, tmp_path)  # type: ignore[arg-type]
    now = datetime.now(UTC)
    digest = hashlib.sha256((copied.folder / "MANIFEST.json").read_bytes()).hexdigest()
    said = LatestStatement(release, 1, digest, 99, hour_of(now), hour_of(now + timedelta(days=7)))
    (tmp_path / release / LATEST_NOTE).write_bytes(SIGNER.note(said.text).to_bytes())
    assert rules(copied, now) == {14: True}
    assert rules(copied, now + timedelta(days=8)) == {14: False}


def rules(version: Version, now: datetime) -> dict[int, bool]:
    report = version.verify(terms=CheckerTerms(now=now))
    return {check.rule: check.passed for check in report.checks if check.rule > 10}
