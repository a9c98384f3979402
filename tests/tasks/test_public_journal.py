"""The journal for the public: what lies in it, what does not, who is found out, and how an interruption ends."""

import json
import os
import shutil
import subprocess
import sys
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from contracts.canonical import readable_json
from contracts.errors import StoreUnwritable
from contracts.periods.time_blocks import time_block
from privacy.ledger.entries import OPEN
from privacy.ledger.journal.key_changes import signed_change
from privacy.ledger.journal.merkle import TilePlace, read_bundle
from privacy.ledger.journal.notes import signed_head
from privacy.ledger.journal.signing import Signer, enveloped, key_id
from privacy.ledger.ledger import Ledger
from tasks.public_journal import JournalFolderRefused, publish_journal
from tasks.records.model.manifest import read_status, stated_status
from tasks.verification.outcomes import VerificationReport
from tests.tasks.verification.forgery import edit
from tests.worlds.tables import first
from tests.worlds.versions import SEED, Version, broken, publish_version

SIGNER = Signer(SEED)
BLOCK = time_block("lifetime")
NOW = "2026-03-05T06:59:59Z"
MONITOR = Path(__file__).parents[2] / "examples" / "monitor.py"


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a ledger, and a store with v1 and v2 of one release."""
    folder = tmp_path_factory.mktemp("journal")
    publish_version(first(), folder)
    publish_version(replace(first(), spec=first().spec.replace("epsilon: 1.0", "epsilon: 0.5")), folder)
    return folder


@pytest.fixture
def folder(published: Path, tmp_path: Path) -> Path:
    copy = tmp_path / "copy"
    shutil.copytree(published, copy, symlinks=True)
    return copy


@pytest.fixture
def ledger(folder: Path) -> Iterator[Ledger]:
    opened = Ledger(f"sqlite:///{folder / 'ledger.sqlite'}", draws=folder / "draws")
    yield opened
    opened.close()


def shown(ledger: Ledger, to: Path, *, signer: Signer = SIGNER, now: str = NOW) -> Path:
    publish_journal(ledger, signer, to, lock=to.parent / "lock", now=now)
    return to


def checked(folder: Path, number: int, journal: Path | str) -> VerificationReport:
    return Version(folder / "releases" / "town" / f"v{number}", SIGNER).verify(online=str(journal))


def outcome(folder: Path, number: int, journal: Path | str) -> tuple[str, str]:
    report = checked(folder, number, journal)
    assert broken(report) == {13}
    [finding] = report.findings
    return finding.field, finding.found


def watched(journal: Path, memory: Path) -> tuple[int, str]:
    """Let the example's monitor look once; return its exit code and what it says."""
    done = subprocess.run(
        [sys.executable, str(MONITOR), str(journal), SIGNER.public_key, str(memory)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def grow(ledger: Ledger, times: int, name: str = "secret") -> None:
    """Let the journal grow by entries that nobody may read."""
    for number in range(times):
        ledger.bind_source(f"file:{name}-{len(ledger.journal())}-{number}.parquet", "town", BLOCK)


# --- what lies there ------------------------------------------------------------------------------------------


def test_tiles_entries_and_checkpoint_are_those_of_the_journal(ledger: Ledger, tmp_path: Path):
    to, entries = shown(ledger, tmp_path / "public"), ledger.journal()
    head = signed_head((to / "checkpoint").read_text(encoding="utf-8"), SIGNER.public_key)
    assert head.size == len(entries)
    logged = read_bundle((to / TilePlace(None, 0, head.size).path).read_bytes(), head.size)
    assert logged == tuple(entry.logged for entry in entries)
    for entry, each in zip(entries, logged, strict=True):
        told = json.loads(each)
        assert told == entry.to_json() if entry.kind in OPEN else set(told) == {"commitment"}


def private_values(ledger: Ledger, folder: Path) -> set[bytes]:
    """Every text of the journal that is not open, and every private value of the workspace around it."""
    values: set[str] = set()
    open_texts = json.dumps([entry.to_json() for entry in ledger.journal() if entry.kind in OPEN])
    for entry in ledger.journal():
        if entry.kind not in OPEN:
            values |= {entry.kind, *texts(entry.to_json())}
    records = [json.loads(path.read_bytes()) for path in folder.glob("records/**/*.json")]
    values |= {text for record in records for text in texts(record)}
    return {value.encode() for value in values if len(value) > 3 and value not in open_texts}


def texts(value: object) -> Iterator[str]:
    """Yield every text in a JSON value, keys and numbers too."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield key
            yield from texts(part)
    elif isinstance(value, list):
        for part in value:
            yield from texts(part)
    else:
        yield str(value)


def public_bytes(to: Path) -> bytes:
    """Return every byte that is public: names, contents, and what is wrapped in base64."""
    files = [path for path in to.rglob("*") if path.is_file()]
    parts = [str(path.relative_to(to)).encode() + path.read_bytes() for path in files]
    parts += [b64decode(json.loads(path.read_bytes())["payload"]) for path in to.glob("status/*.json")]
    return b"\n".join(parts)


STATUS_WORDS = {b"town", b"path", b"size", b"root", b"release", b"number", b"entries", b"entry", b"kind", b"body"}
STATUS_WORDS |= {b"sequence", b"previous", b"earlier", b"manifest", b"run_key", b"supersedes", b"name", b"digest"}
STATUS_WORDS |= {b"sha256", b"None", b"sudare", b"commit", b"signature", b"type", key_id(SIGNER.public_key).encode()}


def test_no_private_value_of_a_run_is_in_any_public_byte(ledger: Ledger, folder: Path, tmp_path: Path):
    """Names of accounts and sources, amounts, salts, digests of noisy values, what auditors read: none of them."""
    public = public_bytes(shown(ledger, tmp_path / "public"))
    private = private_values(ledger, folder)
    assert len(private) > 300
    allowed = STATUS_WORDS | {value for value in private if value.isdigit() and len(value) < 6}
    assert sorted(value for value in private - allowed if value in public) == []


def test_a_journal_of_entries_in_the_clear_would_be_found(ledger: Ledger, folder: Path, tmp_path: Path):
    """The wrong twin: the same search over what is not salted finds hundreds of values."""
    public = b"".join(json.dumps(entry.to_json()).encode() for entry in ledger.journal())
    assert sum(value in public for value in private_values(ledger, folder)) > 50


def test_all_times_are_cut_to_the_hour(ledger: Ledger, tmp_path: Path):
    to = shown(ledger, tmp_path / "public")
    assert {path.stat().st_mtime % 3600 for path in (to, *to.rglob("*"))} == {0.0}, "folders too"
    assert b"06:59" not in public_bytes(to)
    assert b"2026-03-05T06:00:00Z" in public_bytes(to)


# --- growing, resuming, refusing ------------------------------------------------------------------------------


@pytest.mark.services
def test_a_journal_that_grew_past_full_tiles_keeps_what_never_changes(ledger: Ledger, tmp_path: Path):
    to = shown(ledger, tmp_path / "public")
    grow(ledger, 300)
    shown(ledger, to)
    full = (to / "tile/0/000").read_bytes()
    assert signed_head((to / "checkpoint").read_text(encoding="utf-8"), SIGNER.public_key).size > 300
    assert len(full) == 256 * 32
    before = {path: path.stat().st_ino for path in to.rglob("*") if path.is_file()}
    shown(ledger, to)
    assert {path: path.stat().st_ino for path in to.rglob("*") if path.is_file()} == before
    assert watched(to, tmp_path / "memory")[0] == 0


@pytest.mark.services
def test_a_cut_tile_is_written_again_and_an_interrupted_publication_is_finished(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    to = shown(ledger, tmp_path / "public")
    before = (to / "checkpoint").read_bytes()
    grow(ledger, 3)
    real, calls = os.replace, 0

    def failing(source: Path, target: Path) -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise OSError(28, "No space left on device")
        real(source, target)

    monkeypatch.setattr("pathlib.Path.replace", failing)
    with pytest.raises(StoreUnwritable, match="No space left on device") as refused:
        shown(ledger, to)
    assert "type: sudare releases journal" in str(refused.value)
    assert (to / "checkpoint").read_bytes() == before
    monkeypatch.undo()
    tile = next(to.glob("tile/0/000.p/*"))
    tile.write_bytes(tile.read_bytes()[:-7])
    shown(ledger, to)
    assert (to / "checkpoint").read_bytes() != before
    assert watched(to, tmp_path / "memory")[0] == 0


def test_a_folder_of_another_journal_is_refused_and_left_as_it_is(ledger: Ledger, tmp_path: Path):
    to = shown(ledger, tmp_path / "public", signer=Signer(bytes(32)))
    files = {path: path.read_bytes() for path in to.rglob("*") if path.is_file()}
    with pytest.raises(JournalFolderRefused, match=r"found: +a checkpoint of sudare/"):
        shown(ledger, to)
    assert {path: path.read_bytes() for path in to.rglob("*") if path.is_file()} == files


def test_a_ledger_that_was_restored_from_an_older_copy_is_refused(ledger: Ledger, folder: Path, tmp_path: Path):
    older = tmp_path / "older"
    shutil.copytree(folder, older, symlinks=True)
    grow(ledger, 2)
    to = shown(ledger, tmp_path / "public")
    restored = Ledger(f"sqlite:///{older / 'ledger.sqlite'}", draws=older / "draws")
    with pytest.raises(JournalFolderRefused, match="does not begin with"):
        shown(restored, to)
    grow(restored, 5)
    with pytest.raises(JournalFolderRefused, match="does not begin with"):
        shown(restored, to)
    restored.close()


# --- verify --online ------------------------------------------------------------------------------------------


def test_a_version_that_stands_passes_and_an_older_one_is_told_what_supersedes_it(
    ledger: Ledger, folder: Path, tmp_path: Path
):
    to = shown(ledger, tmp_path / "public", now=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
    for number in (1, 2):
        report = checked(folder, number, to)
        assert report.ok, report.findings
        assert not [line for line in report.cannot_tell if "withdrawn since" in line]
    assert any("v1 was superseded: v2" in note for note in checked(folder, 1, to).notes)


@pytest.mark.services
def test_an_answer_over_http_takes_one_request(ledger: Ledger, folder: Path, tmp_path: Path):
    to, asked = shown(ledger, tmp_path / "public"), list[str]()

    class Served(SimpleHTTPRequestHandler):
        def log_message(self, form: str, *parts: object) -> None:
            asked.append(f"{self.command} {self.path}")

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Served, directory=str(to)))
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        report = checked(folder, 1, f"http://127.0.0.1:{server.server_port}/")
        assert report.ok, report.findings
        assert asked == ["GET /status/town.json"]
        field, found = outcome(folder, 1, f"http://127.0.0.1:{server.server_port}/elsewhere")
        assert (field, "404" in found or "Not Found" in found) == ("the journal", True)
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=10)
    field, found = outcome(folder, 1, f"http://127.0.0.1:{server.server_port}")
    assert (field, "refused" in found) == ("the journal", True)


def test_a_withdrawn_version_fails_with_its_reason_the_other_does_not(ledger: Ledger, folder: Path, tmp_path: Path):
    ledger.withdraw("town", 2, reason="wrong reference year")
    to = shown(ledger, tmp_path / "public")
    report = checked(folder, 2, to)
    assert broken(report) == {13}
    assert report.only_withdrawn, report
    assert report.findings[0].found == "town v2 was withdrawn: wrong reference year"
    assert checked(folder, 1, to).ok


def test_an_old_answer_and_a_rewritten_past_and_another_key_are_found(ledger: Ledger, folder: Path, tmp_path: Path):
    """A mirror that serves an answer from before, an answer of another journal, one of another key."""
    assert outcome(folder, 1, shown(ledger, tmp_path / "other", signer=Signer(bytes(32))))[0] == "signatures, keyid"
    other = tmp_path / "elsewhere"
    other.mkdir()
    publish_version(first(), other)
    elsewhere = Ledger(f"sqlite:///{other / 'ledger.sqlite'}", draws=other / "draws")
    report = checked(folder, 1, shown(elsewhere, tmp_path / "forked"))
    assert broken(report) == {13}
    assert {"earlier", "entries"} <= {finding.field for finding in report.findings}
    elsewhere.close()


@pytest.mark.parametrize("what", ["missing", "cut", "garbage", "edited"])
def test_an_answer_that_is_none_is_told_in_one_line(ledger: Ledger, folder: Path, tmp_path: Path, what: str):
    to = shown(ledger, tmp_path / "public")
    status = to / "status" / "town.json"
    if what == "missing":
        status.unlink()
    elif what == "cut":
        status.write_bytes(status.read_bytes()[:-100])
    elif what == "garbage":
        status.write_bytes(b"<html>busy</html>")
    else:
        edit(status, lambda value: value.update(payload=value["payload"][:-8] + "AAAA" + value["payload"][-4:]))
    report = checked(folder, 1, to)
    assert broken(report) == {13}
    assert not report.only_withdrawn
    assert "get the version again" not in report.findings[0].remedy, "the version is as it was published"


@pytest.mark.parametrize("address", ["s3://bucket/journal", "ftp://host/journal"])
def test_an_address_of_another_kind_is_told_what_to_write(folder: Path, address: str):
    field, found = outcome(folder, 1, address)
    assert field == "the journal"
    assert "write http(s)://..., or the path of a folder" in found


def test_a_pipe_in_the_place_of_the_answer_is_not_waited_on(ledger: Ledger, folder: Path, tmp_path: Path):
    to = shown(ledger, tmp_path / "public")
    (to / "status" / "town.json").unlink()
    os.mkfifo(to / "status" / "town.json")
    assert outcome(folder, 1, to) == ("the journal", "no file")


def test_a_clock_that_is_an_hour_off_does_no_harm_and_one_of_days_is_told(
    ledger: Ledger, folder: Path, tmp_path: Path
):
    now = datetime.now(UTC)
    ahead = (now + timedelta(days=365)).strftime("%Y-%m-%dT%H:%M:%SZ")
    soon = datetime.fromtimestamp(now.timestamp() + 3600, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert checked(folder, 1, shown(ledger, tmp_path / "soon", now=soon)).ok
    assert outcome(folder, 1, shown(ledger, tmp_path / "far", now=ahead))[0] == "at"
    old = shown(ledger, tmp_path / "old", now="2020-01-01T00:00:00Z")
    assert any("more than a week old" in note for note in checked(folder, 1, old).notes)


NEXT = Signer(bytes(range(7, 39)), SIGNER.verifier.name)


def changed(ledger: Ledger, kind: str, *signers: Signer) -> None:
    ledger.change_key(kind, SIGNER.public_key, NEXT.public_key, lambda change: signed_change(change, signers))


def test_a_rotated_key_s_answer_is_believed_by_whoever_pinned_the_one_before(
    ledger: Ledger, folder: Path, tmp_path: Path
):
    """The answer brings the signed change along; the folder goes on under the next key."""
    to = shown(ledger, tmp_path / "public")
    changed(ledger, "rotated", SIGNER, NEXT)
    shown(ledger, to, signer=NEXT)
    assert checked(folder, 2, to).ok
    unknown = Signer(bytes(range(9, 41)), SIGNER.verifier.name)
    assert outcome(folder, 2, shown(ledger, to, signer=unknown))[0] == "signatures, keyid"


def test_an_answer_by_a_key_that_was_given_up_is_found(ledger: Ledger, folder: Path, tmp_path: Path):
    """Who has the old key could leave out what was withdrawn since; the journal had fewer entries in its time."""
    changed(ledger, "rotated", SIGNER, NEXT)
    fields = {finding.field for finding in checked(folder, 2, shown(ledger, tmp_path / "public")).findings}
    assert f"key {key_id(SIGNER.public_key)}" in fields


def test_an_answer_about_another_release_is_found(ledger: Ledger, folder: Path, tmp_path: Path):
    to = shown(ledger, tmp_path / "public")
    [path] = (to / "status").glob("*.json")
    _, status, _ = read_status(path.read_bytes(), where="status")
    assert status is not None
    other = stated_status(
        "other-tables",
        at=status.at,
        note=status.checkpoint,
        entries=[each.model_dump() for each in status.entries],
        earlier=[each.model_dump() for each in status.earlier],
        keys=list(status.keys),
    )
    path.write_bytes(readable_json(enveloped(other, SIGNER)))
    assert "release" in {finding.field for finding in checked(folder, 2, to).findings}


def test_a_key_that_was_revoked_since_is_told_to_whoever_asks(ledger: Ledger, folder: Path, tmp_path: Path):
    changed(ledger, "revoked", SIGNER, NEXT)
    fields = {
        finding.field for finding in checked(folder, 2, shown(ledger, tmp_path / "public", signer=NEXT)).findings
    }
    assert f"key {key_id(SIGNER.public_key)}" in fields


# --- the monitor of the examples ------------------------------------------------------------------------------


def test_the_monitor_has_at_most_sixty_lines():
    """Blank lines aside."""
    assert len([line for line in MONITOR.read_text(encoding="utf-8").splitlines() if line.strip()]) <= 60


@pytest.mark.services
def test_the_monitor_follows_a_journal_that_grows(ledger: Ledger, tmp_path: Path):
    to, memory = shown(ledger, tmp_path / "public"), tmp_path / "memory"
    assert watched(to, memory)[0] == 0
    grow(ledger, 260)
    ledger.withdraw("town", 1, reason="a test")
    code, said = watched(shown(ledger, to), memory)
    assert code == 0
    assert "town v1 version_withdrawn" in said


@pytest.mark.services
def test_the_monitor_finds_a_rewritten_past_a_fork_and_a_missing_entry(ledger: Ledger, folder: Path, tmp_path: Path):
    older = tmp_path / "older"
    shutil.copytree(folder, older, symlinks=True)
    to, memory = shown(ledger, tmp_path / "public"), tmp_path / "memory"
    assert watched(to, memory)[0] == 0
    grow(ledger, 3)
    assert watched(shown(ledger, to), memory)[0] == 0
    forked = Ledger(f"sqlite:///{older / 'ledger.sqlite'}", draws=older / "draws")
    size = len(ledger.journal())
    for more, said in ((size - 1, "rolled back"), (size, "a fork"), (size + 1, "was rewritten")):
        grow(forked, more - len(forked.journal()), "other")
        code, words = watched(shown(forked, tmp_path / f"fork-{more}"), memory)
        assert (code, said in words) == (1, True), words
    forked.close()


@pytest.mark.services
@pytest.mark.parametrize("spoil", ["entry", "cut", "gone", "hash", "status"])
def test_the_monitor_finds_what_was_changed_cut_or_left_out(ledger: Ledger, tmp_path: Path, spoil: str):
    ledger.withdraw("town", 1, reason="a test")
    to = shown(ledger, tmp_path / "public")
    size = signed_head((to / "checkpoint").read_text(encoding="utf-8"), SIGNER.public_key).size
    entries = to / TilePlace(None, 0, size).path
    content = bytearray(entries.read_bytes())
    if spoil == "entry":
        content[40] ^= 1
        entries.write_bytes(content)
    elif spoil == "cut":
        entries.write_bytes(content[:-3])
    elif spoil == "gone":
        entries.unlink()
    elif spoil == "hash":
        (to / "checkpoint").write_bytes((to / "checkpoint").read_bytes().replace(b"\n", b"\n1", 1))
    else:
        (to / "status" / "town.json").unlink()
    code, words = watched(to, tmp_path / "memory")
    assert code == 1, words
