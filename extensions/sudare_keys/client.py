"""Ask witnesses over HTTP: all at once, each within the same time (C2SP tlog-witness, add-checkpoint).

What a witness answers otherwise than by a line, or that it does not answer, is told by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from http.client import HTTPException
from threading import Thread
from time import monotonic
from typing import Any, Final
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, Request, build_opener

from privacy.ledger.journal.notes import SignedNote, TreeHead
from privacy.ledger.journal.witness_policy import PolicyWitness
from privacy.ledger.store.journal import JournalLog
from sudare_keys.add_checkpoint import add_checkpoint
from tasks.storage.witnesses import WitnessAnswer, WitnessClient

_LARGEST: Final = 16 * 1024


class _RedirectRefused(HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


class HttpClient(WitnessClient):
    """Asks each witness at its URL."""

    def ask(
        self,
        witnesses: Sequence[PolicyWitness],
        note: SignedNote,
        head: TreeHead,
        log: JournalLog,
        *,
        patience: float,
    ) -> list[WitnessAnswer]:
        """Ask all witnesses; who does not answer in time is given up."""
        first = _in_time([(each, 0, ()) for each in witnesses], note, patience)
        # A witness that knows the journal says how far: it is asked again, with the proof from there.
        behind = [(each.witness, each.size) for each in first if each.size is not None and each.size <= head.size]
        proven = [(witness, size, log.consistency(size, head.size)) for witness, size in behind]
        second = _in_time(proven, note, patience)
        names = {witness.name for witness, _ in behind}
        return [*(each for each in first if each.witness.name not in names), *map(_forked, second)]


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
            return WitnessAnswer(witness, _read(answer, end))
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


CLIENT: Final = HttpClient()
