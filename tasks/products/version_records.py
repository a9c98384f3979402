"""The record of a version, for those who use the version and do not check it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

from contracts.errors import Finding, SpecRefused
from tasks.products.classifier.classifier_statement_checks import ClassifierMeaning, read_classifier_meaning
from tasks.products.statistics.statistics_checks import StatisticsMeaning, read_statistics
from tasks.records.model.statement import read_statement
from tasks.records.model.version_statements import ClassifierRecord, Record, RecordTerms, SyntheticRecord
from tasks.records.statistics_fields import StatisticsRecord
from tasks.records.strict_json import printable, read_json
from tasks.storage.manifest import PROOF
from tasks.verification.files.folder import read_text_file
from tasks.verification.fitted_meaning import SyntheticMeaning, read_synthetic
from tasks.verification.table_meaning import Meaning, read_meaning

RECORD: Final = "record.json"
_Terms = TypeVar("_Terms", bound=RecordTerms)
_Meaning = TypeVar("_Meaning")


def published_record(path: Path) -> tuple[SyntheticRecord, SyntheticMeaning]:
    """Read the record of a synthetic version, and the contract and product in it.

    Args:
        path: the version's folder, links resolved.
    Raises:
        SpecRefused: this is no synthetic version, or its record cannot be read.
    """
    if (kind := kind_of(path)) not in (None, "synthetic"):
        found, allowed = f"a release of kind {printable(str(kind))}", "a release of kind synthetic"
        raise SpecRefused([Finding(printable(str(path)), "version", found, allowed, "name another version")])
    remedy = "name the folder of a release of kind synthetic; sudare verify says what is wrong with it"
    return understood(
        path,
        SyntheticRecord,
        lambda record: read_synthetic(record.replay, where=RECORD),
        found="no record of synthetic rows that can be read",
        remedy=remedy,
    )


def published_tables_record(path: Path) -> tuple[Record, Meaning]:
    """Read the record of a version of tables, and the contract and product in it.

    Raises:
        SpecRefused: this is no version of tables, or its record cannot be read.
    """
    return understood(
        path,
        Record,
        lambda record: read_meaning(record.replay, where=RECORD),
        found="no record of tables that can be read",
        remedy="sudare verify says what is wrong with this version",
    )


def mark_of_snapshot(path: Path) -> str | None:
    """Return the mark of the snapshot that a version was made of, as its charge in the journal tells it."""
    data, _ = read_text_file(path, PROOF)
    value, _ = (None, []) if data is None else read_json(data, where=PROOF)
    listed = value.get("entries") if isinstance(value, dict) else None
    for proven in reversed(listed) if isinstance(listed, list) else ():
        entry = proven.get("entry") if isinstance(proven, dict) else None
        if isinstance(entry, dict) and entry.get("kind") == "charge_reserved" and isinstance(entry.get("body"), dict):
            mark = entry["body"].get("snapshot_hash")
            return mark if isinstance(mark, str) else None
    return None


def published_classifier_record(path: Path) -> tuple[ClassifierRecord, ClassifierMeaning]:
    """Read the record of a version of a classifier, and the contract and product in it.

    Raises:
        SpecRefused: this is no version of a classifier, or its record cannot be read.
    """
    return understood(
        path,
        ClassifierRecord,
        lambda record: read_classifier_meaning(record.replay, where=RECORD),
        found="no record of a classifier that can be read",
        remedy="sudare verify says what is wrong with this version",
    )


def published_statistics_record(path: Path) -> tuple[StatisticsRecord, StatisticsMeaning]:
    """Read the record of a version of statistics, and the contract, with selected keys, and product in it.

    Raises:
        SpecRefused: this is no version of statistics, or its record cannot be read.
    """
    return understood(
        path,
        StatisticsRecord,
        lambda record: read_statistics(record.replay, where=RECORD),
        found="no record of statistics that can be read",
        remedy="sudare verify says what is wrong with this version",
    )


def is_of_tables(path: Path) -> bool:
    """Say whether a version's record is one of tables; what cannot be read is refused where it is read."""
    return kind_of(path) == "tables"


def kind_of(path: Path) -> str | None:
    """Return the kind of a version's product, as its record has it; None where that cannot be read."""
    value, _ = _read(path)
    replay = value.get("replay") if isinstance(value, dict) else None
    product = replay.get("product") if isinstance(replay, dict) else None
    kind = product.get("kind") if isinstance(product, dict) else None
    return kind if isinstance(kind, str) else None


def understood(
    path: Path,
    form: type[_Terms],
    meaning_of: Callable[[_Terms], tuple[_Meaning | None, list[Finding]]],
    *,
    found: str,
    remedy: str,
) -> tuple[_Terms, _Meaning]:
    """Read a record of that form, and what it is about."""
    value, findings = _read(path)
    record, misread = (None, []) if value is None else read_statement(form, value, where=RECORD)
    if record is None:
        unreadable = Finding(printable(str(path)), "version", found, "one", remedy)
        raise SpecRefused([*findings, *misread[:3], unreadable])
    meaning, findings = meaning_of(record)
    if meaning is None:
        raise SpecRefused(findings)
    return record, meaning


def _read(path: Path) -> tuple[Any, list[Finding]]:
    """Read the record's JSON; None with what is wrong."""
    data, findings = read_text_file(path, RECORD)
    value, wrong = (None, []) if data is None else read_json(data, where=RECORD)
    return value, [*findings, *wrong]
