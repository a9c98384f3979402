"""The CSV form of published rows, written and read side by side: labels as text, an empty field for a missing value.

Where the spec says `formulas: neutralised`, labels and names of columns go through `contracts.contract.labels`
on the way out, and back through it on the way in. Numbers, days and truth values are no labels.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from contracts.contract.labels import Formulas, neutralised, restored

_QUOTED: Final = re.compile('[,"\\n\\r]|^$')


def write_csv(rows: pa.Table, file: BinaryIO, *, header: bool, formulas: Formulas | None) -> None:
    """Append rows to a CSV file; verify writes every published copy again with it.

    Args:
        rows: labels as texts or dictionaries of texts.
        file: the file.
        header: write the names of the columns first.
        formulas: what the spec says of labels that a spreadsheet takes for formulas.
    """
    written = _relabelled(rows, neutralised) if formulas == "neutralised" else rows
    if header:
        file.write((",".join(map(_quoted, written.column_names)) + "\n").encode())
    if written.num_rows:
        fields = [_fields(column.combine_chunks()).fill_null("") for column in written.columns]
        lines = pc.binary_join_element_wise(*fields, ",")
        file.write(("\n".join(lines.to_pylist()) + "\n").encode())


def read_csv(data: bytes, types: Mapping[str, pa.DataType], *, formulas: Formulas | None) -> pa.Table:
    """Read a CSV file as `write_csv` wrote it; who allows no missing value, or no other column, looks for it.

    Args:
        data: the whole file.
        types: Arrow type of each column, text for labels.
        formulas: what the record says of labels that a spreadsheet takes for formulas.
    Raises:
        ArrowException: this is no CSV, or a number is none.
        ValueError: a label is not written as `formulas` says.
    """
    there = {neutralised(name): kind for name, kind in types.items()} if formulas == "neutralised" else dict(types)
    convert = pa.csv.ConvertOptions(column_types=there, strings_can_be_null=True, null_values=[""])
    # Of a file of one column, an empty line is a row with a missing value.
    parse = pa.csv.ParseOptions(ignore_empty_lines=False)
    rows = pa.csv.read_csv(pa.BufferReader(data), parse_options=parse, convert_options=convert)
    return _relabelled(rows, restored) if formulas == "neutralised" else rows


def _fields(values: Any) -> Any:
    """Return values as they stand between two commas: texts, null where there is none."""
    kind = values.type
    if kind == pa.float64():
        # Each number once, told apart by its bits: an Arrow dictionary takes -0.0 for 0.0.
        bits = values.view(pa.int64()).dictionary_encode()
        numbers = bits.dictionary.to_numpy().view(np.float64).tolist()
        return pa.array(map(_number, numbers), pa.string()).take(bits.indices)
    if _holds_labels(kind):
        labels = values if pa.types.is_dictionary(kind) else values.dictionary_encode()
        return pa.array(map(_quoted, labels.dictionary.to_pylist()), pa.string()).take(labels.indices)
    return values.cast(pa.string())


def _number(number: float) -> str:
    """Write a number in the fewest digits: between 1e-5 and 1e16 without an exponent, and that without zeros."""
    shortest = repr(number)
    digits, _, exponent = shortest.partition("e-0")
    if exponent == "5":
        sign, bare = ("-", digits[1:]) if digits.startswith("-") else ("", digits)
        return f"{sign}0.0000{bare.replace('.', '')}"
    return f"{digits}e-{exponent}" if exponent else shortest.replace("nan", "NaN")


def _quoted(text: str) -> str:
    """Return a text in quotes where a reader would take a part of it for a comma, a line end or a missing value."""
    return '"' + text.replace('"', '""') + '"' if _QUOTED.search(text) else text


def _holds_labels(kind: pa.DataType) -> bool:
    """Say whether a column is one of labels, whatever the width of their offsets."""
    texts = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return bool(texts or pa.types.is_dictionary(kind))


def _relabelled(rows: pa.Table, change: Callable[[str], str]) -> pa.Table:
    """Change every label once, however many rows have it, and the names of the columns."""
    names = [change(name) for name in rows.column_names]
    return pa.table([_changed(column, change) for column in rows.columns], names=names)


def _changed(column: pa.ChunkedArray, change: Callable[[str], str]) -> pa.ChunkedArray:
    if not _holds_labels(column.type):
        return column
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    chunks: list[Any] = [
        pa.DictionaryArray.from_arrays(
            chunk.indices, pa.array([change(label) for label in chunk.dictionary.to_pylist()], pa.string())
        )
        for chunk in encoded.chunks
    ]
    return pa.chunked_array(chunks, pa.dictionary(encoded.type.index_type, pa.string()))
