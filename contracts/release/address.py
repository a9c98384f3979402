"""The base of every kind of address: a place that is no path, from which rows come or to which copies go.

An address never holds a credential, and has one canonical name, however it is written: the name is what the ledger
binds to people, so two spellings of one table must not become two sources. A kind is one subclass, registered in
`contracts.release.address` or by a package. What opens a source of a kind, and what copies versions to it, is
registered under the same name in `tasks.storage.sources.source` and `tasks.storage.sinks.sink_kinds`.
"""

from __future__ import annotations

import ipaddress
import os
import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from difflib import get_close_matches
from typing import ClassVar, Final, Self
from urllib.parse import parse_qsl, quote, unquote

from contracts.plug_ins import PlugInAway, absent_extension, find, others
from contracts.reading.scalars import Problem, refuse, show

CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_HOST: Final = re.compile(r"(?=.{1,253}\Z)[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*")


class Address(ABC):
    """A place by its canonical name, which `str` gives."""

    kind: ClassVar[str]
    """The name under which the kind is registered."""
    options: ClassVar[frozenset[str]] = frozenset()
    """What may stand behind a `?`; all else could be a credential, and is refused unseen."""
    at_signs: ClassVar[bool] = True
    """Whether an @ may stand behind the host, in the name of an object; before it, it is always refused."""
    has_tables: ClassVar[bool] = False
    """Whether a source there names one of several tables."""
    takes_credentials: ClassVar[bool] = True
    """Whether `credentials:` may be named beside it."""
    typed: ClassVar[bool] = False
    """Whether a format of its own stores columns by type."""
    gate: ClassVar[str | None] = None
    """What has to hold for rows of a format of its own to be read, in a record's words; None for one of ours."""
    package: ClassVar[tuple[str, str] | None] = None
    """A module that the kind needs, and the extra of ours that installs it."""

    @classmethod
    @abstractmethod
    def read(cls, scheme: str, rest: str, written: str) -> Self:
        """Read an address.

        Args:
            scheme: what stands before `://`, in lower case.
            rest: what stands behind it.
            written: all of it; in messages only as `shown` gives it.
        Raises:
            PydanticCustomError: it cannot be read; the message holds nothing that could be a credential.
        """

    @abstractmethod
    def __str__(self) -> str:
        """Return the canonical name."""

    @abstractmethod
    def table_format(self, files: str | None) -> str | None:
        """Return the format of a table there, None for one that cannot be told; `files` is what the spec says."""

    def source_name(self, table: str | None, *, folder: bool) -> str:
        """Return the canonical name of a table there."""
        return str(self)

    def misplaced(self, files: str | None) -> Problem | None:
        """Say what of a source's kind is not to be had there."""
        return None

    def table_problems(self, table: str) -> list[Problem]:
        """List what is wrong with the name of a table."""
        return []


def shown(written: str) -> str:
    """Show an address, unless it could hide a secret."""
    return "an address that cannot be read" if "@" in written else show(written)


def host_and_port(authority: str, default: int, written: str) -> tuple[str, int]:
    """Split HOST[:PORT]; names in lower case without a final dot, this machine's own names as `localhost`."""
    bracketed = re.fullmatch(r"\[([^\]]*)\](?::(.*))?", authority)
    host, _, port = (bracketed[1], "", bracketed[2] or "") if bracketed else authority.partition(":")
    return _canonical_host(host, written), port_of(port, default, written)


def _canonical_host(host: str, written: str) -> str:
    host = host.lower().removesuffix(".")
    try:
        number = ipaddress.ip_address(host)
    except ValueError:
        # A last part in digits is a number in another spelling (127.1, 0x7f000001): one machine, a second name.
        if not _HOST.fullmatch(host) or re.fullmatch(r"[0-9]+|0x[0-9a-f]*", host.rpartition(".")[2]):
            refuse([Problem(shown(written), "the name or the number of a host", "correct the address")])
        return host
    number = getattr(number, "ipv4_mapped", None) or number
    # Whoever dials 0.0.0.0 or :: reaches this machine.
    return "localhost" if number.is_loopback or number.is_unspecified else str(number)


def port_of(text: str, default: int, written: str) -> int:
    """Read a port; the default where none is written."""
    if not text:
        return default
    if not re.fullmatch(r"[0-9]{1,5}", text) or not 0 < int(text) < 2**16:
        refuse([Problem(shown(written), "a port from 1 to 65535", "correct the address")])
    return int(text)


def bracketed(host: str) -> str:
    """Write a host so that a port may follow."""
    return f"[{host}]" if ":" in host else host


# --- The address of a PostgreSQL database.


POSTGRES_PORT: Final = 5432
_POSTGRES_NAME_BYTES: Final = 63
CUT_OFF: Final = (
    "a name that PostgreSQL cuts off",
    f"at most {_POSTGRES_NAME_BYTES} bytes a name",
    "write the name as the server has it",
)
"""Why a longer name is refused: all that begin alike would be one table. What is found, allowed, and to be done."""


@dataclass(frozen=True)
class PostgresAddress(Address):
    """A PostgreSQL database.

    Args:
        host: the host in its canonical spelling, or None for a socket.
        port: the port.
        database: the database; upper and lower case differ.
        socket: the folder of the Unix socket, links followed, or None for TCP.
    """

    kind: ClassVar[str] = "postgresql"
    options: ClassVar[frozenset[str]] = frozenset({"host", "port"})
    at_signs: ClassVar[bool] = False
    has_tables: ClassVar[bool] = True

    host: str | None
    port: int
    database: str
    socket: str | None = None

    def __str__(self) -> str:
        """The canonical name."""
        if self.socket is not None:
            return f"postgresql:///{quote(self.database, safe='')}?host={self.socket}&port={self.port}"
        return f"postgresql://{bracketed(self.host or '')}:{self.port}/{quote(self.database, safe='')}"

    @property
    def is_local(self) -> bool:
        """Whether what it says stays on this machine."""
        return self.socket is not None or self.host == "localhost"

    @classmethod
    def read(cls, scheme: str, rest: str, written: str) -> PostgresAddress:
        """Read the address of a database."""
        place, _, query = rest.partition("?")
        authority, _, database = place.partition("/")
        database = unquote(database)
        if not database or "/" in database or CONTROL.search(database):
            refuse([Problem(shown(written), "postgresql://HOST[:PORT]/DATABASE", "name one database after the host")])
        if is_cut_off(database):
            refuse([Problem(*CUT_OFF)])
        options = dict(parse_qsl(query))
        if not authority and options.get("host", "").startswith("/"):
            port = port_of(options.get("port", ""), POSTGRES_PORT, written)
            return cls(None, port, database, os.path.realpath(options["host"]))
        if query or not authority:
            allowed = "postgresql://HOST[:PORT]/DATABASE, or postgresql:///DATABASE?host=/FOLDER of a socket"
            refuse([Problem(shown(written), allowed, "write the host; none is guessed")])
        host, port = host_and_port(authority, POSTGRES_PORT, written)
        return cls(host, port, database)

    def table_format(self, files: str | None) -> str:
        """Return the one format."""
        return "postgresql"

    def source_name(self, table: str | None, *, folder: bool) -> str:
        """Return the name of a table, with its schema."""
        return f"{self}::{'.'.join(split_table(table or ''))}"

    def misplaced(self, files: str | None) -> Problem | None:
        """Refuse files of a database."""
        return (
            None
            if files is None
            else Problem("`files` for a database", "`files` for a folder", "drop it", ("files",))
        )

    def table_problems(self, table: str) -> list[Problem]:
        """List what is wrong with TABLE or SCHEMA.TABLE."""
        problems, parts = [], split_table(table)
        if not all(parts):
            problems.append(Problem(show(table), "TABLE or SCHEMA.TABLE", "name one table", ("table",)))
        if any(is_cut_off(part) for part in parts):
            problems.append(Problem(*CUT_OFF, ("table",)))
        return problems


def is_cut_off(name: str) -> bool:
    """Say whether PostgreSQL would cut a name off."""
    return len(name.encode(errors="surrogatepass")) > _POSTGRES_NAME_BYTES


def split_table(written: str) -> tuple[str, str]:
    """Split TABLE or SCHEMA.TABLE of PostgreSQL; the schema is `public` where none is written."""
    schema, dot, table = written.partition(".")
    return (schema, table) if dot else ("public", written)


# --- The kinds of addresses by their schemes.


GROUP: Final = "sudare.addresses"
_SCHEMES: Final = dict.fromkeys(("postgresql", "postgres"), "contracts.release.address:PostgresAddress")


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
    kind = _kind_of(scheme)
    _refuse_secrets(kind, rest)
    if kind is not None:
        return kind.read(scheme, rest, written)
    extension = absent_extension(GROUP, scheme)
    if extension is not None:
        found = f"{scheme}://, which needs the extension {extension}, which is not installed"
        refuse([Problem(found, _allowed(), f"install Sudare with {extension}, or copy the table to a file")])
    close = get_close_matches(scheme, [*_SCHEMES, *others(GROUP, _SCHEMES)], 1)
    remedy = f"write {close[0]}://" if close else "copy the table to a file, or install the package that reads it"
    refuse([Problem(f"an address that begins with {show(scheme + '://')}", _allowed(), remedy)])


def _allowed() -> str:
    """Name what an address may begin with; a `+` and another address behind it are the kind's to explain."""
    plain = (f"{scheme}://..." for scheme in others(GROUP, _SCHEMES) if "+" not in scheme)
    return ", ".join(["postgresql://HOST/DATABASE", *plain])


def _kind_of(scheme: str) -> type[Address] | None:
    registered = find(GROUP, _SCHEMES, scheme)
    try:
        kind: type[Address] | None = None if registered is None else registered.load(Address)
    except PlugInAway as error:
        refuse([Problem(f"{scheme}://, {error.found}", error.allowed, error.remedy)])
    return kind


def _refuse_secrets(kind: type[Address] | None, rest: str) -> None:
    """Refuse whatever could be a credential, before anything of the address is shown."""
    remedy = "take it out, change that password, and put the new one into the environment (docs/platform.md)"
    if "@" in rest.partition("/")[0] or (kind is not None and not kind.at_signs and "@" in rest):
        allowed = "an address without user and password: a spec holds no credentials"
        refuse([Problem("a user or a password in an address", allowed, remedy)])
    options = {name.lower() for name, _ in parse_qsl(rest.partition("?")[2], keep_blank_values=True)}
    if "?" in rest and not (kind is not None and kind.options and options <= kind.options):
        remedy = "take them out; settings come from the environment, and a password that stood there is to be changed"
        refuse([Problem("options behind a `?` in an address", "an address without options", remedy)])
