"""Witnesses, but for asking them: the policy, the check of what comes back, and an extension that is missing."""

import re
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from contracts import plug_ins
from privacy.ledger.journal.notes import COSIGNATURE, SignedNote, TreeHead, VerifierKey, cosign_note
from privacy.ledger.journal.signing import Signer
from privacy.ledger.journal.witness_policy import PolicyWitness, read_policy
from privacy.ledger.store.journal import JournalLog
from tasks.storage.witnesses import TooFewWitnesses, WitnessAnswer, WitnessClient, Witnesses, read_witnesses
from tests.worlds.versions import SEED

SIGNER, WITNESS, NOW = Signer(SEED), Signer(bytes(range(1, 33))), 1_790_000_000
OWN = VerifierKey("witness.example/a", WITNESS.verifier.public, COSIGNATURE)
KEY = VerifierKey("witness.example/a", bytes(32), COSIGNATURE).text
POLICY = read_policy(f"witness a {OWN.text} http://a.example\nquorum a\n")
PROOF = {"checkpoint": SIGNER.note(TreeHead(SIGNER.verifier.name, 3, "0" * 64).text).to_bytes().decode()}


@dataclass
class Answers(WitnessClient):
    answer: WitnessAnswer

    def ask(
        self,
        witnesses: Sequence[PolicyWitness],
        note: SignedNote,
        head: TreeHead,
        log: JournalLog,
        *,
        patience: float,
    ) -> list[WitnessAnswer]:
        return [self.answer]


def cosigned(answer: WitnessAnswer) -> dict[str, Any]:
    ledger: Any = SimpleNamespace(log=lambda: nullcontext())
    return Witnesses(Path("policy"), POLICY, Answers(answer)).cosigned(ledger, lambda: dict(PROOF))


def line(key: VerifierKey, signer: Signer) -> bytes:
    text = TreeHead(SIGNER.verifier.name, 3, "0" * 64).text
    return f"{cosign_note(text, key, signer.sign_bytes, time=NOW).line}\n".encode()


def test_a_line_counts_under_the_key_of_the_policy_alone():
    """Whatever the client says: another key in its answer, or a line of another key, is none."""
    [witness] = POLICY.witnesses.values()
    assert "witness.example/a" in cosigned(WitnessAnswer(witness, line(OWN, WITNESS)))["checkpoint"]
    other = VerifierKey(OWN.name, SIGNER.verifier.public, COSIGNATURE)
    for answer in (
        WitnessAnswer(replace(witness, key=other), line(other, SIGNER)),
        WitnessAnswer(witness, b"garbage"),
        WitnessAnswer(witness, problem="no answer"),
    ):
        with pytest.raises(TooFewWitnesses, match="0 of 1 cosigned"):
            cosigned(answer)


def test_a_policy_without_the_extension_that_asks_is_refused_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "p").write_text(f"witness a {KEY} http://a.example\nquorum a\n")
    monkeypatch.setattr(plug_ins, "registered", lambda group: ())
    with pytest.raises(TooFewWitnesses, match="extension sudare_keys"):
        read_witnesses(tmp_path / "p")


def test_a_policy_that_nobody_can_meet_is_told_before_anything_begins(tmp_path: Path):
    lines = [f"witness a {KEY}"]
    for text, words in (
        ("group q 3 a\nquorum q\n", "line 2: '3' of 1, which no set of witnesses can meet"),
        ("quorum a\n", "a quorum that the witnesses with an address cannot meet"),
        ("quorum b\n", "line 2: quorum 'b'"),
    ):
        (tmp_path / "p").write_text("\n".join([*lines, text]))
        with pytest.raises(TooFewWitnesses, match=re.escape(words)) as told:
            read_witnesses(tmp_path / "p")
        assert "correct the policy" in str(told.value)
    with pytest.raises(TooFewWitnesses, match="No such file"):
        read_witnesses(tmp_path / "gone")
    (tmp_path / "p").write_text("quorum none\n")
    with pytest.raises(TooFewWitnesses, match="a number of seconds"):
        read_witnesses(tmp_path / "p", "soon")
