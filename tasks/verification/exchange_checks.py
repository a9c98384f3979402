"""Rule 10, the forms of exchange: each file below exchange/ is made again from record and data files.

The values of SDMX-CSV must be the same byte for byte, whatever code wrote them. Descriptions are words: they are
compared where the very code that wrote them runs here. Files of a form whose extension is not installed are not
compared, and named.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from contracts.errors import Finding
from contracts.release.exchange_forms import EXCHANGE
from tasks.records.exchange_files import absent_forms, exchange_files
from tasks.records.explanation import RecordExplanation
from tasks.records.model.release_statement import Manifest
from tasks.records.strict_json import printable
from tasks.verification.files.version_folder import VersionFolder, read_published
from tasks.verification.outcomes import FILES_NOT_COMPARED

_OTHER: Final = "the file says something else than record.json and the data files: go by these"


def check_exchange(
    folder: VersionFolder, explanation: RecordExplanation, manifest: Manifest, *, again: bool
) -> tuple[list[Finding], tuple[str, ...]]:
    """Make the files of exchange again and compare them.

    Args:
        folder: the version's folder; every file was checked by the rules before.
        explanation: what the record tells people.
        manifest: the manifest.
        again: whether this code made them, so that descriptions must be the same too.
    Returns:
        tuple: what is wrong, and what could not be compared.
    Raises:
        OSError: a file changed while it was verified, or cannot be read.
    """
    findings: list[Finding] = []
    made, listed = set(), {name for name in manifest.files if name.startswith(EXCHANGE)}
    for name, pieces in exchange_files(explanation, lambda path: read_published(folder, manifest, path)):
        made.add(name)
        if name in listed and (again or name.endswith(".csv")):
            findings += _differences(name, read_published(folder, manifest, name), pieces)
    absent = absent_forms(explanation)
    uncompared = sorted(listed - made) if absent else []
    for name in sorted((listed ^ made) - {*uncompared}):
        found = "a file" if name in listed else "nothing"
        allowed = "one file for each description and table of the forms in replay.exchange, and no other"
        findings.append(Finding(printable(name), "the file", found, allowed, _OTHER))
    if not absent:
        return findings, ()
    needed = f"they need {', '.join(sorted({*absent.values()}))}, which is not installed"
    files = ", ".join(map(printable, uncompared)) or f"the files of {', '.join(absent)} in {EXCHANGE}"
    return findings, (f"{FILES_NOT_COMPARED}: {files}: {needed}",)


def _differences(name: str, found: bytes, pieces: Iterable[bytes]) -> Iterator[Finding]:
    """Compare a file with what is made again, piece by piece; name the first line that differs."""
    start, line = 0, 1
    for piece in pieces:
        own = found[start : start + len(piece)]
        if own != piece:
            equal = next(
                (i for i, (one, other) in enumerate(zip(own, piece, strict=False)) if one != other), len(own)
            )
            at = line + piece.count(b"\n", 0, equal)
            yield Finding(printable(name), f"line {at}", "other bytes", "what this code makes of the version", _OTHER)
            return
        start, line = start + len(piece), line + piece.count(b"\n")
    if start < len(found):
        yield Finding(printable(name), f"line {line}", "more bytes", "the end of the file", _OTHER)
