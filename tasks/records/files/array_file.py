"""Arrays of whole numbers in one tidy Parquet file: a row a number, arrays one after the other, each row-major."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tasks.records.files.tidy_tables import MEASUREMENTS

ROUNDS: Final = f"{MEASUREMENTS}/rounds.parquet"
"""The sums over sites, of all rounds."""
ARRAY_COLUMNS: Final = (("array", "string"), ("value", "int64"))


def write_arrays(arrays: Mapping[str, NDArray[np.int64]], path: Path, *, marks: Mapping[str, str]) -> None:
    """Write arrays; their shapes stand elsewhere.

    Args:
        arrays: by name.
        path: of the file.
        marks: what the file says about where it comes from.
    """
    names = list(arrays)
    schema = pa.schema(
        [
            pa.field("array", pa.dictionary(pa.int32(), pa.string()), nullable=False),
            pa.field("value", pa.int64(), nullable=False),
        ],
        metadata=dict(marks),
    )
    with pq.ParquetWriter(path, schema, compression="zstd", use_dictionary=["array"]) as writer:
        for place, name in enumerate(names):
            flat = np.ascontiguousarray(arrays[name]).reshape(-1)
            number = pa.array(np.full(flat.size, place, dtype=np.int32))
            labels = pa.DictionaryArray.from_arrays(number, pa.array(names, pa.string()))
            writer.write_batch(pa.RecordBatch.from_arrays([labels, pa.array(flat)], schema=schema))
