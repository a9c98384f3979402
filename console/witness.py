"""`sudare witness`: cosign other publishers' journals, so that none can show two of them."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from time import time
from typing import Annotated, Final

import typer
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from console.render import answer
from contracts.errors import Finding, SpecRefused
from privacy.ledger.journal.add_checkpoint import LARGEST_REQUEST
from privacy.ledger.journal.signed_note import COSIGNATURE, MalformedNote, VerifierKey, read_verifier_key
from privacy.ledger.journal.signing import Signer
from tasks.storage.witness_state import CosigningWitness
from tasks.storage.workspace.keys import read_key, write_secret
from tasks.verification.public_keys import read_public_key

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
