"""Verify, from outside: what is untouched passes, and whatever was changed is caught and named."""

import json
import os
import shutil
from base64 import b64decode, b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest

from contracts.canonical import canonical_json
from contracts.errors import SpecRefused
from privacy.ledger.journal.notes import COSIGNATURE, VerifierKey
from privacy.ledger.journal.signing import Signer
from tasks.records.model.manifest import Manifest, manifest_of, stated_release
from tasks.storage.workspace.keys import create_keys
from tasks.verification.files.folder import VersionFolder, check_contents, list_version
from tasks.verification.outcomes import ALL_RULES, CANNOT_TELL, RULES
from tasks.verify import read_public_key, verify
from tests.tasks.verification.forgery import edit, forge, load, sign_manifest
from tests.worlds.versions import Version, broken, caught, named


@pytest.mark.parametrize("name", ["town", "guild", "extract", "chosen"])
def test_an_untouched_version_passes_every_rule(versions: dict[str, Version], name: str):
    report = verify(versions[name].folder, public_key=versions[name].key)
    assert report.findings == ()
    assert [(check.rule, check.name) for check in report.checks] == [(rule.number, rule.name) for rule in RULES]
    assert report.ok
    assert (report.release, report.version) == (versions[name].folder.parent.name, 2 if name == "guild" else 1)


def test_a_version_passes_wherever_it_was_copied_to_and_through_the_latest_link(guild: Version):
    assert guild.verify().ok
    link = guild.folder.parent / "latest"
    link.symlink_to("v")
    assert verify(link, public_key=guild.key).ok


def test_the_report_is_json_and_says_what_it_cannot_tell(guild: Version):
    report = guild.verify().to_json()
    assert report["ok"]
    assert canonical_json(report)
    assert any("noise" in line and "cannot be replayed" in line for line in report["cannot_tell"])


def test_the_manual_lists_the_rules_and_the_limits_as_the_report_does():
    manual = (Path(__file__).parents[2] / "docs" / "verify.md").read_text(encoding="utf-8")
    for rule in ALL_RULES:
        assert f"\n### {rule.number}. {rule.name}\n" in manual
    assert [rule.number for rule in ALL_RULES] == list(range(1, len(ALL_RULES) + 1))
    assert len({rule.code for rule in ALL_RULES}) == len(ALL_RULES)
    for limit in CANNOT_TELL:
        assert f"- {limit}\n" in manual


@pytest.mark.long
def test_a_missing_file_is_named(spoilt: Version):
    for name in spoilt.files:
        hidden = spoilt.folder.parent / "hidden"
        (spoilt.folder / name).rename(hidden)
        report = spoilt.verify()
        hidden.rename(spoilt.folder / name)
        assert name in named(report), name
        assert 1 in broken(report), name


@pytest.mark.parametrize("name", ["data/more.parquet", "note.txt", ".hidden", "data/.hidden", "record.json~"])
def test_a_file_too_much_is_named(guild: Version, name: str):
    (guild.folder / name).write_bytes(b"x")
    report = guild.verify()
    assert (broken(report), named(report)) == ({1}, {name})


def test_a_folder_too_much_is_named_and_not_entered(guild: Version):
    (guild.folder / "more" / "deep").mkdir(parents=True)
    (guild.folder / "data" / "empty").mkdir()
    report = guild.verify()
    assert (broken(report), named(report)) == ({1}, {"more", "data/empty"})


def test_swapped_and_renamed_files_are_named(guild: Version):
    data = guild.folder / "data"
    (data / "pay.parquet").rename(data / "x")
    (data / "hired.parquet").rename(data / "pay.parquet")
    (data / "x").rename(data / "hired.parquet")
    (data / "pay.csv").rename(data / "PAY.csv")
    report = guild.verify()
    assert {"data/pay.parquet", "data/hired.parquet", "data/pay.csv", "data/PAY.csv"} <= named(report)
    assert {1, 3} <= broken(report)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["folder", "link", "pipe"])
def test_something_else_in_the_place_of_a_file_is_named(spoilt: Version, kind: str):
    for name in spoilt.files:
        path, kept = spoilt.folder / name, spoilt.folder.parent / "kept"
        path.rename(kept)
        if kind == "folder":
            path.mkdir()
        elif kind == "link":
            path.symlink_to(kept)
        else:
            os.mkfifo(path)
        report = spoilt.verify()
        shutil.rmtree(path) if kind == "folder" else path.unlink()
        kept.rename(path)
        found = {finding.found for finding in report.findings if finding.where == name}
        assert found & {"a folder", "a symbolic link", "a device, pipe or socket"}, name
        assert not report.ok


def test_a_linked_data_folder_is_not_followed(guild: Version):
    (guild.folder / "data").rename(guild.folder.parent / "data")
    (guild.folder / "data").symlink_to(guild.folder.parent / "data")
    assert {"data", "data/pay.parquet"} <= named(guild.verify())


def test_nothing_that_a_file_says_reaches_a_terminal_unescaped(guild: Version):
    strange = {"\x1b[2J\n": {"sha256": "\x1b[31m", "bytes": 1}}
    sign_manifest(guild.folder, guild.signer, lambda m: m["files"].update(strange))
    (guild.folder / "data" / "\x1b[1m").write_bytes(b"")
    assert all(part.isprintable() for finding in guild.verify().findings for part in vars(finding).values())


def test_names_in_the_manifest_never_lead_out_of_the_folder(guild: Version):
    (guild.folder.parent / "secret").write_bytes(b"x")

    def lead_out(manifest: dict[str, object]) -> None:
        files = manifest["files"]
        assert isinstance(files, dict)
        for name in ("../secret", str(guild.folder.parent / "secret"), "data/../record.json", "MANIFEST.json"):
            files[name] = {"sha256": "0" * 64, "bytes": 1}

    forge(guild, manifest=lead_out)
    report = guild.verify()
    missing = {finding.where for finding in report.findings if finding.found == "nothing"}
    assert {"../secret", "data/../record.json"} <= missing
    assert not {finding.where for finding in report.checks[2].findings} & {"../secret", "data/../record.json"}


def test_a_version_signed_by_somebody_else_fails_under_the_pinned_key(guild: Version):
    """The forger re-signs everything, and even puts his key into the folder's proof and manifest."""
    forger = Signer(bytes(32))
    forge(guild, signer=forger)
    assert verify(guild.folder, public_key=forger.public_key).ok
    report = guild.verify()
    assert broken(report) == {2, 4}
    assert named(report) == {"MANIFEST.json", "PROOF.json"}
    assert {"checkpoint, key", "signatures, keyid"} == {finding.field for finding in report.findings}
    assert "not opened" in report.checks[7].skipped[0]


def test_a_number_edited_in_the_record_and_signed_with_another_key_fails(guild: Version):
    forger = Signer(bytes(32))
    forge(guild, record=lambda r: r["replay"]["claim"].update(epsilon=1), signer=forger)
    assert {2, 4} <= broken(guild.verify())
    assert {6, 7} & broken(verify(guild.folder, public_key=forger.public_key))


def test_files_of_another_version_of_the_same_publisher_are_caught(guild: Version, versions: dict[str, Version]):
    """Each is signed by the right key; together they are no version."""
    other = versions["town"].folder
    for name in ("PROOF.json", "record.json", "croissant.json"):
        original = (guild.folder / name).read_bytes()
        assert caught(guild, name, (other / name).read_bytes()), name
        assert (guild.folder / name).read_bytes() == original


def test_the_publisher_cannot_take_a_signature_of_one_purpose_for_another(guild: Version):
    """A note over the statement, and our own form of a signature, are no signatures of the envelope."""
    payload = b64decode(load(guild.folder / "MANIFEST.json")["payload"])
    for made in (guild.signer.sign_bytes(payload), bytes.fromhex(guild.signer.sign("manifest", json.loads(payload)))):
        edit(guild.folder / "MANIFEST.json", lambda m, s=made: m["signatures"][0].update(sig=b64encode(s).decode()))
        assert 2 in broken(guild.verify())


@pytest.mark.parametrize("what", ["missing", "a file", "an empty folder", "a loop"])
def test_what_is_no_version_folder_is_refused(tmp_path: Path, versions: dict[str, Version], what: str):
    path = tmp_path / "v1"
    if what == "a file":
        path.write_text("x")
    elif what == "an empty folder":
        path.mkdir()
    elif what == "a loop":
        path.symlink_to(path)
    with pytest.raises(SpecRefused) as refused:
        verify(path, public_key=versions["town"].key)
    assert refused.value.exit_code == 2
    assert "published version" in str(refused.value)


@pytest.mark.parametrize("key", ["", "ab", "AB" * 32, "zz" * 32, "ab" * 32 + "\n", "ａ" * 64])
def test_a_key_that_is_none_is_refused(versions: dict[str, Version], key: str):
    with pytest.raises(SpecRefused, match=r"NAME\+HASH\+BASE64"):
        verify(versions["town"].folder, public_key=key)


def test_a_key_file_is_read_strictly(tmp_path: Path, versions: dict[str, Version]):
    path, key = tmp_path / "signing.pub", versions["town"].key.encode()
    for content in (
        b"",
        b"ab\n",
        b"ab" * 32 + b"\n",
        key,
        b" " + key + b"\n",
        key + b"\n\n",
        key.replace(b"+", b"-", 1) + b"\n",
        key[:-1] + b"\n",
        VerifierKey("w", bytes(32), COSIGNATURE).text.encode() + b"\n",
        b"\xff" * 65,
    ):
        path.write_bytes(content)
        with pytest.raises(SpecRefused, match=r"NAME\+HASH\+BASE64"):
            read_public_key(path)
    path.write_text(versions["town"].key + "\n")
    assert read_public_key(path) == versions["town"].key
    with pytest.raises(SpecRefused, match="found: no key"):
        read_public_key(versions["town"].folder / "MANIFEST.json")
    for missing in (tmp_path / "none.pub", tmp_path):
        with pytest.raises(SpecRefused, match="key file"):
            read_public_key(missing)


def test_a_secret_key_in_the_place_of_a_public_one_is_called_secret(tmp_path: Path):
    """The file to give instead is named; nothing of the secret is shown."""
    create_keys(tmp_path, seed=None, name=None)
    with pytest.raises(SpecRefused, match="found: the secret signing key") as refused:
        read_public_key(tmp_path / "signing.key")
    assert f"give its public half, {tmp_path / 'signing.pub'} beside it" in str(refused.value)
    assert (tmp_path / "signing.key").read_bytes().hex() not in str(refused.value)
    with pytest.raises(SpecRefused, match="a secret key has"):
        read_public_key(tmp_path / "snapshot.key")


def test_a_key_that_lies_in_the_folder_is_a_file_too_much(guild: Version):
    (guild.folder / "signing.pub").write_text(guild.key + "\n")
    assert broken(guild.verify()) == {1}


def test_a_file_that_changes_meanwhile_is_a_finding(guild: Version, monkeypatch: pytest.MonkeyPatch):
    """Its checksum held a moment ago; the bytes that are parsed are hashed again."""
    original = VersionFolder.read

    def swapped(self: VersionFolder, name: str, *, limit: int | None = None) -> bytes:
        return b"other" if name == "measurements/pay.parquet" else original(self, name, limit=limit)

    monkeypatch.setattr(VersionFolder, "read", swapped)
    report = guild.verify()
    [finding] = report.findings
    assert (finding.where, finding.found) == ("measurements/pay.parquet", "changed while it was being verified")
    assert "measurements cannot be read" in report.checks[8].skipped[0]


def test_files_that_vanish_or_cannot_be_read_are_findings(guild: Version, monkeypatch: pytest.MonkeyPatch):
    listed = VersionFolder(guild.folder, {"data/gone.parquet": 1}, {})
    files = {"data/gone.parquet": {"sha256": "0" * 64, "bytes": 1}}
    stated = manifest_of(load(guild.folder / "MANIFEST.json")).predicate.model_dump()
    manifest = Manifest.model_validate(json.loads(stated_release(files, stated)))
    sound, [finding] = check_contents(listed, manifest)
    assert (sound, finding.where) == (frozenset(), "data/gone.parquet")
    monkeypatch.setattr(Path, "iterdir", _forbidden)
    _, findings = list_version(guild.folder, ())
    assert [(finding.where, finding.found) for finding in findings] == [(".", "Permission denied")]


def _forbidden(_: Path) -> Iterator[Path]:
    raise PermissionError(13, "Permission denied")


def test_a_record_too_large_to_be_one_is_not_read(guild: Version, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tasks.verification.files.folder.LARGEST_JSON", 1000)
    report = guild.verify()
    assert {"MANIFEST.json", "PROOF.json", "record.json", "croissant.json"} == named(report)
    assert all("more than 1000 bytes" in finding.found for finding in report.findings)


def test_what_is_skipped_is_said_and_does_not_pass(guild: Version):
    """Without a manifest no table is opened; with a broken table the others are still checked."""
    (guild.folder / "MANIFEST.json").unlink()
    report = guild.verify()
    assert not report.ok
    assert [check.rule for check in report.checks if check.skipped] == [1, 3, 4, 5, 8, 9, 10]


def test_one_broken_table_does_not_stop_the_check_of_the_others(guild: Version):
    (guild.folder / "measurements" / "pay.parquet").write_bytes(b"PAR1")
    report = guild.verify()
    assert broken(report) == {3}
    skipped = {check.rule: check.skipped for check in report.checks if check.skipped}
    assert skipped == {
        8: ("measurements/pay.parquet: not opened, for it is missing or not as it was published",),
        9: ("data/pay.parquet: its measurements cannot be read",),
    }
