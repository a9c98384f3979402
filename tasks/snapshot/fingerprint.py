"""Whether a source is still the one that was read: its place, size, times and inode, never a look at its rows."""

from __future__ import annotations

import hashlib
import hmac
from pathlib import Path

from contracts.canonical import canonical_json
from contracts.spec import Source
from tasks.snapshot.snapshot import subkey

SIDECARS = (".wal", "-wal", "-journal")


def fingerprint(source: Source, key: bytes) -> str:
    """Fingerprint a source under a key.

    Any write to the file changes it (a copy of the same bytes does too; reading again then costs time only).

    Args:
        source: the source; its file must exist.
        key: the workspace's snapshot key.
    Returns:
        HMAC-SHA256, 64 hexadecimal digits.
    """
    files = [source.path, *(source.path.with_name(source.path.name + end) for end in SIDECARS)]
    facts = {
        "what": [str(source.path), source.format, source.table, source.select, source.delimiter],
        "files": [_facts(path) for path in files],
    }
    return hmac.digest(subkey(key, "fingerprint"), canonical_json(facts), hashlib.sha256).hex()


def _facts(path: Path) -> list[int]:
    """Return what changes when a file is written; an empty sidecar is as good as none."""
    if not path.exists():
        return []
    seen = path.stat()
    return [seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns] if seen.st_size else []
