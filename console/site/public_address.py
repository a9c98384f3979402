"""Under which address readers meet the site: what a Host, a login's cookie and forms that are sent are held against.

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


def must_be_secure(public: PublicAddress | None, *, scheme: str, host: str | None) -> bool:
    """Say whether a login's cookie may travel by TLS alone: always, unless the browser is on this very machine.

    Args:
        public: the address behind which the site is, where it is told.
        scheme: of the request, as the site sees it.
        host: the request's Host header.
    """
    return public is not None or scheme == "https" or not _on_this_machine(host)


def is_our_origin(public: PublicAddress | None, *, origin: str, host: str | None) -> bool:
    """Say whether a form comes from a page of this site.

    Args:
        public: the address behind which the site is; without one it is the Host header, as the proxy leaves it.
        origin: the request's Origin header.
        host: the request's Host header.
    """
    return origin == public.origin if public is not None else origin.partition("://")[2] == host


def _on_this_machine(host: str | None) -> bool:
    name = _name_in(host)
    return name is not None and _is_loopback(name)


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
