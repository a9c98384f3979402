"""Noisy residuals in one tidy Parquet file: a row a number, one residual after the other, each row-major."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from contracts.canonical import canonical_json
from contracts.contract.decoding import Decoded, DecodedForm
from privacy.grant.measurement import ResidualMeasurement
from privacy.marginals.residual_basis import Residual
from tasks.records.files import part_names
from tasks.records.files.part_names import part_name
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


def residual_labels(residuals: Sequence[Residual]) -> list[str]:
    """Return what names each residual in the file: its columns as a JSON list."""
    return [canonical_json(list(each.columns)).decode() for each in residuals]


def residual_rows(residuals: Sequence[Residual]) -> dict[str, NDArray[np.int64]]:
    """Return what stands beside the noisy numbers: which residual, which cell, its multiplier; one value a row."""
    places = np.repeat(np.arange(len(residuals)), [each.cells for each in residuals])
    cells = np.concatenate([np.arange(each.cells) for each in residuals])
    multipliers = np.array([each.multiplier for each in residuals], dtype=np.int64)
    return {"columns": places, "cell": cells, "multiplier": multipliers[places]}


def write_residuals(measurement: ResidualMeasurement, folder: Path, *, marks: Mapping[str, str]) -> WrittenFile:
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


# --- Decoded rows as Arrow arrays.


_EPOCH = date(1970, 1, 1).toordinal()


def row_schema(forms: Sequence[DecodedForm], marks: Mapping[str, str]) -> pa.Schema:
    """Return the schema of the published rows: labels in dictionaries, numbers, days, flags, pictures."""
    return pa.schema([pa.field(form.name, arrow_type(form)) for form in forms], metadata=dict(marks))


def arrow_type(form: DecodedForm) -> pa.DataType:
    """Return the Arrow type in which a column is published."""
    if form.kind == "label":
        size = len(form.values)
        index = pa.int8() if size <= 1 << 7 else pa.int16() if size <= 1 << 15 else pa.int32()
        return pa.dictionary(index, pa.string())
    if form.kind == "picture":
        return pa.list_(pa.field("element", pa.uint8()), form.places)
    return {"integer": pa.int64(), "number": pa.float64(), "date": pa.date32(), "boolean": pa.bool_()}[form.kind]


def arrow_array(decoded: Decoded) -> pa.Array:
    """Return one column of a piece; null where a value is missing."""
    form, numbers, missing = decoded.form, decoded.numbers, decoded.missing
    kind = arrow_type(form)
    if form.kind == "picture":
        levels = pa.array(np.ascontiguousarray(numbers, dtype=np.uint8).reshape(-1))
        return pa.FixedSizeListArray.from_arrays(levels, type=kind)
    if form.kind == "label":
        known = [value for value in form.values if value is not None]
        codes = pa.array(np.where(missing, 0, numbers), mask=missing).cast(kind.index_type)
        return pa.DictionaryArray.from_arrays(codes, pa.array(known, pa.string()))
    if form.values:
        numbers = np.array([_number(value, form) for value in form.values], dtype=np.int64)[numbers]
    if form.kind == "boolean":
        return pa.array(numbers.astype(np.bool_), mask=missing)
    if form.kind == "date":
        return pa.array(numbers.astype(np.int32), mask=missing).cast(kind)
    if form.kind == "number":
        return pa.array(numbers / 10.0**form.scale, mask=missing)
    return pa.array(numbers, mask=missing)


def _number(value: str | None, form: DecodedForm) -> int:
    """Return the value that a label names; 0 for a missing one, which is masked."""
    if value is None:
        return 0
    if form.kind == "boolean":
        return int(value.lower() == "true")
    return int(value) if form.kind == "integer" else date.fromisoformat(value).toordinal() - _EPOCH


# --- A data file once more in parts, for engines that read folders.


def write_parts(folder: Path, whole: WrittenFile) -> tuple[WrittenFile, ...]:
    """Write the row groups of a Parquet file to files of their own, one in memory at a time.

    Args:
        folder: the version's folder.
        whole: the file, which is written.
    Returns:
        tuple[WrittenFile, ...]: at least one, for a file without rows has a part without rows.
    Raises:
        ValueError: more row groups than parts can be numbered.
    Privacy: published rows only.
    """
    made = []
    with pq.ParquetFile(folder / whole.path) as file:
        schema = file.schema_arrow
        labels = [field.name for field in schema if pa.types.is_dictionary(field.type)]
        for place in range(max(1, file.num_row_groups)):
            rows = file.read_row_group(place) if file.num_row_groups else schema.empty_table()
            path = part_name(whole.path, place)
            (folder / path).parent.mkdir(exist_ok=True)
            pq.write_table(
                rows, folder / path, compression="zstd", use_dictionary=labels, row_group_size=max(1, rows.num_rows)
            )
            part = written(folder, path, whole.draw, "part", rows.num_rows, whole.columns)
            made.append(replace(part, form=whole.form))
    return tuple(made)


# --- Arrays of whole numbers in one tidy Parquet file.


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
