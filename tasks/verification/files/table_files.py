"""Reading published tables (Parquet, CSV) strictly: the columns, types, rows and labels that a table must have.

Only bytes whose checksum is signed are parsed here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from contracts.contract.column import Cells
from contracts.contract.spreadsheet import Formulas
from contracts.errors import Finding
from tasks.records.files.csv_rows import read_csv
from tasks.records.files.label_arrays import Beside, label_types, plain_texts
from tasks.records.strict_json import printable, shown
from tasks.verification.files.label_checks import check_beside
from tasks.verification.files.parquet_pages import unpacked_size
from tasks.verification.files.suppressed_cells import filled
from tasks.verification.refinement_replay import first_difference, label_codes

ColumnArrays = Mapping[str, NDArray[Any]]
Types = Mapping[str, str]

MEASURED: Final[Types] = {
    "noisy": "int64",
    "variance": "double",
    "lower": "int64",
    "upper": "int64",
    "structural_zero": "bool",
}
_ARROW_TYPES: Final = {"int64": pa.int64(), "double": pa.float64(), "bool": pa.bool_()}
_BYTES_PER_VALUE: Final = 64
_SPARE_BYTES: Final = 2**22
MOST_ROWS: Final = 2**26
"""Rows that are read of one file: what memory holds. No table of so many cells can be planned (`MOST_CELLS`)."""
UNREADABLE: Final = (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError)
_EACH_CELL: Final = "one for each cell of the declared domain"
OTHER_NOISE: Final = "the noisy values are not those that were drawn and paid for: do not use this table"
UNCERTAINTY: Final = "the stated uncertainty does not follow from the noise: use the recomputed one"
OTHER_TABLE: Final = "the table is not what the declared steps make of the noisy values: do not use it"
MISFIT: Final = "the file is not the table that the record describes: do not use it"


def check_digest(found: str, entered: str, of: str, *, where: str) -> list[Finding]:
    """Compare the SHA-256 (hex) of a file's values with that which was entered when they were drawn.

    Args:
        found: of the file's values.
        entered: of what was drawn.
        of: what the values are, in words.
        where: the file.
    """
    if found == entered:
        return []
    return [Finding(where, f"SHA-256 of {of}", found, f"{entered}, as it was entered when it was drawn", OTHER_NOISE)]


def read_parquet(
    data: bytes,
    *,
    where: str,
    cells: Cells,
    clique: Sequence[str],
    values: Types,
    marks: Mapping[str, int] | None = None,
    beside: Beside = (),
    may_lack: Collection[str] = (),
) -> tuple[ColumnArrays | None, list[Finding]]:
    """Read a published Parquet file.

    Args:
        data: its bytes; their checksum is signed.
        where: its name.
        cells: gives the labels: the contract, or a coarser resolution of a table.
        clique: the label columns.
        values: Arrow type of each column after the labels.
        marks: of a table with suppressed cells, what stands for a missing value, by column.
        beside: of each label column, what must stand in columns beside it.
        may_lack: the columns of doubles in which a value may be missing; it is read as NaN, which none may be.
    Returns:
        tuple: the value columns, one value a row (None where they cannot be read), and what is wrong.
    """
    try:
        file = open_parquet(data, clique)
        rows = cells.cells(clique), _EACH_CELL
        schema, number = file.schema_arrow, file.metadata.num_rows
        findings = check_form(schema, number, where, clique, values, expected=rows, beside=beside)
        if not findings:
            findings = check_weight(data, file.metadata, where, cells, clique, values, rows=rows[0], beside=beside)
        if findings:
            return None, findings
        table = file.read()
        table.validate(full=True)
        return _columns(table, where, cells, clique, values, marks, beside, may_lack)
    except UNREADABLE as error:
        return None, [Finding(where, "the file", printable(str(error)), "a whole Parquet file", MISFIT)]


def read_csv_table(
    data: bytes,
    *,
    where: str,
    cells: Cells,
    clique: Sequence[str],
    values: Types,
    marks: Mapping[str, int] | None = None,
    beside: Beside = (),
    may_lack: Collection[str] = (),
    formulas: Formulas | None,
) -> tuple[ColumnArrays | None, list[Finding]]:
    """Read a published CSV file; arguments and result as for `read_parquet`, `formulas` as the record says."""
    try:
        table = plain_texts(read_csv(data, csv_types(clique, values, beside), formulas=formulas), beside)
        rows = cells.cells(clique), _EACH_CELL
        findings = check_form(table.schema, table.num_rows, where, clique, values, expected=rows, beside=beside)
        return (
            (None, findings) if findings else _columns(table, where, cells, clique, values, marks, beside, may_lack)
        )
    except UNREADABLE as error:
        return None, [Finding(where, "the file", printable(str(error)), "a whole CSV file", MISFIT)]


def compare_column(
    found: NDArray[Any],
    expected: NDArray[Any],
    *,
    where: str,
    name: str,
    source: str,
    remedy: str,
    tolerance: float = 0.0,
) -> list[Finding]:
    """Return a finding with the first row in which a column differs, if one does."""
    difference = first_difference(found, expected, tolerance=tolerance)
    if difference is None:
        return []
    more = f" ({difference.count - 1} more rows differ)" if difference.count > 1 else ""
    field = f"column {printable(name)}, row {difference.row}"
    return [
        Finding(where, field, f"{shown(difference.found)}{more}", f"{shown(difference.expected)}, {source}", remedy)
    ]


def csv_types(clique: Sequence[str], values: Types, beside: Beside = ()) -> dict[str, Any]:
    """Return the type of each column of a table in a CSV file: labels are text."""
    labels = {name: pa.string() for name in clique} | label_types(beside)
    return labels | {name: _ARROW_TYPES[kind] for name, kind in values.items()}


def check_form(
    schema: Any,
    rows: int,
    where: str,
    clique: Sequence[str],
    values: Types,
    *,
    expected: tuple[int, str],
    beside: Beside = (),
) -> list[Finding]:
    """Check names, types and number of rows before any value is read; `expected` says how many, and why."""
    described = {name: str(kind) for name, kind in label_types(beside).items()}
    wanted = [*clique, *described, *values]
    if list(schema.names) != wanted:
        found, allowed = (", ".join(printable(name) for name in names[:20]) for names in (schema.names, wanted))
        return [Finding(where, "columns", found, allowed, MISFIT)]
    findings = []
    for name in clique:
        kind = schema.field(name).type
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
            findings.append(Finding(where, f"column {printable(name)}", str(kind), "string", MISFIT))
    for name, type_ in {**described, **values}.items():
        if str(schema.field(name).type) != type_:
            findings.append(Finding(where, f"column {printable(name)}", str(schema.field(name).type), type_, MISFIT))
    if rows != expected[0]:
        allowed = f"{expected[0]}, {expected[1]}"
        findings.append(Finding(where, "rows", str(rows), allowed, MISFIT))
    return findings


def open_parquet(data: bytes, labels: Sequence[str]) -> Any:
    """Open a Parquet file; its labels stay numbers and a list, however long one is and however often it comes."""
    return pq.ParquetFile(pa.BufferReader(data), read_dictionary=list(labels))


def check_weight(
    data: bytes,
    metadata: Any,
    where: str,
    cells: Cells,
    clique: Sequence[str],
    values: Types,
    *,
    rows: int,
    beside: Beside = (),
) -> list[Finding]:
    """Refuse a file that unpacks to more than its rows can need, or has more rows than are read.

    Raises:
        ValueError: its pages do not lie where its footer says.
    """
    if rows > MOST_ROWS:
        return [Finding(where, "rows", str(rows), f"at most {MOST_ROWS}: more are not read", MISFIT)]
    labels = [pa.array(cells.column(name).labels, pa.string()) for name in clique]
    longest = sum(pc.max(pc.binary_length(each)).as_py() for each in labels)
    described = [column for each in beside for column in each]
    texts = [column.values for column in described if column.kind == "text"]
    longest += sum(max(len((text or "").encode()) for text in each) for each in texts)
    columns = len(clique) + len(described) + len(values)
    allowed = rows * (longest + _BYTES_PER_VALUE * columns) + _SPARE_BYTES
    unpacked = unpacked_size(data, metadata)
    if unpacked <= allowed:
        return []
    return [Finding(where, "unpacked size", f"{unpacked} bytes", f"at most {allowed} bytes", MISFIT)]


def _columns(
    table: Any,
    where: str,
    cells: Cells,
    clique: Sequence[str],
    values: Types,
    marks: Mapping[str, int] | None,
    beside: Beside,
    may_lack: Collection[str],
) -> tuple[ColumnArrays | None, list[Finding]]:
    """Check for nulls and for the labels in row-major order; return the value columns."""
    if marks:
        table, findings = filled(table, where, marks)
        if findings:
            return None, findings
    findings = check_whole(table, where, [*clique, *(name for name in values if name not in may_lack)])
    for name in may_lack:
        if pc.any(pc.is_nan(table.column(name))).as_py():
            findings.append(Finding(where, f"column {printable(name)}", "NaN", "a number, or no value", MISFIT))
    if findings:
        return None, findings
    for place, name in enumerate(clique):
        findings += _check_labels(table.column(name), where, cells, clique, place)
        if beside:
            findings += check_beside(table, where, beside[place], label_codes(cells, clique, place))
    return {name: table.column(name).to_numpy() for name in values}, findings


def check_whole(table: Any, where: str, columns: Sequence[str]) -> list[Finding]:
    """Check that no value is missing."""
    for name in columns:
        if table.column(name).null_count:
            found = f"{table.column(name).null_count} missing values"
            return [Finding(where, f"column {printable(name)}", found, "a value in every row", MISFIT)]
    return []


def label_numbers(column: Any, labels: Sequence[str]) -> tuple[NDArray[np.int64], Any]:
    """Return the code of each label of a column, -1 where it is none of the contract's, and the labels themselves."""
    if len(column) == 0:
        return np.empty(0, np.int64), column
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    array = encoded.unify_dictionaries().combine_chunks()
    array = array.chunk(0) if isinstance(array, pa.ChunkedArray) else array
    known = pc.index_in(array.dictionary.cast(pa.string()), value_set=pa.array(labels, pa.string()))
    numbers = np.asarray(known.fill_null(-1).to_numpy(zero_copy_only=False), dtype=np.int64)
    return numbers[array.indices.to_numpy(zero_copy_only=False)], array


def _check_labels(column: Any, where: str, cells: Cells, clique: Sequence[str], place: int) -> list[Finding]:
    """Check that a label column names the cells of the declared domain in row-major order."""
    labels = cells.column(clique[place]).labels
    found, array = label_numbers(column, labels)
    difference = first_difference(found, label_codes(cells, clique, place))
    if difference is None:
        return []
    text = array[difference.row - 1].as_py()
    field = f"column {printable(clique[place])}, row {difference.row}"
    allowed = f"{shown(labels[int(str(difference.expected))])}: the declared cells in row-major order"
    return [Finding(where, field, shown(text), allowed, MISFIT)]
