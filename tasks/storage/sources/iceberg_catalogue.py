"""An Iceberg table that an SQL catalogue names: the metadata file that counts is the catalogue's to say.

Source: the tables of the SQL catalogue, as pyiceberg and Iceberg's JDBC catalogue keep them: `iceberg_tables` with
catalog_name, table_namespace, table_name and metadata_location.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Final, NoReturn
from urllib.parse import quote

from contracts.contract.contract import Contract
from contracts.release.catalogue_address import CatalogueAddress, TableCatalogue
from contracts.release.lake_address import IcebergAddress
from contracts.release.postgres_address import PostgresAddress
from contracts.release.s3_address import S3Address
from contracts.release.source import Source
from tasks.storage.sources import iceberg_source
from tasks.storage.sources.lake_place import uri_parts
from tasks.storage.sources.origin import Origin
from tasks.storage.sources.source_kinds import SourceKind
from tasks.storage.sources.typed_rows import refuse, require_file

_ASK: Final = (
    "SELECT metadata_location FROM iceberg_tables "
    "WHERE catalog_name = {0} AND table_namespace = {0} AND table_name = {0}"
)
Found = list[tuple[str | None]]


@contextmanager
def catalogue_origin(source: Source, address: CatalogueAddress, contract: Contract) -> Iterator[Origin]:
    """Look at a snapshot of the table that the catalogue names.

    Raises:
        SourceUnreadable: no such catalogue, table or snapshot, or none that can be read.
    """
    table = table_of(source, address)
    with iceberg_source.iceberg_origin(_of_the_table(source, address), table, contract) as origin:
        yield origin


def last_written(source: Source, address: CatalogueAddress) -> datetime | None:
    """Return when the metadata file that counts was written."""
    return iceberg_source.last_written(_of_the_table(source, address), table_of(source, address))


def table_of(source: Source, address: CatalogueAddress) -> IcebergAddress:
    """Return where the table is, with the metadata file that counts now.

    Raises:
        SourceUnreadable: the database is none, or has no such table; the file is somewhere that we cannot read.
    """
    where = source.name
    namespace, _, name = (source.table or "").rpartition(".")
    asked = (address.catalog, namespace, name)
    if isinstance(address.database, PostgresAddress):
        found = _in_postgres(where, address.database, source.credentials, asked)
    else:
        found = _in_sqlite(where, address.database, asked)
    if not found or not found[0][0]:
        remedy = "correct `table:`, or the catalogue's name behind `?catalog=`"
        refuse(where, "source.table", "no such table in the catalogue", "NAMESPACE.TABLE that it has", remedy)
    return placed_by_catalogue(where, found[0][0], address)


def _of_the_table(source: Source, address: CatalogueAddress) -> Source:
    """Return the source as its table is read: credentials of a server are not those of a store."""
    server = isinstance(address.database, PostgresAddress)
    return source.model_copy(update={"credentials": None}) if server else source


def _in_sqlite(where: str, path: Path, asked: tuple[str, ...]) -> Found:
    require_file(path)
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)) as connection:
            found: Found = connection.execute(_ASK.format("?"), asked).fetchall()
            return found
    except sqlite3.Error:
        pass
    _no_catalogue(where)


def _in_postgres(where: str, address: PostgresAddress, credentials: str | None, asked: tuple[str, ...]) -> Found:
    import psycopg

    from tasks.storage.sources.postgres.connection import connected

    with closing(connected(address, credentials, where)) as connection:
        try:
            connection.read_only = True
            found: Found = connection.execute(_ASK.format("%s").encode(), asked).fetchall()
            return found
        except psycopg.Error:
            pass
    _no_catalogue(where)


def _no_catalogue(where: str) -> NoReturn:
    allowed = "a table `iceberg_tables` that these credentials may read"
    refuse(where, "source.path", "a database without an Iceberg catalogue", allowed, "correct `path:`")


def placed_by_catalogue(where: str, location: str, address: TableCatalogue) -> IcebergAddress:
    """Return the table of a metadata file that a catalogue names.

    Args:
        where: the source, for messages.
        location: what the catalogue says.
        address: the catalogue, and which state of the table is meant.
    Raises:
        SourceUnreadable: it is somewhere that we cannot read, or no metadata file.
    """
    scheme, host, path = uri_parts(location)
    of_store = scheme in ("s3", "s3a", "s3n")
    if not path.startswith("/") or not (of_store or (scheme in ("", "file") and host in ("", "localhost"))):
        allowed = "a table in a folder of this machine, or in a store that speaks S3"
        refuse(where, "source.path", "a table that lies somewhere else", allowed, "copy it there, and name the copy")
    whole = Path(f"/{host}{path}") if of_store else Path(path).resolve()
    folder, metadata = IcebergAddress.split(whole)
    if metadata is None:
        allowed = "the metadata file in the table's folder `metadata`"
        refuse(where, "source.path", "a catalogue that names no metadata file", allowed, "repair the catalogue")
    store = S3Address(address.endpoint, host, "/".join(folder.parts[2:])) if of_store else None
    return IcebergAddress(folder, address.number, address.at, metadata, store)


CATALOGUE: Final = SourceKind(catalogue_origin, last_written)
