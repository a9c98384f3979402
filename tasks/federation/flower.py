"""Flower's processes: the link and the app beside the coordinator, a node beside each site.

They run in an environment of their own (`deploy/federation`, `make federation`), know nothing of Sudare but one Unix
socket, and end with the block that started them, or with this process, however it goes (`own_end`).
"""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from threading import Thread
from typing import Any, Final

from contracts.errors import Finding, Refused, SudareError
from tasks.storage.workspace.environment import environment_for_flower

APP: Final = Path(__file__).resolve().parents[2] / "deploy" / "federation" / "app"
OWN_APP: Final = APP.parent / "own_app.py"
"""Starts the link and nodes so that they run no app but this."""
GRACE_SECONDS: Final = 10.0
AGAIN_SECONDS: Final = 5.0
TURNED_AWAY_IN_LOG: Final = "Failed to activate SuperNode"
TURNED_AWAY: Final = ": the link turned it away, as its key is of no site of the federation that the coordinator runs"


class EngineMissing(Refused):
    """Flower is not installed where it is looked for."""

    exit_code = 1


class FlowerFailed(SudareError):
    """A process of Flower ended by itself."""


@dataclass(frozen=True)
class Certificates:
    """TLS: files in PEM.

    Args:
        authority: of the certificate authority that both sides know.
        certificate: the coordinator's own; None at a site.
        key: its secret half; None at a site.
    """

    authority: Path
    certificate: Path | None = None
    key: Path | None = None


@dataclass(frozen=True)
class FlowerEngine:
    """Flower as it is installed.

    Args:
        environment: its virtual environment.
        home: where it may write; made when it is missing.
    """

    environment: Path
    home: Path

    def __post_init__(self) -> None:
        if not (self.environment / "bin" / "flower-superlink").is_file():
            found, allowed = "no Flower", "the environment of deploy/federation/requirements.txt"
            remedy = "make federation; or name another by SUDARE_FEDERATION_ENV"
            raise EngineMissing([Finding(str(self.environment), "federation environment", found, allowed, remedy)])
        self.home.mkdir(mode=0o700, parents=True, exist_ok=True)

    @contextmanager
    def link(
        self,
        port: int,
        certificates: Certificates | None,
        *,
        host: str = "127.0.0.1",
        keys: Mapping[str, str] | None = None,
    ) -> Iterator[Running]:
        """Run the link that nodes connect to.

        Args:
            port: where it listens.
            certificates: TLS; keys need it.
            host: where it listens.
            keys: the public key of each site; then it takes no node but theirs, and `nodes` says which is whose.
        Raises:
            EngineMissing: the app that it is pinned to is not there: this is no clone of the repository.
        """
        told = [
            *_own_app("superlink"),
            "--host",
            host,
            "--port",
            str(port),
            "--disable-runtime-dependency-installation",
        ]
        if certificates is None:
            told.append("--insecure")
        else:
            told += ["--ssl-ca-certfile", str(certificates.authority)]
            told += ["--ssl-certfile", str(certificates.certificate), "--ssl-keyfile", str(certificates.key)]
        self._nodes.unlink(missing_ok=True)
        if keys:
            (self.home / "keys.json").write_text(json.dumps(dict(keys)), encoding="utf-8")
            told += ["--enable-supernode-auth"]
            told += ["--site-keys", str(self.home / "keys.json"), "--site-nodes", str(self._nodes)]
        with self._running(told, "link") as running:
            running.wait_for_port(host, port)
            yield running

    @property
    def _nodes(self) -> Path:
        return self.home / "nodes.json"

    def nodes(self) -> dict[str, int] | None:
        """Return each site's node, which the link that runs knows by its key; None where sites have none."""
        if not self._nodes.is_file():
            return None
        nodes: dict[str, int] = json.loads(self._nodes.read_bytes())
        return nodes

    @contextmanager
    def node(
        self,
        site: str,
        addresses: tuple[Path, Path],
        link: str,
        certificates: Certificates | None,
        *,
        key: Path | None = None,
    ) -> Iterator[Lasting]:
        """Run a site's node; it reaches the site's Sudare by Unix sockets, for queries and for what is masked.

        Args:
            site: its name.
            addresses: the two sockets.
            link: where the link is, HOST:PORT.
            certificates: TLS.
            key: the site's secret key (OpenSSH), by which the link knows it; None where sites have none.
        """
        queries, masked = addresses
        told = [*_own_app("supernode"), "--superlink", link, "--port", str(free_port())]
        told += ["--node-config", f'site="{site}" socket="{queries}" masked="{masked}"']
        told += ["--insecure"] if certificates is None else ["--root-certificates", str(certificates.authority)]
        if key is not None:
            told += ["--auth-supernode-private-key", str(key)]
        node = Lasting(lambda: self._started(told, f"node-{site}"))
        try:
            yield node
        finally:
            node.end()

    @contextmanager
    def app(self, address: Path, link: str, certificates: Certificates | None) -> Iterator[Running]:
        """Start the app on the link; it connects to the coordinator's socket.

        Raises:
            EngineMissing: the app is not there: this is no clone of the repository.
        """
        lines = ["[superlink]", 'default = "sudare"', "[superlink.sudare]", f'address = "{link}"']
        lines += ["insecure = true"] if certificates is None else [f'root-certificates = "{certificates.authority}"']
        (self.home / "config.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")
        told = [*_own_app("flwr"), "run", str(APP), "sudare", "--stream", "--run-config", f'socket="{address}"']
        with self._running(told, "app") as running:
            yield running

    @contextmanager
    def _running(self, command: Sequence[str], name: str) -> Iterator[Running]:
        running = self._started(command, name)
        try:
            yield running
        finally:
            running.end()

    def _started(self, command: Sequence[str], name: str) -> Running:
        binaries = self.environment / "bin"
        log = self.home / f"{name}.log"
        with log.open("ab") as output:
            process = subprocess.Popen(
                [str(binaries / command[0]), *command[1:]],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment_for_flower(binaries, self.home),
                cwd=self.home,
                start_new_session=True,
            )
        return Running(process, name, log)


@dataclass(frozen=True)
class Running:
    """A process of Flower's, and those that it starts.

    Args:
        process: the first of them.
        name: what it is.
        log: what it says.
    """

    process: subprocess.Popen[bytes]
    name: str
    log: Path

    def check(self) -> None:
        """Raise if it ended by itself.

        Raises:
            EngineFailed: with where its log is.
        """
        code = self.process.poll()
        if code is not None:
            why = TURNED_AWAY if TURNED_AWAY_IN_LOG in self._said() else ""
            raise FlowerFailed(
                f"Flower's {self.name} ended with exit code {code}{why}; what it said is in {self.log}"
            )

    def _said(self) -> str:
        with self.log.open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - 4096))
            return log.read().decode(errors="replace")

    def wait_for_port(self, host: str, port: int) -> None:
        """Wait until somebody listens there."""
        until = time.monotonic() + 60
        while time.monotonic() < until:
            self.check()
            with socket.socket() as probe:
                probe.settimeout(1)
                if probe.connect_ex((host, port)) == 0:
                    return
            time.sleep(0.1)
        raise FlowerFailed(f"Flower's {self.name} does not listen on port {port}; what it said is in {self.log}")

    def end(self) -> None:
        """End it and all that it started: asked first, and killed after a while."""
        for each, wait in ((signal.SIGTERM, GRACE_SECONDS), (signal.SIGKILL, 5.0)):
            try:
                os.killpg(self.process.pid, each)
            except ProcessLookupError:
                break
            try:
                self.process.wait(wait)
            except subprocess.TimeoutExpired:
                continue
        self.process.wait()
        if self.process.stdin is not None:
            self.process.stdin.close()


class Lasting:
    """A node that is started again when it ends because the link that it knew has gone, and another is there.

    Args:
        start: starts it.
    """

    def __init__(self, start: Callable[[], Running]) -> None:
        self._start, self._running, self._since = start, start(), time.monotonic()

    def check(self) -> None:
        """Start it again if the link did not know it any more; raise if it ended otherwise.

        Raises:
            EngineFailed: with where its log is.
        """
        if self._running.process.poll() != 0:
            self._running.check()
        elif time.monotonic() - self._since > AGAIN_SECONDS:
            self._running.end()
            self._running, self._since = self._start(), time.monotonic()

    def end(self) -> None:
        """End it, for good."""
        self._running.end()


def _own_app(party: str) -> list[str]:
    """Return how a party of Flower's is started, pinned to the app of this clone.

    Raises:
        EngineMissing: the app is not there: this is no clone of the repository.
    """
    if not (APP / "pyproject.toml").is_file():
        found, allowed = "no app of federations", "deploy/federation/app of the repository"
        remedy = "coordinate, or join, from a clone"
        raise EngineMissing([Finding(str(APP), "federation app", found, allowed, remedy)])
    return ["python", "-P", str(OWN_APP), party]


def free_port() -> int:
    """Return a port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


# --- Unix sockets between Sudare's processes and Flower's.


logger = logging.getLogger(__name__)


class NobodyConnected(SudareError):
    """What was started did not connect in time."""


@contextmanager
def answering(address: Path, answer: Callable[[bytes], bytes]) -> Iterator[None]:
    """Answer whoever connects, in a thread, until the block ends; one message a connection."""
    listener = Listener(str(address), "AF_UNIX")
    address.chmod(0o600)
    thread = Thread(target=_serve, args=(listener, answer), name=f"site {address.stem}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        with Client(str(address), "AF_UNIX") as last:
            last.send_bytes(b"")
        thread.join(timeout=30)
        listener.close()


def _serve(listener: Listener, answer: Callable[[bytes], bytes]) -> None:
    while True:
        try:
            with listener.accept() as line:
                message = line.recv_bytes()
                if not message:
                    return
                line.send_bytes(answer(message))
        except (EOFError, OSError) as error:
            logger.info("a connection was dropped: %s", type(error).__name__)


@contextmanager
def awaited(address: Path, *, seconds: float, alive: Callable[[], None]) -> Iterator[Connection]:
    """Wait for the one that connects to a socket.

    Args:
        address: where.
        seconds: how long.
        alive: called while waiting; raises where nobody will come.
    Raises:
        NobodyConnected: nobody came.
    """
    listener = Listener(str(address), "AF_UNIX")
    address.chmod(0o600)
    found: list[Connection] = []
    thread = Thread(target=lambda: found.append(listener.accept()), daemon=True)
    thread.start()
    waited = 0.0
    while thread.is_alive() and waited < seconds:
        thread.join(0.2)
        waited += 0.2
        alive()
    if not found:
        raise NobodyConnected(f"nobody connected to {address.name} within {seconds:g} s; Flower's logs say why")
    with found[0] as line:
        try:
            yield line
        finally:
            listener.close()


# --- What goes over the sockets between Sudare and Flower's processes.


def packed(header: Mapping[str, Any], body: bytes = b"") -> bytes:
    """Lay a message out as bytes."""
    return json.dumps(dict(header)).encode() + b"\n" + body


def unpacked(message: bytes) -> tuple[dict[str, Any], bytes]:
    """Take a message apart.

    Raises:
        ValueError: it is none.
    """
    line, _, body = message.partition(b"\n")
    header = json.loads(line)
    if not isinstance(header, dict):
        raise ValueError("a message begins with a JSON object")
    return header, body
