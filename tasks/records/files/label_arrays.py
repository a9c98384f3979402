"""Columns beside labels, as Arrow has them: written by `tidy_tables`, and made again for those who verify."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from contracts.contract.labels import LabelColumn

Beside = Sequence[Sequence["LabelColumn"]]
"""Of each column of labels the columns beside it, in their order."""
_TYPES: Final = {"integer": pa.int64(), "number": pa.float64(), "date": pa.date32(), "text": pa.string()}


def label_types(beside: Beside) -> dict[str, Any]:
    """Return the Arrow type of each column beside labels, in the order of the file."""
    return {column.name: _TYPES[column.kind] for each in beside for column in each}


def plain_texts(rows: pa.Table, beside: Beside) -> pa.Table:
    """Return rows of a CSV file, which may hold codes as a dictionary, with codes as texts; other columns stay."""
    for name in [name for name in label_types(beside) if name in rows.column_names]:
        place, column = rows.schema.get_field_index(name), rows.column(name)
        if pa.types.is_dictionary(column.type):
            rows = rows.set_column(place, name, column.cast(column.type.value_type))
    return rows


def label_fields(beside: Beside) -> list[pa.Field]:
    """Return these columns as fields of a schema; those that hold a value for every label are never null."""
    return [
        pa.field(column.name, _TYPES[column.kind], nullable=not column.complete) for each in beside for column in each
    ]


def label_array(column: LabelColumn, codes: NDArray[np.int64]) -> pa.Array:
    """Return what a column beside labels holds in some rows.

    Args:
        column: the column.
        codes: of each row the place of its label, from 0.
    """
    return pa.array(column.values, _TYPES[column.kind]).take(pa.array(codes))


def first_other_row(found: Any, expected: pa.Array) -> int | None:
    """Return the first row, from 0, in which a column that was read is not what it must be; None where all are.

    Numbers are compared by their bits, since 0 has two signs.
    """
    import pyarrow.compute as pc  # here, since it wraps hundreds of functions while it is loaded

    read = found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
    if pa.types.is_floating(expected.type):
        read, expected = read.view(pa.int64()), expected.view(pa.int64())
    one_missing = pc.not_equal(read.is_null(), expected.is_null())
    other = pc.or_(pc.fill_null(pc.not_equal(read, expected), False), one_missing)
    row: int = pc.index(other, True).as_py()
    return None if row < 0 else row
