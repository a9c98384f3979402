"""Ask witnesses for their cosignatures of a checkpoint, before the version becomes visible.

All are asked at once, each within the same time. An answer counts if its line holds under the witness's key. What a
witness answers otherwise, or that it does not answer, is told by name. Where too few answered, nothing is visible:
the journal has the version already, its staged files wait, and the same command asks again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from threading import Thread
from time import monotonic, time
from typing import Any, Final
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, Request, build_opener

from contracts.errors import Finding, Refused
from privacy.ledger.journal.add_checkpoint import add_checkpoint
from privacy.ledger.journal.log import JournalLog
from privacy.ledger.journal.signed_note import (
    FalseSignature,
    MalformedNote,
    NoteSignature,
    SignedNote,
    TreeHead,
    read_note,
    read_tree_head,
    verified_lines,
)
from privacy.ledger.journal.witness_policy import PolicyUnmet, PolicyWitness, WitnessPolicy, read_policy, time_problem
from privacy.ledger.ledger import Ledger

_LARGEST: Final = 16 * 1024
_PATIENCE: Final = 10.0
_AGAIN: Final = "then give the same command again: nothing is drawn or charged a second time"


class TooFewWitnesses(Refused):
    """Witnesses did not cosign the checkpoint as the policy wants it; nothing was made visible."""

    exit_code = 1


@dataclass(frozen=True)
class WitnessAnswer:
    """What came of asking one witness.

    Args:
        witness: which one.
        line: its signature line; None where there is none.
        size: how large a journal it knows, where it said so.
        problem: why there is no line; empty where there is one.
    """

    witness: PolicyWitness
    line: NoteSignature | None = None
    size: int | None = None
    problem: str = ""


class _RedirectRefused(HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


@dataclass(frozen=True)
class Witnesses:
    """The witnesses of a workspace.

    Args:
        file: the policy's file, which errors name.
        policy: who has to cosign.
        patience: seconds that each is waited for.
    """

    file: Path
    policy: WitnessPolicy
    patience: float = _PATIENCE

    def cosigned(self, ledger: Ledger, prove: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return a proof whose checkpoint enough witnesses cosigned.

        Args:
            ledger: gives the consistency proofs.
            prove: makes the proof; again where a witness has seen a larger journal meanwhile.
        Raises:
            TooFewWitnesses: names each witness that did not sign, and why.
        """
        proof, answers = prove(), list[WitnessAnswer]()
        for _ in range(2):
            note = read_note(proof["checkpoint"].encode())
            head = read_tree_head(note.text)
            with ledger.log() as log:
                answers = self._asked(note, head, log)
            if all(answer.size is None or answer.size <= head.size for answer in answers):
                break
            proof = prove()
        signed = {answer.witness.name: answer.line for answer in answers if answer.line is not None}
        if not self.policy.is_met(signed.keys()):
            raise self._too_few(answers)
        lines = [line for line in signed.values() if line is not None]
        return proof | {"checkpoint": note.signed_by(*lines).to_bytes().decode()}

    def _asked(self, note: SignedNote, head: TreeHead, log: JournalLog) -> list[WitnessAnswer]:
        """Ask all witnesses that have an address; who does not answer in time is given up."""
        first = _in_time([(each, 0, ()) for each in self.policy.witnesses.values() if each.url], note, self.patience)
        # A witness that knows the journal says how far: it is asked again, with the proof from there.
        behind = [(each.witness, each.size) for each in first if each.size is not None and each.size <= head.size]
        proven = [(witness, size, log.consistency(size, head.size)) for witness, size in behind]
        second = _in_time(proven, note, self.patience)
        names = {witness.name for witness, _ in behind}
        return [*(each for each in first if each.witness.name not in names), *map(_forked, second)]

    def _too_few(self, answers: Sequence[WitnessAnswer]) -> TooFewWitnesses:
        unsigned = "; ".join(f"{each.witness.name}: {each.problem}" for each in answers if each.line is None)
        signed = sum(each.line is not None for each in answers)
        found = f"{signed} of {len(answers)} cosigned ({unsigned})"
        remedy = f"see what each of them says, or change the policy; {_AGAIN}"
        return TooFewWitnesses([Finding(str(self.file), "witnesses", found, self.policy.words, remedy)])


def _in_time(
    questions: Sequence[tuple[PolicyWitness, int, Sequence[str]]], note: SignedNote, patience: float
) -> list[WitnessAnswer]:
    """Ask each witness in a thread of its own; threads that hang end with the process, and hold nothing up."""
    answers: dict[str, WitnessAnswer] = {}

    def ask(witness: PolicyWitness, old: int, path: Sequence[str]) -> None:
        answers[witness.name] = _ask(witness, note, patience, old, path)

    threads = [Thread(target=ask, args=question, daemon=True) for question in questions]
    for thread in threads:
        thread.start()
    end = monotonic() + patience + 1
    for thread in threads:
        thread.join(max(0.0, end - monotonic()))
    slow = f"no whole answer within {patience:g} s"
    return [answers.get(each.name) or WitnessAnswer(each, problem=slow) for each, _, _ in questions]


def _forked(answer: WitnessAnswer) -> WitnessAnswer:
    """Say of a witness that refuses the very size which it named that it has seen another journal."""
    if answer.size is None:
        return answer
    problem = f"refuses (409): it has seen another journal of {answer.size} entries under this key"
    return WitnessAnswer(answer.witness, size=answer.size, problem=problem)


def _ask(
    witness: PolicyWitness, note: SignedNote, patience: float, old: int = 0, path: Sequence[str] = ()
) -> WitnessAnswer:
    """Send one request, and read the answer within its bounds."""
    body = add_checkpoint(old, path, note)
    request = Request(f"{witness.url}/add-checkpoint", body, {"Content-Type": "text/plain; charset=utf-8"})
    end = monotonic() + patience
    try:
        with build_opener(_RedirectRefused).open(request, timeout=patience) as answer:
            return _understood(witness, note, _read(answer, end))
    except HTTPError as error:
        with error:
            return _refused(witness, error.code, _read(error, end))
    except HTTPException:
        return WitnessAnswer(witness, problem=f"answers something that is no HTTP, at {witness.url}")
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        what = "no answer in time" if isinstance(reason, TimeoutError) else type(reason).__name__
        return WitnessAnswer(witness, problem=f"cannot be asked at {witness.url} ({what})")


def _read(answer: Any, end: float) -> bytes:
    """Read a short answer; one that drips in is given up when its time is over."""
    content = b""
    while len(content) <= _LARGEST:
        if monotonic() > end:
            raise TimeoutError
        part = answer.read1(_LARGEST) if hasattr(answer, "read1") else answer.read(_LARGEST)
        if not part:
            return content
        content += part
    raise ValueError("an answer that is too long")


def _understood(witness: PolicyWitness, note: SignedNote, body: bytes) -> WitnessAnswer:
    """Find the witness's own line in its answer, and hold it against its key."""
    try:
        read = read_note(note.text.encode() + b"\n" + body)
        verified = verified_lines(read, [witness.key])
    except (MalformedNote, FalseSignature) as error:
        return WitnessAnswer(witness, problem=f"answers something else than its signature line ({error})")
    line = next((each for each in read.signatures if _is_of(each, witness)), None)
    if not verified or line is None:
        return WitnessAnswer(witness, problem="answers without a line by its key")
    untimely = time_problem(verified[0].time or 0, now=time())  # no checker would count it
    if untimely:
        return WitnessAnswer(witness, problem=f"answers with {untimely}: see both clocks")
    return WitnessAnswer(witness, line=line)


def _is_of(line: NoteSignature, witness: PolicyWitness) -> bool:
    return (line.name, line.key_hash) == (witness.key.name, witness.key.key_hash)


def _refused(witness: PolicyWitness, status: int, body: bytes) -> WitnessAnswer:
    text = body.strip()
    if status == 409 and text.isdigit() and len(text) <= 16:
        return WitnessAnswer(witness, size=int(text), problem=f"knows {int(text)} entries of this journal (409)")
    said = {
        403: "does not take this key for that of the journal (403): send it the key of signing.pub",
        404: "does not know this journal (404): ask its operator to add the key of signing.pub",
        422: "refuses the proof (422): it has seen another journal under this key",
    }
    return WitnessAnswer(witness, problem=said.get(status, f"answers with status {status}"))


def read_witnesses(file: Path, patience: str = "") -> Witnesses:
    """Read the policy of a workspace.

    Raises:
        TooFewWitnesses: no such file, another form, or a policy that the witnesses with an address cannot meet.
    """
    try:
        policy = read_policy(file.read_text(encoding="utf-8"))
        seconds = float(patience or _PATIENCE)
    except (OSError, UnicodeDecodeError) as error:
        found = getattr(error, "strerror", None) or "bytes that are no text"
        raise _no_policy(file, found, "a policy of witnesses (tlog-policy)") from None
    except PolicyUnmet as error:
        raise _no_policy(file, *str(error).partition("; allowed")[::2]) from None
    except ValueError:
        raise _no_policy(file, f"witness_timeout {patience[:20]!r}", "a number of seconds") from None
    if not policy.is_met({each.name for each in policy.witnesses.values() if each.url}):
        found = "a quorum that the witnesses with an address cannot meet"
        raise _no_policy(file, found, "an address (URL) at enough witnesses")
    return Witnesses(file, policy, min(max(seconds, 0.1), 600.0))


def _no_policy(file: Path, found: str, allowed: str) -> TooFewWitnesses:
    wanted = allowed.removeprefix(" is ").removeprefix(" are ") or "a policy of witnesses (tlog-policy)"
    return TooFewWitnesses([Finding(str(file), "policy", found, wanted, f"correct the policy; {_AGAIN}")])
