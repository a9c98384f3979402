"""`sudare witness`: cosign other publishers' journals, so that none can show two of them.

What a witness remembers of each journal is one file, written before the cosignature goes out. Two processes of one
witness on one folder would be two witnesses with one key; a lock refuses the second.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from time import time
from typing import Annotated, Final

import typer
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from console.output import answer
from contracts.errors import Finding, SpecRefused
from privacy.ledger.journal.notes import COSIGNATURE, MalformedNote, VerifierKey, cosign_note, read_verifier_key
from privacy.ledger.journal.signing import Signer
from sudare_keys.add_checkpoint import LARGEST_REQUEST, WitnessedHead, read_add_checkpoint, verdict
from tasks.storage.manifest import write_whole
from tasks.storage.workspace.keys import read_key, refusal, write_secret
from tasks.verification.keys import read_public_key

WitnessFolder = Annotated[
    Path, typer.Argument(metavar="DIR", help="Where the witness keeps its key and what it has seen.")
]
WitnessName = Annotated[str, typer.Option("--name", help="The witness's name, such as witness.example/a.")]
Logs = Annotated[
    list[Path], typer.Option("--log", metavar="FILE", help="A publisher's signing.pub; repeat it for more.")
]
WitnessJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON object with the key and address, then serve.")
]
KEY: Final = "witness.key"
_SECONDS: Final = 10
_HOUR: Final = 3600


def witness(
    folder: WitnessFolder,
    name: WitnessName,
    log: Logs,
    host: Annotated[str, typer.Option(help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; 0 for any that is free.")] = 9180,
    as_json: WitnessJson = False,
) -> None:
    """Serve a witness: cosign each checkpoint of these journals that extends the one before.

    It prints its key for policies and answers POST /add-checkpoint until it is stopped. A
    checkpoint that does not extend what it saw is refused (409 or 422). It keeps no data of
    anybody. Put it behind a server with TLS, and do not run it where the publisher does.

    Examples:

        sudare witness /srv/witness --name witness.example/a --log statistics.pub
    """
    keys = [read_verifier_key(read_public_key(file)) for file in log]
    serving = CosigningWitness(folder, Signer(_own_key(folder)), _checked(name), {key.name: key for key in keys})
    server = ThreadingHTTPServer((host, port), _handler(serving))
    address = f"http://{host}:{server.server_address[1]}"
    payload = {"key": serving.key.text, "url": address, "journals": sorted(key.name for key in keys)}
    line = f"witness {name.rpartition('/')[2]} {serving.key.text} {address}"
    answer(payload, lambda console: console.print(line, soft_wrap=True, highlight=False), as_json=as_json)
    try:
        server.serve_forever()
    finally:
        server.server_close()
        serving.close()


def _own_key(folder: Path) -> bytes:
    """Read the witness's key, and make it the first time."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not (folder / KEY).exists():
        write_secret(folder / KEY, Ed25519PrivateKey.generate().private_bytes_raw())
    return read_key(folder / KEY)


def _checked(name: str) -> str:
    try:
        return VerifierKey(name, bytes(32), COSIGNATURE).name
    except MalformedNote as error:
        raise SpecRefused(
            [Finding("the command", "--name", str(error), "a name such as witness.example/a")]
        ) from None


def _handler(serving: CosigningWitness) -> type[BaseHTTPRequestHandler]:
    """Return what answers the requests of one witness."""

    class AddCheckpoint(BaseHTTPRequestHandler):
        timeout = _SECONDS
        server_version = "sudare-witness"
        sys_version = ""

        def do_POST(self) -> None:
            """Answer a request to add a checkpoint; anything else is 404, and a long one is not read."""
            length = self.headers.get("Content-Length", "")
            if self.path != "/add-checkpoint":
                return self._say(404, b"POST /add-checkpoint is all there is\n")
            if not (length.isascii() and length.isdigit() and int(length) <= LARGEST_REQUEST):
                return self._say(413, b"a request has a length, of 64 KiB at most\n")
            return self._say(*serving.answer(self.rfile.read(int(length)), now=int(time())))

        def _say(self, status: int, body: bytes) -> None:
            size = status == 409
            self.send_response(status)
            self.send_header("Content-Type", "text/x.tlog.size" if size else "text/plain; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing: who publishes when is nobody's to log here."""

    return AddCheckpoint


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
