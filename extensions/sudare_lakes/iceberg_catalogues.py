"""An Iceberg table that a catalogue names: the metadata file that counts is the catalogue's to say.

Source: the tables of the SQL catalogue, as pyiceberg and Iceberg's JDBC catalogue keep them: `iceberg_tables` with
catalog_name, table_namespace, table_name and metadata_location. And Iceberg's Glue catalogue, as pyiceberg and
Iceberg for Java keep it: a table with the parameters `table_type` ICEBERG and `metadata_location`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NoReturn
from urllib.parse import quote

from contracts.contract.contract import Contract
from contracts.errors import StoreAway
from contracts.release.address import PostgresAddress
from contracts.release.source import Source
from sudare_lakes.addresses import CatalogueAddress, GlueAddress, IcebergAddress, S3Address, TableCatalogue
from sudare_lakes.iceberg import iceberg_origin, last_written
from sudare_lakes.lake_place import uri_parts
from sudare_lakes.object_store import ATTEMPTS, amazon_client
from tasks.storage.sources.source import Origin, SourceKind
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
    table = sql_table(source, address)
    with iceberg_origin(_of_the_table(source, address), table, contract) as origin:
        yield origin


def sql_last_written(source: Source, address: CatalogueAddress) -> datetime | None:
    """Return when the metadata file that counts was written."""
    return last_written(_of_the_table(source, address), sql_table(source, address))


def sql_table(source: Source, address: CatalogueAddress) -> IcebergAddress:
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


SQL: Final = SourceKind(catalogue_origin, sql_last_written)


_ABSENT: Final = "EntityNotFoundException"


@contextmanager
def glue_origin(source: Source, address: GlueAddress, contract: Contract) -> Iterator[Origin]:
    """Look at a snapshot of the table that the catalogue names.

    Raises:
        SourceUnreadable: no such table or snapshot, none that can be read, or the catalogue does not let us in.
        StoreAway: the catalogue does not answer.
    """
    with iceberg_origin(source, glue_table(source, address), contract) as origin:
        yield origin


def glue_last_written(source: Source, address: GlueAddress) -> datetime | None:
    """Return when the metadata file that counts was written."""
    return last_written(source, glue_table(source, address))


def glue_table(source: Source, address: GlueAddress) -> IcebergAddress:
    """Return where the table is, with the metadata file that counts now."""
    where = source.name
    database, _, name = (source.table or "").rpartition(".")
    found = _asked(where, address, source.credentials, database, name)
    if found is None:
        allowed, remedy = "DATABASE.TABLE that the catalogue has", "correct `table:`, the region or the account"
        refuse(where, "source.table", "no such table in the catalogue", allowed, remedy)
    told = found.get("Table", {}).get("Parameters", {})
    if str(told.get("table_type", "")).upper() != "ICEBERG" or not told.get("metadata_location"):
        allowed, remedy = "an Iceberg table", "name the files of a Hive table by their address in the store"
        refuse(where, "source.table", "a table of another kind than Iceberg's", allowed, remedy)
    return placed_by_catalogue(where, str(told["metadata_location"]), address)


def _asked(
    where: str, address: GlueAddress, credentials: str | None, database: str, table: str
) -> dict[str, Any] | None:
    """Ask for a table; None where there is none. What the service says of an error stays here."""
    client = amazon_client("glue", where, address.service, credentials, field="source.path", region=address.region)
    from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError

    try:
        found: dict[str, Any] = client.get_table(CatalogId=address.account, DatabaseName=database, Name=table)
        return found
    except ClientError as error:
        code = str(error.response.get("Error", {}).get("Code", ""))
        status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    except HTTPClientError:
        code, status = "", 503
    except BotoCoreError as error:
        code, status = type(error).__name__, 503 if "Connect" in type(error).__name__ else 400
    if code == _ABSENT:
        return None
    if status >= 500:
        raise StoreAway(
            f"{where}: the catalogue did not answer in {ATTEMPTS} attempts. Nothing was read: run again later."
        )
    remedy = "check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the named `credentials:`"
    refuse(where, "source.path", f"a catalogue that refuses ({code[:60]})", "the right glue:GetTable", remedy)


GLUE: Final = SourceKind(glue_origin, glue_last_written)
