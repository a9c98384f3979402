"""Rule 10 of a verification: the catalogue entry states the manifest's digests and what the record says."""

from __future__ import annotations

from typing import Any

from contracts.errors import Finding
from tasks.records.descriptions.croissant import croissant
from tasks.records.model.version_statements import Manifest
from tasks.records.strict_json import printable, shown
from tasks.verification.record_identity import DESCRIPTIONS, FIXED_FILES

_MISDESCRIBED = "the catalogue entry describes other files: go by the manifest"


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


def check_headings(value: Any, record: dict[str, Any], *, where: str) -> list[Finding]:
    """Compare what a Croissant description says of the version as a whole with what this code makes of the record.

    Args:
        value: croissant.json.
        record: record.json, whose words this code wrote.
        where: the name of the file.
    """
    expected = croissant(record, ())
    findings = [
        Finding(where, printable(key), "an entry besides", "the entries of a description alone", _MISDESCRIBED)
        for key in sorted(set(value) - set(expected))
    ]
    for key in sorted(set(expected) - {"distribution", "recordSet"}):
        if value.get(key) != expected[key]:
            found, allowed = shown(value.get(key)), f"{shown(expected[key])}, as the record says"
            findings.append(Finding(where, key, found, allowed, "go by record.json"))
    return findings
