"""The columns of refined tables; missing counts of suppressed cells stand for "below the threshold".

In the noisy values whose digest was entered when they were drawn, a suppressed cell reads threshold - 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from contracts.errors import Finding
from privacy.accounting.events import DiscreteGaussian, DiscreteLaplace
from privacy.marginals.uncertainty import half_width
from privacy.refine.tables import Coarser, Refined
from tasks.records.strict_json import printable
from tasks.verification.refinement_replay import CONFIDENCE

SUPPRESSED: Final = "suppressed"
_MISMATCH: Final = "the file does not say clearly which cells are suppressed: do not use it"


def marks_of(mark: int, event: DiscreteLaplace | DiscreteGaussian) -> dict[str, int]:
    """Return what stands for a missing value, by column: what the censored noisy number leads to.

    Args:
        mark: the number of a suppressed cell: threshold - 1 of a count, 0 of sums.
        event: its noise.
    """
    width = half_width(event, CONFIDENCE)
    return {"noisy": mark, "count": mark, "lower": mark - width, "upper": mark + width}


def filled(table: Any, where: str, marks: Mapping[str, int]) -> tuple[Any, list[Finding]]:
    """Check that values are missing exactly in the suppressed cells, and put the marks there.

    Args:
        table: an Arrow table with a column `suppressed`.
        where: the file's name.
        marks: what stands for a missing value, by column; columns that the table has not are left out.
    Returns:
        tuple: the table without missing values, and a finding for each column that is missing in other cells.
    """
    gone = np.asarray(pc.fill_null(table.column(SUPPRESSED), False).to_numpy(zero_copy_only=False), dtype=np.bool_)
    findings = []
    for name in [name for name in table.schema.names if name in marks]:
        column = table.column(name)
        missing = np.asarray(column.is_null().to_numpy(zero_copy_only=False), dtype=np.bool_)
        rows = np.flatnonzero(missing != gone)
        if rows.size:
            row = int(rows[0])
            found, allowed = ("no value", "a value") if missing[row] else ("a value", "none")
            state = "suppressed" if gone[row] else "not suppressed"
            field = f"column {printable(name)}, row {row + 1}"
            findings.append(Finding(where, field, found, f"{allowed}: the cell is {state}", _MISMATCH))
        place = table.schema.get_field_index(name)
        table = table.set_column(place, name, pc.fill_null(column, pa.scalar(marks[name], column.type)))
    return table, findings


def expected_columns(refined: Refined | Coarser) -> dict[str, NDArray[Any]]:
    """Return the columns that a refined table must have, one value a row."""
    columns: dict[str, NDArray[Any]] = {
        "count": refined.values,
        "lower": refined.intervals.lower,
        "upper": refined.intervals.upper,
    }
    if isinstance(refined, Refined) and refined.suppressed is not None:
        columns[SUPPRESSED] = refined.suppressed
    return {name: array.reshape(-1) for name, array in columns.items()}
