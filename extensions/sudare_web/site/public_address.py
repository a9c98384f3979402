"""Under which address readers meet the site: the hosts that a request may name.

A name that is none of the site's is refused. Otherwise a page of somebody else could point its own name at this
machine and read the site through a reader's browser (DNS rebinding). An address in numbers cannot
be pointed anywhere.

The site itself speaks plain HTTP, so it cannot see whether a proxy in front of it speaks TLS, or under which name.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from contracts.errors import Finding, SpecRefused

EVERYWHERE: Final = ("0.0.0.0", "::")
"""What a server listens on that is to be reached by all addresses of its machine."""
_DEFAULT_PORT: Final = 443


@dataclass(frozen=True)
class PublicAddress:
    """The address of a proxy with TLS, behind which the site is.

    Args:
        origin: as browsers tell it: scheme, host in lower case, and the port unless it is the scheme's own.
    """

    origin: str

    @classmethod
    def read(cls, url: str) -> PublicAddress:
        """Read what the command line says; `SpecRefused` where it is no address that the site can have."""
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError:
            raise _refused(url) from None
        rest = (parts.username, parts.password, parts.query, parts.fragment)
        clean = url.isascii() and url.isprintable() and " " not in url
        if not clean or parts.scheme != "https" or not host or any(rest) or parts.path not in ("", "/"):
            raise _refused(url)
        named = f"[{host}]" if ":" in host else host
        return cls(f"https://{named}" + ("" if port in (None, _DEFAULT_PORT) else f":{port}"))


def is_our_host(public: PublicAddress | None, *, listening: str, host: str | None) -> bool:
    """Say whether a request names this site.

    Args:
        public: the address behind which the site is, where it is told.
        listening: the address or name that the site listens on.
        host: the request's Host header.
    Returns:
        bool: of this machine's loopback, of `listening`, of the public address; and, where the site listens on every
            address, of any address in numbers.
    """
    name = _name_in(host)
    if name is None:
        return False
    if _is_loopback(name) or name == listening.lower():
        return True
    if public is not None and name == urlsplit(public.origin).hostname:
        return True
    return listening in EVERYWHERE and _address(name) is not None


def _name_in(host: str | None) -> str | None:
    """Return the name or address in a Host header, in lower case; None where there is none, or more than that."""
    try:
        parts = urlsplit(f"//{host or ''}")
        rest = (parts.username, parts.password, parts.path, parts.query, parts.fragment)
        return None if any(rest) or parts.port == 0 else parts.hostname
    except ValueError:
        return None


def _is_loopback(name: str) -> bool:
    found = _address(name)
    return name == "localhost" if found is None else found.is_loopback


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


def _refused(url: str) -> SpecRefused:
    allowed = "https and the host of the proxy, such as https://review.example.org, without a path"
    return SpecRefused([Finding("the command", "--public-url", repr(url[:200]), allowed)])
