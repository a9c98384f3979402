"""Three witnesses on loopback cosign a publication; forks, garbage and silence are refused, and it resumes."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from privacy.ledger.journal.notes import TreeHead
from privacy.ledger.journal.signing import Signer
from privacy.ledger.ledger import Ledger, utc_now
from privacy.ledger.terms import VersionEntry
from sudare_keys.add_checkpoint import add_checkpoint
from tasks.publish import Publication, publish
from tasks.records.facts import RunFacts
from tasks.records.private_record import AuditorRecords
from tasks.report import report
from tasks.storage.witnesses import TooFewWitnesses, Witnesses, read_witnesses
from tasks.verification.outcomes import CheckerTerms
from tasks.verification.witness_checks import pinned_policy
from tasks.verify import check_staged, verify
from tests.extensions.sudare_keys.witness_processes import COMMAND, RunningWitness, raw_server, witness_process
from tests.worlds.tables import first
from tests.worlds.versions import SEED

pytestmark = pytest.mark.services

SIGNER = Signer(SEED)


@dataclass
class Unpublished:
    folder: Path
    facts: RunFacts
    ledger: Ledger

    def publish(self, witnesses: Witnesses | None) -> Publication:
        auditors = AuditorRecords(self.folder / "records", SIGNER)

        def write(staging: Path, version: VersionEntry) -> None:
            report(self.facts, folder=staging, auditors=auditors)

        return publish(
            self.ledger, SIGNER, self.facts.run_key, self.folder / "releases", write, witnesses, check=check_staged
        )

    @property
    def visible(self) -> list[str]:
        return sorted(path.name for path in (self.folder / "releases").glob("*/*") if not path.name.startswith("."))


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1,localhost")


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Unpublished]:
    scenario = first()
    scenario.seeded = False
    scenario.clock = utc_now()  # rule 15 compares it with the clock by which the witnesses sign
    facts = scenario.run(tmp_path / "run")
    place = tmp_path / "run"
    ledger = Ledger(f"sqlite:///{place / 'ledger.sqlite'}", draws=place / "draws", clock=lambda: scenario.clock)
    yield Unpublished(place, facts, ledger)
    ledger.close()


@pytest.fixture
def three(tmp_path: Path) -> Iterator[list[RunningWitness]]:
    with ExitStack() as stack:
        start = [witness_process(tmp_path / name, name, SIGNER.public_key) for name in ("a", "b", "c")]
        yield [stack.enter_context(each) for each in start]


def policy(folder: Path, lines: list[str], quorum: str, patience: str = "60") -> Witnesses:
    """A policy of these witnesses; only a failure waits out the patience, where no less is asked for."""
    names = [line.split()[1] for line in lines]
    file = folder / "witnesses.policy"
    file.write_text("\n".join([*lines, f"group q {quorum} {' '.join(names)}", "quorum q", ""]))
    return read_witnesses(file, patience)


def show(witness: RunningWitness, head: TreeHead) -> int:
    body = add_checkpoint(0, (), SIGNER.note(head.text))
    try:
        with urlopen(Request(f"{witness.url}/add-checkpoint", body), timeout=60) as answer:
            return int(answer.status)
    except HTTPError as error:
        with error:
            return error.code


def checked(publication: Publication, witnesses: Witnesses, quorum: str) -> tuple[bool, list[str]]:
    text = witnesses.file.read_text()
    wanted = pinned_policy(text.replace("group q 2", f"group q {quorum}"), "policy")
    found = verify(publication.folder, public_key=SIGNER.public_key, terms=CheckerTerms(witnesses=wanted))
    rule = next(check for check in found.checks if check.rule == 15)
    assert [check.rule for check in found.checks if not check.passed] in ([], [15])
    return rule.passed, [note for note in found.notes if note.startswith("witness ")]


def test_one_of_three_was_shown_a_fork_and_refuses(run: Unpublished, three: list[RunningWitness], tmp_path: Path):
    """Two are enough for a policy of two; for one of three nothing is published, until the policy is changed."""
    assert show(three[2], TreeHead(SIGNER.verifier.name, 3, "0" * 64)) == 200
    lines = [each.line for each in three]
    with pytest.raises(TooFewWitnesses) as told:
        run.publish(policy(tmp_path, lines, "all"))
    words = str(told.value)
    assert "2 of 3 cosigned" in words
    assert "c: refuses the proof (422): it has seen another journal under this key" in words
    assert "3 of 3 (a, b, c)" in words
    assert run.visible == []
    two = policy(tmp_path, lines, "2")
    publication = run.publish(two)
    assert run.visible == ["latest", "v1"]
    held, notes = checked(publication, two, "2")
    assert held
    assert len(notes) == 2
    assert all(note.endswith(":00 UTC") for note in notes), "the hour alone: seconds tell how long a run took"
    assert checked(publication, two, "all")[0] is False
    assert run.ledger.verify(public_key=SIGNER.public_key) == []


def test_a_witness_that_saw_the_whole_journal_refuses_another_of_that_size(
    run: Unpublished, three: list[RunningWitness], tmp_path: Path
):
    one = policy(tmp_path, [three[0].line], "1")
    publication = run.publish(one)
    size = run.ledger.signed_size()
    assert show(three[0], TreeHead(SIGNER.verifier.name, size, "1" * 64)) == 409
    assert show(three[1], TreeHead(SIGNER.verifier.name, size, "1" * 64)) == 200
    assert checked(publication, one, "1")[0] is True


def answers(body: bytes, status: str = "200 OK") -> bytes:
    return b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n" % (status.encode(), len(body)) + body


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (None, "(no answer in time)"),
        (b"\x00\xff garbage", "answers something that is no HTTP"),
        (answers(b"\x00\xff\n"), "answers something else than its signature line"),
        (answers("— witness.example/x AAAAAAAA\n".encode()), "answers without a line by its key"),
        (answers(b"x" * 100_000), "cannot be asked at"),
        (answers(b"many\n", "409 Conflict"), "answers with status 409"),
        (answers(b"", "404 Not Found"), "does not know this journal (404): ask its operator"),
        (answers(b"", "302 Found\r\nLocation: http://127.0.0.1:1/"), "answers with status 302"),
    ],
)
def test_a_witness_that_misbehaves_is_named_and_the_same_call_resumes(
    run: Unpublished, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: bytes | None, words: str
):
    """Nothing becomes visible, nothing is drawn or charged again; with a witness that works it is published.

    One that never answers is waited for as long as it is told, a second, and not for minutes, as without a word.
    """
    monkeypatch.setattr("tasks.storage.witnesses._PATIENCE", 600.0)
    before = run.ledger.accounts()[0].spent
    with raw_server(answer) as url, witness_process(tmp_path / "good", "good", SIGNER.public_key) as good:
        bad = good.line.replace("witness good", "witness bad").rpartition(" ")[0] + f" {url}"
        began = monotonic()
        with pytest.raises(TooFewWitnesses) as told:
            run.publish(policy(tmp_path, [bad], "1", "1" if answer is None else "60"))
        assert monotonic() - began < 59
        assert words in str(told.value), str(told.value)
        assert "give the same command again" in str(told.value)
        assert run.visible == []
        run.publish(policy(tmp_path, [good.line], "1"))
    assert run.visible == ["latest", "v1"]
    assert run.ledger.accounts()[0].spent == before


def test_a_witness_remembers_over_a_restart_and_refuses_a_second_process(tmp_path: Path):
    head = TreeHead(SIGNER.verifier.name, 3, "0" * 64)
    with witness_process(tmp_path / "w", "w", SIGNER.public_key) as running:
        assert show(running, head) == 200
        command = [sys.executable, "-c", COMMAND, "witness", str(tmp_path / "w" / "state"), "--name", "w.example"]
        words = ["--log", str(tmp_path / "w" / "0.pub"), "--port", "0"]
        second = subprocess.run([*command, *words], capture_output=True, text=True, check=False)
        assert second.returncode == 2
        assert "another process of this witness" in second.stderr
    with witness_process(tmp_path / "w", "w", SIGNER.public_key) as again:
        assert again.key == running.key
        assert show(again, TreeHead(SIGNER.verifier.name, 3, "1" * 64)) == 409
