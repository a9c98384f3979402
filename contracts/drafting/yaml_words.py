"""Texts and comments of a draft, written so that YAML reads the same texts, whatever a document holds."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,14}")
_WORDS_OF_YAML = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
_UNPRINTABLE = re.compile("[\x7f-\x9f\ud800-\udfff\u2028\u2029\ufeff]")
_WIDTH = 116
"""That no line passes, unless a part does."""


def yaml_text(text: str) -> str:
    """Write a text so that YAML reads the same text."""
    if _PLAIN.fullmatch(text) and text.casefold() not in _WORDS_OF_YAML:
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", quoted)


def yaml_code(text: str) -> str:
    """Write a code: a whole number as it is, all else as a text. A contract reads either as its digits."""
    return text if _WHOLE.fullmatch(text) else yaml_text(text)


def comments(lines: Iterable[str], indent: int = 0) -> Iterator[str]:
    """Write comments, a line each."""
    for line in lines:
        yield " " * indent + "# " + _UNPRINTABLE.sub("?", " ".join(line.split()))


def wrapped(opening: str, parts: Iterable[str], closing: str, *, indent: int) -> Iterator[str]:
    """Write a list or mapping in flow style, on as many lines as it needs.

    Args:
        opening: what stands before the parts, on the first line.
        parts: each of them stays on one line.
        closing: what stands behind the last one.
        indent: of the lines that follow, in spaces.
    """
    line, empty = opening, True
    listed = list(parts)
    for place, part in enumerate(listed):
        piece = part + (closing if place == len(listed) - 1 else ",")
        gap = "" if empty else " "
        if not empty and len(line) + len(gap) + len(piece) > _WIDTH:
            yield line
            line, gap = " " * indent, ""
        line, empty = line + gap + piece, False
    yield line if listed else opening + closing


def slug(name: str) -> str:
    """Write a name as an identifier."""
    return re.sub(r"[^a-z0-9]+", "-", name.casefold()).strip("-") or "contract"
