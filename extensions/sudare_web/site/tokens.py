"""Who may read metrics: holders of tokens. The file keeps a name and the SHA-256 of a token a line, mode 0600."""

from __future__ import annotations

import hashlib
import hmac
import re
import stat
from pathlib import Path
from typing import Final

from contracts.errors import Finding, SpecRefused

_LINE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63} ([0-9a-f]{64})")


class Tokens:
    """The tokens of a file, as it is now: a line that was deleted ends its token at once.

    Args:
        file: names and hashes of tokens.
    Raises:
        SpecRefused: the file cannot be followed, or others can read it.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        _digests(file)

    def holds(self, token: str) -> bool:
        """Say whether the file has a token; none while the file cannot be followed."""
        digest = hashlib.sha256(token.strip().encode()).hexdigest()
        try:
            return any(hmac.compare_digest(kept, digest) for kept in _digests(self._file))
        except SpecRefused:
            return False


def _digests(file: Path) -> list[str]:
    try:
        seen = file.stat()
    except OSError as error:
        raise _refused(str(file), "file", error.strerror or type(error).__name__, "a file of tokens") from None
    if not stat.S_ISREG(seen.st_mode):
        raise _refused(str(file), "file", "something else than a file", "a file of tokens")
    if seen.st_mode & 0o077:
        found = f"mode {stat.S_IMODE(seen.st_mode):04o}: others can read or change it"
        raise _refused(str(file), "mode", found, "mode 0600", f"chmod 600 {file.name}, and give out new tokens")
    digests = []
    for number, line in enumerate(file.read_text(encoding="utf-8", errors="replace").splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        read = _LINE.fullmatch(line.strip())
        if read is None:
            allowed = "NAME and the SHA-256 of a token, 64 hex digits"
            raise _refused(f"{file}:{number}", "token", "another form", allowed)
        digests.append(read[1])
    return digests


def _refused(where: str, field: str, found: str, allowed: str, remedy: str = "") -> SpecRefused:
    return SpecRefused([Finding(where, field, found, allowed, remedy)])
