"""One way to write JSON, so that equal things have equal bytes and equal digests."""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache
from itertools import chain
from json.encoder import encode_basestring
from typing import Any, Final

_CANONICAL: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
_SCALARS: Final = frozenset({int, float, bool, str, type(None)})
_LISTS: Final = frozenset({list, tuple})
_FEW: Final = 8
"""So many scalars are written one by one in the time that it takes to make an encoder."""
_BETWEEN: Final = "\0"
"""Stands between elements until it is replaced: inside a text it would be escaped."""


def canonical_json(value: Any) -> bytes:
    """Encode `value` as JSON with sorted keys, no spaces, UTF-8, and no NaN.

    Raises:
        ValueError: the value holds a NaN or an infinity.
    """
    return _CANONICAL.encode(value).encode("utf-8")


def readable_json(value: Any) -> bytes:
    """Encode `value` as canonical JSON for people: sorted keys, two-space indents, one final newline.

    Python writes indents in Python, element by element. So lists are written without, and broken after.
    """
    return (_lines(value, "\n") + "\n").encode("utf-8")


def digest(value: Any) -> str:
    """Return the SHA-256 (lowercase hex) of the canonical JSON of `value`."""
    return hashlib.sha256(canonical_json(value)).hexdigest()


def _lines(value: Any, start: str) -> str:
    """Write a value whose own line begins with `start`, a line end and its indent."""
    kind = type(value)
    if kind in _SCALARS:
        return _scalar(value)
    inner = f"{start}  "
    if kind is dict and value and set(map(type, value)) == {str}:
        lines = [f"{inner}{encode_basestring(key)}: {_lines(value[key], inner)}" for key in sorted(value)]
        return f"{{{','.join(lines)}{start}}}"
    if kind not in _LISTS or not value:
        return _by_python(value, start)
    kinds = set(map(type, value))
    if kinds <= _SCALARS:
        return f"[{inner}{_joined(value, inner)}{start}]"
    if kinds <= _LISTS and all(value) and set(map(type, chain.from_iterable(value))) <= _SCALARS:
        deeper = f"{inner}  "
        rows = _encoder(_BETWEEN).encode(value)[2:-2].replace(f"]{_BETWEEN}[", f"{inner}],{inner}[{deeper}")
        return f"[{inner}[{deeper}{rows.replace(_BETWEEN, f',{deeper}')}{inner}]{start}]"
    return f"[{','.join([f'{inner}{_lines(each, inner)}' for each in value])}{start}]"


def _scalar(value: Any) -> str:
    """Write a scalar; texts and integers, of which there are most, without an encoder made for each."""
    kind = type(value)
    if kind is str:
        return encode_basestring(value)
    return repr(value) if kind is int else _CANONICAL.encode(value)


def _joined(values: Any, start: str) -> str:
    if len(values) <= _FEW:
        return f",{start}".join(map(_scalar, values))
    return _encoder(f",{start}").encode(values)[1:-1]


@lru_cache(maxsize=64)
def _encoder(between: str) -> json.JSONEncoder:
    return json.JSONEncoder(separators=(between, ": "), ensure_ascii=False, allow_nan=False)


def _by_python(value: Any, start: str) -> str:
    """Write empty values, and whatever else JSON takes for a list, an object or a scalar."""
    text = json.dumps(value, sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False)
    return text.replace("\n", start)
