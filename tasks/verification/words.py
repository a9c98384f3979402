"""Rule 10, the words: fields for people and pages follow from what is published, where this code wrote them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from contracts.errors import Finding
from tasks.records.groups.field import WITHHELD
from tasks.records.model.version_statements import Manifest, Proof, RecordTerms
from tasks.verification.explanations import EXACT
from tasks.verification.fields import check_fields
from tasks.verification.files.version_folder import VersionFolder
from tasks.verification.pages import check_pages, words_of_this_code

NOT_COMPARED: Final = (
    "whether fields, pages, label and entries read as what is published: words by other code: not compared, go by "
    "the statement, `replay` of record.json"
)

NOTE: Final = (
    "MADE BY OTHER CODE: fields for people, pages, label and entries were not compared with what is published. "
    "Go by `replay` of record.json, from which the loss was recomputed."
)


@dataclass(frozen=True)
class Words:
    """What came of the check.

    Args:
        findings: what is wrong.
        word: the record's fields that nothing was compared with: the publisher's word.
        cannot_tell: what could not be compared at all.
    """

    findings: tuple[Finding, ...] = ()
    word: tuple[str, ...] = ()
    cannot_tell: tuple[str, ...] = ()


def check_words(
    folder: VersionFolder, record: RecordTerms, value: Any, proof: Proof, manifest: Manifest, *, where: str
) -> Words:
    """Check fields and pages.

    Args:
        folder: the version's folder; every file was checked by the rules before.
        record, value: record.json, as a statement and as JSON.
        proof: the journal's entries of the run.
        manifest: the manifest.
        where: the record's file name.
    Raises:
        TooMuchWork: the texts of the record ask for more terms than are left.
    """
    fields = {
        f"{section}.{name}": field for section, group in record.groups.items() for name, field in group.fields.items()
    }
    if not words_of_this_code({name: field.value for name, field in fields.items()}):
        word = (name for name, field in fields.items() if name not in EXACT and field.value != WITHHELD)
        return Words((), tuple(word), (NOT_COMPARED,))
    findings, derived = check_fields(record, proof, where=where)
    return Words((*findings, *check_pages(folder, value, manifest)), derived)
