"""What a witness remembers of each journal: one file each, written before the cosignature goes out.

Two processes of one witness on one folder would be two witnesses with one key; a lock refuses the second.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from typing import Final

from privacy.ledger.journal.add_checkpoint import WitnessedHead, read_add_checkpoint, verdict
from privacy.ledger.journal.signed_note import MalformedNote, VerifierKey, cosign_note
from privacy.ledger.journal.signing import Signer
from tasks.storage.key_list import write_whole
from tasks.storage.workspace.keys import refusal

_HOUR: Final = 3600


class CosigningWitness:
    """Cosigns checkpoints that extend what it saw before.

    Args:
        folder: where it remembers; made where it is missing.
        signer: its key.
        name: its name, which its key has.
        logs: the keys of the journals that it knows, by origin.
    Raises:
        WorkspaceRefused: another process has this folder.
    """

    def __init__(self, folder: Path, signer: Signer, name: str, logs: Mapping[str, VerifierKey]) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder, self._signer, self._logs, self._lock = folder, signer, logs, Lock()
        self.key = VerifierKey(name, signer.verifier.public, kind=4)
        self._held = (folder / "lock").open("w")
        try:
            fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            found, allowed = "another process of this witness", "one: two would be shown different journals"
            raise refusal(str(folder), "witness", found, allowed, "stop the other one") from None

    def close(self) -> None:
        """Give the folder up."""
        self._held.close()

    def answer(self, body: bytes, *, now: int) -> tuple[int, bytes]:
        """Answer a request to add a checkpoint.

        Args:
            body: the request.
            now: the time [seconds since 1970]; the cosignature has its hour.
        Returns:
            tuple: the HTTP status, and the body of the answer.
        """
        try:
            request = read_add_checkpoint(body)
        except MalformedNote as error:
            return 400, f"{error}\n".encode()
        with self._lock:
            said = verdict(request, self._logs, self.seen(request.head.origin))
            if said.head is None:
                return said.status, said.text.encode()
            self._remember(request.head.origin, said.head)
        hour = now - now % _HOUR
        line = cosign_note(request.note.text, self.key, self._signer.sign_bytes, time=hour)
        return 200, f"{line.line}\n".encode()

    def seen(self, origin: str) -> WitnessedHead:
        """Return what the witness last saw of a journal.

        Raises:
            OSError, ValueError: what it remembers cannot be read: it must not sign anything then.
        """
        file = self._file(origin)
        if not file.exists():
            return WitnessedHead()
        value = json.loads(file.read_bytes())
        return WitnessedHead(int(value["size"]), str(value["root"]))

    def _remember(self, origin: str, head: WitnessedHead) -> None:
        value = {"origin": origin, "size": head.size, "root": head.root}
        write_whole(self._file(origin), (json.dumps(value) + "\n").encode(), mode=0o600)
        descriptor = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _file(self, origin: str) -> Path:
        return self._folder / f"{hashlib.sha256(origin.encode()).hexdigest()}.json"
