"""Rule 9, the bytes of data files: each is written again from its own values, and nothing else may be there.

Values are held against the replay elsewhere. A file has room beside its values: metadata of the file and of fields,
unused entries of a dictionary, the writer's name, another compression, other pages; of CSV line ends, a byte order
mark, zeros in front of a number. So each Parquet and CSV file is written again by the code that publishes, from the
values that were read. The bytes of CSV must be the same, and of Parquet where the same library ran (the record says
which). Where another one ran, the structure is held to an allow-list: metadata, labels, row groups, encodings and
compression are ours, and the file is hardly longer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from contracts.contract.column import Cells
from contracts.contract.labels import Formulas
from contracts.errors import Finding
from privacy.classifiers.safetensors import from_safetensors
from tasks.records.files.csv_rows import write_csv
from tasks.records.files.part_names import PIECE, parts_among
from tasks.records.files.synthetic_files import type_name
from tasks.records.files.tidy_tables import Tidy, index_type
from tasks.records.model.manifest import Manifest
from tasks.records.model.version_statements import DataFileStatement, RecordTerms
from tasks.records.strict_json import printable, shown
from tasks.verification.draws.draw_checks import FileForm
from tasks.verification.files.folder import OpenFiles, VersionFolder
from tasks.verification.files.table_files import (
    UNREADABLE,
    ColumnArrays,
    Types,
    check_form,
    check_weight,
    open_parquet,
)
from tasks.verification.product_checks import ProductChecks

ROOM: Final = "the file has room for what nobody declared: take its values, and ask the publisher what else it holds"
_ARROW_SCHEMA: Final = b"ARROW:schema"
_CREATED_BY: Final = re.compile(r"parquet-cpp-arrow version \d{1,4}\.\d{1,4}\.\d{1,4}")
_SPARE_SCHEMA: Final = 64
_SPARE_FOOTER: Final = 256
_SPARE_BYTES: Final = 1024


def check_written(
    folder: VersionFolder, manifest: Manifest, sound: frozenset[str], product: ProductChecks
) -> Iterator[Finding]:
    """Write each data file again and compare; the files' values were found to be right.

    Args:
        folder: the version.
        manifest: its files.
        sound: those whose checksum holds.
        product: gives the record, and how its files are written.
    """
    files, record = OpenFiles(folder, manifest, sound), product.record
    packages, marks = _packages(record), version_marks(record)
    same = packages.get("pyarrow") == pa.__version__
    for name, form in sorted(product.forms().items()):
        findings: list[Finding] = []
        if form.exact:
            continue
        data = files.read(name, findings) if name in manifest.files else None
        if data is not None:
            yield from _guarded(data, name, form, marks, same)
            for part in parts_among(name, manifest.files):
                rows = files.read(part, findings)
                yield from _guarded(rows, part, form, marks, same) if rows is not None else ()
            copy = f"{name.removesuffix('.parquet')}.csv"
            csv = files.read(copy, findings) if copy in manifest.files else None
            if csv is not None:
                yield from _check_csv(csv, data, copy, formulas=record.replay.formulas)
        yield from findings


def version_marks(record: RecordTerms) -> dict[str, str]:
    """Return what every file of a version says of where it comes from."""
    return {
        "sudare_release": record.release,
        "sudare_version": str(record.version),
        "sudare_contract_digest": record.replay.contract_digest,
        "sudare_spec_digest": record.replay.spec_digest,
    }


def _packages(record: RecordTerms) -> dict[str, str]:
    """Return the versions of the libraries that wrote a version, as far as its record says them."""
    return dict(record.declarations.software.packages)


def _guarded(data: bytes, name: str, form: FileForm, marks: Mapping[str, str], same: bool) -> list[Finding]:
    try:
        return list(_check_parquet(data, printable(name), form, {**marks, **form.marks}, same=same))
    except (*UNREADABLE, KeyError) as error:
        return [Finding(printable(name), "the file", printable(str(error)), "a file that can be written again", ROOM)]


def _check_parquet(
    data: bytes, where: str, form: FileForm, marks: Mapping[str, str], *, same: bool
) -> Iterator[Finding]:
    with pq.ParquetFile(pa.BufferReader(data)) as file:
        other = _other_layout(file, form)
        if other is not None:
            yield Finding(where, "row groups", other, "the pieces in which files are written", ROOM)
            return
        labels, wrong = _labels(file, form)
        if wrong is not None:
            yield Finding(where, f"labels of column {shown(wrong)}", "others, or in another order", _DICTIONARY, ROOM)
            return
        again = _write(file, labels, form, marks)
        if again == data:
            return
        with pq.ParquetFile(pa.BufferReader(again)) as ours:
            findings = list(_differences(file, ours, len(data), len(again), where))
        if same and not findings:
            findings = [Finding(where, "the bytes", "other bytes", "those that its values are written in", ROOM)]
        yield from findings


_DICTIONARY: Final = "the declared ones, in their order, and no more"


def _other_layout(file: Any, form: FileForm) -> str | None:
    """Say how the rows are cut, where that is not how we cut them."""
    sizes = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
    if form.piece is not None:
        full = all(size == form.piece for size in sizes[:-1]) and all(size <= form.piece for size in sizes)
        return None if full and (len(sizes) < 2 or all(sizes)) else f"{len(sizes)}, of other sizes"
    return None if _arrays_apart(file, sizes, form) else f"{len(sizes)}, of other sizes"


def _arrays_apart(file: Any, sizes: Sequence[int], form: FileForm) -> bool:
    """Say whether each array is a row group of its own, or several full ones; an empty array is an empty one."""
    found = [file.read_row_group(group, columns=["array"]).column(0).cast(pa.string()) for group in range(len(sizes))]
    names = [pc.unique(each).to_pylist() for each in found]
    whole = all(len(each) <= 1 for each in names) and all(size <= PIECE for size in sizes)
    pairs = zip(sizes, names, names[1:], strict=False)
    apart = all(size == PIECE or not here or here != after for size, here, after in pairs)
    used = {name for each in names for name in each}
    return whole and apart and sizes.count(0) == len(form.labels["array"]) - len(used)


def _labels(file: Any, form: FileForm) -> tuple[dict[str, Any], str | None]:
    """Return each dictionary column's labels as they must be; and the first column whose own are others."""
    labels: dict[str, Any] = {}
    for name, wanted in form.labels.items():
        own = [
            _encoded(file.read_row_group(group, columns=[name]).column(0)).dictionary.to_pylist()
            for group in range(file.num_row_groups)
            if file.metadata.row_group(group).num_rows
        ]
        expected = list(wanted) if not isinstance(wanted, frozenset) else (own[0] if own else sorted(wanted))
        unordered = isinstance(wanted, frozenset) and (set(expected) != wanted or not _in_order(file, name, expected))
        if unordered or len(set(expected)) < len(expected) or any(each != expected for each in own):
            return {}, name
        labels[name] = pa.array(expected, pa.string())
    return labels, None


def _in_order(file: Any, name: str, labels: Sequence[str]) -> bool:
    """Say whether labels that are used appear in the order in which they are listed."""
    used = pc.unique(file.read(columns=[name]).column(0).cast(pa.string())).to_pylist()
    places = {label: place for place, label in enumerate(labels)}
    order = [places[each] for each in used]
    return order == sorted(order)


def _encoded(column: Any) -> Any:
    """Return a column of one row group as one dictionary array."""
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    joined = encoded.unify_dictionaries().combine_chunks()
    if isinstance(joined, pa.ChunkedArray):
        joined = joined.chunk(0) if joined.num_chunks else pa.array([], pa.string()).dictionary_encode()
    return joined


def _write(file: Any, labels: Mapping[str, Any], form: FileForm, marks: Mapping[str, str]) -> bytes:
    """Write a file again from its values, as `tasks.records.files` writes it."""
    found = file.schema_arrow
    kinds = {
        name: pa.dictionary(pa.int32() if form.piece is None else index_type(len(known)), pa.string())
        for name, known in labels.items()
    }
    fields = [pa.field(each.name, kinds.get(each.name, each.type), nullable=each.nullable) for each in found]
    schema = pa.schema(fields, metadata=dict(marks))
    sink = pa.BufferOutputStream()
    uses = True if form.all_dictionaries else list(labels)
    with pq.ParquetWriter(sink, schema, compression="zstd", use_dictionary=uses) as writer:
        for group in range(file.num_row_groups):
            rows = file.read_row_group(group)
            arrays = [_array(rows.column(each.name), labels.get(each.name), each.type) for each in schema]
            batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
            writer.write_batch(batch, row_group_size=max(1, rows.num_rows))
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _array(column: Any, labels: Any, kind: Any) -> Any:
    """Return a column in one piece; with these labels where it has any."""
    if labels is None:
        whole = column.combine_chunks()
        return pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) else whole
    encoded = _encoded(column)
    places = pc.index_in(encoded.dictionary.cast(pa.string()), value_set=labels)
    codes = places.take(encoded.indices).cast(kind.index_type)
    return pa.DictionaryArray.from_arrays(codes, labels)


def _differences(file: Any, ours: Any, size: int, expected: int, where: str) -> Iterator[Finding]:
    """Yield what is not of the allowed structure: that of the file as it is written here."""
    found, wanted = file.metadata, ours.metadata
    marks, known = dict(found.metadata or {}), dict(wanted.metadata or {})
    for key in sorted({*marks, *known}):
        text = printable(key.decode("utf-8", "replace"))
        is_, must = marks.get(key), known.get(key)
        longer = is_ is not None and must is not None and len(is_) > len(must) + _SPARE_SCHEMA
        if is_ is None or must is None or (longer if key == _ARROW_SCHEMA else is_ != must):
            told = "nothing" if is_ is None else f"{len(is_)} bytes"
            allowed = "no such entry" if must is None else f"{len(must)} bytes that follow from the record"
            yield Finding(where, f"metadata {text}", told, allowed, ROOM)
    for each, must in zip(file.schema_arrow, ours.schema_arrow, strict=True):
        if not each.equals(must, check_metadata=True):
            allowed = "the type that is published, and no metadata of its own"
            yield Finding(where, f"column {shown(each.name)}", "another form", allowed, ROOM)
    if not _CREATED_BY.fullmatch(found.created_by or ""):
        allowed = "parquet-cpp-arrow and its version"
        yield Finding(where, "created_by", shown(printable(found.created_by or "")), allowed, ROOM)
    yield from _other_columns(found, wanted, where)
    for name, is_, most in (
        ("footer", found.serialized_size, wanted.serialized_size + _SPARE_FOOTER),
        ("size", size, expected + expected // 20 + _SPARE_BYTES),
    ):
        if is_ > most:
            yield Finding(where, name, f"{is_} bytes", f"at most {most}, for what the file holds", ROOM)


def _other_columns(found: Any, expected: Any, where: str) -> Iterator[Finding]:
    """Yield the first column of each kind of difference in how its values are written."""
    for group in range(expected.num_row_groups):
        for place in range(expected.num_columns):
            is_, must = found.row_group(group).column(place), expected.row_group(group).column(place)
            for what, one, other in (
                ("compression", is_.compression, must.compression),
                ("encodings", sorted(is_.encodings), sorted(must.encodings)),
                ("dictionary", is_.has_dictionary_page, must.has_dictionary_page),
            ):
                if one != other:
                    at = f"{what} of column {shown(is_.path_in_schema)}"
                    yield Finding(where, at, shown(str(one)), f"{other!s}, as it is written", ROOM)
                    return


def _check_csv(data: bytes, table: bytes, name: str, *, formulas: Formulas | None) -> list[Finding]:
    """Compare a CSV copy with what is written of its table, byte for byte."""
    written = BytesIO()
    with pq.ParquetFile(pa.BufferReader(table)) as file:
        for group in range(file.num_row_groups):
            write_csv(file.read_row_group(group), written, header=group == 0, formulas=formulas)
        if not file.num_row_groups:
            write_csv(file.schema_arrow.empty_table(), written, header=True, formulas=formulas)
    lines, expected = data.split(b"\n"), written.getvalue().split(b"\n")
    for number, (line, must) in enumerate(zip(lines, expected, strict=False), 1):
        if line != must:
            return [Finding(printable(name), f"line {number}", shown(line), f"{shown(must)}, byte for byte", ROOM)]
    if len(lines) == len(expected):
        return []
    return [Finding(printable(name), "lines", str(len(lines) - 1), f"{len(expected) - 1}, and no more", ROOM)]


# --- Rows and columns of each data file, as the record states them, held against the file itself.


_OTHER: Final = "the record describes another file: go by the file"
_LISTS: Final = ("measurements/choices.json", "measurements/statistics.json")
_Shape = tuple[int, tuple[tuple[str, str], ...]]


def check_shapes(
    folder: VersionFolder, manifest: Manifest, sound: frozenset[str], record: RecordTerms, *, where: str
) -> Iterator[Finding]:
    """Compare the stated rows and columns of each data file with those that it has.

    Args:
        folder: the version.
        manifest: its files.
        sound: those whose checksum holds; others are named by other checks.
        record: the record.
        where: its file name.
    """
    stated = {file.path: file for file in record.files}
    for name in sorted(stated.keys() & manifest.files.keys() & sound):
        findings: list[Finding] = []
        found = _shape(OpenFiles(folder, manifest, sound), stated[name], stated, findings)
        yield from findings
        told = stated[name].rows, tuple((column.name, column.type) for column in stated[name].columns)
        for what, said, real in zip(("rows", "columns"), told, found or told, strict=True):
            if said != real:
                at = printable(f"files, {name}: {what}")
                yield Finding(where, at, shown(said), f"{shown(real)}, as the file has", _OTHER)


def _shape(
    files: OpenFiles, file: DataFileStatement, stated: dict[str, DataFileStatement], findings: list[Finding]
) -> _Shape | None:
    """Return rows and columns of a file; None where it cannot be read, which is a finding of its own."""
    name = file.path
    if name.endswith(".csv"):  # its rows are compared with those of the Parquet file beside it
        beside = stated.get(f"{name.removesuffix('.csv')}.parquet")
        return None if beside is None else (beside.rows, tuple((each.name, each.type) for each in beside.columns))
    if name.endswith(".parquet"):
        data = files.read(name, findings)
        return None if data is None else _of_parquet(data, name, findings)
    if name in _LISTS:
        data = files.read(name, findings)
        listed: Any = None if data is None else json.loads(data)
        return (len(listed), ()) if isinstance(listed, list) else None
    if name.endswith(".safetensors"):
        data = files.read(name, findings)
        return None if data is None else (sum(array.size for array in from_safetensors(data)[0].values()), ())
    return 1, ()


def _of_parquet(data: bytes, name: str, findings: list[Finding]) -> _Shape | None:
    try:
        with pq.ParquetFile(pa.BufferReader(data)) as file:
            columns = tuple((field.name, type_name(field.type)) for field in file.schema_arrow)
            return file.metadata.num_rows, columns
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        findings.append(Finding(printable(name), "the file", printable(str(error)), "a whole Parquet file", _OTHER))
        return None


# --- A dense table whose file is, byte for byte, the one that this code writes of its values.


def exact_values(
    data: bytes, *, sha256: str, cells: Cells, clique: Sequence[str], values: Types, marks: Mapping[str, str]
) -> ColumnArrays | None:
    """Return the values of a file that is written exactly as this code writes them.

    Args:
        data: bytes of a Parquet file.
        sha256: their digest (hex).
        cells: gives the labels.
        clique: the columns of labels.
        values: Arrow type of each column after these.
        marks: what the file says of where it comes from.
    Returns:
        By column, one value a row; None where the file is another, or cannot be read.
    """
    try:
        with open_parquet(data, clique) as file:
            rows = cells.cells(clique)
            form = check_form(file.schema_arrow, file.metadata.num_rows, "", clique, values, expected=(rows, ""))
            if form or check_weight(data, file.metadata, "", cells, clique, values, rows=rows):
                return None
            found = _read(file, values, rows)
    except UNREADABLE:
        return None
    if found is None or Tidy(cells, tuple(clique), found).digest(marks) != sha256:
        return None
    return found


def _read(file: pa.parquet.ParquetFile, values: Types, rows: int) -> ColumnArrays | None:
    """Read columns of numbers, one row group after the other; None where a value is missing."""
    found = {name: np.empty(rows, dtype=np.dtype(kind)) for name, kind in values.items()}
    start = 0
    for group in range(file.num_row_groups):
        table = file.read_row_group(group, columns=list(values))
        for name, array in found.items():
            column = table.column(name)
            if column.null_count or start + len(column) > rows:
                return None
            array[start : start + len(column)] = column.to_numpy()
        start += table.num_rows
    return found if start == rows else None
