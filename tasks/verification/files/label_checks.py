"""Columns beside labels: may the version have them, and do they hold what the contract says of each label?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from contracts.contract.contract import Contract
from contracts.contract.label_columns import LabelColumn
from contracts.errors import Finding
from contracts.release.product_kinds import product_kinds
from tasks.records.files.label_arrays import first_other_row, label_array
from tasks.records.model.record_kinds import ACROSS, kind_of
from tasks.records.model.version_statements import RecordTerms
from tasks.records.strict_json import printable
from tasks.verification.record_identity import OTHER

_OTHER_LABELS: Final = "the file says another thing of a label than the contract: do not use it"


def check_labels(record: RecordTerms, contract: Contract, *, where: str) -> list[Finding]:
    """Refuse, as the spec's reader does, columns beside labels where the files can have none.

    Args:
        record: the record; its product was read.
        contract: its contract.
        where: the record's file name.
    """
    if record.replay.labels is None:
        return []
    kind = kind_of(record)
    if kind == ACROSS:
        found, allowed = "columns, across sites", "nothing: what is made across sites has labels alone"
        return [Finding(where, "replay.labels", found, allowed, OTHER)]
    from contracts.release.spec_checks import label_problems  # with all that reads specs, for the few that need it

    product = product_kinds()[kind].load("spec").model_validate(record.replay.product)
    return [
        Finding(where, "replay.labels", printable(problem.found), printable(problem.allowed), OTHER)
        for _, problem in label_problems(product, contract)
    ]


def check_beside(table: Any, where: str, beside: Sequence[LabelColumn], codes: NDArray[np.int64]) -> list[Finding]:
    """Check the columns beside the labels of one column, row by row.

    Args:
        table: what was read.
        where: the file's name.
        beside: what must stand beside each label.
        codes: of each row the place of its label, from 0.
    """
    findings = []
    for column in beside:
        expected = label_array(column, codes)
        row = first_other_row(table.column(column.name), expected)
        if row is not None:
            found, allowed = (_shown(each[row].as_py()) for each in (table.column(column.name), expected))
            field = f"column {printable(column.name)}, row {row + 1}"
            findings.append(
                Finding(where, field, found, f"{allowed}, as the contract says of the label", _OTHER_LABELS)
            )
    return findings


def _shown(value: object) -> str:
    return "nothing" if value is None else printable(str(value))
