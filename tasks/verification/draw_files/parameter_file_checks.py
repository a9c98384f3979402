"""Rule 8 of noisy parameters: the published numbers are those that were entered when they were drawn."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from contracts.errors import Finding
from tasks.records.files.parameter_files import PARAMETER_SCHEMA
from tasks.records.model.synthetic_statements import SyntheticDraw
from tasks.records.strict_json import printable, shown
from tasks.verification.files.parquet_pages import open_numbers
from tasks.verification.files.table_files import MISFIT, OTHER_NOISE, UNREADABLE
from tasks.verification.refinement_replay import values_sha256


def check_parameter_file(data: bytes, draw: SyntheticDraw) -> tuple[NDArray[np.int64] | None, list[Finding]]:
    """Check a file of noisy parameters.

    Args:
        data: bytes of the file.
        draw: what the record says of the draw.
    Returns:
        tuple: the numbers as they were drawn, None where they cannot be read; and what is wrong.
    """
    where = printable(draw.measurements or "")
    try:
        file = open_numbers(data)
        found = [(field.name, str(field.type)) for field in file.schema_arrow]
        wanted = [(field.name, str(field.type)) for field in PARAMETER_SCHEMA]
        for field, is_, must in (("columns", found, wanted), ("rows", [file.metadata.num_rows], list(draw.shape))):
            if is_ != must:
                return None, [Finding(where, field, shown(str(is_)), shown(str(must)), MISFIT)]
        column = file.read().column("value")
        if column.null_count:
            return None, [Finding(where, "column value", "missing values", "a value in every row", MISFIT)]
        numbers = column.to_numpy().astype(np.int64)
    except UNREADABLE as error:
        return None, [Finding(where, "the file", printable(str(error)), "a whole Parquet file", MISFIT)]
    digest = values_sha256(numbers)
    if digest != draw.sha256:
        allowed = f"{draw.sha256}, as it was entered when it was drawn"
        return numbers, [Finding(where, "SHA-256 of the numbers", digest, allowed, OTHER_NOISE)]
    return numbers, []
