"""Rule 10 of a verification: the digests that the catalogue entry (croissant.json) states are the manifest's."""

from __future__ import annotations

from typing import Any

from contracts.errors import Finding
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
