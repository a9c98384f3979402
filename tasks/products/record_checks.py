"""Which checks a record gets: those of its kind of product, which are loaded when such a record is read."""

from __future__ import annotations

from typing import Any

from contracts.errors import Finding
from contracts.release.product_kinds import BUILT_IN
from tasks.records.model.across_statements import AcrossRecord
from tasks.records.model.record_kinds import ACROSS, stated_kind
from tasks.records.model.statement import read_statement
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
    kind = stated_kind(value)
    if kind == ACROSS:
        from tasks.products.across.across_checks import AcrossChecks

        across, wrong = read_statement(AcrossRecord, value, where=where)
        return None if across is None else AcrossChecks(across, where, manifest_name), wrong
    checks = BUILT_IN[kind if isinstance(kind, str) and kind in BUILT_IN else "tables"].load("checks")
    record, wrong = read_statement(checks.statement, value, where=where)
    return None if record is None else checks(record, where, manifest_name), wrong
