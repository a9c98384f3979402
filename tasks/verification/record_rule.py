"""Rule 5: is the record about this manifest, contract, charge and journal?"""

from __future__ import annotations

from typing import Any

from contracts.errors import Finding
from tasks.records.model.manifest import Manifest
from tasks.verification.files.table_files import check_labels
from tasks.verification.inclusion import JournalledRun
from tasks.verification.product_checks import ProductChecks
from tasks.verification.record_identity import (
    check_charge,
    check_form,
    check_formulas,
    check_identity,
    check_predicate,
    without_exchange,
)


def check_record(
    product: ProductChecks, value: Any, manifest: Manifest | None, run: JournalledRun | None, *, where: str
) -> tuple[list[Finding], list[str]]:
    """Check a record that was read.

    Args:
        product: its checks.
        value: the record as it is written.
        manifest: of the version; None where it cannot be read.
        run: what the journal says of the run; None where it cannot be read.
        where: the record's file name.
    Returns:
        tuple: what is wrong, and what could not be checked.
    """
    record, skipped = product.record, list[str]()
    findings = [*check_form(record, value, where=where), *product.read()]
    if manifest is None:
        skipped.append("the record against the manifest: no readable manifest")
    else:
        listed = without_exchange(manifest, record)
        findings += check_identity(record, listed, where=where)
        findings += product.check_files(listed)
    if product.contract is None:
        return findings, [*skipped, "the record against contract and charge: no valid contract or product"]
    findings += product.check_product()
    if manifest is not None:
        findings += check_predicate(manifest, value, where=where)
        files = without_exchange(manifest, record).files
        findings += check_formulas(record.replay, product.contract, files, where=where)
    if not findings:
        findings += check_labels(record, product.contract, where=where)
    if run is None:
        skipped.append("the record against the charge: no readable run")
    else:
        findings += check_charge(record, product.contract, run, where=where)
    return findings, skipped
