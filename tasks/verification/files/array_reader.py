"""Reading arrays of whole numbers strictly, as `tasks.records.files.write` writes them; only signed bytes."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tasks.records.strict_json import shown
from tasks.verification.files.parquet_pages import MOST_NUMBERS, open_numbers


def read_arrays(data: bytes, shapes: Any) -> dict[str, NDArray[np.int64]]:
    """Read the arrays: for each name as many values as its shape says, one name after the other.

    Args:
        data: bytes of the file.
        shapes: shape by name; written by a stranger, and checked.
    Raises:
        ValueError, pyarrow.ArrowException: not the form that arrays are published in.
    """
    if not isinstance(shapes, dict) or not all(_is_shape(shape) for shape in shapes.values()):
        raise ValueError("shapes must be lists of whole numbers")
    sizes = {name: prod(shape) for name, shape in shapes.items()}
    file = open_numbers(data, labels=["array"])
    if file.schema_arrow.names != ["array", "value"] or file.schema_arrow.field("value").type != pa.int64():
        raise ValueError("columns must be array and value, of int64")
    if file.metadata.num_rows != sum(sizes.values()):
        raise ValueError(f"{file.metadata.num_rows} values for shapes of {sum(sizes.values())}")
    table = file.read()
    table.validate(full=True)
    if any(table.column(name).null_count for name in table.column_names):
        raise ValueError("missing values")
    column = table.column("array")
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    chunks = encoded.unify_dictionaries()
    names = chunks.chunk(0).dictionary.to_pylist() if chunks.num_chunks else []
    labels = np.concatenate([np.empty(0, np.int64), *(each.indices.to_numpy() for each in chunks.chunks)])
    values = table.column("value").to_numpy()
    found = {name: np.empty(shapes[name], dtype=np.int64) for name, size in sizes.items() if size == 0}
    start = 0
    while start < len(values):
        name = names[int(labels[start])]
        if name not in sizes or name in found:
            raise ValueError(f"the array {shown(name)} twice, or without a shape")
        part = slice(start, start + sizes[name])
        if (labels[part] != labels[start]).any():
            raise ValueError(f"the array {shown(name)} is not whole")
        found[name] = values[part].reshape(shapes[name])
        start += sizes[name]
    return found


def _is_shape(shape: Any) -> bool:
    whole = isinstance(shape, list) and all(isinstance(n, int) and not isinstance(n, bool) for n in shape)
    return whole and all(0 <= n <= MOST_NUMBERS for n in shape) and prod(shape) <= MOST_NUMBERS
