"""Versions as commits to Delta tables (`lake_copies`): a log entry each, in the protocol's own text.

A commit's `userMetadata` says which version it is of. A log entry appears only where none of its number was, so of
two writers one wins.

Source: the Delta transaction log protocol, writer version 2 without features.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.parquet as pq

from contracts.canonical import digest
from tasks.storage.sinks.lake_copies import Commit, put, said_by, to_lake, told
from tasks.storage.sinks.sink_kinds import SinkKind
from tasks.storage.sinks.version_copy import WholeVersion

LOG: Final = "_delta_log"
_HOUR_MS: Final = 3_600_000
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

    def commits(self, folder: Path) -> list[Commit]:
        """Return the commits of versions, in their order."""
        found = []
        for place in _numbers(folder):
            actions = [json.loads(line) for line in _entry(folder, place).read_text(encoding="utf-8").splitlines()]
            said = next((each["commitInfo"].get("userMetadata") for each in actions if "commitInfo" in each), None)
            of = told(said)
            if of is not None:
                added = tuple(unquote(each["add"]["path"]) for each in actions if "add" in each)
                found.append(Commit(place, *of, added))
        return found

    def commit(self, folder: Path, version: WholeVersion, name: str, earlier: list[Commit]) -> Commit:
        """Write the log entry of a file."""
        (folder / LOG).mkdir(parents=True, exist_ok=True)
        place = max(_numbers(folder), default=-1) + 1
        content = "\n".join(json.dumps(each) for each in _actions(folder, version, name, earlier)) + "\n"
        put(_entry(folder, place), content.encode())
        return Commit(place, version.number, version.digest, (name,))

    def holds(self, schema: pa.Schema) -> bool:
        """Say whether Delta has a type for each column."""
        return all(_type_of(field.type) is not None for field in schema)


def _entry(folder: Path, place: int) -> Path:
    return folder / LOG / f"{place:020}.json"


def _numbers(folder: Path) -> list[int]:
    return sorted(int(each.stem) for each in (folder / LOG).glob("*.json") if each.stem.isdecimal())


def _actions(folder: Path, version: WholeVersion, name: str, earlier: list[Commit]) -> Iterator[Mapping[str, Any]]:
    """Yield the actions of a commit that replaces the rows of the version before; its times are hours."""
    hour = (folder / name).stat().st_mtime_ns // 1_000_000 // _HOUR_MS * _HOUR_MS
    yield {
        "commitInfo": {
            "timestamp": hour,
            "operation": "WRITE",
            "operationParameters": {"mode": "Overwrite", "partitionBy": "[]"},
            "engineInfo": "sudare",
            "userMetadata": json.dumps(said_by(version)),
        }
    }
    if not earlier:
        yield {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
    fields = [
        {"name": each.name, "type": _type_of(each.type), "nullable": each.nullable, "metadata": {}}
        for each in pq.read_schema(folder / name)
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
    for gone in earlier[-1].added if earlier else ():
        yield {"remove": {"path": quote(gone), "deletionTimestamp": hour, "dataChange": True}}
    yield {
        "add": {
            "path": quote(name),
            "partitionValues": {},
            "size": (folder / name).stat().st_size,
            "modificationTime": hour,
            "dataChange": True,
            "stats": json.dumps({"numRecords": pq.read_metadata(folder / name).num_rows}),
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
