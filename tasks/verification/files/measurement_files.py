"""A file of measurements: are the noisy values those that were entered, and is their uncertainty the noise's?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from contracts.contract.column import Cells
from contracts.errors import Finding
from privacy.accounting.events import CountNoise
from tasks.records.model.version_statements import DrawStatement
from tasks.records.strict_json import printable
from tasks.verification.files.table_files import UNCERTAINTY, ColumnArrays, check_digest, compare_column
from tasks.verification.refinement_replay import RELATIVE_TOLERANCE, uncertainty_columns, values_sha256


def check_measured(
    columns: ColumnArrays,
    name: str,
    draw: DrawStatement,
    event: CountNoise,
    cells: Cells,
    suppressed: NDArray[np.bool_] | None = None,
) -> list[Finding]:
    """Check one file of measurements.

    Args:
        columns: its value columns.
        name: its name.
        draw: what the record says of the draw.
        event: its event.
        cells: gives the impossible cells.
        suppressed: which noisy values a minimum-frequency rule suppresses, if there is one.
    """
    where, noisy = printable(name), columns["noisy"]
    findings = check_digest(values_sha256(noisy), draw.sha256, "column noisy", where=where)
    impossible = cells.impossible(draw.clique)
    for column, expected in uncertainty_columns(noisy, event, impossible, suppressed).items():
        findings += compare_column(
            columns[column],
            expected,
            where=where,
            name=column,
            source="recomputed from the event and the contract",
            remedy=UNCERTAINTY,
            tolerance=RELATIVE_TOLERANCE if column == "variance" else 0.0,
        )
    return findings
