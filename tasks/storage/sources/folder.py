"""The files of a folder as one table: which files count, what their paths say of each row, and what is refused.

    year=2024/town=north/part-0.parquet      every row has year 2024 and town north (a hive partition)

A partition's value is data: it is read as text by the contract's domain, like a field of a CSV, and never shown.
Two names of one file, a packed file beside its plain one, equal files of one partition (unpacked), and folders that
are no tables (`tasks.storage.sources.lake_formats`) are refused: a row would count twice, and one person could change
more rows than the contract says.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Final
from urllib.parse import unquote

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from contracts.contract.column import Column
from contracts.domains.value_sql import id_sql, identifier, literal, number_sql
from contracts.drafting.advice.suspicions import names_an_id
from contracts.errors import Finding, GateBroken, SudareError
from contracts.release.product import Files
from contracts.sql.select import ValueType, typed_sql
from tasks.storage.duckdb_session import one_file
from tasks.storage.sources.files import damaged, read_csv, read_parquet
from tasks.storage.sources.lake_formats import check_plain_folder
from tasks.storage.sources.typed_rows import MANY, Reading, break_gate, refuse, with_label

HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
ENDINGS: dict[Files, tuple[str, ...]] = {"parquet": (".parquet",), "csv": (".csv", ".csv.gz", ".csv.zst")}
Partition = tuple[tuple[str, str | None], ...]
_PACKINGS = {".gz": "gzip", ".zst": "zstd"}
_PACKED = re.compile(r"\.(gz|zst)$", re.IGNORECASE)
_CHUNK_BYTES = 1 << 22
_PATIENCE = "run again when nothing writes to the folder"


@dataclass(frozen=True)
class FolderFile:
    """One file of a folder.

    Args:
        path: where it can be read.
        label: how messages call it; its name could hold a value.
        partition: what its path says of each of its rows: column and value, None for a missing one.
        places: which parts of its path say so, counted from the end.
        facts: what changes when it is written.
    """

    path: Path
    label: str
    partition: Partition
    places: tuple[int, ...]
    facts: tuple[int | str, ...]


def parts_of(folder: Path, form: Files) -> tuple[FolderFile, ...]:
    """List the files of a folder and of the folders below it, in the order of their paths.

    Names that begin with `_` or `.` are passed over, as every writer of such folders means it.

    Raises:
        SourceUnreadable: no folder, no file, a link, a file of another kind, or partitions that differ in their keys.
    """
    if not folder.is_dir():
        found = "a file" if folder.exists() else "no such folder"
        refuse(folder, "source.path", found, "a folder, since the spec says `files:`", "correct `path:`, or drop it")
    check_plain_folder(folder)
    try:
        paths = sorted(_files(folder, folder), key=lambda path: path.relative_to(folder).as_posix().encode())
        return parts_named(folder, form, [(path, _relative(path, folder), _facts(path)) for path in paths])
    except (FileNotFoundError, NotADirectoryError):
        pass
    except PermissionError:
        refuse(folder, "source.path", "a folder that cannot be read", "a readable folder", "give read permission")
    refuse(folder, "source.path", "files that went while they were listed", "a folder at rest", _PATIENCE)


def parts_named(
    where: object, form: Files, files: Sequence[tuple[Path, str, tuple[int | str, ...]]]
) -> tuple[FolderFile, ...]:
    """Make parts of files that are listed already.

    Args:
        where: the folder, for messages.
        form: the format that all of them have.
        files: where each can be read, its path below the folder, and what changes when it is written.
    Raises:
        SourceUnreadable: as `parts_of`.
    """
    if not files:
        remedy = "deliver the files, or correct `path:`; for a period without rows there is nothing to release"
        refuse(where, "files", f"no {form} file", f"at least one file: {', '.join(ENDINGS[form])}", remedy)
    parts = []
    for number, (path, relative, facts) in enumerate(files, start=1):
        label = f"{where}: file {number} by name"
        if not relative.lower().endswith(ENDINGS[form]):
            allowed = f"{form} files only: {', '.join(ENDINGS[form])}"
            refuse(label, "files", "a file of another kind", allowed, "move it away, or put `_` before its name")
        partition, places = _partition(relative, label)
        parts.append(FolderFile(path, label, partition, places, facts))
    _check_alike(parts)
    _check_once(parts, [relative for _, relative, _ in files])
    return tuple(parts)


def _files(folder: Path, root: Path) -> Iterator[Path]:
    """Yield the files below a folder; links lead elsewhere and are refused."""
    for entry in os.scandir(folder):
        if entry.name.startswith(".") or (entry.name.startswith("_") and "=" not in entry.name):
            continue
        if entry.is_symlink() or not (entry.is_file() or entry.is_dir()):
            remedy = "put the file itself there; the same rows could come in twice through a link"
            refuse(root, "files", "a link, or something else than a file", "files and folders", remedy)
        if entry.is_dir():
            yield from _files(Path(entry.path), root)
        else:
            yield Path(entry.path)


def _relative(path: Path, folder: Path) -> str:
    return path.relative_to(folder).as_posix()


def _facts(path: Path) -> tuple[int, ...]:
    seen = path.stat()
    return (seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns)


def _partition(relative: str, label: str) -> tuple[Partition, tuple[int, ...]]:
    """Read `key=value` out of the folders of a path."""
    above = relative.split("/")[:-1]
    found = [(place - len(above), part.partition("=")) for place, part in enumerate(above) if "=" in part]
    try:
        pairs = tuple(
            (unquote(key, errors="strict"), None if value == HIVE_NULL else unquote(value, errors="strict"))
            for _, (key, _, value) in found
        )
        relative.encode()
    except UnicodeError:
        pairs = (("", None),)
    if any(not key or "\0" in key + (value or "") for key, value in pairs):
        refuse(label, "files", "a partition that cannot be read", "COLUMN=VALUE in UTF-8", "rename the folder")
    return pairs, tuple(place - 1 for place, _ in found)


def _check_alike(parts: Sequence[FolderFile]) -> None:
    """Refuse partitions whose keys differ, or come twice in one path."""
    keys = [name for name, _ in parts[0].partition]
    for part in parts:
        theirs = [name for name, _ in part.partition]
        if theirs != keys or part.places != parts[0].places:
            found = f"the partition columns {', '.join(theirs) or '(none)'}"
            allowed = f"{', '.join(keys) or 'none'}, as in the first file, at the same depth"
            refuse(part.label, "files", found, allowed, "lay all files out alike")
    if len({name.casefold() for name in keys}) < len(keys):
        refuse(parts[0].label, "files", f"the partition columns {', '.join(keys)}", "each once", "rename a folder")


def _check_once(parts: Sequence[FolderFile], names: Sequence[str]) -> None:
    """Refuse two names of one file, and a packed file beside its plain one."""
    seen: dict[tuple[int | str, ...], FolderFile] = {}
    named: dict[str, FolderFile] = {}
    for part, name in zip(parts, names, strict=True):
        twin = named.setdefault(_PACKED.sub("", name), part)
        if twin is not part:
            remedy = "remove one of the two: each row would count twice"
            refuse(part.label, "files", f"the name of {twin.label}, packed otherwise", "each table once", remedy)
        first = seen.setdefault(part.facts[:2], part)
        if first is not part:
            remedy = "remove one of the two: each row would count twice"
            refuse(part.label, "files", f"a second name of {first.label}", "each file under one name", remedy)


def check_different(parts: Sequence[FolderFile]) -> None:
    """Refuse two files of one partition with the same bytes, once unpacked: a file that was delivered twice.

    Only files of one size are read for it; what is packed by zstd does not tell its size.

    Raises:
        GateBroken: there are two.
    """
    unsized = {part.partition for part in parts if part.path.name.lower().endswith(".zst")}
    alike: dict[tuple[object, ...], list[FolderFile]] = {}
    for part in parts:
        size = None if part.partition in unsized else _size(part.path)
        alike.setdefault((part.partition, size), []).append(part)
    for group in (group for group in alike.values() if len(group) > 1):
        seen: dict[bytes, FolderFile] = {}
        for part in group:
            first = seen.setdefault(_digest(part), part)
            if first is not part:
                remedy = "remove one of the two, if it was delivered twice: each row would count twice"
                break_gate(part.label, "files", f"the same bytes as {first.label}", "files that differ", remedy)


def _size(path: Path) -> int:
    """Return the size of a file, unpacked; modulo 2^32, which is all that gzip writes down."""
    try:
        with path.open("rb") as file:
            if not path.name.lower().endswith(".gz"):
                return file.seek(0, os.SEEK_END) % 2**32
            file.seek(-4, os.SEEK_END)
            return int.from_bytes(file.read(4), "little")
    except OSError:
        return -1


def _digest(part: FolderFile) -> bytes:
    """Hash a file, unpacked; one that cannot be unpacked is like no other, and its reading will say so."""
    packed = _PACKED.search(part.path.name.lower())
    digest = hashlib.sha256()
    try:
        with pa.input_stream(str(part.path), compression=_PACKINGS[packed[0]] if packed else None) as file:
            while chunk := file.read(_CHUNK_BYTES):
                digest.update(chunk)
        return digest.digest()
    except FileNotFoundError:
        pass
    except OSError:
        return str(part.path).encode()
    refuse(part.path.parent, "files", "a file that went while it was read", "a folder at rest", _PATIENCE)


def drift(part: FolderFile, columns: Sequence[str], first: Sequence[str], *, named: bool) -> Finding:
    """Say how the columns of a file differ from those of the first one; names are shown only if they surely are."""
    new = [name for name in columns if name not in first] if named else []
    gone = [name for name in first if name not in columns]
    said = [f"new: {', '.join(new)}"] * bool(new) + [f"missing: {', '.join(gone)}"] * bool(gone and named)
    found = "other columns than in the first file" + (f" ({'; '.join(said)})" if said else "")
    remedy = "deliver all files with the same columns, or read old and new ones as two sources"
    return Finding(part.label, "columns", found, "the same columns in every file", remedy)


# --- A folder of Parquet or CSV files.


_COPY: Final = "\x04"
"""How the names of copies begin that have the type which a select uses."""
_FILE: Final = "\x01file"
"""The name under which DuckDB tells the file of a row; no column of a table has it."""
NUMBER, TEXT, TIME, INSTANT = "DOUBLE", "VARCHAR", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE"
LIST, RECORD = "DOUBLE[]", "STRUCT"
Reader = Callable[[str], str]
"""Writes SQL that reads a value, of SQL for it as it is stored."""
_WORDS: Final = {TIME: "dates", INSTANT: "timestamps with a time zone", RECORD: "records"}


def read_folder(
    where: object,
    parts: Sequence[FolderFile],
    form: Files,
    *,
    delimiter: str | None,
    expected: Sequence[str],
    unit: tuple[Collection[str], int | None],
    types: Mapping[str, ValueType],
    columns: Mapping[str, Column],
) -> Reading:
    """Look at the files of a folder and prepare their reading, file after file in the order of their paths.

    Args:
        where: the folder, for messages.
        parts: its files, at least one.
        form: the format that they have.
        delimiter: as for `read_csv`.
        expected: the names of the contract's columns.
        unit: the columns of which ids of units are made, in lower case, and the largest id where one is declared.
        types: of the columns that a select uses, by names in lower case.
        columns: how the contract reads the columns that reach it as they are, likewise.
    Returns:
        The reading: the columns of the files, then those of the partitions, as text.
    Raises:
        SourceUnreadable: a file is not what its name says, or a column stands in the files and in their paths.
        GateBroken: the columns of the files differ, or two files are the same.
    """
    check_different(parts)
    readings = [_check_file(part, form, delimiter, expected) for part in parts]
    first = readings[0]
    findings = [
        drift(part, reading.columns, first.columns, named=reading.named and first.named)
        for part, reading in zip(parts, readings, strict=True)
        if set(reading.columns) != set(first.columns) or (form == "csv" and reading.columns != first.columns)
    ]
    if findings:
        raise GateBroken(findings[:MANY])
    keys = [name for name, _ in parts[0].partition]
    twice = [name for name in keys if name.casefold() in {column.casefold() for column in first.columns}]
    if twice:
        found = f"the column {twice[0]!r} in the files and in their paths"
        refuse(where, "files", found, "each column in one place", "drop it from the files, or rename the folders")
    names = (*first.columns, *keys)
    if form == "parquet":
        floats = frozenset[str]().union(*(reading.floats for reading in readings))
        whole = _parquet(where, parts, names, unit, types, columns)
        return replace(whole, stored=_stored(readings), floats=floats)
    return _csv(where, parts, readings, names)


def _check_file(part: FolderFile, form: Files, delimiter: str | None, expected: Sequence[str]) -> Reading:
    keys = {name for name, _ in part.partition}
    inside = [name for name in expected if name not in keys]
    if form == "parquet":
        return with_label(lambda: read_parquet(part.path), part.path, part.label)
    return with_label(lambda: read_csv(part.path, delimiter=delimiter, expected=inside), part.path, part.label)


def _stored(readings: Sequence[Reading]) -> dict[str, str]:
    """Return what columns surely hold in some file: each file is held to what a single file is held to."""
    return {name: kind for reading in readings for name, kind in reading.stored.items()}


def _csv(
    where: object, parts: Sequence[FolderFile], readings: Sequence[Reading], columns: tuple[str, ...]
) -> Reading:
    """Read CSV files one after the other, each with its own errors."""
    made = []
    for part, reading in zip(parts, readings, strict=True):
        values = ", ".join(
            f"{'NULL' if value is None else literal(value)}::VARCHAR AS {identifier(name)}"
            for name, value in part.partition
        )
        relation = f"(SELECT *, {values} FROM {reading.relation})" if values else reading.relation
        told = reading.told_as(part.path, part.label)
        made.append(replace(told, where=str(where), columns=columns, relation=relation))
    return replace(made[0], more=tuple(made[1:]))


def _parquet(
    where: object,
    parts: Sequence[FolderFile],
    names: tuple[str, ...],
    unit: tuple[Collection[str], int | None],
    types: Mapping[str, ValueType],
    columns: Mapping[str, Column],
) -> Reading:
    """Read Parquet files, fitting their types to each other; partitions come out of the paths."""
    _check_types(where, parts)
    inside = names[: len(names) - len(parts[0].partition)]
    schemas = [pq.read_schema(part.path) for part in parts]
    flat = {name for name in inside if _reads_no_nested(columns.get(name.lower()))}
    kinds = {name: [schema.field(name).type for schema in schemas] for name in inside}
    found = {name: _common(kinds[name], nested=name not in flat) for name in inside}
    mixed = {name: into for name, into in found.items() if into is not None}
    common = {name: _into(columns.get(name.lower()), into) for name, into in mixed.items()}
    exact = [name for name in mixed if name.lower() in unit[0] or (name.lower() not in columns and names_an_id(name))]
    common |= {name: partial(id_sql, largest=unit[1]) for name in exact}
    copied = {name: types[name.lower()] for name in mixed if name.lower() in types}
    families = [{name: _family(schema.field(name).type) for name in inside} for schema in schemas]
    alike = groupby(
        zip(parts, schemas, families, strict=True), key=lambda each: [str(each[1].field(n).type) for n in inside]
    )
    reads = [
        _read([part for part, *_ in group], inside, group[0][2], common, copied, flat)
        for group in (list(group) for _, group in alike)
    ]
    relation = f"({' UNION ALL '.join(reads)})"

    def explain(error: duckdb.Error) -> SudareError | None:
        """Tell the number of the file that DuckDB names, else the folder; a name of a file could hold a value."""
        labels = [part.label for part in parts if f'"{part.path}"' in str(error)]
        return damaged(error, labels[0] if len(labels) == 1 else where, "Parquet")

    typed = {name.lower(): _COPY + name for name in copied}
    return Reading(str(where), names, True, relation, explain=explain, typed=typed)


def _into(column: Column | None, common: str) -> str | Reader:
    """Return what the files' values become: where texts alone would lose something, what the contract reads of them.

    Days of an instant follow a declared zone, a declared notation is of texts alone, and categories are texts.
    """
    if column is None or common in (LIST, RECORD):
        return common
    if column.domain.reads_spellings:
        return column.domain.value_sql
    return TEXT if common == INSTANT and column.named else common


def _read(
    parts: Sequence[FolderFile],
    inside: Sequence[str],
    kinds: Mapping[str, str],
    common: Mapping[str, str | Reader],
    copied: Mapping[str, ValueType],
    flat: Collection[str],
) -> str:
    """Write the SELECT that reads files whose columns are stored alike; lists and records of `flat` ones are null."""
    files = ", ".join(one_file(part.path) for part in parts)
    options = f"union_by_name = true, filename = {literal(_FILE)}, hive_partitioning = false"
    pieces = []
    for name in inside:
        raw, into = identifier(name), common.get(name)
        if name in flat and kinds[name] in (LIST, RECORD):
            pieces.append(f"NULL AS {raw}")
        else:
            pieces.append(raw if into is None else f"{_converted(raw, kinds[name], into)} AS {raw}")
        if name in copied:
            pieces.append(f"{typed_sql(copied[name], raw)} AS {identifier(_COPY + name)}")
    for (name, _), place in zip(parts[0].partition, parts[0].places, strict=True):
        part = f"string_split({identifier(_FILE)}, '/')[{place}]"
        value = f"nullif(substr({part}, strpos({part}, '=') + 1), {literal(HIVE_NULL)})"
        pieces.append(f"url_decode({value}) AS {identifier(name)}")
    return f"SELECT {', '.join(pieces)} FROM read_parquet([{files}], {options})"


def _converted(raw: str, kind: str, into: str | Reader) -> str:
    """Write a column of one file as the common type, value by value: null where it has none there, never an error."""
    if not isinstance(into, str):
        return into(raw)
    if into == TEXT:
        return typed_sql("text", raw)
    if into == NUMBER:
        return number_sql(raw)
    if into == RECORD:
        return raw if kind == RECORD else "NULL"
    return f"TRY_CAST({raw} AS {into})"


def _reads_no_nested(column: Column | None) -> bool:
    """Say whether the contract reads a column, and no list or record in it: those of one file decide nothing then.

    Without a select such a file is refused (`tasks.storage.sources.files`); behind one it is read, as missing
    values.
    """
    return column is not None and column.length == 1


def _common(kinds: Iterable[pa.DataType], *, nested: bool) -> str | None:
    """Return what a column becomes where files store it differently, so that no value changes; None where all agree.

    DuckDB's common type would round: a whole number beside 4-byte floats becomes one of these. A file in which nobody
    has a value may store the column as anything, so hardly a mixture is refused (`_check_types`). Lists and records
    count only with `nested`.
    """
    different = {kind for kind in kinds if not pa.types.is_null(kind)}
    if not nested:
        different = {kind for kind in different if _family(kind) not in (LIST, RECORD)}
    if len(different) < 2:
        return None
    families = {_family(kind) for kind in different}
    if families == {NUMBER}:
        return "HUGEINT" if all(pa.types.is_integer(kind) for kind in different) else NUMBER
    if LIST in families:
        return LIST
    if RECORD in families:
        return RECORD
    if INSTANT in families:
        return INSTANT
    return TIME if families == {TIME} else TEXT


def _check_types(where: object, parts: Sequence[FolderFile]) -> None:
    """Refuse a column whose files can be read together in no way that keeps the meaning of its values."""
    first: dict[str, pa.DataType] = {}
    findings = []
    for part in parts:
        for field in pq.read_schema(part.path):
            family = _family(field.type)
            if family not in (TIME, INSTANT, RECORD):
                continue
            earlier = first.setdefault(field.name, field.type)
            if earlier != field.type and {family, _family(earlier)} not in ({TIME}, {INSTANT}):
                other = _WORDS[_family(earlier)]
                found = f"column {field.name!r} with {_WORDS[family]}, where earlier files have {other}"
                allowed = "timestamps that all have a time zone or none, and records with the same fields"
                remedy = "deliver all files alike, or read old and new ones as two sources"
                findings.append(Finding(part.label, "columns", found, allowed, remedy))
    if findings:
        raise GateBroken(findings[:MANY])


def _family(kind: pa.DataType) -> str:
    """Return the family of a type: what its values become beside those of another type of the family."""
    if pa.types.is_dictionary(kind):
        return _family(kind.value_type)
    if (
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_boolean(kind)
    ):
        return NUMBER
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return INSTANT
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return TIME
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return LIST
    return RECORD if pa.types.is_nested(kind) else TEXT
