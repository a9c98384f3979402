"""Rule 10, the pages: record.html and record.ja.html are rendered again from record.json and the data files.

A page is a function of what is published. Where the very code that rendered it runs here, with the same libraries on
the same kind of machine, both pages must be the same byte for byte. Otherwise they are words by other code: they are
not compared, and the report says to go by the statement, which is record.json.
"""

from __future__ import annotations

from typing import Final

from contracts.errors import Finding
from tasks.records.explanation import RecordExplanation
from tasks.records.model.declarations import SoftwareStatement
from tasks.records.model.release_statement import Manifest
from tasks.records.page.page import PAGES, prepare, public_pages
from tasks.records.software import software
from tasks.records.strict_json import shown
from tasks.verification.files.version_folder import VersionFolder, read_published
from tasks.verification.recompute.effort import spend

_RENDERERS: Final = ("jinja2", "numpy", "pyarrow", "pyyaml", "scipy", "zlib")
_TERMS_PER_BYTE: Final = 20
"""Of the record: its fields are laid out in two languages, and copied a few times on the way."""
_REWRITTEN: Final = "the page says something else than record.json and the data files: go by these, not by the page"


def words_of_this_code(stated: SoftwareStatement) -> bool:
    """Say whether the code that runs here rendered a version's words, with the same libraries.

    Args:
        stated: the software that the record names.
    """
    here = software()
    same = all(stated.packages.get(name) == here.packages.get(name) for name in _RENDERERS)
    return same and (stated.code, stated.platform) == (here.code, here.platform)


def check_pages(folder: VersionFolder, explanation: RecordExplanation, manifest: Manifest) -> list[Finding]:
    """Render both pages again and compare them.

    Args:
        folder: the version's folder; every file was checked by the rules before.
        explanation: the words of the record, which this code wrote.
        manifest: the manifest.
    Raises:
        TooMuchWork: the texts of the record ask for more terms than are left.
    """
    missing = [name for name in PAGES.values() if name not in manifest.files]
    if missing:
        return [Finding(name, "the file", "nothing", "a page of the version", _REWRITTEN) for name in missing]
    spend(_TERMS_PER_BYTE * folder.files["record.json"])
    views = prepare(explanation, lambda name: read_published(folder, manifest, name))
    findings = []
    for name, expected in public_pages(explanation, views).items():
        found = read_published(folder, manifest, name)
        if found != expected:
            findings.append(_first_difference(name, found, expected))
    return findings


def _first_difference(name: str, found: bytes, expected: bytes) -> Finding:
    """Name the first byte at which a page is another."""
    pairs = zip(found, expected, strict=False)
    at = next((i for i, (one, other) in enumerate(pairs) if one != other), min(len(found), len(expected)))
    field = f"line {found.count(bytes([10]), 0, at) + 1}, byte {at + 1}"
    allowed = f"{shown(_text(expected, at))}, which is what this code makes of record.json and the data files"
    return Finding(name, field, shown(_text(found, at)), allowed, _REWRITTEN)


def _text(page: bytes, at: int) -> str:
    return page[max(0, at - 12) : at + 24].decode("utf-8", "replace")
