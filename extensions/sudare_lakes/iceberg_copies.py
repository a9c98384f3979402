"""Versions as snapshots of Iceberg tables (`lake_copies`), in a place without a catalogue.

Each commit writes `metadata/vN.metadata.json`, only where none of its number was, so of two writers one wins. A
snapshot's summary says which version it is of. The format's version is 2; a snapshot replaces the file of the one
before.

Source: the Iceberg table spec, version 2, "File System Tables".
"""

from __future__ import annotations

import json
import logging
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq

from contracts.canonical import digest
from sudare_lakes.lake_copies import Commit, TableHistory, said_by, to_lake, told
from sudare_lakes.lake_place import HOUR_MS, TableFolder
from tasks.storage.sinks.sink_kinds import SinkKind
from tasks.storage.sinks.version_copy import WholeVersion

if TYPE_CHECKING:
    from pyiceberg.table import Table

SAID: Final = "sudare"
_PYICEBERG: Final = logging.getLogger("pyiceberg.io.pyarrow")
_METADATA: Final = re.compile(r"v([0-9]+)\.metadata\.json")


class IcebergTables:
    """Iceberg tables, read and written by the newest metadata file of their folder."""

    def history(self, folder: TableFolder) -> TableHistory:
        """Read the newest metadata file."""
        number = _newest(folder)
        if number is None:
            return TableHistory(None, ())
        content = json.loads(folder.place.read(_metadata(number)))
        found = []
        for snapshot in sorted(content.get("snapshots", ()), key=lambda each: int(each["sequence-number"])):
            of = told(snapshot["summary"].get(SAID))
            if of is not None:
                found.append(Commit(int(snapshot["snapshot-id"]), *of, (_file(of[0], of[1]),)))
        return TableHistory(number, tuple(found))

    def commit(self, folder: TableFolder, version: WholeVersion, name: str, file: Path, seen: TableHistory) -> Commit:
        """Write a snapshot in which a file is all there is."""
        # Seconds of loading: for Iceberg tables alone.
        from pyiceberg.io.pyarrow import parquet_files_to_data_files

        _PYICEBERG.addFilter(_says_something)
        table, schema = _opened(folder, version, name, file, seen.number)
        with table.transaction() as change:
            if seen.commits:
                with change.update_schema(allow_incompatible_changes=True) as columns:
                    columns.union_by_name(schema)
            mapping = change.table_metadata.schema().name_mapping.model_dump_json()
            change.set_properties({"schema.name-mapping.default": mapping})
            said = {SAID: json.dumps(said_by(version))}
            with change.update_snapshot(snapshot_properties=said).overwrite() as snapshot:
                for each in _shown(table):
                    snapshot.delete_data_file(each)
                [added] = parquet_files_to_data_files(table.io, change.table_metadata, iter([folder.uri(name)]))
                snapshot.append_data_file(added)
        return self.history(folder).commits[-1]

    def holds(self, schema: pa.Schema) -> bool:
        """Say whether Iceberg has a type for each column."""
        from pyiceberg.exceptions import NotInstalledError
        from pyiceberg.io.pyarrow import UnsupportedPyArrowTypeException, _pyarrow_to_schema_without_ids

        _PYICEBERG.addFilter(_says_something)
        try:
            _pyarrow_to_schema_without_ids(schema)
            return True
        except (UnsupportedPyArrowTypeException, NotInstalledError, TypeError):
            return False


def _says_something(record: logging.LogRecord) -> bool:
    """Pass over what pyiceberg says of each column of labels, time and again: they are read as texts, as meant."""
    return "does not have a dictionary type" not in record.getMessage()


def _file(version: int, manifest: str) -> str:
    return f"data/v{version}-{manifest[:16]}.parquet"


def _newest(folder: TableFolder) -> int | None:
    found = [_METADATA.fullmatch(each) for each in folder.names("metadata")]
    return max((int(each[1]) for each in found if each), default=None)


def _metadata(number: int) -> str:
    return f"metadata/v{number}.metadata.json"


def _shown(table: Table) -> list[Any]:
    return [] if table.current_snapshot() is None else [task.file for task in table.scan().plan_files()]


def _opened(
    folder: TableFolder, version: WholeVersion, name: str, file: Path, number: int | None
) -> tuple[Table, Any]:
    """Return the table, or one that its first commit makes; and the columns of a file that comes."""
    from pyiceberg.catalog.noop import NoopCatalog
    from pyiceberg.io.pyarrow import _pyarrow_to_schema_without_ids
    from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
    from pyiceberg.schema import assign_fresh_schema_ids
    from pyiceberg.serializers import FromInputFile
    from pyiceberg.table import CommitTableResponse, Table
    from pyiceberg.table.metadata import new_table_metadata
    from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
    from pyiceberg.table.update import update_table_metadata

    from sudare_lakes.iceberg_files import AddedFiles

    class Folder(NoopCatalog):  # type: ignore[misc] # pyiceberg is not followed
        """The only catalogue is the folder: the next metadata file is written, or another writer has done so."""

        def commit_table(self, table: Table, requirements: Any, updates: Any) -> CommitTableResponse:
            for each in requirements:
                each.validate(table.metadata)
            made = update_table_metadata(table.metadata, updates, metadata_location=table.metadata_location)
            path = _metadata(1 if number is None else number + 1)
            folder.put(path, json.dumps(_in_hours(json.loads(made.model_dump_json()))).encode())
            return CommitTableResponse(metadata=made, metadata_location=folder.uri(path))

    at = ""
    schema = _pyarrow_to_schema_without_ids(_optional(pq.read_schema(file)))
    io, catalogue = AddedFiles(folder, {folder.uri(name): file}), Folder(SAID)
    if number is None:
        known = UUID(digest({"release": version.release, "table": folder.name})[:32])
        fresh = assign_fresh_schema_ids(schema)
        metadata = new_table_metadata(
            fresh, UNPARTITIONED_PARTITION_SPEC, UNSORTED_SORT_ORDER, folder.uri(), {}, known
        )
    else:
        at = folder.uri(_metadata(number))
        metadata = FromInputFile.table_metadata(io.new_input(at))
    return Table((SAID, folder.name), metadata, at, io, catalogue), schema


def _in_hours(content: Any) -> Any:
    """Cut every time in a metadata file to the hour: how long a run took depends on the rows.

    Iceberg asks that the times of snapshots do not fall, and equal ones do not.
    """
    if isinstance(content, list):
        return [_in_hours(each) for each in content]
    if not isinstance(content, dict):
        return content
    return {
        name: each // HOUR_MS * HOUR_MS if name.endswith("-ms") and isinstance(each, int) else _in_hours(each)
        for name, each in content.items()
    }


def _optional(schema: pa.Schema) -> pa.Schema:
    """Return the columns as ones that may be missing: a later version may lack them."""
    return pa.schema([field.with_nullable(True) for field in schema])


SINK: Final = SinkKind(partial(to_lake, IcebergTables()))
