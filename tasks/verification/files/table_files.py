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
from contracts.contract.contract import Contract
from contracts.contract.labels import Formulas, LabelColumn
from contracts.errors import Finding
from contracts.release.product_kinds import product_kinds
from privacy.accounting.events import DiscreteGaussian, DiscreteLaplace
from privacy.marginals.count_noise import half_width
from privacy.refine.tables import Coarser, Refined
from tasks.records.files.csv_rows import read_csv
from tasks.records.files.label_arrays import Beside, first_other_row, label_array, label_types, plain_texts
from tasks.records.model.record_kinds import ACROSS, kind_of
from tasks.records.model.version_statements import RecordTerms
from tasks.records.strict_json import printable, shown
from tasks.verification.files.parquet_pages import unpacked_size
from tasks.verification.record_identity import OTHER
from tasks.verification.refinement_replay import CONFIDENCE, first_difference, label_codes

# --- The columns of refined tables; missing counts of suppressed cells stand for "below the threshold".


SUPPRESSED: Final = "suppressed"
_MISMATCH: Final = "the file does not say clearly which cells are suppressed: do not use it"


def marks_of(mark: int, event: DiscreteLaplace | DiscreteGaussian) -> dict[str, int]:
    """Return what stands for a missing value, by column: what the censored noisy number leads to.

    Args:
        mark: the number of a suppressed cell: threshold - 1 of a count, 0 of sums.
        event: its noise.
    """
    width = half_width(event, CONFIDENCE)
    return {"noisy": mark, "count": mark, "lower": mark - width, "upper": mark + width}


def filled(table: Any, where: str, marks: Mapping[str, int]) -> tuple[Any, list[Finding]]:
    """Check that values are missing exactly in the suppressed cells, and put the marks there.

    Args:
        table: an Arrow table with a column `suppressed`.
        where: the file's name.
        marks: what stands for a missing value, by column; columns that the table has not are left out.
    Returns:
        tuple: the table without missing values, and a finding for each column that is missing in other cells.
    """
    gone = np.asarray(pc.fill_null(table.column(SUPPRESSED), False).to_numpy(zero_copy_only=False), dtype=np.bool_)
    findings = []
    for name in [name for name in table.schema.names if name in marks]:
        column = table.column(name)
        missing = np.asarray(column.is_null().to_numpy(zero_copy_only=False), dtype=np.bool_)
        rows = np.flatnonzero(missing != gone)
        if rows.size:
            row = int(rows[0])
            found, allowed = ("no value", "a value") if missing[row] else ("a value", "none")
            state = "suppressed" if gone[row] else "not suppressed"
            field = f"column {printable(name)}, row {row + 1}"
            findings.append(Finding(where, field, found, f"{allowed}: the cell is {state}", _MISMATCH))
        place = table.schema.get_field_index(name)
        table = table.set_column(place, name, pc.fill_null(column, pa.scalar(marks[name], column.type)))
    return table, findings


def expected_columns(refined: Refined | Coarser) -> dict[str, NDArray[Any]]:
    """Return the columns that a refined table must have, one value a row."""
    columns: dict[str, NDArray[Any]] = {
        "count": refined.values,
        "lower": refined.intervals.lower,
        "upper": refined.intervals.upper,
    }
    if isinstance(refined, Refined) and refined.suppressed is not None:
        columns[SUPPRESSED] = refined.suppressed
    return {name: array.reshape(-1) for name, array in columns.items()}


# --- Columns beside labels.


_OTHER_LABELS: Final = "the file says another thing of a label than the contract: do not use it"


def check_labels(record: RecordTerms, contract: Contract, *, where: str) -> list[Finding]:
    """Refuse, as the spec's reader does, columns beside labels where the files can have none.

    Args:
        record: the record; its product was read.
        contract: its contract.
        where: the record's file name.
    """
    if record.replay.labels is None:
        return []
    kind = kind_of(record)
    if kind == ACROSS:
        found, allowed = "columns, across sites", "nothing: what is made across sites has labels alone"
        return [Finding(where, "replay.labels", found, allowed, OTHER)]
    from contracts.release.spec_checks import label_problems  # with all that reads specs, for the few that need it

    product = product_kinds()[kind].load("spec").model_validate(record.replay.product)
    return [
        Finding(where, "replay.labels", printable(problem.found), printable(problem.allowed), OTHER)
        for _, problem in label_problems(product, contract)
    ]


def check_beside(table: Any, where: str, beside: Sequence[LabelColumn], codes: NDArray[np.int64]) -> list[Finding]:
    """Check the columns beside the labels of one column, row by row.

    Args:
        table: what was read.
        where: the file's name.
        beside: what must stand beside each label.
        codes: of each row the place of its label, from 0.
    """
    findings = []
    for column in beside:
        expected = label_array(column, codes)
        row = first_other_row(table.column(column.name), expected)
        if row is not None:
            found, allowed = (_shown(each[row].as_py()) for each in (table.column(column.name), expected))
            field = f"column {printable(column.name)}, row {row + 1}"
            findings.append(
                Finding(where, field, found, f"{allowed}, as the contract says of the label", _OTHER_LABELS)
            )
    return findings


def _shown(value: object) -> str:
    return "nothing" if value is None else printable(str(value))


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
