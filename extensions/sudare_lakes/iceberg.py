"""An Iceberg table as a source: the files of one snapshot.

Which metadata file counts is a catalogue's to say. Without one it is the newest in the folder, and where two are
equally new, or a catalogue is somewhere else, the address names the file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NoReturn

import pyarrow as pa
import pyarrow.parquet as pq

from contracts.contract.contract import Contract
from contracts.release.source import Source
from sudare_lakes.addresses import METADATA, METADATA_FOLDER, IcebergAddress
from sudare_lakes.lake_place import LakePlace, lake_place, placed
from sudare_lakes.lake_version import LakeFile, LakeVersion, lake_origin
from tasks.storage.sources.source import Origin, SourceKind
from tasks.storage.sources.typed_rows import break_gate, refuse

_NUMBERED: Final = re.compile(r"v?([0-9]+)(-[^/]*)?\.metadata\.json")
_NEWEST_FORMAT: Final = 2
_LATER: Final = "name a later snapshot, or none"


@contextmanager
def iceberg_origin(source: Source, address: IcebergAddress, contract: Contract) -> Iterator[Origin]:
    """Look at a snapshot of the table.

    Raises:
        SourceUnreadable: there is no such snapshot, or none that can be read; a file of it is gone.
    """
    place = lake_place(address, source.credentials)
    version = read_snapshot(source.name, address, place)
    yield lake_origin(source, contract, place, version, cleaner="expired snapshots")


def last_written(source: Source, address: IcebergAddress) -> datetime | None:
    """Return when the newest metadata file says that the table was written; None where there is no table."""
    place = lake_place(address, source.credentials)
    if address.metadata is None and place.names(METADATA_FOLDER) is None:
        return None
    path = address.metadata or _newest(source.name, place)
    try:
        return datetime.fromtimestamp(json.loads(place.read(path))["last-updated-ms"] / 1000, UTC)
    except (OSError, ValueError, KeyError, TypeError):
        pass
    _unreadable(source.name)


def read_snapshot(where: str, address: IcebergAddress, place: LakePlace) -> LakeVersion:
    """Read one snapshot of a table.

    Args:
        where: the table, for messages.
        address: the folder, or the metadata file, and the snapshot.
        place: where the table is.
    Raises:
        SourceUnreadable: no table, no such snapshot, or one that cannot be read without knowing more.
    """
    # Seconds of loading: for Iceberg tables alone.
    from pyiceberg.exceptions import NotInstalledError, ValidationError

    from sudare_lakes.iceberg_files import static_table

    path = address.metadata or _newest(where, place)
    try:
        table = static_table(where, place, path)
        snapshot = _meant(where, table, address)
        _check_understood(where, table)
        schema = _schema_of(table, snapshot, newest=address.number is None and address.at is None)
        tasks: list[Any] | None = list(table.scan(snapshot_id=snapshot.snapshot_id).plan_files())
    except (OSError, ValueError, KeyError, TypeError, ValidationError, NotInstalledError):
        tasks = None
    if tasks is None:
        _unreadable(where)
    files = sorted((_file(where, place, task) for task in tasks), key=lambda each: each.path.encode())
    ids = {field.name: field.field_id for field in schema.fields}

    def stored_as(paths: Sequence[Path]) -> dict[str, str]:
        stored = [_names_in(where, each, ids) for each in paths]
        # Where files differ in how they call a column, the rules for folders refuse them.
        return stored[0] if stored and all(each == stored[0] for each in stored) else {}

    return LakeVersion(str(table.metadata.table_uuid), snapshot.snapshot_id, tuple(ids), tuple(files), stored_as)


def _newest(where: str, place: LakePlace) -> str:
    """Return the metadata file with the highest number, below the table's folder."""
    found: dict[int, list[str]] = {}
    for each in place.names(METADATA_FOLDER) or ():
        if name := _NUMBERED.fullmatch(each):
            found.setdefault(int(name[1]), []).append(f"{METADATA_FOLDER}/{each}")
    if not found:
        told = "a folder without Iceberg metadata" if place.is_there() else "no such folder"
        refuse(where, "source.path", told, f"a folder with {METADATA_FOLDER}/*{METADATA}", "correct `path:`")
    newest = found[max(found)]
    if len(newest) > 1:
        remedy = f"ask the catalogue which one counts, and write iceberg:///FOLDER/metadata/NAME{METADATA}"
        refuse(where, "source.path", "two metadata files that are equally new", "one newest metadata file", remedy)
    return newest[0]


def _meant(where: str, table: Any, address: IcebergAddress) -> Any:
    """Return the snapshot that is meant."""
    if address.number is not None:
        found, told = (
            table.snapshot_by_id(address.number),
            f"the snapshot {address.number}, which has expired or never was",
        )
    elif address.at is not None:
        found = table.snapshot_as_of_timestamp(int(address.at.timestamp() * 1000))
        told = f"the instant {address.at.isoformat()}, before the first snapshot"
        if found is None and any(each.timestamp_ms <= address.at.timestamp() * 1000 for each in table.history()):
            told = f"the instant {address.at.isoformat()}, whose snapshot has expired"
    else:
        found, told = table.current_snapshot(), "a table without a snapshot"
    if found is None:
        refuse(where, "source.path", told, "a snapshot that the table still has", _LATER)
    return found


def _schema_of(table: Any, snapshot: Any, *, newest: bool) -> Any:
    """Return the columns of the table as it is now, or of an earlier state as they were then."""
    return table.schema() if newest or snapshot.schema_id is None else table.schemas()[snapshot.schema_id]


def _check_understood(where: str, table: Any) -> None:
    """Refuse a table whose files are not the rows, or were once divided by what is no field any more."""
    from pyiceberg.transforms import VoidTransform

    newest = {field.source_id for field in table.spec().fields}
    earlier = [field for spec in table.specs().values() for field in spec.fields]
    found = None
    if table.metadata.format_version > _NEWEST_FORMAT:
        found = f"an Iceberg table of format version {table.metadata.format_version}"
    elif any(isinstance(each.transform, VoidTransform) or each.source_id not in newest for each in earlier):
        found = "an Iceberg table with a dropped partition field"
    if found is not None:
        allowed = f"a table of format version 1 or {_NEWEST_FORMAT} with the partition fields that it always had"
        refuse(where, "source.path", found, allowed, "write the table as it is now to a new table, and name that one")


def _file(where: str, place: LakePlace, task: Any) -> LakeFile:
    """Return the file of one task of a scan."""
    remedy = "rewrite the table's data files (rewrite_data_files), or write it to a new table"
    allowed = "a table whose Parquet files are its rows"
    if task.delete_files:  # whether a row was deleted is the data's: a gate
        break_gate(where, "rows", "an Iceberg table with row-level deletes", allowed, remedy)
    if str(getattr(task.file.file_format, "value", task.file.file_format)).upper() != "PARQUET":
        refuse(where, "source.path", "an Iceberg table with files that are no Parquet", allowed, remedy)
    return LakeFile(placed(where, place, str(task.file.file_path), encoded=False))


def _names_in(where: str, path: Path, ids: dict[str, int]) -> dict[str, str]:
    """Return how a file calls columns that the table calls otherwise: a writer spells what Avro cannot have, or the
    column was renamed since. A column that is another one of the same name was dropped and added again: refused.
    """
    try:
        schema = pq.read_schema(path)
    except (OSError, pa.ArrowException):
        return {}  # the reading says what is wrong with it
    stated = {field.name: (field.metadata or {}).get(b"PARQUET:field_id") for field in schema}
    written = {name: int(id_) for name, id_ in stated.items() if id_ is not None}
    odd = [name for name, id_ in written.items() if name in ids and id_ != ids[name]]
    if odd:
        found = f"files whose column {odd[0]!r} is another one of that name (it was dropped and added again)"
        remedy = "rewrite the table's files (an overwrite of all rows)"
        refuse(where, "source.path", found, "files with the columns of the table", remedy)
    by_id = {id_: name for name, id_ in written.items()}
    return {name: by_id[id_] for name, id_ in ids.items() if id_ in by_id and by_id[id_] != name}


def _unreadable(where: str) -> NoReturn:
    refuse(where, "source.path", "Iceberg metadata that cannot be read", "a whole table", f"repair it, or {_LATER}")


SOURCE: Final = SourceKind(iceberg_origin, last_written)
