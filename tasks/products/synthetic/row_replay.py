"""Rule 9 of a synthetic version: its rows come out of its model and seed, and keep what the contract declares.

Rows are compared piece by piece, so that memory does not grow with their number but for the codes of all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from contracts.contract.contract import Contract
from contracts.contract.decoding import Decoded, DecodedForm, Decoder
from contracts.contract.labels import Formulas
from contracts.errors import Finding
from privacy.generators.generator import Model
from privacy.generators.rows import PIECE_ROWS, synthetic_rows
from privacy.marginals.portable import PostProcessingSeed
from tasks.products.synthetic.row_constraints import PublishedColumn, check_rows
from tasks.records.files.csv_rows import read_csv
from tasks.records.files.write import arrow_array, arrow_type
from tasks.records.model.version_statements import SyntheticRowsStatement
from tasks.records.strict_json import printable, shown
from tasks.verification.files.parquet_pages import unpacked_size
from tasks.verification.fitted.model_reader import UNREADABLE
from tasks.verification.fitted.modifier_checks import RowTable
from tasks.verification.fitted_meaning import SyntheticMeaning

OTHER_ROWS: Final = "the rows are not what the published model and seed give: do not use them"
_BYTES_PER_VALUE: Final = 64
_BYTES_PER_PLACE: Final = 8
_SPARE_BYTES: Final = 2**22
_MOST_FINDINGS: Final = 20


def row_table(
    model: Model, stated: SyntheticRowsStatement, meaning: SyntheticMeaning, *, in_all_formats: bool = True
) -> RowTable:
    """Return the table of the rows of a model.

    Args:
        model: the published model.
        stated: what the record says of the rows.
        meaning: contract and product.
        in_all_formats: whether they may have a CSV copy.
    """
    contract, seed = meaning.contract, PostProcessingSeed(int(stated.seed, 16))
    made = partial(synthetic_rows, model, contract, seed, stated.number)
    return RowTable(
        stated.data, stated.number, Decoder(contract, meaning.names).forms, made, in_all_formats=in_all_formats
    )


def check_published_rows(
    table: RowTable, contract: Contract, parquet: bytes, csv: tuple[str, bytes] | None, formulas: Formulas | None
) -> list[Finding]:
    """Sample, shuffle and decode the rows again, and compare; check constraints on the published values themselves.

    Args:
        table: the table.
        contract: the contract.
        parquet: bytes of the rows' Parquet file.
        csv: name and bytes of its CSV copy, if there is one.
        formulas: how the copy writes labels that a spreadsheet takes for formulas, as the record says.
    """
    where, forms, findings = table.data, table.forms, list[Finding]()
    try:
        file = pq.ParquetFile(pa.BufferReader(parquet))
        findings = _check_form(parquet, file, table)
        copy, wrong = (None, []) if csv is None else _read_copy(*csv, forms, table.number, formulas)
        findings += wrong
        if findings:
            return findings
        start = 0
        for number, piece in enumerate(table.pieces()):
            rows = file.read_row_group(number)
            rows.validate(full=True)
            findings += _compare(rows, piece, start, where)
            if csv is not None and copy is not None:
                findings += _compare(copy.slice(start, rows.num_rows), piece, start, csv[0])
            declared = [form.name for form in forms if form.name not in table.keys]
            columns = {name: _published(rows.column(name)) for name in declared}
            findings += check_rows(contract, columns, first_row=start + 1, where=where)
            start += rows.num_rows
            if len(findings) > _MOST_FINDINGS:
                break
        else:
            findings += _check_number(start, table)
    except UNREADABLE as error:
        findings.append(
            Finding(where, "the rows", printable(str(error)), "rows that can be sampled again", OTHER_ROWS)
        )
    return findings


def _check_number(made: int, table: RowTable) -> list[Finding]:
    """Check that as many rows were made again as are stated, where the model decides that."""
    if made == table.number:
        return []
    return [Finding(table.data, "rows", str(table.number), f"{made}, made again", OTHER_ROWS)]


def _check_form(data: bytes, file: Any, table: RowTable) -> list[Finding]:
    """Check names, types, numbers of rows and unpacked size before any value is read."""
    where, forms = table.data, table.forms
    schema, metadata = file.schema_arrow, file.metadata
    wanted = [(form.name, str(arrow_type(form))) for form in forms]
    found = [(field.name, str(field.type)) for field in schema]
    if found != wanted:
        first = next(
            (pair for pair in zip(found, wanted, strict=False) if pair[0] != pair[1]), (found[-1:], wanted[-1:])
        )
        return [Finding(where, "columns", shown(str(first[0])), shown(str(first[1])), OTHER_ROWS)]
    sizes = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
    count = max(1, -(-table.number // PIECE_ROWS))
    pieces = [] if count > len(sizes) + 1 else _pieces(table.number)  # of a number out of reach no list is made
    if sizes not in (pieces, [size for size in pieces if size]) or count > len(sizes) + 1:
        found_rows, allowed = f"{metadata.num_rows} in {len(sizes)} groups", f"{table.number} in {count}"
        return [Finding(where, "rows", found_rows, allowed, OTHER_ROWS)]
    unpacked = unpacked_size(data, metadata)
    longest = sum(max((len(text.encode()) for text in form.values if text is not None), default=0) for form in forms)
    places = sum(form.places for form in forms)
    most = table.number * (_BYTES_PER_VALUE * len(forms) + longest + _BYTES_PER_PLACE * places) + _SPARE_BYTES
    if unpacked > most:
        return [Finding(where, "unpacked size", f"{unpacked} bytes", f"at most {most} bytes", OTHER_ROWS)]
    return []


def _read_copy(
    name: str, data: bytes, forms: Sequence[DecodedForm], number: int, formulas: Formulas | None
) -> tuple[Any, list[Finding]]:
    """Read the CSV copy; check its columns and its number of rows."""
    types = {form.name: pa.string() if form.kind == "label" else arrow_type(form) for form in forms}
    try:
        rows = read_csv(data, types, formulas=formulas)
    except UNREADABLE as error:
        return None, [Finding(name, "the file", printable(str(error)), "a whole CSV file", OTHER_ROWS)]
    if rows.column_names != list(types):
        return None, [Finding(name, "columns", "others", "those of the Parquet file, in their order", OTHER_ROWS)]
    if rows.num_rows != number:
        return None, [Finding(name, "rows", str(rows.num_rows), f"{number}, as the record says", OTHER_ROWS)]
    return rows, []


def _pieces(number: int) -> list[int]:
    """Return how many rows each piece has."""
    return [min(PIECE_ROWS, number - start) for start in range(0, number, PIECE_ROWS)] or [0]


def _compare(rows: Any, piece: Sequence[Decoded], start: int, where: str) -> Iterator[Finding]:
    """Yield for each column the first row in which it leaves what it must be."""
    for decoded in piece:
        name, expected = decoded.form.name, _plain(arrow_array(decoded))
        found = _plain(rows.column(name).combine_chunks())
        if found.equals(expected):
            continue
        if pa.types.is_fixed_size_list(expected.type):
            yield from _compare_pictures(found, expected, name, start, where)
            continue
        same = pc.fill_null(pc.equal(found, expected), False)
        both = pc.and_(pc.is_null(found), pc.is_null(expected))
        differing = np.flatnonzero(~np.asarray(pc.or_(same, both).to_numpy(zero_copy_only=False)))
        if differing.size:
            row = int(differing[0])
            field = f"column {printable(name)}, row {start + row + 1}"
            allowed = f"{shown(expected[row].as_py())}, sampled again"
            more = f" ({differing.size - 1} more rows differ)" if differing.size > 1 else ""
            yield Finding(where, field, f"{shown(found[row].as_py())}{more}", allowed, OTHER_ROWS)


def _compare_pictures(found: Any, expected: Any, name: str, start: int, where: str) -> Iterator[Finding]:
    """Yield the first picture that leaves what it must be."""
    field = f"column {printable(name)}"
    if found.null_count or found.flatten().null_count:
        yield Finding(where, field, "a missing value", "a level at every place", OTHER_ROWS)
        return
    one, other = (np.asarray(each.flatten().to_numpy()).reshape(len(expected), -1) for each in (found, expected))
    rows = np.flatnonzero((one != other).any(axis=1))
    if rows.size:
        row = int(rows[0])
        place = int(np.flatnonzero(one[row] != other[row])[0])
        allowed = f"{other[row, place]}, sampled again"
        more = f" ({rows.size - 1} more rows differ)" if rows.size > 1 else ""
        at = f"{field}, row {start + row + 1}, place {place + 1}"
        yield Finding(where, at, f"{one[row, place]}{more}", allowed, OTHER_ROWS)


def _plain(array: Any) -> Any:
    """Return an array without a dictionary, in one piece."""
    array = pa.concat_arrays(array.chunks) if isinstance(array, pa.ChunkedArray) else array
    return array.cast(pa.string()) if pa.types.is_dictionary(array.type) else array


def _published(column: Any) -> PublishedColumn:
    """Take a column of a file apart for the checks of constraints."""
    array = column.combine_chunks()
    array = pa.concat_arrays(array.chunks) if isinstance(array, pa.ChunkedArray) else array
    missing = np.asarray(array.is_null().to_numpy(zero_copy_only=False))
    if pa.types.is_fixed_size_list(array.type):
        values = np.asarray(array.flatten().fill_null(0).to_numpy(zero_copy_only=False))
        return PublishedColumn(values.reshape(len(array), -1) if not array.null_count else values, missing)
    if pa.types.is_dictionary(array.type):
        places = array.indices.fill_null(len(array.dictionary)).to_numpy(zero_copy_only=False)
        return PublishedColumn(places.astype(np.int64), missing, array.dictionary.to_pylist())
    if pa.types.is_date(array.type):
        array = array.cast(pa.int32())
    filled = array.fill_null(False if pa.types.is_boolean(array.type) else 0)
    return PublishedColumn(filled.to_numpy(zero_copy_only=False), missing)
