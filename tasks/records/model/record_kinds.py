"""Which model a record follows, by the kind of its product, or made across sites."""

from __future__ import annotations

from typing import Any, Final

from tasks.records.model.across_statements import AcrossRecord
from tasks.records.model.classifier_statements import ClassifierRecord
from tasks.records.model.synthetic_statements import SyntheticRecord
from tasks.records.model.version_statements import Record, RecordTerms

ACROSS: Final = "across"
"""The kind of a record that says how a release was made across sites, whatever its product is."""

RECORD_MODELS: Final[dict[str, type[RecordTerms]]] = {
    "tables": Record,
    "synthetic": SyntheticRecord,
    "classifier": ClassifierRecord,
    ACROSS: AcrossRecord,
}


def record_model(kind: object) -> type[RecordTerms]:
    """Return the model of a kind; a kind that is unknown is read as that of tables, and refused there."""
    return RECORD_MODELS.get(kind, Record) if isinstance(kind, str) else Record


def stated_kind(record: Any) -> object:
    """Return the kind that a record states, whatever form it has."""
    replay = record.get("replay") if isinstance(record, dict) else None
    if isinstance(replay, dict) and "execution" in replay:
        return ACROSS
    product = replay.get("product") if isinstance(replay, dict) else None
    return product.get("kind") if isinstance(product, dict) else None


def kind_of(record: RecordTerms) -> str:
    """Return the kind of a record that was read."""
    return ACROSS if isinstance(record, AcrossRecord) else str(record.replay.product["kind"])
