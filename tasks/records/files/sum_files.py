"""The files of noisy sums over rows: their values, one file a draw, and what was added up, in two files for all.

`measurements/statistics.json` holds each statistic's public parameters, `measurements/statistics.parquet` the arrays
that these name by digest: whoever rebuilds a statistic from them has its digest, and the bound of a change by one
privacy unit that the draw's event must state.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from contracts.canonical import readable_json
from privacy.learning.written_statistics import PART_NAMES, statistic_arrays, tidy_rows
from tasks.records.files.array_file import ARRAY_COLUMNS, write_arrays
from tasks.records.files.tidy_tables import MEASUREMENTS, WrittenFile, written

if TYPE_CHECKING:
    from privacy.grant.measurement import SumMeasurement
    from privacy.learning.moments import Moments

STATISTICS: Final = f"{MEASUREMENTS}/statistics.json"
STATISTIC_ARRAYS: Final = f"{MEASUREMENTS}/statistics.parquet"
ROUNDS: Final = f"{MEASUREMENTS}/rounds.parquet"
"""The sums over sites, of all rounds."""
_LONGEST_NAME: Final = 80
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+")
SUM_SCHEMA: Final = pa.schema(
    [
        pa.field("part", pa.dictionary(pa.int8(), pa.string()), nullable=False),
        pa.field("group", pa.int32(), nullable=False),
        pa.field("i", pa.int32()),
        pa.field("j", pa.int32()),
        pa.field("noisy", pa.int64(), nullable=False),
        pa.field("value", pa.float64(), nullable=False),
        pa.field("variance", pa.float64(), nullable=False),
    ]
)


def write_sums(sums: Sequence[SumMeasurement], folder: Path, *, marks: Mapping[str, str]) -> tuple[WrittenFile, ...]:
    """Write noisy sums, and what was added up.

    Args:
        sums: the measurements, in order; at least one.
        folder: the version's folder.
        marks: what each Parquet file says about where it comes from.
    Returns:
        tuple[WrittenFile, ...]: a file a measurement, the statistics, and their arrays.
    Privacy: released values only.
    """
    (folder / MEASUREMENTS).mkdir(exist_ok=True)
    files = [_write_values(each, folder, marks) for each in sums]
    arrays = {name: array for each in sums for name, array in statistic_arrays(each.statistic).items()}
    stated = [{"key": each.key, "number": each.number, **statistic_part(each)} for each in sums]
    (folder / STATISTICS).write_bytes(readable_json(stated))
    files.append(written(folder, STATISTICS, "", "statistics", len(sums), ()))
    write_arrays(arrays, folder / STATISTIC_ARRAYS, marks=marks)
    numbers = sum(array.size for array in arrays.values())
    return (*files, written(folder, STATISTIC_ARRAYS, "", "statistics", numbers, ARRAY_COLUMNS))


def sum_name(measurement: SumMeasurement) -> str:
    """Name a measurement's file after its number and what was added up."""
    statistic = measurement.statistic
    parts = "-".join(statistic.parts)
    group = statistic.groups.public["kind"].replace("_", "-")
    return f"{measurement.number:04d}-" + _UNSAFE.sub("-", f"{parts}-{group}")[:_LONGEST_NAME]


def statistic_part(measurement: SumMeasurement) -> dict[str, Any]:
    """Write what was added up as JSON: parameters, with arrays by their digests, and the arrays' shapes."""
    statistic = measurement.statistic
    shapes = {name: list(array.shape) for name, array in statistic_arrays(statistic).items()}
    return {"digest": statistic.digest, "parameters": statistic.public, "shapes": shapes}


def sum_columns(statistic: Moments, noisy: NDArray[np.int64], variance: float) -> dict[str, NDArray[Any]]:
    """Return the columns of a file of sums; i and j are -1 where a part has none.

    Args:
        statistic: what was added up.
        noisy: shape (statistic.length,) [lattice units].
        variance: of the noise of each number [lattice units squared].
    """
    rows = tidy_rows(statistic)
    unit = rows.pop("unit")
    return {**rows, "noisy": noisy, "value": noisy * unit, "variance": variance * (unit * unit)}


def _write_values(measurement: SumMeasurement, folder: Path, marks: Mapping[str, str]) -> WrittenFile:
    columns = sum_columns(measurement.statistic, measurement.values, measurement.variance)
    arrays: dict[str, Any] = {name: pa.array(column) for name, column in columns.items()}
    parts = pa.array(columns["part"].astype(np.int8))
    arrays["part"] = pa.DictionaryArray.from_arrays(parts, pa.array(PART_NAMES, pa.string()))
    for name in ("i", "j"):
        arrays[name] = pa.array(columns[name].astype(np.int32), mask=columns[name] < 0)
    arrays["group"] = arrays["group"].cast(pa.int32())
    schema = SUM_SCHEMA.with_metadata(dict(marks))
    path = f"{MEASUREMENTS}/{sum_name(measurement)}.parquet"
    table = pa.Table.from_arrays([arrays[field.name] for field in schema], schema=schema)
    pq.write_table(table, folder / path, compression="zstd", use_dictionary=["part"])
    typed = tuple((f.name, "string" if pa.types.is_dictionary(f.type) else str(f.type)) for f in schema)
    return written(folder, path, measurement.key, "sums", measurement.values.size, typed)
