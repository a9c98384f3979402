"""Addresses of tables that are not files here: a PostgreSQL database, objects of an S3-compatible store.

An address never holds a credential, and has one canonical name, however it is written: the name is what the ledger
binds to people, so two spellings of one table must not become two sources.

    postgresql://HOST[:PORT]/DATABASE             over TCP; port 5432 where none is written
    postgresql:///DATABASE?host=FOLDER[&port=N]   over the Unix socket in FOLDER
    s3://BUCKET/KEY                               Amazon S3
    s3+https://HOST[:PORT]/BUCKET/KEY             another store that speaks S3; s3+http on this machine only
"""

from __future__ import annotations

import ipaddress
import os
import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, quote, unquote

from contracts.reading.scalars import Problem, refuse, show

POSTGRES_PORT: Final = 5432
_POSTGRES_NAME_BYTES: Final = 63
CUT_OFF: Final = (
    "a name that PostgreSQL cuts off",
    f"at most {_POSTGRES_NAME_BYTES} bytes a name",
    "write the name as the server has it",
)
"""Why a longer name is refused: all that begin alike would be one table. What is found, allowed, and to be done."""
_PORTS: Final = {"s3+https": 443, "s3+http": 80}
_POSTGRES: Final = ("postgresql", "postgres")
_S3: Final = ("s3", *_PORTS)
_ALIASES: Final = {"s3a": "s3", "s3n": "s3", "postgresql+psycopg": "postgresql", "https": "s3+https"}
_HOST: Final = re.compile(r"(?=.{1,253}\Z)[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*")
_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_AMAZON: Final = re.compile(r"(.*\.)?(amazonaws\.com(\.cn)?|api\.aws)")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
ALLOWED: Final = "postgresql://HOST/DATABASE, s3://BUCKET/KEY or s3+https:// before HOST/BUCKET/KEY"


@dataclass(frozen=True)
class PostgresAddress:
    """A PostgreSQL database.

    Args:
        host: the host in its canonical spelling, or None for a socket.
        port: the port.
        database: the database; upper and lower case differ.
        socket: the folder of the Unix socket, links followed, or None for TCP.
    """

    host: str | None
    port: int
    database: str
    socket: str | None = None

    def __str__(self) -> str:
        """The canonical name."""
        if self.socket is not None:
            return f"postgresql:///{quote(self.database, safe='')}?host={self.socket}&port={self.port}"
        return f"postgresql://{_bracketed(self.host or '')}:{self.port}/{quote(self.database, safe='')}"

    @property
    def is_local(self) -> bool:
        """Whether what it says stays on this machine."""
        return self.socket is not None or self.host == "localhost"


@dataclass(frozen=True)
class S3Address:
    """An object of an S3-compatible store, or what lies below a prefix of keys.

    Args:
        endpoint: scheme, host and port of the store; None for Amazon S3.
        bucket: the bucket.
        key: the key of one object, or a prefix without a slash at its end; exact, letter by letter.
    """

    endpoint: str | None
    bucket: str
    key: str

    def __str__(self) -> str:
        """The canonical name."""
        start = "s3://" if self.endpoint is None else f"s3+{self.endpoint}/"
        return f"{start}{self.bucket}/{self.key}"


Address = PostgresAddress | S3Address


def is_address(written: str) -> bool:
    """Say whether a text is meant as an address rather than as a path."""
    return "://" in written


def read_address(written: str) -> Address:
    """Read an address.

    Raises:
        PydanticCustomError: it cannot be read, or holds a user, a password or an option; the message shows neither.
    """
    scheme, _, rest = written.partition("://")
    scheme = scheme.lower()
    _refuse_secrets(scheme, rest)
    if scheme in _POSTGRES:
        return _postgres(written, rest)
    if scheme in _S3:
        return _s3(scheme, written, rest)
    better = _ALIASES.get(scheme)
    remedy = f"write {better}://" if better else "copy the table to a file, or to one of these"
    refuse([Problem(f"an address that begins with {show(scheme + '://')}", ALLOWED, remedy)])


def _shown(written: str) -> str:
    """Show an address, unless it could hide a secret."""
    return "an address that cannot be read" if "@" in written else show(written)


def _refuse_secrets(scheme: str, rest: str) -> None:
    """Refuse whatever could be a credential, before anything of the address is shown."""
    remedy = "take it out, change that password, and put the new one into the environment (docs/platform.md)"
    if "@" in rest.partition("/")[0] or (scheme in _POSTGRES and "@" in rest):
        allowed = "an address without user and password: a spec holds no credentials"
        refuse([Problem("a user or a password in an address", allowed, remedy)])
    options = {name.lower() for name, _ in parse_qsl(rest.partition("?")[2], keep_blank_values=True)}
    if "?" in rest and not (scheme in _POSTGRES and options <= {"host", "port"}):
        refuse([Problem("options behind a `?` in an address", "an address without options", remedy)])


def _postgres(written: str, rest: str) -> PostgresAddress:
    place, _, query = rest.partition("?")
    authority, _, database = place.partition("/")
    database = unquote(database)
    if not database or "/" in database or _CONTROL.search(database):
        refuse([Problem(_shown(written), "postgresql://HOST[:PORT]/DATABASE", "name one database after the host")])
    if is_cut_off(database):
        refuse([Problem(*CUT_OFF)])
    options = dict(parse_qsl(query))
    if not authority and options.get("host", "").startswith("/"):
        port = _port(options.get("port", ""), POSTGRES_PORT, written)
        return PostgresAddress(None, port, database, os.path.realpath(options["host"]))
    if query or not authority:
        allowed = "postgresql://HOST[:PORT]/DATABASE, or postgresql:///DATABASE?host=/FOLDER of a socket"
        refuse([Problem(_shown(written), allowed, "write the host; none is guessed")])
    host, port = _host_and_port(authority, POSTGRES_PORT, written)
    return PostgresAddress(host, port, database)


def is_cut_off(name: str) -> bool:
    """Say whether PostgreSQL would cut a name off."""
    return len(name.encode(errors="surrogatepass")) > _POSTGRES_NAME_BYTES


def _s3(scheme: str, written: str, rest: str) -> S3Address:
    endpoint = None
    if scheme in _PORTS:
        authority, _, rest = rest.partition("/")
        host, port = _host_and_port(authority, _PORTS[scheme], written)
        if scheme == "s3+http" and host != "localhost":
            remedy = "write s3+https://: rows and keys would travel in clear text"
            refuse([Problem("s3+http:// to another machine", "s3+https://, or s3+http:// to localhost", remedy)])
        if _AMAZON.fullmatch(host):
            remedy = "write s3://BUCKET/KEY; the region comes from the environment"
            refuse([Problem("an endpoint of Amazon S3, a second name of each table there", "s3://", remedy)])
        ending = "" if port == _PORTS[scheme] else f":{port}"
        endpoint = f"{scheme.removeprefix('s3+')}://{_bracketed(host)}{ending}"
    bucket, _, key = rest.partition("/")
    if not _BUCKET.fullmatch(bucket):
        allowed = "a bucket of 3 to 63 lower-case letters, digits, dots and hyphens"
        refuse([Problem(f"another bucket in {_shown(written)}", allowed, "write s3://BUCKET/KEY")])
    key = key.rstrip("/")
    if _CONTROL.search(key) or key.startswith("/"):
        refuse([Problem("a key with control characters or a slash in front", "a key as the store lists it")])
    return S3Address(endpoint, bucket, key)


def _host_and_port(authority: str, default: int, written: str) -> tuple[str, int]:
    """Split HOST[:PORT]; names in lower case without a final dot, this machine's own names as `localhost`."""
    bracketed = re.fullmatch(r"\[([^\]]*)\](?::(.*))?", authority)
    host, _, port = (bracketed[1], "", bracketed[2] or "") if bracketed else authority.partition(":")
    return _canonical_host(host, written), _port(port, default, written)


def _canonical_host(host: str, written: str) -> str:
    host = host.lower().removesuffix(".")
    try:
        number = ipaddress.ip_address(host)
    except ValueError:
        # A last part in digits is a number in another spelling (127.1, 0x7f000001): one machine, a second name.
        if not _HOST.fullmatch(host) or re.fullmatch(r"[0-9]+|0x[0-9a-f]*", host.rpartition(".")[2]):
            refuse([Problem(_shown(written), "the name or the number of a host", "correct the address")])
        return host
    number = getattr(number, "ipv4_mapped", None) or number
    # Whoever dials 0.0.0.0 or :: reaches this machine.
    return "localhost" if number.is_loopback or number.is_unspecified else str(number)


def _port(text: str, default: int, written: str) -> int:
    if not text:
        return default
    if not re.fullmatch(r"[0-9]{1,5}", text) or not 0 < int(text) < 2**16:
        refuse([Problem(_shown(written), "a port from 1 to 65535", "correct the address")])
    return int(text)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
