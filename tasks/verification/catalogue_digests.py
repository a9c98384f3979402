"""Rule 10 of a verification: the catalogue entry states the manifest's digests and what the record says."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from contracts.errors import Finding
from tasks.records.descriptions.croissant import croissant
from tasks.records.explanation import RecordExplanation
from tasks.records.model.release_statement import Manifest
from tasks.records.strict_json import printable, shown
from tasks.verification.record_identity import DESCRIPTIONS, FIXED_FILES

_MOST: Final = 20
_MISDESCRIBED: Final = "the catalogue entry describes other files: go by the manifest"


def check_catalogue(value: Any, manifest: Manifest, *, where: str) -> list[Finding]:
    """Check the file objects of a Croissant description against the manifest.

    Args:
        value: croissant.json.
        manifest: the manifest.
        where: the name of the file.
    Returns:
        list[Finding]: for each described file that is not in the manifest or has another digest, and for each data
        file that is not described.
    """
    listed = value.get("distribution") if isinstance(value, dict) else None
    if not isinstance(listed, list) or not all(isinstance(part, dict) for part in listed):
        return [Finding(where, "distribution", shown(listed), "a list of file objects", _MISDESCRIBED)]
    findings = []
    described = set()
    for place, part in enumerate(listed):
        name, stated = part.get("contentUrl"), part.get("sha256")
        at = f"distribution[{place}]"
        if not isinstance(name, str) or name not in manifest.files:
            findings.append(Finding(where, f"{at}.contentUrl", shown(name), "a file of the manifest", _MISDESCRIBED))
            continue
        described.add(name)
        if stated != manifest.files[name].sha256:
            allowed = f"{manifest.files[name].sha256}, as in the manifest for {printable(name)}"
            findings.append(Finding(where, f"{at}.sha256", shown(stated), allowed, _MISDESCRIBED))
    for name in sorted(manifest.files):
        if name not in described | FIXED_FILES | DESCRIPTIONS:
            found = f"nothing about {printable(name)}"
            findings.append(Finding(where, "distribution", found, "every data file", _MISDESCRIBED))
    return findings


def check_whole(value: Any, explanation: RecordExplanation, *, where: str) -> list[Finding]:
    """Compare a Croissant description with what this code makes of the record: files and columns, each by itself.

    Args:
        value: croissant.json.
        explanation: what the record tells people; this code wrote it.
        where: the name of the file.
    """
    return [
        Finding(where, printable(at), shown(found), f"{shown(expected)}, as the record says", "go by record.json")
        for at, found, expected in islice(_different(value, croissant(explanation), ""), _MOST)
    ]


def _different(found: Any, expected: Any, at: str) -> Iterator[tuple[str, Any, Any]]:
    """Yield the places in which two JSON values differ."""
    if isinstance(found, dict) and isinstance(expected, dict):
        for key in sorted({*found, *expected}):
            yield from _different(found.get(key), expected.get(key), f"{at}.{key}" if at else key)
    elif isinstance(found, list) and isinstance(expected, list) and len(found) == len(expected):
        for place, (one, other) in enumerate(zip(found, expected, strict=True)):
            yield from _different(one, other, f"{at}[{place}]")
    elif type(found) is not type(expected) or found != expected:
        yield at, found, expected
