"""What a public record says, as plain text: for files that other programs and other people read."""

from __future__ import annotations

from typing import Any, Final

from tasks.records.groups.field import NONE, NOT_AVAILABLE, WITHHELD
from tasks.records.values import Values

SILENT: Final = frozenset({NOT_AVAILABLE, WITHHELD})


def public_field(values: Values, path: str) -> Any:
    """Return what a field says; None where there is no such field, or it says nothing to the public."""
    value = values.get(path)
    return None if isinstance(value, str) and value in SILENT else value


def plain(value: Any) -> str:
    """Write any value of a record as text in a line: entries by commas, parts by semicolons."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return "; ".join(
            f"{key.replace('_', ' ')}: {plain(part)}" for key, part in value.items() if says_anything(part)
        )
    if isinstance(value, list):
        nested = any(isinstance(part, dict) for part in value)
        return (" | " if nested else ", ").join(plain(part) for part in value)
    return str(value)


def says_anything(value: Any) -> bool:
    """Say whether a value says anything: it is there, and not that there is none."""
    return value not in (None, "", NONE, [], {}) and not (isinstance(value, str) and value in SILENT)


def sentence(values: Values, path: str) -> str:
    """Write a field as text; empty where it says nothing."""
    value = public_field(values, path)
    return plain(value) if says_anything(value) else ""


def bullets(*lines: str) -> str:
    """Write lines as a list, empty ones left out; a single one stays a sentence."""
    kept = [line for line in lines if line]
    return kept[0] if len(kept) == 1 else "\n".join(f"- {line}" for line in kept)
