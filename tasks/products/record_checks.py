"""Which checks a record gets: those of its kind of product, which are loaded when such a record is read."""

from __future__ import annotations

from typing import Any

from contracts.errors import Finding
from tasks.records.model.classifier_statements import ModelRecord
from tasks.records.model.synthetic_statements import SyntheticRecord
from tasks.records.model.version_statements import Record, read_statement
from tasks.verification.product_checks import ProductChecks


def read_record(value: Any, *, where: str, manifest_name: str) -> tuple[ProductChecks | None, list[Finding]]:
    """Read a record as that of its kind of product.

    Args:
        value: the record, as JSON values.
        where: the record's file name.
        manifest_name: the manifest's.
    Returns:
        tuple: the checks of the version; None where the record could not be read; and what is wrong with it.
    """
    match _kind(value):
        case "synthetic":
            synthetic, wrong = read_statement(SyntheticRecord, value, where=where)
            return None if synthetic is None else _synthetic(synthetic, where, manifest_name), wrong
        case "model":
            classifier, wrong = read_statement(ModelRecord, value, where=where)
            return None if classifier is None else _classifier(classifier, where, manifest_name), wrong
        case _:
            record, wrong = read_statement(Record, value, where=where)
            return None if record is None else _tables(record, where, manifest_name), wrong


def _kind(value: Any) -> object:
    """Return the kind that a record states; one that is unknown is read as that of tables, and refused there."""
    replay = value.get("replay") if isinstance(value, dict) else None
    product = replay.get("product") if isinstance(replay, dict) else None
    return product.get("kind") if isinstance(product, dict) else None


def _synthetic(record: SyntheticRecord, where: str, manifest_name: str) -> ProductChecks:
    from tasks.products.synthetic.row_checks import SyntheticChecks

    return SyntheticChecks(record, where, manifest_name)


def _classifier(record: ModelRecord, where: str, manifest_name: str) -> ProductChecks:
    from tasks.products.classifier.weight_checks import ModelChecks

    return ModelChecks(record, where, manifest_name)


def _tables(record: Record, where: str, manifest_name: str) -> ProductChecks:
    from tasks.products.tables.checks.table_checks import TablesChecks

    return TablesChecks(record, where, manifest_name)
