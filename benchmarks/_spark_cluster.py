"""A standalone cluster and a Connect server behind TLS, as processes of their own on loopback.

Every process gets its settings from a file that its owner alone reads, as an operator of a cluster writes them.
Spark's Connect server speaks no TLS: a relay in front of it ends TLS and passes on what is inside, as nginx does.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import ssl
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from time import monotonic, sleep
from typing import Final

SECURE: Final = {
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    "spark.network.crypto.saslFallback": "false",
    "spark.network.crypto.authEngineVersion": "2",
    "spark.network.crypto.cipher": "AES/GCM/NoPadding",
    "spark.io.encryption.enabled": "true",
}
"""What an operator writes into the settings of master, workers and Connect server, as the manual says."""
ON_DISK: Final = {"spark.io.encryption.enabled": "true", "spark.hadoop.fs.permissions.umask-mode": "077"}
"""What a Connect server needs whose master is local."""
JAVA: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Java starts in a third of the time where it compiles less; nothing else of Spark is changed.

What it counts then takes several times as long, so whoever measures times leaves Java as it is.
"""
PATIENCE_SECONDS: Final = 180.0


@dataclass
class SparkProcesses:
    """Processes of Spark that belong together.

    Args:
        folder: what they write.
        python: the Python that has PySpark.
        running: the process of each role.
        port: of the master or the Connect server.
        pages: ports of the web pages by role.
        java: options of every Java, of executors too.
    """

    folder: Path
    python: Path
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    port: int = 0
    pages: dict[str, int] = field(default_factory=dict)
    java: str = JAVA

    def log(self, role: str) -> str:
        """Return what a process has said so far."""
        return (self.folder / f"{role}.log").read_text(errors="replace")

    def start(self, role: str, settings: Mapping[str, str], *words: str, awaited: str) -> None:
        """Start a process with settings of its own and wait until it says that it is there."""
        options = self.folder / f"{role}.conf"
        options.touch(mode=0o600)
        options.write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "JAVA_HOME", "TMPDIR") if name in os.environ}
        own = {"SPARK_LOCAL_IP": "127.0.0.1", "JAVA_TOOL_OPTIONS": self.java, "PYSPARK_PYTHON": str(self.python)}
        program = Path(spark_home(self.python)) / "bin" / ("spark-class" if role != "connect" else "spark-submit")
        with (self.folder / f"{role}.log").open("wb") as log:
            self.running[role] = subprocess.Popen(
                [str(program), *words, "--properties-file", str(options)]
                + (["spark-internal"] if role == "connect" else [])
                + ([f"spark://127.0.0.1:{self.port}"] if role.startswith("worker") else []),
                env=kept | own,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                umask=0o077,
                start_new_session=True,
            )
        until = monotonic() + PATIENCE_SECONDS
        while awaited not in self.log(role):
            if monotonic() > until or self.running[role].poll() is not None:
                raise RuntimeError(f"{role} did not start: {self.log(role)[-2000:]}")
            sleep(0.1)

    def kill(self, role: str) -> None:
        """Send SIGKILL to one process; executors that it started notice by themselves."""
        self.running[role].kill()
        self.running[role].wait()

    def close(self) -> None:
        """End all of them, and what they started."""
        for process in self.running.values():
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
        for process in self.running.values():
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def spark_home(python: Path) -> str:
    """Return the folder of the Spark that PySpark's package brings."""
    asked = [str(python), "-I", "-c", "import pyspark; print(pyspark.__path__[0])"]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()


def free_port() -> int:
    """Return a port of loopback that nobody listens at."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


@contextmanager
def standalone_cluster(
    folder: Path,
    python: Path,
    *,
    secret: str,
    workers: int = 2,
    settings: Mapping[str, str] | None = None,
    java: str = JAVA,
) -> Iterator[SparkProcesses]:
    """Start a master and workers of one core each.

    Args:
        folder: an empty folder for what they write.
        python: the Python that has PySpark.
        secret: what all processes share.
        workers: how many.
        settings: of all of them; `SECURE` where nothing is given.
        java: as for `SparkProcesses`.
    """
    given = {**(SECURE if settings is None else settings), "spark.authenticate.secret": secret}
    cluster = SparkProcesses(folder, python, port=free_port(), java=java)
    try:
        cluster.pages["master"] = free_port()
        words = ("--host", "127.0.0.1", "--port", str(cluster.port), "--webui-port", str(cluster.pages["master"]))
        cluster.start("master", given, "org.apache.spark.deploy.master.Master", *words, awaited="New state: ALIVE")
        for number in range(workers):
            start_worker(cluster, f"worker{number}", given)
        yield cluster
    finally:
        cluster.close()


def start_worker(cluster: SparkProcesses, role: str, settings: Mapping[str, str]) -> None:
    """Start a worker of one core, with folders of its own for logs and spilled files."""
    cluster.pages[role], scratch = free_port(), cluster.folder / f"{role}-scratch"
    scratch.mkdir(exist_ok=True)
    words = ("--host", "127.0.0.1", "--cores", "1", "--memory", "1g", "--webui-port", str(cluster.pages[role]))
    words = (*words, "--work-dir", str(cluster.folder / f"{role}-work"))
    own = {**settings, "spark.local.dir": str(scratch)}
    cluster.start(
        role, own, "org.apache.spark.deploy.worker.Worker", *words, awaited="Successfully registered with master"
    )


@contextmanager
def connect_server(
    folder: Path, python: Path, *, token: str | None, settings: Mapping[str, str] | None = None, java: str = JAVA
) -> Iterator[SparkProcesses]:
    """Start a Connect server that asks for a token, with its page and its event log on.

    Args:
        folder: an empty folder for what it writes.
        python: the Python that has PySpark.
        token: what a client shows; None for a server that asks for none.
        settings: besides its own; a local master that encrypts what it spills, where nothing is given.
        java: as for `SparkProcesses`.
    """
    server = SparkProcesses(folder, python, port=free_port(), pages={"connect": free_port()}, java=java)
    (folder / "events").mkdir()
    (folder / "spill").mkdir()
    own = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(server.port),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.ui.port": str(server.pages["connect"]),
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": str(folder / "events"),
        "spark.local.dir": str(folder / "spill"),
    }
    own |= {} if token is None else {"spark.connect.authenticate.token": token}
    given = {"spark.master": "local[2]", **ON_DISK} if settings is None else settings
    try:
        name = "org.apache.spark.sql.connect.service.SparkConnectServer"
        server.start("connect", {**own, **given}, "--class", name, awaited="Spark Connect server started")
        yield server
    finally:
        server.close()


@contextmanager
def tls_front(behind: int, *, certificate: Path, key: Path) -> Iterator[int]:
    """Listen with TLS on loopback and pass on what is inside to a port without; return the port.

    gRPC asks for the protocol "h2" in the handshake, so that is what is offered.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    context.set_alpn_protocols(["h2"])
    loop, ports = asyncio.new_event_loop(), list[int]()

    async def one_way(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(1 << 16):
                target.write(data)
                await target.drain()
        target.close()

    async def relayed(source: asyncio.StreamReader, answers: asyncio.StreamWriter) -> None:
        try:
            behind_it, requests = await asyncio.open_connection("127.0.0.1", behind)
        except OSError:
            answers.close()
            return
        await asyncio.gather(one_way(source, requests), one_way(behind_it, answers))

    async def listen() -> None:
        server = await asyncio.start_server(relayed, "127.0.0.1", 0, ssl=context)
        ports.append(server.sockets[0].getsockname()[1])

    loop.run_until_complete(listen())
    thread = Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield ports[0]
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
