"""Reading a published table whose rows are listed: which rows it has is known, by their numbers among all labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from contracts.contract.cell_codes import digit
from contracts.contract.column import Cells
from contracts.contract.spreadsheet import Formulas
from contracts.errors import Finding
from tasks.records.files.csv_rows import read_csv
from tasks.records.strict_json import printable, shown
from tasks.verification.files.table_files import (
    MISFIT,
    UNREADABLE,
    ColumnArrays,
    check_form,
    check_weight,
    check_whole,
    csv_types,
    label_numbers,
    open_parquet,
)
from tasks.verification.refinement_replay import first_difference

_ROWS: Final = "one for each cell of each group's level"


def read_rows(
    data: bytes,
    *,
    where: str,
    cells: Cells,
    clique: Sequence[str],
    codes: NDArray[np.int64],
    values: Sequence[str],
    wanted: str = _ROWS,
) -> tuple[ColumnArrays | None, list[Finding]]:
    """Read a Parquet file whose rows are known.

    Args:
        data: its bytes; their checksum is signed.
        where: its name.
        cells: gives the labels.
        clique: the label columns.
        codes: the rows in their order, by their row-major numbers.
        values: the columns of whole numbers after the labels.
        wanted: what the rows are, for the message.
    Returns:
        tuple: the value columns (None where they cannot be read), and what is wrong.
    """
    types = dict.fromkeys(values, "int64")
    try:
        file = open_parquet(data, clique)
        expected = codes.size, wanted
        findings = check_form(file.schema_arrow, file.metadata.num_rows, where, clique, types, expected=expected)
        if not findings:
            findings = check_weight(data, file.metadata, where, cells, clique, types, rows=codes.size)
        if findings:
            return None, findings
        table = file.read()
        table.validate(full=True)
        return _checked(table, where, cells, clique, codes, values)
    except UNREADABLE as error:
        return None, [Finding(where, "the file", printable(str(error)), "a whole Parquet file", MISFIT)]


def read_csv_rows(
    data: bytes,
    *,
    where: str,
    cells: Cells,
    clique: Sequence[str],
    codes: NDArray[np.int64],
    values: Sequence[str],
    formulas: Formulas | None,
) -> tuple[ColumnArrays | None, list[Finding]]:
    """Read a CSV file whose rows are known; as `read_rows`, with `formulas` as the record says."""
    types = dict.fromkeys(values, "int64")
    try:
        table = read_csv(data, csv_types(clique, types), formulas=formulas)
        findings = check_form(table.schema, table.num_rows, where, clique, types, expected=(codes.size, _ROWS))
        return (None, findings) if findings else _checked(table, where, cells, clique, codes, values)
    except UNREADABLE as error:
        return None, [Finding(where, "the file", printable(str(error)), "a whole CSV file", MISFIT)]


def _checked(
    table: pa.Table,
    where: str,
    cells: Cells,
    clique: Sequence[str],
    codes: NDArray[np.int64],
    values: Sequence[str],
) -> tuple[ColumnArrays | None, list[Finding]]:
    """Check for nulls and for the labels of each row; return the value columns."""
    findings = check_whole(table, where, (*clique, *values))
    if findings:
        return None, findings
    shape = cells.shape(clique)
    for place, name in enumerate(clique):
        labels: Any = cells.column(name).labels
        found, array = label_numbers(table.column(name), labels)
        difference = first_difference(found, digit(codes, shape, place))
        if difference is not None:
            text = array[difference.row - 1].as_py()
            field = f"column {printable(name)}, row {difference.row}"
            allowed = f"{shown(labels[int(str(difference.expected))])}, as the group's level has it"
            findings.append(Finding(where, field, shown(text), allowed, MISFIT))
    return {name: table.column(name).to_numpy() for name in values}, findings
