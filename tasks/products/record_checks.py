"""Which checks a record gets: those of its kind of product, which are loaded when such a record is read."""

from __future__ import annotations

from typing import Any

from contracts.errors import Finding
from contracts.release.product_kinds import BUILT_IN
from tasks.records.model.across_statements import AcrossRecord
from tasks.records.model.version_statements import read_statement
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
    if _is_across(value):
        from tasks.products.across.across_checks import AcrossChecks

        across, wrong = read_statement(AcrossRecord, value, where=where)
        return None if across is None else AcrossChecks(across, where, manifest_name), wrong
    kind = _kind(value)
    checks = BUILT_IN[kind if isinstance(kind, str) and kind in BUILT_IN else "tables"].load("checks")
    record, wrong = read_statement(checks.statement, value, where=where)
    return None if record is None else checks(record, where, manifest_name), wrong


def _is_across(value: Any) -> bool:
    """Say whether a record states how a version was made across sites, of whatever kind its product is."""
    replay = value.get("replay") if isinstance(value, dict) else None
    return isinstance(replay, dict) and "execution" in replay


def _kind(value: Any) -> object:
    """Return the kind that a record states; one that is unknown is read as that of tables, and refused there."""
    replay = value.get("replay") if isinstance(value, dict) else None
    product = replay.get("product") if isinstance(replay, dict) else None
    return product.get("kind") if isinstance(product, dict) else None
