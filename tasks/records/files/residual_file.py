"""Noisy residuals in one tidy Parquet file: a row a number, one residual after the other, each row-major."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from contracts.canonical import canonical_json
from contracts.contract.impossible_cells import Clique
from privacy.grant.measurement import ResidualMeasurement
from privacy.grant.queries.strategies import StrategyMeasurement
from tasks.records.files import part_names
from tasks.records.files.tidy_tables import MEASUREMENTS, WrittenFile, index_type, written

RESIDUALS_FILE: Final = f"{MEASUREMENTS}/residuals.parquet"
"""What was drawn of tables that are measured by residuals."""
RESIDUAL_COLUMNS: Final = {
    "columns": "Columns of the residual, as a JSON list; of no column it is the number of rows.",
    "cell": "Number of the cell among those of the columns, row-major, from 0.",
    "multiplier": "What the residual was multiplied by before noise was added.",
    "noisy": "Noisy number, as it was drawn.",
}
"""The file's columns, and what they mean."""


class MeasuredResidual(Protocol):
    """A residual by cells, or by rows of a strategy over its ordered columns."""

    @property
    def columns(self) -> Clique:
        """The columns that it is of."""

    @property
    def cells(self) -> int:
        """How many numbers were drawn."""

    @property
    def multiplier(self) -> int:
        """What each number was multiplied by."""


def residual_labels(residuals: Sequence[MeasuredResidual]) -> list[str]:
    """Return what names each residual in the file: its columns as a JSON list."""
    return [canonical_json(list(each.columns)).decode() for each in residuals]


def residual_rows(residuals: Sequence[MeasuredResidual]) -> dict[str, NDArray[np.int64]]:
    """Return what stands beside the noisy numbers: which residual, which cell, its multiplier; one value a row."""
    places = np.repeat(np.arange(len(residuals)), [each.cells for each in residuals])
    cells = np.concatenate([np.arange(each.cells) for each in residuals])
    multipliers = np.array([each.multiplier for each in residuals], dtype=np.int64)
    return {"columns": places, "cell": cells, "multiplier": multipliers[places]}


def write_residuals(
    measurement: ResidualMeasurement | StrategyMeasurement, folder: Path, *, marks: Mapping[str, str]
) -> WrittenFile:
    """Write what the grant drew.

    Args:
        measurement: the noisy residuals.
        folder: the version's folder.
        marks: what the file says about where it comes from.
    Privacy: released values only.
    """
    labels = residual_labels(measurement.residuals)
    rows: dict[str, Any] = {**residual_rows(measurement.residuals), "noisy": measurement.values}
    index = index_type(len(labels))
    kinds = {name: pa.int64() for name in rows} | {"columns": pa.dictionary(index, pa.string())}
    schema = pa.schema([pa.field(name, kind, nullable=False) for name, kind in kinds.items()], metadata=dict(marks))
    (folder / MEASUREMENTS).mkdir(parents=True, exist_ok=True)
    with pq.ParquetWriter(folder / RESIDUALS_FILE, schema, compression="zstd", use_dictionary=["columns"]) as writer:
        for start in range(0, measurement.values.size, part_names.PIECE):
            piece = slice(start, start + part_names.PIECE)
            codes = pa.array(rows["columns"][piece]).cast(index)
            arrays = [pa.DictionaryArray.from_arrays(codes, pa.array(labels, pa.string()))]
            arrays += [pa.array(rows[name][piece]) for name in ("cell", "multiplier", "noisy")]
            batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
            writer.write_batch(batch, row_group_size=part_names.PIECE)
    typed = tuple((name, "string" if name == "columns" else "int64") for name in rows)
    return written(folder, RESIDUALS_FILE, measurement.key, "measurements", measurement.values.size, typed)
