"""A Spark worker: a process beside ours that is sent SQL and answers counts; and whether another machine is trusted.

A file of settings may say anything. What counts is what the session answers when it runs, before a key or a row goes
there: the settings of its own SparkConf, those of its executors, and whether it turns away who does not know the
secret.
"""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final
from urllib.parse import quote

from contracts.domains.statements import ValueKind
from contracts.errors import Finding
from sudare_engines import spark_worker
from sudare_engines.engine import EngineProcess, scratch_of
from sudare_engines.portable_sql import Dialect
from sudare_engines.spark_settings import SECRETS, SparkSettings
from tasks.storage.credentials import credentials_of
from tasks.storage.source_engine import EngineFailed, EngineNotTrusted

BETWEEN_PROCESSES: Final = {
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    "spark.network.crypto.saslFallback": "false",
    "spark.network.crypto.authEngineVersion": "2",
    "spark.network.crypto.cipher": "AES/GCM/NoPadding",
}
"""All that processes say to each other (RPC, shuffle, blocks) is authenticated, and encrypted by AES-GCM."""
ON_DISK: Final = {"spark.io.encryption.enabled": "true", "spark.hadoop.fs.permissions.umask-mode": "077"}
"""What is spilled or shuffled is encrypted under a key of the session, and files of the stage are their owner's."""
SECRET_VARIABLE: Final = "_SPARK_AUTH_SECRET"
"""Where Spark looks for the secret before it looks into its settings; only this user may read it there."""
ELSEWHERE: Final = "in-the-environment"
"""Stands in the settings in place of the secret: they are read and written through Python's pipe to its Java."""
_HANDSHAKE_SECONDS: Final = 20.0
_ORDERS: Final = "spark-defaults.conf of master, workers and server"


@dataclass(frozen=True, repr=False)
class Start:
    """What the worker process is told to start or reach a session.

    Args:
        request: the request, with the secret; it goes through a pipe of ours.
        environment: variables of the worker, and so of its Java; a cluster's secret among them.
    """

    request: Mapping[str, Any]
    environment: Mapping[str, str]


def start_of(settings: SparkSettings, scratch: Path) -> Start:
    """Look up the secret, and shake hands with a Connect server by TLS.

    Args:
        settings: where Spark is.
        scratch: the run's folder for what Spark here writes.
    Raises:
        SourceUnreadable: there are no such credentials.
        EngineNotTrusted: the server shows no certificate of the authority, or does not speak TLS.
    """
    request: dict[str, Any] = {"settings": settings.configuration}
    if settings.kind != "connect":
        warehouse = str(scratch / "warehouse")
        request["settings"] |= {"spark.local.dir": str(scratch), "spark.sql.warehouse.dir": warehouse}
    if settings.kind == "local":
        return Start(request, {})
    key = SECRETS[settings.kind]
    secret = credentials_of(settings.credentials, (key,), settings.master, field="spark.master").get(key)
    if not secret or not (secret.isascii() and secret.isprintable()):
        found = f"credentials {settings.credentials!r} {'with an unreadable' if secret else 'without'} `{key}`"
        allowed = f"a `{key}` of letters, digits and signs of ASCII"
        raise EngineNotTrusted([Finding(settings.master, "spark.credentials", found, allowed)])
    request |= {"secret": secret, "says": [*BETWEEN_PROCESSES, *ON_DISK], "address": settings.address}
    if settings.kind == "cluster":
        request["settings"] |= {**BETWEEN_PROCESSES, **ON_DISK, "spark.driver.host": settings.host}
        request["settings"] |= {"spark.driver.bindAddress": settings.host, "spark.authenticate.secret": ELSEWHERE}
        return Start(request, {"SPARK_LOCAL_IP": settings.host, SECRET_VARIABLE: secret})
    _shake_hands(settings)
    host, port = settings.address
    trusted = str(settings.certificate or ssl.get_default_verify_paths().cafile or "")
    request["remote"] = f"sc://{host}:{port}/;use_ssl=true;token="
    request["secret"] = quote(secret, safe="")
    return Start(request, {"GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": trusted} if trusted else {})


def weaknesses(settings: SparkSettings, said: Mapping[str, Any]) -> list[Finding]:
    """Hold what a running session says of itself against what it must be.

    Args:
        settings: where Spark is.
        said: `session` and `executors` (settings by name, of each kind of executor), `master` of the session,
            `wanted` (what we set, and what the session made of it), `strangers` (who was let in: "without a secret",
            "with a wrong secret").
    Returns:
        One finding for each setting; none where all is as it must be.
    """
    found = [_finding(settings, name, value, want) for name, want, value in _differing(said["wanted"])]
    if settings.kind == "local":
        return found
    required = dict(ON_DISK)
    if not str(said["master"]).startswith("local"):
        required |= BETWEEN_PROCESSES
    own = said["session"]
    found += [
        _finding(settings, name, own.get(name), want) for name, want in required.items() if own.get(name) != want
    ]
    for executor in said["executors"]:
        found += [
            _finding(settings, name, f"{executor.get(name)!r} at an executor", want)
            for name, want in required.items()
            if name in BETWEEN_PROCESSES and executor.get(name) != want
        ]
    for stranger in said["strangers"]:
        name = "spark.authenticate" if settings.kind == "cluster" else "spark.connect.authenticate.token"
        found.append(_finding(settings, name, f"a session that lets in whoever comes {stranger}", "the secret alone"))
    return found


def refused_handshake(settings: SparkSettings, strangers: list[str]) -> EngineNotTrusted:
    """Return the error for a place that did not take the secret."""
    if settings.kind == "connect":
        found, allowed = "a server that does not take the token", "the token of the server"
        where, field = settings.master, "spark.connect.authenticate.token"
        return EngineNotTrusted([Finding(where, field, found, allowed, "correct the credentials, or the server")])
    if strangers:
        found, field = "a master that answers without a secret", "spark.authenticate"
        allowed = "true, with a secret and encryption"
    else:
        found, field = "a master that does not take the secret in an encrypted handshake", "spark.authenticate.secret"
        allowed = "the secret of the cluster"
    remedy = "set " + ", ".join(f"{name} {value}" for name, value in {**BETWEEN_PROCESSES, **ON_DISK}.items())
    return EngineNotTrusted([Finding(settings.master, field, found, allowed, f"{remedy} in {_ORDERS}")])


def _differing(wanted: Mapping[str, list[str | None]]) -> Iterator[tuple[str, str, str | None]]:
    """Yield settings that the session did not take: name, what we set, what it says."""
    for name, (want, value) in wanted.items():
        if value != want:
            yield name, str(want), value


def _finding(settings: SparkSettings, name: str, value: object, want: str) -> Finding:
    remedy = f"set {name} {want} in {_ORDERS}" if name in {**BETWEEN_PROCESSES, **ON_DISK} else "let sessions set it"
    return Finding(settings.master, name, "nothing" if value is None else str(value), want, remedy)


def _shake_hands(settings: SparkSettings) -> None:
    """Make a TLS handshake as gRPC will: the certificate is checked, and the protocol is h2."""
    field, remedy = "spark.certificate", "name the authority's certificate as spark.certificate in sudare.toml"
    try:
        context = ssl.create_default_context(cafile=settings.certificate)
    except (OSError, ssl.SSLError):
        found = f"{settings.certificate}, which is no PEM file"
        raise EngineNotTrusted([Finding(settings.master, field, found, "a certificate", remedy)]) from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["h2"])
    host, port = settings.address
    allowed = "TLS 1.2 or later with a certificate of the authority, for this host"
    try:
        with (
            socket.create_connection((host, port), _HANDSHAKE_SECONDS) as plain,
            context.wrap_socket(plain, server_hostname=host) as secure,
        ):
            spoken = secure.selected_alpn_protocol()
    except ssl.SSLCertVerificationError as error:
        found = f"a certificate that is not trusted: {error.verify_message}"
        raise EngineNotTrusted([Finding(settings.master, field, found, allowed, remedy)]) from None
    except ssl.SSLError:
        found, remedy = "a server that does not speak TLS", "put a proxy that ends TLS before the Connect server"
        raise EngineNotTrusted([Finding(settings.master, "use_ssl", found, allowed, remedy)]) from None
    except OSError as error:
        found = error.strerror or "no answer"
        remedy = "start the server, then run again"
        raise EngineNotTrusted([Finding(settings.master, "spark.master", found, "an answer", remedy)]) from None
    if spoken != "h2":
        found = "a server that does not offer HTTP/2 in the handshake"
        raise EngineNotTrusted(
            [Finding(settings.master, "use_ssl", found, "the protocol h2", "let the proxy offer h2")]
        )


LOG: Final = "spark.private.log"
_KINDS: Final[dict[str, ValueKind]] = {
    "string": "text",
    "tinyint": "whole",
    "smallint": "whole",
    "int": "whole",
    "bigint": "whole",
    "float": "real",
    "double": "real",
    "boolean": "flag",
    "date": "day",
    "timestamp": "moment",
    "timestamp_ntz": "moment",
    "void": "nothing",
}
_DECIMAL: Final = re.compile(r"decimal\(\d+,\d+\)")


class SparkWorker(EngineProcess):
    """One Spark session in a process of its own, for as long as a run lasts.

    Args:
        settings: where Spark is.
        folder: the run's private folder.
        lock: as for `EngineProcess`.
    Raises:
        EngineFailed: no session could be started.
        EngineNotTrusted: Spark is on other machines, and its session is not authenticated and encrypted.
        SourceUnreadable: there are no credentials of the name that the settings say.
    """

    name: ClassVar[str] = "Spark"
    dialect: ClassVar[Dialect] = "pyspark"
    log_name: ClassVar[str] = LOG
    remedy: ClassVar[str] = "Look which Spark `spark.master` in sudare.toml names, and run again"

    def __init__(self, settings: SparkSettings, folder: Path, *, lock: int | None = None) -> None:
        start = start_of(settings, scratch_of(folder))
        command = [str(settings.python), "-I", spark_worker.__file__]
        try:
            super().__init__(command, folder, environment=start.environment, lock=lock)
        except OSError as error:
            allowed, remedy = "the Python of an environment with pyspark", "correct `spark.python` in sudare.toml"
            found = Finding("workspace", "spark.python", error.strerror or "not to be run", allowed, remedy)
            raise EngineFailed(str(found)) from None
        try:
            self._start(settings, start.request)
        except BaseException:
            self.close()
            raise

    def _start(self, settings: SparkSettings, request: Mapping[str, Any]) -> None:
        """Start the session, and let nothing else be asked before it has said how it is guarded."""
        told = self.ask("start", **request)
        if "refused" in told:
            raise refused_handshake(settings, told["refused"])
        found = [] if settings.kind == "local" else weaknesses(settings, told)
        if found:
            raise EngineNotTrusted(found)

    @staticmethod
    def kind_of(written: str) -> ValueKind | None:
        """Return the kind of one of Spark's types, or None."""
        return "fixed" if _DECIMAL.fullmatch(written) else _KINDS.get(written)

    @staticmethod
    def hash_sql(columns: Sequence[str], relation: str) -> str:
        """Write the keyed sums in Spark's SQL.

        The CRC-32 of 4 bytes is one to one, so its sums tell as much as those of the bytes read as numbers, which
        Spark takes ten times as long to read (`conv`).
        """
        row = ", ',', ".join(f"CAST({name} AS STRING)" for name in columns)
        digest = f"unhex(sha2(concat(hash_outer, sha2(concat(hash_inner, {row}), 256)), 256))"
        sums = ", ".join(f"sum(crc32(substring(h, {1 + 4 * part}, 4)))" for part in range(8))
        return f"SELECT count(*), {sums} FROM (SELECT {digest} AS h FROM {relation})"
