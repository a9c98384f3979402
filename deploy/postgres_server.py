"""A PostgreSQL server on loopback, of the machine's own binaries, until the end of a block: no container, no root."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from time import sleep
from typing import Any, Final

import psycopg

SECONDS: Final = 60
_ACCOUNTS: Final = ("postgres", "nobody")


@contextmanager
def postgres_server(user: str, password: str, log: Path, *, tls: tuple[Path, Path] | None = None) -> Iterator[int]:
    """Run a server with an empty database `postgres`.

    Args:
        user: its superuser.
        password: of the user; connections over TCP need it.
        log: where it writes.
        tls: certificate and key, for a server that takes nothing over TCP but TLS.
    Yields:
        The port on 127.0.0.1.
    Raises:
        RuntimeError: there are no binaries with pg_trgm, which Prefect needs, or the server does not start.
    """
    binaries = find_binaries()
    folder, port = Path(tempfile.mkdtemp(prefix="sudare-postgres-")), free_port()
    who = _not_root(folder)
    with log.open("ab") as out:
        (folder / "password").write_text(password)
        made: list[Any] = [
            binaries / "initdb",
            "-D",
            folder / "data",
            "-U",
            user,
            "--auth-host=scram-sha-256",
            "--auth-local=trust",
        ]
        if who:
            os.chown(folder / "password", who["user"], who["group"])
        told: dict[str, Any] = {"stdout": out, "stderr": out, "cwd": folder, **who}
        try:
            subprocess.run([*made, f"--pwfile={folder / 'password'}", "-E", "UTF8"], check=True, **told)
            options = ["-c", "listen_addresses=127.0.0.1", "-c", f"unix_socket_directories={folder}"]
            options += [] if tls is None else _encrypted(folder, tls, who)
            server = subprocess.Popen(
                [binaries / "postgres", "-D", folder / "data", "-p", str(port), *options], **told
            )
            try:
                _await(server, f"postgresql://{user}:{password}@127.0.0.1:{port}/postgres", log)
                yield port
            finally:
                server.send_signal(signal.SIGINT)
                with suppress(subprocess.TimeoutExpired):
                    server.wait(timeout=SECONDS)
                server.kill()
                server.wait()
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _encrypted(folder: Path, tls: tuple[Path, Path], who: dict[str, int]) -> list[str]:
    """Give the server its certificate and key, which must be its own, and take TLS alone; return its options."""
    options = ["-c", "ssl=on"]
    for name, given in zip(("ssl_cert_file", "ssl_key_file"), tls, strict=True):
        own = folder / given.name
        shutil.copyfile(given, own)
        own.chmod(0o600)
        if who:
            os.chown(own, who["user"], who["group"])
        options += ["-c", f"{name}={own}"]
    rules = folder / "data" / "pg_hba.conf"
    rules.write_text("local all all trust\nhostssl all all 127.0.0.1/32 scram-sha-256\n")
    return options


def find_binaries() -> Path:
    """Return the folder of the newest PostgreSQL that has pg_trgm."""
    found = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/postgres")]
    named = shutil.which("pg_config")
    if named is not None:
        told = subprocess.run([named, "--bindir"], capture_output=True, text=True, check=False).stdout.strip()
        found.append(Path(told))
    for folder in sorted(found, key=_version, reverse=True):
        share = _share_of(folder)
        if (folder / "initdb").exists() and (share / "extension" / "pg_trgm.control").exists():
            return folder
    raise RuntimeError("no PostgreSQL with pg_trgm is installed here: apt-get install postgresql")


def _share_of(folder: Path) -> Path:
    """Return where a PostgreSQL keeps its extensions; Debian has pg_config in a package of its own."""
    if not (folder / "pg_config").exists():
        return Path("/usr/share/postgresql") / folder.parent.name
    told = subprocess.run([folder / "pg_config", "--sharedir"], capture_output=True, text=True, check=True)
    return Path(told.stdout.strip())


def _version(folder: Path) -> float:
    try:
        return float(folder.parent.name)
    except ValueError:
        return 0.0


def _not_root(folder: Path) -> dict[str, int]:
    """Return as whom the server runs, which refuses root; the folder becomes that account's."""
    if os.geteuid() != 0:
        return {}
    for name in _ACCOUNTS:
        with suppress(KeyError):
            account = pwd.getpwnam(name)
            os.chown(folder, account.pw_uid, account.pw_gid)
            return {"user": account.pw_uid, "group": account.pw_gid}
    raise RuntimeError("PostgreSQL does not run as root, and there is no account postgres or nobody")


def free_port() -> int:
    """Return a port on loopback that nobody listens on now."""
    with closing(socket.socket()) as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def _await(server: subprocess.Popen[bytes], address: str, log: Path) -> None:
    for _ in range(SECONDS * 10):
        with suppress(psycopg.OperationalError), psycopg.connect(address, connect_timeout=5):
            return
        if server.poll() is not None:
            break
        sleep(0.1)
    raise RuntimeError(f"PostgreSQL did not start; its log: {log}")
