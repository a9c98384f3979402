"""Witnesses on loopback: `sudare witness` in processes of their own, and servers that misbehave."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from socket import SHUT_WR, create_server
from threading import Thread
from typing import Any

COMMAND = "from console.main import main; main()"


@dataclass(frozen=True)
class RunningWitness:
    name: str
    key: str
    url: str

    @property
    def line(self) -> str:
        return f"witness {self.name} {self.key} {self.url}"


@contextmanager
def witness_process(folder: Path, name: str, *logs: str) -> Iterator[RunningWitness]:
    """Run a witness that knows these journals, at any free port."""
    folder.mkdir(exist_ok=True, parents=True)
    words = []
    for number, log in enumerate(logs):
        (folder / f"{number}.pub").write_text(f"{log}\n")
        words += ["--log", str(folder / f"{number}.pub")]
    command = [sys.executable, "-c", COMMAND, "witness", str(folder / "state"), "--name", f"witness.example/{name}"]
    with subprocess.Popen([*command, *words, "--port", "0", "--json"], stdout=subprocess.PIPE, text=True) as process:
        try:
            yield RunningWitness(name, **_said(process))
        finally:
            process.terminate()


def _said(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Read the JSON object that a witness prints before it serves."""
    assert process.stdout is not None
    text = ""
    for line in process.stdout:
        text += line
        if line.rstrip() == "}":
            break
    told = json.loads(text)
    return {"key": told["key"], "url": told["url"]}


@contextmanager
def raw_server(answer: bytes | None) -> Iterator[str]:
    """Serve these bytes to everybody, or (None) accept and never answer."""
    with create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            kept = []
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                kept.append(connection)
                if answer is not None:
                    connection.settimeout(60)
                    connection.recv(65536)
                    with suppress(OSError):
                        connection.sendall(answer)
                        connection.shutdown(SHUT_WR)
                        # Closed before all was read, it would be reset, and what was answered lost.
                        while connection.recv(65536):
                            pass
                    connection.close()

        Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
