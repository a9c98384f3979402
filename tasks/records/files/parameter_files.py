"""The file of noisy parameters: the whole numbers as they were drawn; of several draws the last one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from tasks.records.files.tidy_tables import MEASUREMENTS, WrittenFile, written

if TYPE_CHECKING:
    from privacy.grant.measurement import ParameterMeasurement

PARAMETER_SCHEMA: Final = pa.schema([pa.field("value", pa.int64(), nullable=False)])


def parameter_path(drawn: Sequence[ParameterMeasurement], measurement: ParameterMeasurement) -> str | None:
    """Name the file of a draw; None of those before the last one, of which nothing is made."""
    return f"{MEASUREMENTS}/{measurement.number:04d}-parameters.parquet" if measurement is drawn[-1] else None


def write_parameters(
    drawn: Sequence[ParameterMeasurement], folder: Path, *, marks: Mapping[str, str]
) -> Iterator[WrittenFile]:
    """Write the last draw of noisy parameters.

    Privacy: released values only.
    """
    for each in drawn:
        path = parameter_path(drawn, each)
        if path is None:
            continue
        (folder / MEASUREMENTS).mkdir(exist_ok=True)
        schema = PARAMETER_SCHEMA.with_metadata(dict(marks))
        pq.write_table(
            pa.Table.from_arrays([pa.array(each.values)], schema=schema), folder / path, compression="zstd"
        )
        yield written(folder, path, each.key, "parameters", each.values.size, (("value", "int64"),))


def parameters_part(measurement: ParameterMeasurement) -> dict[str, Any]:
    """Write one draw as the record states it."""
    return {"perturbation": measurement.perturbation.to_json(), "interval": measurement.interval}
