"""Reading what a stranger wrote: JSON in its one canonical form, with limits, and findings instead of exceptions."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from itertools import chain
from typing import Any, Final, NoReturn

from contracts.canonical import readable_json
from contracts.errors import Finding
from contracts.reading.scalars import DIRECTION_MARKS

LARGEST_JSON: Final = 64 * 2**20
DEEPEST: Final = 40
MOST_VALUES: Final = 2**22
_SHOWN: Final = 100
_MARKS: Final = re.compile(f"[{DIRECTION_MARKS}]")
CHANGED: Final = "the file is not as it was published: get the version again from its publisher"


def shown(value: object) -> str:
    """Show a value that a stranger wrote: on one line, escaped, and short."""
    if isinstance(value, dict | list | tuple):
        what = "an object" if isinstance(value, dict) else "a list"
        return f"{what} of {len(value)}" if value else f"{what} without entries"
    text = "null" if value is None else repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def printable(text: str) -> str:
    """Escape what a terminal must not see in a name that a stranger chose, and cut it short."""
    safe = text if text.isprintable() else repr(text)[1:-1]
    return safe if len(safe) <= _SHOWN else f"{safe[: _SHOWN - 1]}…"


def read_json(
    data: bytes, *, where: str, written: Callable[[Any], bytes] = readable_json
) -> tuple[Any, list[Finding]]:
    """Read JSON and check that it stands in its one written form, byte for byte.

    Args:
        data: the file's bytes.
        where: the file's name, for the findings.
        written: writes a value in the form that is allowed; the canonical readable one without it.
    Returns:
        tuple: the value (None where there is none to read), and what is wrong.
    """
    if len(data) > LARGEST_JSON:
        return None, [Finding(where, "size", f"{len(data)} bytes", f"at most {LARGEST_JSON}", CHANGED)]
    try:
        value = json.loads(data.decode("utf-8"), parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        found = f"byte 0x{data[error.start]:02x}, which is no UTF-8"
        return None, [Finding(where, _place(data, error.start), found, "JSON in UTF-8", CHANGED)]
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        return None, [Finding(where, place, error.msg, "JSON", CHANGED)]
    except (RecursionError, ValueError) as error:
        found = "too deeply nested" if isinstance(error, RecursionError) else printable(str(error))
        return None, [Finding(where, "the file", found, "JSON of plain numbers and texts", CHANGED)]
    wrong = "null" if value is None else _too_large(value)
    if wrong is not None:
        allowed = f"an object of a few levels, with at most {MOST_VALUES:,} values"
        return None, [Finding(where, "the file", wrong, allowed, CHANGED)]
    try:
        expected = written(value)
    except ValueError as error:
        return None, [Finding(where, "the file", printable(str(error)), "values that JSON can hold", CHANGED)]
    if data != expected:
        return value, [other_form(data, expected, where)]
    # Neither a spec nor a contract may hold such marks, so no version of ours does; canonical form escapes none.
    mark = _MARKS.search(data.decode("utf-8"))
    if mark is None:
        return value, []
    found = f"the direction mark U+{ord(mark.group()):04X}"
    place = _place(data, len(mark.string[: mark.start()].encode()))
    return value, [Finding(where, place, found, "text that reads in the order in which it is written", CHANGED)]


def other_form(data: bytes, expected: bytes, where: str) -> Finding:
    """Name the first byte at which the file leaves the one form that its value has."""
    pairs = zip(data, expected, strict=False)
    at = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(data), len(expected)))
    allowed = f"{shown(expected[at : at + 24])}: each key once and in order, two-space indents, one final newline"
    return Finding(where, _place(data, at), shown(data[at : at + 24]), allowed, CHANGED)


def _place(data: bytes, at: int) -> str:
    """Name a byte by its line and its number, from 1."""
    return f"line {data.count(bytes([10]), 0, at) + 1}, byte {at + 1}"


def _too_large(value: Any) -> str | None:
    """Say that a value has too many levels or values, without recursion; None where it has not."""
    level, values = [value], 1
    for _ in range(DEEPEST):
        parents = [each for each in level if isinstance(each, (dict, list))]
        level = list(chain.from_iterable(each.values() if isinstance(each, dict) else each for each in parents))
        values += len(level)
        if values > MOST_VALUES:
            return f"more than {MOST_VALUES:,} values"
        if not level:
            return None
    return f"nested more than {DEEPEST} levels deep"


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")
