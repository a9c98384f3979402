"""Rule 10, the words: fields for people and pages follow from what is published, where this code wrote them."""

from __future__ import annotations

from typing import Any

from tasks.records.groups.field import WITHHELD
from tasks.records.model.version_statements import Manifest, Proof, RecordTerms
from tasks.verification.explanations import EXACT
from tasks.verification.fields import check_fields
from tasks.verification.files.version_folder import VersionFolder
from tasks.verification.outcomes import NOT_COMPARED, Words
from tasks.verification.pages import check_pages, words_of_this_code


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
