"""Rule 10, the words: pages and descriptions are what this code makes of the record, where this code made them.

Words for people are no part of the record: they are rendered again and compared byte for byte. What other code
rendered is not compared. Either way the record's declarations are listed by name: they are the publisher's word.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from contracts.errors import Finding
from contracts.release.exchange_forms import EXCHANGE
from tasks.records.explanation import explain
from tasks.records.model.record_kinds import kind_of
from tasks.records.model.release_statement import Manifest
from tasks.records.model.version_statements import Proof, RecordTerms
from tasks.records.published_run import evidence, published_run
from tasks.records.record import underived
from tasks.records.strict_json import printable, shown
from tasks.verification.catalogue_digests import check_whole
from tasks.verification.descriptions import check_descriptions
from tasks.verification.files.version_folder import VersionFolder
from tasks.verification.outcomes import EXCHANGE_WORDS, FILES_NOT_COMPARED, NOT_COMPARED, Words
from tasks.verification.pages import check_pages, check_passive, render, unreadable, words_of_this_code
from tasks.verification.record_identity import TRANSLATED

_TWICE: Final = "what follows from the rest of a version is not stated again: go by the rest"


def check_words(
    folder: VersionFolder,
    record: RecordTerms,
    value: Any,
    proof: Proof,
    manifest: Manifest,
    sound: frozenset[str],
    *,
    catalogue: Any,
    complete: bool,
    page: str | None = None,
) -> Words:
    """Explain the record again, and compare what people read.

    Args:
        folder: the version's folder.
        record, value: record.json, as a statement and as JSON.
        proof: the journal's entries of the run.
        manifest: the manifest.
        sound: names of the files whose checksums hold; others are not opened.
        catalogue: croissant.json, as JSON.
        complete: whether all rules before hold, so that pages are rendered and data files opened.
        page: the name of the page that is wanted as this code renders it.
    Raises:
        TooMuchWork: the texts of the record ask for more terms than are left.
    """
    told, again = explain(value, proof, manifest), words_of_this_code(record.declarations.software)
    findings = check_descriptions(folder, told, manifest, sound, again=again and complete)
    if complete:
        findings += _check_own(record, proof, manifest)
    lacking = unreadable(manifest)
    uncompared = tuple(f"{FILES_NOT_COMPARED}: {name}: {needed}" for name, needed in lacking.items())
    others: tuple[str, ...] = ()
    if complete and record.replay.exchange:
        from tasks.verification.exchange_checks import check_exchange  # for the few versions that have any

        wrong, others = check_exchange(folder, told, manifest, again=again)
        findings += wrong
        uncompared += others
    unread = {name for name in sound if name in lacking or (others and name.startswith(EXCHANGE))}
    findings += check_passive(folder, manifest, unread if again and complete else sound)
    wanted = render(folder, told, manifest)[page] if page is not None and complete else None
    if not again:
        # Who made it may not have had the language: where this code did, `check_pages` asks for the page.
        absent = (
            f"{FILES_NOT_COMPARED}: {name}: the version has none" for name in sorted(TRANSLATED - {*manifest.files})
        )
        cannot_tell = (NOT_COMPARED, *([EXCHANGE_WORDS] if record.replay.exchange and not others else []))
        return Words(tuple(findings), cannot_tell, wanted, (*uncompared, *absent))
    if complete:
        findings += check_pages(folder, told, manifest)
        findings += check_whole(catalogue, told, where="croissant.json")
    return Words(tuple(findings), page=wanted, uncompared=uncompared)


def _check_own(record: RecordTerms, proof: Proof, manifest: Manifest) -> Sequence[Finding]:
    """Check that the declarations state no field that follows from the rest of the version."""
    allowed = set(underived(kind_of(record), published_run(record, evidence(proof, manifest))))
    return [
        Finding("record.json", printable(f"declarations.fields.{name}"), shown(value), "no such field here", _TWICE)
        for name, value in sorted(record.declarations.fields.items())
        if name not in allowed
    ]
