"""One way to write JSON, so that equal things have equal bytes and equal digests."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final

_CANONICAL: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def canonical_json(value: Any) -> bytes:
    """Encode `value` as JSON with sorted keys, no spaces, UTF-8, and no NaN.

    Raises:
        ValueError: the value holds a NaN or an infinity.
    """
    return _CANONICAL.encode(value).encode("utf-8")


def readable_json(value: Any) -> bytes:
    """Encode `value` as canonical JSON for people: sorted keys, two-space indents, one final newline."""
    text = json.dumps(value, sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8") + b"\n"


def digest(value: Any) -> str:
    """Return the SHA-256 (lowercase hex) of the canonical JSON of `value`."""
    return hashlib.sha256(canonical_json(value)).hexdigest()
