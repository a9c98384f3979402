"""Who may see the auditor rendering: holders of a token, or whoever a trusted proxy says is one.

Tokens are 256 random bits. The file keeps their SHA-256 only; a token that was guessed right is as unlikely as a
forged signature, so a plain hash does. A login makes a session that the server remembers and the cookie only names.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import os
import re
import secrets
import stat
import threading
from dataclasses import dataclass
from pathlib import Path
from time import time
from typing import Final

from contracts.errors import Finding, Refused

COOKIE: Final = "sudare_auditor"
LASTING_SECONDS: Final = 8 * 3600
_MOST_SESSIONS: Final = 1_000
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_LINE: Final = re.compile(rf"({_NAME.pattern}) ([0-9a-f]{{64}})")
_HEADER: Final = re.compile(r"[A-Za-z0-9-]{1,64}")


class AuditorsRefused(Refused):
    """The file of auditors, or the proxy's terms, cannot be followed."""


@dataclass(frozen=True)
class TrustedProxy:
    """A reverse proxy that says who asks.

    Args:
        header: name of the header that names the auditor.
        address: where its requests come from; the header of anybody else is ignored.
    """

    header: str
    address: ipaddress.IPv4Address | ipaddress.IPv6Address

    @classmethod
    def read(cls, header: str, address: str) -> TrustedProxy:
        """Read what the command line says; `AuditorsRefused` where it cannot be followed."""
        if not _HEADER.fullmatch(header):
            raise _refused("the command", "--auditor-header", repr(header), "a header's name, such as X-Auditor")
        try:
            return cls(header.lower(), ipaddress.ip_address(address))
        except ValueError:
            allowed = "the address that the proxy connects from, such as 127.0.0.1"
            raise _refused("the command", "--trusted-proxy", repr(address), allowed) from None

    def vouches(self, peer: str | None) -> bool:
        """Say whether a request comes from the proxy."""
        try:
            found = ipaddress.ip_address(peer or "")
        except ValueError:
            return False
        mapped = getattr(found, "ipv4_mapped", None)
        return (mapped or found) == self.address


class Auditors:
    """Who is an auditor.

    Args:
        file: names and hashes of tokens; None where only a proxy vouches.
        proxy: the trusted proxy; None where only tokens count.
    Raises:
        AuditorsRefused: the file cannot be followed, or others can read it.
    """

    def __init__(self, file: Path | None, proxy: TrustedProxy | None = None) -> None:
        self._file, self.proxy = file, proxy
        self._lock = threading.Lock()
        self._sessions: dict[str, tuple[str, str, float]] = {}
        self._read: tuple[tuple[int, int, int], dict[str, str]] | None = None
        if file is not None:
            self._tokens()

    @property
    def by_token(self) -> bool:
        """Whether there is a login."""
        return self._file is not None

    def holder(self, token: str) -> str | None:
        """Return whose token it is, or None."""
        told = _digest(token.strip())
        matching = [name for name, kept in self._current_tokens().items() if hmac.compare_digest(kept, told)]
        return matching[0] if matching else None

    def log_in(self, token: str) -> str | None:
        """Return the secret of a new session, or None for a token that is nobody's."""
        name, told = self.holder(token), _digest(token.strip())
        if name is None:
            return None
        secret = secrets.token_urlsafe(32)
        with self._lock:
            now = time()
            self._sessions = {key: each for key, each in self._sessions.items() if each[2] > now}
            while len(self._sessions) >= _MOST_SESSIONS:
                del self._sessions[next(iter(self._sessions))]
            self._sessions[_digest(secret)] = (name, told, now + LASTING_SECONDS)
        return secret

    def log_out(self, secret: str) -> None:
        """End a session."""
        with self._lock:
            self._sessions.pop(_digest(secret), None)

    def who(self, secret: str | None, *, peer: str | None, header: str | None) -> str | None:
        """Return the name of the auditor who asks, or None.

        Args:
            secret: the session's, from the cookie.
            peer: address that the request comes from.
            header: what the trusted proxy's header says.
        """
        if self.proxy is not None and header and self.proxy.vouches(peer) and _NAME.fullmatch(header):
            return header
        if not secret or self._file is None:
            return None
        with self._lock:
            held = self._sessions.get(_digest(secret))
        if held is None or held[2] <= time():
            return None
        name, token_digest, _ = held
        return name if self._current_tokens().get(name) == token_digest else None

    def _current_tokens(self) -> dict[str, str]:
        """Return the tokens as the file has them now; none while it cannot be followed."""
        try:
            return self._tokens()
        except AuditorsRefused:
            return {}

    def _tokens(self) -> dict[str, str]:
        if self._file is None:
            return {}
        seen = _looked_at(self._file)
        mark = (seen.st_ino, seen.st_size, seen.st_mtime_ns)
        if self._read is None or self._read[0] != mark:
            self._read = (mark, _tokens_in(self._file))
        return self._read[1]


def add_auditor(file: Path, name: str) -> str:
    """Give somebody a token: write its hash into the file (made where it is missing, mode 0600) and return it.

    Raises:
        AuditorsRefused: the name cannot be used or has a token already, or the file cannot be followed or written.
    """
    if not _NAME.fullmatch(name):
        allowed = "up to 64 letters, digits, dots, hyphens, underscores and @"
        raise _refused("the command", "--add-auditor", repr(name[:80]), allowed)
    if file.exists() and name in _tokens_in(file):
        found, remedy = f"a token of {name}", f"delete the line of {name} to give a new one"
        raise _refused(str(file), "auditors", found, "one token each", remedy)
    token = secrets.token_urlsafe(32)
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as written:
            written.write(f"{name} {hashlib.sha256(token.encode()).hexdigest()}\n")
    except OSError as error:
        found = error.strerror or type(error).__name__
        raise _refused(str(file), "file", found, "a file that can be written") from None
    return token


def _tokens_in(file: Path) -> dict[str, str]:
    """Read the file: a name and the SHA-256 of a token a line."""
    _looked_at(file)
    tokens: dict[str, str] = {}
    for number, line in enumerate(file.read_text(encoding="utf-8", errors="replace").splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        read = _LINE.fullmatch(line.strip())
        if read is None:
            found, allowed = "another form", "NAME and the SHA-256 of a token, 64 hex digits"
            remedy = "make lines with: sudare serve --auditors FILE --add-auditor NAME"
            raise _refused(f"{file}:{number}", "auditor", found, allowed, remedy)
        tokens[read[1]] = read[2]
    return tokens


def _looked_at(file: Path) -> os.stat_result:
    """Refuse a file that is not there, or that others may read or change."""
    try:
        seen = file.stat()
    except OSError as error:
        remedy = "make it with: sudare serve --auditors FILE --add-auditor NAME"
        found = error.strerror or type(error).__name__
        raise _refused(str(file), "file", found, "the file of auditors' tokens", remedy) from None
    if not stat.S_ISREG(seen.st_mode):
        raise _refused(str(file), "file", "something else than a file", "the file of auditors' tokens")
    if seen.st_mode & 0o077:
        found = f"mode {stat.S_IMODE(seen.st_mode):04o}: others can read or change it"
        raise _refused(str(file), "mode", found, "mode 0600", f"chmod 600 {file.name}, and give out new tokens")
    return seen


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _refused(where: str, field: str, found: str, allowed: str, remedy: str = "") -> AuditorsRefused:
    return AuditorsRefused([Finding(where, field, found, allowed, remedy)])
