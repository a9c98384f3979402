"""Rows in memory: tables of Polars, pandas, Arrow and DuckDB, written as Parquet for the time of one run.

What a file could not say as well is refused: two columns of one name, an index with names, values of several types in
one column, a table that is read anew each time. A refusal names the column and never a value.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

import pyarrow as pa
import pyarrow.parquet as pq

from contracts.errors import Finding, SourceUnreadable

ALLOWED: Final = "a DataFrame of Polars or pandas, a Table of Arrow, or a relation of DuckDB"
MODE: Final = 0o600
_NO_CODES: Final = ("mixed", "unknown-array", "complex", "bytes")
_LAZY: Final = {
    ("polars", "LazyFrame"): "collect() it",
    ("pyarrow", "RecordBatchReader"): "read_all() it",
    ("pyarrow", "Scanner"): "to_table() it",
    ("pyarrow", "Dataset"): "to_table() it",
}


def write_rows(source: Any, file: Path) -> None:
    """Write a table in memory into a Parquet file that only its owner may read.

    Args:
        source: the table.
        file: replaced where it is there.
    Raises:
        SourceUnreadable: it is no such table, or one that no file could hold.
    Privacy: the file holds private rows; a refusal quotes none of them.
    """
    batches = _reader(source, whole=True)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, MODE)
    with os.fdopen(descriptor, "wb") as opened:
        os.fchmod(opened.fileno(), MODE)
        with pq.ParquetWriter(opened, batches.schema) as writer:
            _guarded(lambda: [writer.write_batch(batch) for batch in batches])


def schema_of(source: Any) -> pa.Schema:
    """Return names and types of the columns of a table in memory.

    Raises:
        SourceUnreadable: as `write_rows`.
    Privacy: no row is read; what pandas calls `object` counts as text.
    """
    return pa.schema([pa.field(each.name, _plain_type(each.type)) for each in _reader(source, whole=False).schema])


def _reader(source: Any, *, whole: bool) -> pa.RecordBatchReader:
    """Return the rows, or none of them, as Arrow batches."""
    readers: dict[tuple[str, str], Callable[..., pa.RecordBatchReader]] = {
        ("polars", "DataFrame"): _of_polars,
        ("pandas", "DataFrame"): _of_pandas,
        ("pyarrow", "Table"): _of_arrow,
        ("pyarrow", "RecordBatch"): _of_arrow,
        ("_duckdb", "DuckDBPyRelation"): _of_duckdb,
        ("duckdb", "DuckDBPyRelation"): _of_duckdb,
    }
    kinds = [(each.__module__.partition(".")[0], each.__name__) for each in type(source).__mro__]
    for kind in kinds:
        if kind in readers:
            return readers[kind](source, whole)
    for kind in kinds:
        if kind in _LAZY:
            found = f"a {kind[1]}, whose rows may be others each time that it is read"
            _refuse("type", found, "a table whose rows are there", _LAZY[kind])
    _refuse("type", f"an object of type {type(source).__name__}", ALLOWED, "convert it, or name a file in the spec")


def _of_polars(frame: Any, whole: bool) -> pa.RecordBatchReader:
    _check_names(frame.columns)
    objects = [name for name, kind in frame.schema.items() if str(kind) == "Object"]
    if objects:
        _refuse_mixed(objects[0])
    return _guarded(lambda: (frame if whole else frame.clear()).to_arrow()).to_reader()


def _of_pandas(frame: Any, whole: bool) -> pa.RecordBatchReader:
    names = list(frame.columns)
    strange = [name for name in names if not isinstance(name, str)]
    if strange or frame.columns.nlevels > 1:
        remedy = "rename them: frame.columns = [...]"
        _refuse("columns", "a column whose name is no text", "columns named by texts", remedy)
    _check_names(names)
    if not whole:
        return pa.Table.from_pandas(frame.head(0), preserve_index=False).to_reader()
    _check_index(frame.index)
    for name in names:
        _check_objects(name, frame[name])
    return _guarded(lambda: pa.Table.from_pandas(frame, preserve_index=False)).to_reader()


def _of_arrow(table: Any, whole: bool) -> pa.RecordBatchReader:
    _check_names(table.schema.names)
    if not whole:
        return table.schema.empty_table().to_reader()
    return (pa.Table.from_batches([table]) if isinstance(table, pa.RecordBatch) else table).to_reader()


def _of_duckdb(relation: Any, whole: bool) -> pa.RecordBatchReader:
    _check_names(relation.columns)
    return _guarded(lambda: pa.RecordBatchReader.from_stream(relation if whole else relation.limit(0)))


def _check_names(names: Sequence[str]) -> None:
    """Refuse a table without columns, without a name, or with two columns that differ at most in upper case."""
    if not names:
        _refuse("columns", "no columns", "the columns of the contract", "give the table that the contract is about")
    if "" in names:
        _refuse("columns", "a column without a name", "a name for each column", "rename it")
    counted = Counter(name.lower() for name in names)
    twice = [name for name in names if counted[name.lower()] > 1]
    if twice:
        found = f"{len(twice)} columns named {twice[0]!r}" if len(set(twice)) == 1 else f"the columns {twice}"
        _refuse("columns", found, "each name once, also in lower case", "drop or rename one of them")


def _check_index(index: Any) -> None:
    """Refuse an index that says something: it would be lost in silence, and with it perhaps who is who."""
    named = [str(name) for name in index.names if name is not None]
    if named or index.nlevels > 1 or index.dtype.kind not in "iu":
        found = f"an index named {', '.join(named)}" if named else f"an index of type {index.dtype}"
        remedy = "reset_index() makes it a column, reset_index(drop=True) drops it"
        _refuse("index", found, "an index of whole numbers without a name", remedy)


def _check_objects(name: str, column: Any) -> None:
    """Refuse a column of Python objects of several types; lists (pictures) are for Arrow to judge."""
    if column.dtype.kind != "O" or str(column.dtype) != "object":
        return
    from pandas.api.types import infer_dtype

    kind = infer_dtype(column, skipna=True)
    if (
        kind.startswith(_NO_CODES)
        and not column.map(lambda value: hasattr(value, "__len__") and not isinstance(value, str | bytes)).all()
    ):
        _refuse_mixed(name)


def _guarded(action: Callable[[], Any]) -> Any:
    """Do something with the rows; whatever a library says of them is not passed on, since it may quote one."""
    closed = False
    try:
        return action()
    except OSError:
        raise
    except Exception as error:  # noqa: BLE001 - its text may quote a row
        closed = type(error).__name__ == "ConnectionException"
    if closed:
        _refuse(
            "connection", "a relation of a connection that is closed", "a relation that can be read", "open it again"
        )
    _refuse("types", "rows that Arrow cannot hold", "one type a column", "give each column a type of its own")


def _refuse_mixed(name: str) -> NoReturn:
    remedy = f"convert it before: frame[{name!r}].astype(...)"
    _refuse(f"column {name}", "values of several types, or of none that a file can hold", "one type a column", remedy)


def _refuse(field: str, found: str, allowed: str, remedy: str) -> NoReturn:
    raise SourceUnreadable([Finding("source", field, found, allowed, remedy)])


def _plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type that a draft is made of."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    texts = pa.types.is_large_string(kind) or pa.types.is_string_view(kind) or pa.types.is_null(kind)
    return pa.string() if texts else kind
