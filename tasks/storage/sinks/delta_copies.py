"""Versions as commits to Delta tables (`lake_copies`): a log entry each, in the protocol's own text.

A commit's `userMetadata` says which version it is of. A log entry appears only where none of its number was, so of
two writers one wins.

Source: the Delta transaction log protocol, writer version 2 without features.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, Final
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.parquet as pq

from contracts.canonical import digest
from tasks.storage.sinks.lake_copies import Commit, TableHistory, said_by, to_lake, told
from tasks.storage.sinks.sink_kinds import SinkKind
from tasks.storage.sinks.table_folders import TableFolder
from tasks.storage.sinks.version_copy import WholeVersion

LOG: Final = "_delta_log"
_PLAIN: Final = {
    pa.string(): "string",
    pa.large_string(): "string",
    pa.bool_(): "boolean",
    pa.int8(): "byte",
    pa.int16(): "short",
    pa.int32(): "integer",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.date32(): "date",
    pa.binary(): "binary",
}


class DeltaTables:
    """Delta tables, read and written by their log alone."""

    def history(self, folder: TableFolder) -> TableHistory:
        """Read the whole log."""
        found, numbers = [], _numbers(folder)
        for place in numbers:
            actions = [json.loads(line) for line in folder.place.read(_entry(place)).decode().splitlines()]
            said = next((each["commitInfo"].get("userMetadata") for each in actions if "commitInfo" in each), None)
            of = told(said)
            if of is not None:
                added = tuple(unquote(each["add"]["path"]) for each in actions if "add" in each)
                found.append(Commit(place, *of, added))
        return TableHistory(max(numbers, default=None), tuple(found))

    def commit(self, folder: TableFolder, version: WholeVersion, name: str, file: Path, seen: TableHistory) -> Commit:
        """Write the log entry of a file."""
        place = 0 if seen.number is None else seen.number + 1
        content = "\n".join(json.dumps(each) for each in _actions(folder, version, name, file, seen)) + "\n"
        folder.put(_entry(place), content.encode())
        return Commit(place, version.number, version.digest, (name,))

    def holds(self, schema: pa.Schema) -> bool:
        """Say whether Delta has a type for each column."""
        return all(_type_of(field.type) is not None for field in schema)


def _entry(place: int) -> str:
    return f"{LOG}/{place:020}.json"


def _numbers(folder: TableFolder) -> list[int]:
    paths = [PurePosixPath(each) for each in folder.names(LOG)]
    return sorted(int(each.stem) for each in paths if each.suffix == ".json" and each.stem.isdecimal())


def _actions(
    folder: TableFolder, version: WholeVersion, name: str, file: Path, seen: TableHistory
) -> Iterator[Mapping[str, Any]]:
    """Yield the actions of a commit that replaces the rows of the version before; its times are hours."""
    hour = folder.hour_ms(name)
    yield {
        "commitInfo": {
            "timestamp": hour,
            "operation": "WRITE",
            "operationParameters": {"mode": "Overwrite", "partitionBy": "[]"},
            "engineInfo": "sudare",
            "userMetadata": json.dumps(said_by(version)),
        }
    }
    if not seen.commits:
        yield {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
    fields = [
        {"name": each.name, "type": _type_of(each.type), "nullable": each.nullable, "metadata": {}}
        for each in pq.read_schema(file)
    ]
    yield {
        "metaData": {
            "id": _table_id(version.release, folder.name),
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": fields}),
            "partitionColumns": [],
            "configuration": {},
            "createdTime": hour,
        }
    }
    for gone in seen.commits[-1].added if seen.commits else ():
        yield {"remove": {"path": quote(gone), "deletionTimestamp": hour, "dataChange": True}}
    yield {
        "add": {
            "path": quote(name),
            "partitionValues": {},
            "size": file.stat().st_size,
            "modificationTime": hour,
            "dataChange": True,
            "stats": json.dumps({"numRecords": pq.read_metadata(file).num_rows}),
        }
    }


def _table_id(release: str, table: str) -> str:
    """Return the table's id, in the form of a UUID; the same release and table have the same one."""
    known = digest({"release": release, "table": table})[:32]
    return "-".join((known[:8], known[8:12], known[12:16], known[16:20], known[20:]))


def _type_of(type_: pa.DataType) -> Any:
    """Return a column's type in Delta's words; None where it has none."""
    if pa.types.is_dictionary(type_):
        return _type_of(type_.value_type)
    if pa.types.is_list(type_) or pa.types.is_large_list(type_) or pa.types.is_fixed_size_list(type_):
        element = _type_of(type_.value_type)
        return element and {"type": "array", "elementType": element, "containsNull": True}
    if pa.types.is_decimal(type_):
        return f"decimal({type_.precision},{type_.scale})"
    return _PLAIN.get(type_)


DELTA: Final = SinkKind(partial(to_lake, DeltaTables()))
