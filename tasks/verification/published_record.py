"""The record of a synthetic version, for those who use the version and do not check it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from contracts.errors import Finding, SpecRefused
from privacy.audit.readable import printable, read_json
from privacy.audit.statements import read_statement
from privacy.audit.synthetic import SyntheticMeaning, read_synthetic
from privacy.audit.synthetic_statements import SyntheticRecord
from tasks.verification.files import read_text_file

RECORD: Final = "record.json"


def published_record(path: Path) -> tuple[SyntheticRecord, SyntheticMeaning]:
    """Read the record of a synthetic version, and the contract and product in it.

    Args:
        path: the version's folder, links resolved.
    Raises:
        SpecRefused: this is no synthetic version, or its record cannot be read.
    """
    data, findings = read_text_file(path, RECORD)
    value, wrong = (None, []) if data is None else read_json(data, where=RECORD)
    record, misread = (None, []) if value is None else read_statement(SyntheticRecord, value, where=RECORD)
    if record is None:
        remedy = "name the folder of a release of kind synthetic; sudare verify says what is wrong with it"
        found = "no record of synthetic rows that can be read"
        unreadable = Finding(printable(str(path)), "version", found, "one", remedy)
        raise SpecRefused([*findings, *wrong, *misread[:3], unreadable])
    meaning, findings = read_synthetic(record.replay, where=RECORD)
    if meaning is None:
        raise SpecRefused(findings)
    return record, meaning
