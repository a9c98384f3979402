"""Ask witnesses for their cosignatures of a checkpoint, before the version becomes visible.

Who asks them is registered as `sudare.witnesses`. What comes back counts if its line holds under the witness's key:
that is checked here. Where too few cosigned, nothing is visible: the journal has the version already, its staged
files wait, and the same command asks again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import time
from typing import Any, Final

from contracts.errors import Finding, Refused
from contracts.plug_ins import OF_EXTENSIONS, PlugInAway, find
from privacy.ledger.journal.notes import (
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
from privacy.ledger.store.journal import JournalLog

GROUP: Final = "sudare.witnesses"
PROTOCOL: Final = "tlog"
"""The name of the group: C2SP tlog-witness, which policies are written for."""
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
        body: what it answered as its signature line; None where it answered none.
        size: how large a journal it knows, where it said so.
        problem: why there is no body; empty where there is one.
    """

    witness: PolicyWitness
    body: bytes | None = None
    size: int | None = None
    problem: str = ""


class WitnessClient(ABC):
    """What asks witnesses."""

    @abstractmethod
    def ask(
        self,
        witnesses: Sequence[PolicyWitness],
        note: SignedNote,
        head: TreeHead,
        log: JournalLog,
        *,
        patience: float,
    ) -> list[WitnessAnswer]:
        """Ask all of these witnesses to cosign a checkpoint, each within the same time.

        Args:
            witnesses: each with an address.
            note: the signed checkpoint.
            head: what it says.
            log: gives the consistency proofs.
            patience: seconds that each is waited for.
        """


@dataclass(frozen=True)
class Witnesses:
    """The witnesses of a workspace.

    Args:
        file: the policy's file, which errors name.
        policy: who has to cosign.
        client: asks them.
        patience: seconds that each is waited for.
    """

    file: Path
    policy: WitnessPolicy
    client: WitnessClient
    patience: float = _PATIENCE

    def cosigned(self, ledger: Ledger, prove: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return a proof whose checkpoint enough witnesses cosigned.

        Args:
            ledger: gives the consistency proofs.
            prove: makes the proof; again where a witness has seen a larger journal meanwhile.
        Raises:
            TooFewWitnesses: names each witness that did not sign, and why.
        """
        asked = [each for each in self.policy.witnesses.values() if each.url]
        proof, answers = prove(), list[WitnessAnswer]()
        for _ in range(2):
            note = read_note(proof["checkpoint"].encode())
            head = read_tree_head(note.text)
            with ledger.log() as log:
                answers = self.client.ask(asked, note, head, log, patience=self.patience)
            if all(answer.size is None or answer.size <= head.size for answer in answers):
                break
            proof = prove()
        read = {each.witness.name: self._read_line(each, note) for each in answers}
        signed = {name: line for name, line in read.items() if isinstance(line, NoteSignature)}
        if not self.policy.is_met(signed.keys()):
            unsigned = "; ".join(f"{name}: {problem}" for name, problem in read.items() if name not in signed)
            found = f"{len(signed)} of {len(answers)} cosigned ({unsigned})"
            remedy = f"see what each of them says, or change the policy; {_AGAIN}"
            raise TooFewWitnesses([Finding(str(self.file), "witnesses", found, self.policy.words, remedy)])
        return proof | {"checkpoint": note.signed_by(*signed.values()).to_bytes().decode()}

    def _read_line(self, answer: WitnessAnswer, note: SignedNote) -> NoteSignature | str:
        """Find the witness's own line in its answer, and check it under its key; else return the problem."""
        if answer.body is None:
            return answer.problem
        key = self.policy.witnesses[answer.witness.name].key
        try:
            read = read_note(note.text.encode() + b"\n" + answer.body)
            verified = verified_lines(read, [key])
        except (MalformedNote, FalseSignature) as error:
            return f"answers something else than its signature line ({error})"
        own = [each for each in read.signatures if (each.name, each.key_hash) == (key.name, key.key_hash)]
        if not verified or not own:
            return "answers without a line by its key"
        untimely = time_problem(verified[0].time or 0, now=time())  # no checker would count it
        return f"answers with {untimely}: see both clocks" if untimely else own[0]


def read_witnesses(file: Path, patience: str = "") -> Witnesses:
    """Read the policy of a workspace.

    Raises:
        TooFewWitnesses: no such file, another form, a policy that the witnesses with an address cannot meet, or
            nothing is installed that asks them.
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
    return Witnesses(file, policy, _client(file), min(max(seconds, 0.1), 600.0))


def _client(file: Path) -> WitnessClient:
    """Load what asks witnesses: without it nothing may be published, since the policy wants cosignatures."""
    registered = find(GROUP, {}, PROTOCOL)
    if registered is None:
        extension = OF_EXTENSIONS[GROUP][PROTOCOL]
        found = f"a policy, and the extension {extension}, which asks witnesses, is not installed"
        remedy = f"install Sudare with {extension}, or empty publish.witnesses in sudare.toml; {_AGAIN}"
        raise TooFewWitnesses([Finding(str(file), "witnesses", found, "an extension that asks them", remedy)])
    try:
        client: WitnessClient = registered.load(WitnessClient)
    except PlugInAway as error:
        raise TooFewWitnesses([Finding(str(file), "witnesses", error.found, error.allowed, error.remedy)]) from None
    return client


def _no_policy(file: Path, found: str, allowed: str) -> TooFewWitnesses:
    wanted = allowed.removeprefix(" is ").removeprefix(" are ") or "a policy of witnesses (tlog-policy)"
    return TooFewWitnesses([Finding(str(file), "policy", found, wanted, f"correct the policy; {_AGAIN}")])
