"""Rows and columns of each data file, as the record states them, held against the file itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from contracts.errors import Finding
from privacy.classifiers.safetensors import from_safetensors
from tasks.records.files.synthetic_files import type_name
from tasks.records.model.release_statement import Manifest
from tasks.records.model.version_statements import DataFileStatement, RecordTerms
from tasks.records.strict_json import printable, shown
from tasks.verification.files.version_folder import OpenFiles, VersionFolder

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
    files: OpenFiles,
    file: DataFileStatement,
    stated: dict[str, DataFileStatement],
    findings: list[Finding],
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
