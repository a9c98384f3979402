"""Rule 8 of trainings: the published last checkpoint is the one that was entered when it was drawn."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from contracts.errors import Finding
from privacy.learning.trained import packed
from tasks.records.files.checkpoint_files import CHECKPOINT_SCHEMA
from tasks.records.model.synthetic_statements import SyntheticDraw
from tasks.records.strict_json import printable, shown
from tasks.verification.files.parquet_pages import open_numbers
from tasks.verification.files.table_files import MISFIT, OTHER_NOISE, UNREADABLE
from tasks.verification.refinement_replay import values_sha256


def check_checkpoint(data: bytes, draw: SyntheticDraw) -> tuple[NDArray[np.int64] | None, list[Finding]]:
    """Check a file of a checkpoint.

    Args:
        data: bytes of the file.
        draw: what the record says of the draw.
    Returns:
        tuple: the checkpoint as it was drawn, in whole words; None where it cannot be read; and what is wrong.
    """
    where = printable(draw.measurements or "")
    try:
        file = open_numbers(data)
        found = [(field.name, str(field.type)) for field in file.schema_arrow]
        wanted = [(field.name, str(field.type)) for field in CHECKPOINT_SCHEMA]
        rows, numbers = file.metadata.num_rows, 2 * draw.shape[0]
        for field, is_, must in (("columns", found, wanted), ("rows", rows, numbers)):
            if is_ != must:
                return None, [Finding(where, field, shown(str(is_)), shown(str(must)), MISFIT)]
        column = file.read(columns=["value"]).column("value")
        if column.null_count:
            return None, [Finding(where, "column value", "missing values", "a value in every row", MISFIT)]
        words = packed(column.to_numpy())
    except UNREADABLE as error:
        return None, [Finding(where, "the file", printable(str(error)), "a whole Parquet file", MISFIT)]
    digest = values_sha256(words)
    if digest != draw.sha256:
        allowed = f"{draw.sha256}, as it was entered when it was drawn"
        return words, [Finding(where, "SHA-256 of the checkpoint", digest, allowed, OTHER_NOISE)]
    return words, []
