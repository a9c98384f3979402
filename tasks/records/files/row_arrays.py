"""Decoded rows as Arrow arrays: the type of each published column, and one array a column and piece."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date

import numpy as np
import pyarrow as pa

from contracts.contract.decoding import Decoded, DecodedForm

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
