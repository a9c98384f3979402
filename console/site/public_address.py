"""Under which address readers meet the site: what a login's cookie, and the forms that are sent, are held against.

The site itself speaks plain HTTP, so it cannot see whether a proxy in front of it speaks TLS, or under which name.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from contracts.errors import Finding, SpecRefused

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
    try:
        name = urlsplit(f"//{host or ''}").hostname or ""
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _refused(url: str) -> SpecRefused:
    allowed = "https and the host of the proxy, such as https://review.example.org, without a path"
    return SpecRefused([Finding("the command", "--public-url", repr(url[:200]), allowed)])
