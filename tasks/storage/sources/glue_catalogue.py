"""An Iceberg table that AWS Glue's Data Catalog names: the metadata file that counts is the catalogue's to say.

Source: Iceberg's Glue catalogue, as pyiceberg and Iceberg for Java keep it: a table with the parameters `table_type`
ICEBERG and `metadata_location`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final

from contracts.contract.contract import Contract
from contracts.release.glue_address import GlueAddress
from contracts.release.lake_address import IcebergAddress
from contracts.release.source import Source
from tasks.storage.object_store import ATTEMPTS, StoreAway, amazon_client
from tasks.storage.sources import iceberg_source
from tasks.storage.sources.iceberg_catalogue import placed_by_catalogue
from tasks.storage.sources.origin import Origin
from tasks.storage.sources.source_kinds import SourceKind
from tasks.storage.sources.typed_rows import refuse

_ABSENT: Final = "EntityNotFoundException"


@contextmanager
def glue_origin(source: Source, address: GlueAddress, contract: Contract) -> Iterator[Origin]:
    """Look at a snapshot of the table that the catalogue names.

    Raises:
        SourceUnreadable: no such table or snapshot, none that can be read, or the catalogue does not let us in.
        StoreAway: the catalogue does not answer.
    """
    with iceberg_source.iceberg_origin(source, table_of(source, address), contract) as origin:
        yield origin


def last_written(source: Source, address: GlueAddress) -> datetime | None:
    """Return when the metadata file that counts was written."""
    return iceberg_source.last_written(source, table_of(source, address))


def table_of(source: Source, address: GlueAddress) -> IcebergAddress:
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


GLUE: Final = SourceKind(glue_origin, last_written)
