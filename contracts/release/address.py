"""The base of every kind of address: a place that is no path, from which rows come or to which copies go.

An address never holds a credential, and has one canonical name, however it is written: the name is what the ledger
binds to people, so two spellings of one table must not become two sources. A kind is one subclass, registered in
`contracts.release.address_kinds` or by a package. What opens a source of a kind, and what copies versions to it, is
registered under the same name in `tasks.storage.sources.source_kinds` and `tasks.storage.sinks.sink_kinds`.
"""

from __future__ import annotations

import ipaddress
import re
from abc import ABC, abstractmethod
from typing import ClassVar, Final, Self

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
